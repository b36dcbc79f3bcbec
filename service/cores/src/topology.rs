//! What a machine's cores are to each other.

use std::collections::BTreeMap;

use heliostat_abi::cores::CpuMask;

/// One hardware thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cpu {
    /// Its number.
    pub cpu: usize,
    /// The package, and the core within it; hardware threads of one core share both.
    pub core: (u32, u32),
    /// The memory node.
    pub node: u32,
    /// The lowest number of those that share its last cache.
    pub cache: usize,
}

/// The hardware threads that may be used.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Topology {
    /// In order of number.
    pub cpus: Vec<Cpu>,
}

impl Topology {
    /// All of them.
    pub fn all(&self) -> CpuMask {
        self.cpus.iter().map(|cpu| cpu.cpu).collect()
    }

    /// Those of a set.
    pub fn within(&self, allowed: &CpuMask) -> Topology {
        let cpus = self.cpus.iter().copied().filter(|cpu| allowed.contains(cpu.cpu));
        Topology { cpus: cpus.collect() }
    }

    /// Cores, each with its hardware threads, in groups that share a last cache, nearest together.
    pub(crate) fn cores_by_cache(&self) -> Vec<Vec<CpuMask>> {
        let mut groups: BTreeMap<(u32, usize), BTreeMap<(u32, u32), CpuMask>> = BTreeMap::new();
        for cpu in &self.cpus {
            let cores = groups.entry((cpu.node, cpu.cache)).or_default();
            cores.entry(cpu.core).or_insert(CpuMask::EMPTY).insert(cpu.cpu);
        }
        groups.into_values().map(by_number).collect()
    }

    /// The same with each hardware thread by itself.
    pub(crate) fn threads_by_cache(&self) -> Vec<Vec<CpuMask>> {
        let mut groups: BTreeMap<(u32, usize), Vec<CpuMask>> = BTreeMap::new();
        for cpu in &self.cpus {
            let alone = std::iter::once(cpu.cpu).collect();
            groups.entry((cpu.node, cpu.cache)).or_default().push(alone);
        }
        groups.into_values().collect()
    }

    /// How many cores there are, hardware threads of one core counted once.
    pub fn cores(&self) -> usize {
        self.cores_by_cache().iter().map(Vec::len).sum()
    }
}

fn by_number(cores: BTreeMap<(u32, u32), CpuMask>) -> Vec<CpuMask> {
    let mut cores: Vec<CpuMask> = cores.into_values().collect();
    cores.sort_by_key(|mask| mask.iter().next());
    cores
}
