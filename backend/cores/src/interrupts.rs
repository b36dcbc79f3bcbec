//! Interrupts: where they come, and what they are of.

use std::collections::HashMap;

use heliostat_abi::cores::CpuMask;
use heliostat_service_cores::Interrupt;

use crate::root::Root;

const IRQS: &str = "/proc/irq";

/// What people are told of one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InterruptFacts {
    /// Its number, and where it may come.
    pub interrupt: Interrupt,
    /// Where it comes; empty where the kernel does not say.
    pub effective: CpuMask,
    /// How often it has come, on all cores.
    pub count: u64,
    /// Of what, as the kernel writes it.
    pub name: String,
}

/// The interrupts that have a place.
pub fn places(root: &Root) -> Vec<Interrupt> {
    let place = |number: u32| {
        let mask = root.mask(&format!("{IRQS}/{number}/smp_affinity_list"))?;
        Some(Interrupt { number, mask })
    };
    root.numbers_in(IRQS).into_iter().filter_map(place).collect()
}

/// Says where one may come.
pub fn set(root: &Root, number: u32, mask: &CpuMask) -> std::io::Result<()> {
    root.write(&format!("{IRQS}/{number}/smp_affinity_list"), &mask.to_string())
}

/// The same with what people want to know of them.
pub fn interrupts(root: &Root) -> Vec<InterruptFacts> {
    let told = root.text("/proc/interrupts").unwrap_or_default();
    let lines: HashMap<u32, (u64, String)> = told.lines().skip(1).filter_map(line).collect();
    let facts = |interrupt: Interrupt| {
        let number = interrupt.number;
        let effective = root.mask(&format!("{IRQS}/{number}/effective_affinity_list"));
        let (count, name) = lines.get(&number).cloned().unwrap_or_default();
        let effective = effective.unwrap_or(CpuMask::EMPTY);
        InterruptFacts { interrupt, effective, count, name }
    };
    places(root).into_iter().map(facts).collect()
}

/// ` 24:   12   0   PCI-MSI 65536-edge   nvme0q0`
fn line(text: &str) -> Option<(u32, (u64, String))> {
    let (number, rest) = text.split_once(':')?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let counts = words.iter().take_while(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
    let counts: Vec<u64> = counts.filter_map(|word| word.parse().ok()).collect();
    let name = words.get(counts.len()..)?.join(" ");
    Some((number.trim().parse().ok()?, (counts.iter().sum(), name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_are_read_and_moved_in_a_tree_of_files() {
        let tree = tempfile::tempdir().unwrap();
        let root = Root::below(tree.path());
        for (number, mask) in [(24, "0-3"), (9, "0")] {
            let folder = root.path(&format!("{IRQS}/{number}"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("smp_affinity_list"), format!("{mask}\n")).unwrap();
        }
        std::fs::create_dir_all(root.path("/proc/irq/7")).unwrap();
        let text = "       CPU0  CPU1\n 24:  12  30  PCI-MSI 65536-edge  nvme0q0\nNMI:  1  2  Non-maskable\n";
        std::fs::write(root.path("/proc/interrupts"), text).unwrap();
        let all = interrupts(&root);
        let numbers: Vec<u32> = all.iter().map(|it| it.interrupt.number).collect();
        assert_eq!(numbers, [9, 24]);
        assert_eq!((all[1].count, all[1].name.as_str()), (42, "PCI-MSI 65536-edge nvme0q0"));
        set(&root, 24, &CpuMask::parse("3").unwrap()).unwrap();
        assert_eq!(places(&root)[1].mask.to_string(), "3");
        assert!(set(&root, 7, &CpuMask::EMPTY).is_err());
    }
}
