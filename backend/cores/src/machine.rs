//! The cores of a machine: hardware threads, caches, memory nodes.
//!
//! What a system does not tell is taken as it is on the plainest one: each hardware thread a core of
//! its own, one node, one cache for all.

use std::collections::BTreeMap;

use heliostat_abi::cores::CpuMask;
use heliostat_service_cores::{Cpu, Topology};

use crate::root::Root;

const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";

/// One cache of a hardware thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cache {
    /// 1 is the nearest.
    pub level: u32,
    /// As the kernel calls it: Data, Instruction, Unified.
    pub kind: String,
    /// As the kernel writes it: 32K.
    pub size: String,
    /// Who shares it.
    pub shared: CpuMask,
}

/// A hardware thread and what it shares.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CpuFacts {
    /// What is reckoned with.
    pub cpu: Cpu,
    /// The hardware threads of its core.
    pub siblings: CpuMask,
    /// Its caches.
    pub caches: Vec<Cache>,
}

/// The machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    /// Hardware threads that run, in order.
    pub cpus: Vec<CpuFacts>,
    /// Those that are there and do not run.
    pub offline: CpuMask,
}

impl Machine {
    /// What is reckoned with, of the cores that may be used.
    pub fn topology(&self, allowed: &CpuMask) -> Topology {
        Topology { cpus: self.cpus.iter().map(|facts| facts.cpu).collect() }.within(allowed)
    }

    /// Every core that runs.
    pub fn online(&self) -> CpuMask {
        self.cpus.iter().map(|facts| facts.cpu.cpu).collect()
    }

    /// The hardware threads of each memory node.
    pub fn nodes(&self) -> BTreeMap<u32, CpuMask> {
        let mut nodes = BTreeMap::new();
        for facts in &self.cpus {
            nodes.entry(facts.cpu.node).or_insert(CpuMask::EMPTY).insert(facts.cpu.cpu);
        }
        nodes
    }

    /// Caches that differ, each once: level, kind, size, who shares it.
    pub fn caches(&self) -> Vec<Cache> {
        let mut found: Vec<Cache> = Vec::new();
        for cache in self.cpus.iter().flat_map(|facts| &facts.caches) {
            if !found.contains(cache) {
                found.push(cache.clone());
            }
        }
        found.sort_by_key(|cache| (cache.level, cache.shared.iter().next()));
        found
    }
}

/// Looks at the machine below a root.
pub fn probe(root: &Root) -> Machine {
    let present = root.mask(&format!("{CPUS}/present")).unwrap_or(CpuMask::EMPTY);
    let online = root.mask(&format!("{CPUS}/online"));
    let online = online.filter(|online| !online.is_empty()).unwrap_or_else(|| numbered(root));
    let nodes = nodes(root);
    let cpus = online.iter().map(|cpu| facts(root, cpu, &nodes)).collect();
    Machine { cpus, offline: present.without(&online) }
}

/// The cores that have a folder.
fn numbered(root: &Root) -> CpuMask {
    let names = root.names_in(CPUS);
    names.iter().filter_map(|name| name.strip_prefix("cpu")?.parse::<usize>().ok()).collect()
}

fn nodes(root: &Root) -> BTreeMap<u32, CpuMask> {
    let names = root.names_in(NODES);
    let numbers = names.iter().filter_map(|name| name.strip_prefix("node")?.parse().ok());
    let cores = |node: u32| Some((node, root.mask(&format!("{NODES}/node{node}/cpulist"))?));
    numbers.filter_map(cores).collect()
}

fn facts(root: &Root, cpu: usize, nodes: &BTreeMap<u32, CpuMask>) -> CpuFacts {
    let folder = format!("{CPUS}/cpu{cpu}");
    let alone = std::iter::once(cpu).collect();
    let package = root.number(&format!("{folder}/topology/physical_package_id")).unwrap_or(0);
    let core = root.number(&format!("{folder}/topology/core_id"));
    let siblings = root.mask(&format!("{folder}/topology/thread_siblings_list")).unwrap_or(alone);
    // Numbers of cores are those of a package; two dies of one may use a number twice, and what
    // shares a core is told by its siblings.
    let core = siblings.iter().next().or(core.map(|core| core as usize)).unwrap_or(cpu) as u32;
    let node = nodes.iter().find(|(_, cores)| cores.contains(cpu)).map_or(0, |(node, _)| *node);
    let caches = caches(root, &folder);
    let last = caches.iter().filter(|cache| cache.kind != "Instruction").max_by_key(|it| it.level);
    let cache = last.and_then(|last| last.shared.iter().next()).unwrap_or(0);
    CpuFacts { cpu: Cpu { cpu, core: (package, core), node, cache }, siblings, caches }
}

