//! What may be done to cores here, and why not the rest. Nothing is changed by asking.

use heliostat_abi::cores::CpuMask;

use crate::groups;
use crate::interrupts;
use crate::machine::Machine;
use crate::root::Root;

/// What this process can do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ability {
    /// Every user's threads may be placed; else its own user's.
    pub is_root: bool,
    /// The cores that it may use.
    pub allowed: CpuMask,
    /// Cores that run, and that it may not use: a container's cpuset, or taskset(1).
    pub withheld: CpuMask,
    /// Interrupts that have a place.
    pub interrupts: usize,
    /// Whether they may be moved, as far as that can be told without moving one.
    pub moves_interrupts: bool,
    /// Whether cpusets may be made beneath its own control group.
    pub makes_cpusets: bool,
    /// Whether there are control groups of version 2 at all.
    pub has_groups: bool,
}

/// Looks, for a process that may use these cores.
pub fn probe(root: &Root, machine: &Machine, allowed: &CpuMask, is_root: bool) -> Ability {
    let places = interrupts::places(root);
    let writable = |number: u32| {
        let path = root.path(&format!("/proc/irq/{number}/smp_affinity_list"));
        rustix::fs::access(path.as_path(), rustix::fs::Access::WRITE_OK).is_ok()
    };
    let moves_interrupts = places.first().is_some_and(|first| writable(first.number));
    let online = machine.online();
    Ability {
        is_root,
        allowed: allowed.intersection(&online),
        withheld: online.without(allowed),
        interrupts: places.len(),
        moves_interrupts,
        makes_cpusets: groups::group_of(root, std::process::id()).is_some(),
        has_groups: groups::mount(root).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::probe as probe_machine;

    #[test]
    fn a_container_without_interrupts_and_groups_is_told_apart() {
        let tree = tempfile::tempdir().unwrap();
        let root = Root::below(tree.path());
        let cpu = root.path("/sys/devices/system/cpu");
        std::fs::create_dir_all(&cpu).unwrap();
        std::fs::write(cpu.join("online"), "0-7\n").unwrap();
        let machine = probe_machine(&root);
        let allowed = CpuMask::parse("0-1").unwrap();
        let ability = probe(&root, &machine, &allowed, false);
        assert_eq!(ability.withheld.to_string(), "2-7");
        assert!(!ability.moves_interrupts && !ability.makes_cpusets && !ability.has_groups);
    }
}
