//! Which partitions are worth a trial on a machine.
//!
//! GenerOS's best was 3 kernel cores of 16, spread, and 4 were worse than none: few of them, each
//! number in both layouts, up to a quarter of the machine, and one on the smallest.

use heliostat_abi::cores::{Layout, Wanted};

use crate::plan::{plan, Partition, Wish};
use crate::topology::Topology;

/// Kernel cores of the largest partition that is tried.
const KERNEL_MAX: usize = 8;

/// A partition, and how it is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// How it is asked for.
    pub wish: Wish,
    /// What it is.
    pub partition: Partition,
}

/// Returns the partitions to try, each once; with interrupts where those can be moved. Not among
/// them is none, with which all are compared.
pub fn candidates(topology: &Topology, moves_interrupts: bool) -> Vec<Candidate> {
    let most = (topology.cores() / 4).clamp(1, KERNEL_MAX);
    let interrupts = if moves_interrupts { &[0, 1][..] } else { &[0] };
    let mut found: Vec<Candidate> = Vec::new();
    for kernel in 1..=most as u32 {
        for (layout, interrupt) in Layout::ALL
            .iter()
            .flat_map(|layout| interrupts.iter().map(move |each| (*layout, *each)))
        {
            let (kernel, interrupt) = (Wanted::Count(kernel), Wanted::Count(interrupt));
            let wish = Wish { layout, kernel, interrupt };
            let Ok(partition) = plan(topology, &wish) else { continue };
            if found.iter().all(|known| known.partition != partition) {
                found.push(Candidate { wish, partition });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Cpu;

    fn flat(cores: usize) -> Topology {
        let cpu = |cpu| Cpu { cpu, core: (0, cpu as u32), node: 0, cache: 0 };
        Topology { cpus: (0..cores).map(cpu).collect() }
    }

    #[test]
    fn two_cores_have_one_candidate_and_one_core_none() {
        let two: Vec<String> =
            candidates(&flat(2), true).iter().map(|each| each.partition.to_string()).collect();
        assert_eq!(two, ["kernel 1"]);
        assert_eq!(candidates(&flat(1), true), []);
    }

    #[test]
    fn sixteen_cores_are_tried_packed_and_spread_and_nothing_twice() {
        let all = candidates(&flat(16), false);
        let told: Vec<String> = all.iter().map(|each| each.partition.kernel.to_string()).collect();
        assert_eq!(told, ["15", "14-15", "7,15", "13-15", "5,10,15", "12-15", "3,7,11,15"]);
        assert_eq!(candidates(&flat(16), true).len(), 14);
    }
}