fn caches(root: &Root, folder: &str) -> Vec<Cache> {
    let indices = root.names_in(&format!("{folder}/cache"));
    let mut caches: Vec<Cache> = indices
        .iter()
        .filter(|name| name.starts_with("index"))
        .filter_map(|name| {
            let file = |what: &str| format!("{folder}/cache/{name}/{what}");
            let text = |what| root.text(&file(what)).map(|text| text.trim().to_owned());
            Some(Cache {
                level: root.number(&file("level"))?,
                kind: text("type")?,
                size: text("size").unwrap_or_default(),
                shared: root.mask(&file("shared_cpu_list"))?,
            })
        })
        .collect();
    caches.sort_by(|a, b| (a.level, &a.kind).cmp(&(b.level, &b.kind)));
    caches
}

#[cfg(test)]
mod tests {
    use heliostat_abi::cores::{Layout, Wanted};
    use heliostat_service_cores::{plan, Wish};

    use super::*;
    use crate::root::Root;

    /// Two nodes of eight cores with two hardware threads each, as files.
    pub(crate) fn tree() -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        let put = |path: String, text: String| {
            let path = tree.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text + "\n").unwrap();
        };
        put(format!("{CPUS}/online"), "0-31".into());
        put(format!("{CPUS}/present"), "0-33".into());
        put(format!("{NODES}/node0/cpulist"), "0-7,16-23".into());
        put(format!("{NODES}/node1/cpulist"), "8-15,24-31".into());
        for cpu in 0..32 {
            let (core, node) = (cpu % 16, cpu % 16 / 8);
            let folder = format!("{CPUS}/cpu{cpu}");
            put(format!("{folder}/topology/physical_package_id"), node.to_string());
            put(format!("{folder}/topology/core_id"), (core % 8).to_string());
            put(format!("{folder}/topology/thread_siblings_list"), format!("{core},{}", core + 16));
            let shared = if node == 0 { "0-7,16-23" } else { "8-15,24-31" };
            let caches = [
                (1, "Data", "32K", format!("{core},{}", core + 16)),
                (3, "Unified", "32M", shared.into()),
            ];
            for (index, (level, kind, size, shared)) in caches.into_iter().enumerate() {
                let cache = format!("{folder}/cache/index{index}");
                put(format!("{cache}/level"), level.to_string());
                put(format!("{cache}/type"), kind.to_owned());
                put(format!("{cache}/size"), size.to_owned());
                put(format!("{cache}/shared_cpu_list"), shared);
            }
        }
        tree
    }

    #[test]
    fn a_machine_of_sixteen_cores_two_nodes_and_two_threads_a_core_is_seen() {
        let tree = tree();
        let machine = probe(&Root::below(tree.path()));
        assert_eq!((machine.cpus.len(), machine.offline.to_string()), (32, "32-33".into()));
        assert_eq!(machine.nodes()[&1].to_string(), "8-15,24-31");
        assert_eq!(machine.cpus[17].siblings.to_string(), "1,17");
        assert_eq!(machine.caches().len(), 18);
        let topology = machine.topology(&machine.online());
        assert_eq!(topology.cores(), 16);
        let wish =
            Wish { layout: Layout::Spread, kernel: Wanted::Count(2), interrupt: Wanted::Count(1) };
        let partition = plan(&topology, &wish).unwrap();
        assert_eq!(partition.to_string(), "kernel 7,15,23,31, interrupt 14,30");
    }

    #[test]
    fn cores_that_a_container_may_not_use_are_not_reckoned_with() {
        let tree = tree();
        let machine = probe(&Root::below(tree.path()));
        let topology = machine.topology(&CpuMask::parse("0-3,16-19").unwrap());
        let wish =
            Wish { layout: Layout::Packed, kernel: Wanted::Count(1), interrupt: Wanted::NONE };
        assert_eq!(plan(&topology, &wish).unwrap().to_string(), "kernel 3,19");
    }

    #[test]
    fn a_system_that_tells_nothing_has_no_cores_and_one_that_tells_little_plain_ones() {
        let tree = tempfile::tempdir().unwrap();
        let root = Root::below(tree.path());
        assert_eq!(probe(&root), Machine { cpus: Vec::new(), offline: CpuMask::EMPTY });
        std::fs::create_dir_all(root.path("/sys/devices/system/cpu/cpu1")).unwrap();
        std::fs::create_dir_all(root.path("/sys/devices/system/cpu/cpufreq")).unwrap();
        let machine = probe(&root);
        assert_eq!(machine.online().to_string(), "1");
        assert_eq!(
            (machine.cpus[0].siblings.to_string(), machine.cpus[0].cpu.node),
            ("1".into(), 0)
        );
    }

    #[test]
    fn this_machine_has_the_cores_that_the_kernel_lets_us_use() {
        let machine = probe(&Root::default());
        assert!(machine.topology(&machine.online()).cores() >= 1);
    }
}
