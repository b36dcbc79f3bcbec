//! From a wish to a partition: which cores are whose.
//!
//! Cores are counted whole: two hardware threads of one share its first caches, which is what
//! parting is to prevent. Only where no core would be left for applications are hardware threads
//! counted. They are taken from the end, where the kernel's own housekeeping is least.

use std::fmt;

use heliostat_abi::cores::{CpuMask, Layout, Wanted};

use crate::topology::Topology;

/// What somebody wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wish {
    /// Where cores that are counted are taken.
    pub layout: Layout,
    /// For server loops.
    pub kernel: Wanted,
    /// For interrupts. A list may name kernel cores as well; a count takes others.
    pub interrupt: Wanted,
}

/// Which cores are whose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Partition {
    /// Of programs. Never empty.
    pub application: CpuMask,
    /// Of server loops. Empty: they stay where they are.
    pub kernel: CpuMask,
    /// Of interrupts. Empty: they stay where they are.
    pub interrupt: CpuMask,
}

/// Why there is no such partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlanError {
    /// No core would be left for applications.
    NoApplication {
        /// Cores that are wanted for others.
        wanted: usize,
        /// Hardware threads that there are.
        there: usize,
    },
    /// A list names cores that are not there, or not the control plane's.
    NotThere(CpuMask),
}

impl Partition {
    /// Everything is everybody's.
    pub fn none(all: CpuMask) -> Partition {
        Partition { application: all, kernel: CpuMask::EMPTY, interrupt: CpuMask::EMPTY }
    }

    /// Whether nothing is parted.
    pub fn is_none(&self) -> bool {
        self.kernel.is_empty() && self.interrupt.is_empty()
    }
}

/// Returns the partition that is wished for.
///
/// # Errors
/// There is none; the value says why.
#[expect(clippy::result_large_err, reason = "one for a request of a person's")]
pub fn plan(topology: &Topology, wish: &Wish) -> Result<Partition, PlanError> {
    let all = topology.all();
    let counted = |wanted: Wanted| match wanted {
        Wanted::Count(count) => count as usize,
        Wanted::List(_) => 0,
    };
    let listed = |wanted: Wanted| match wanted {
        Wanted::Count(_) => CpuMask::EMPTY,
        Wanted::List(ranges) => ranges.mask(),
    };
    let lists = listed(wish.kernel).union(&listed(wish.interrupt));
    if !lists.is_within(&all) {
        return Err(PlanError::NotThere(lists.without(&all)));
    }
    let rest = topology.within(&all.without(&lists));
    let counts = (counted(wish.kernel), counted(wish.interrupt));
    let mut groups = rest.cores_by_cache();
    if counts.0 + counts.1 >= rest.cores() {
        groups = rest.threads_by_cache();
    }
    let kernel = listed(wish.kernel).union(&take(&mut groups, counts.0, wish.layout));
    let interrupt = listed(wish.interrupt).union(&take(&mut groups, counts.1, wish.layout));
    let application = all.without(&kernel).without(&interrupt);
    if application.is_empty() || counts.0 + counts.1 > rest.cpus.len() {
        let wanted = counts.0 + counts.1 + lists.count();
        return Err(PlanError::NoApplication { wanted, there: all.count() });
    }
    Ok(Partition { application, kernel, interrupt })
}

/// Takes so many cores, or what there is, out of groups that share a cache.
fn take(groups: &mut [Vec<CpuMask>], count: usize, layout: Layout) -> CpuMask {
    let shares = match layout {
        Layout::Packed => packed_shares(groups, count),
        Layout::Spread => spread_shares(groups, count),
    };
    let mut taken = CpuMask::EMPTY;
    for (group, share) in groups.iter_mut().zip(shares) {
        let length = group.len();
        for place in 0..share {
            // From the end, and as far from each other as there is room.
            let distance = match layout {
                Layout::Packed => place,
                Layout::Spread => place * length / share,
            };
            let index = length - 1 - distance;
            taken = taken.union(&group[index]);
            group[index] = CpuMask::EMPTY;
        }
        group.retain(|core| !core.is_empty());
    }
    taken
}

/// How many of each group: the last group whole, before another one is begun.
fn packed_shares(groups: &[Vec<CpuMask>], count: usize) -> Vec<usize> {
    let mut shares = vec![0; groups.len()];
    let mut missing = count;
    for (share, group) in shares.iter_mut().zip(groups).rev() {
        *share = missing.min(group.len());
        missing -= *share;
    }
    shares
}

/// How many of each group: by turns, from the last.
fn spread_shares(groups: &[Vec<CpuMask>], count: usize) -> Vec<usize> {
    let mut shares = vec![0; groups.len()];
    let mut missing = count.min(groups.iter().map(Vec::len).sum());
    while missing > 0 {
        for (share, group) in shares.iter_mut().zip(groups).rev() {
            if missing > 0 && *share < group.len() {
                *share += 1;
                missing -= 1;
            }
        }
    }
    shares
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return f.write_str("none");
        }
        let named = [("kernel", &self.kernel), ("interrupt", &self.interrupt)];
        let named = named.into_iter().filter(|(_, mask)| !mask.is_empty());
        let words: Vec<String> = named.map(|(word, mask)| format!("{word} {mask}")).collect();
        f.write_str(&words.join(", "))
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoApplication { wanted, there } => write!(
                f,
                "{wanted} of {there} cores for server loops and interrupts leave none for applications"
            ),
            Self::NotThere(mask) => {
                write!(f, "cores {mask} are not there, or not the control plane's to use")
            }
        }
    }
}

impl std::error::Error for PlanError {}

#[cfg(test)]
mod tests {
    use heliostat_abi::cores::CpuRanges;

    use super::*;
    use crate::topology::Cpu;

    /// Nodes of so many cores each with a cache of their own, and so many hardware threads a core, numbered as
    /// Linux does: the second threads after all first ones.
    pub(crate) fn machine(nodes: usize, cores: usize, threads: usize) -> Topology {
        let first = |thread: usize| thread * nodes * cores;
        let cpu = |thread: usize, core: usize| {
            let node = core / cores;
            let place = (node as u32, (core % cores) as u32);
            let cache = node * cores;
            Cpu { cpu: first(thread) + core, core: place, node: node as u32, cache }
        };
        let every =
            (0..threads).flat_map(|thread| (0..nodes * cores).map(move |core| (thread, core)));
        Topology { cpus: every.map(|(thread, core)| cpu(thread, core)).collect() }
    }

    fn list(text: &str) -> Wanted {
        Wanted::List(CpuRanges::of(CpuMask::parse(text).unwrap()).unwrap())
    }

    fn parted(topology: &Topology, layout: Layout, kernel: u32, interrupt: u32) -> [String; 3] {
        let (kernel, interrupt) = (Wanted::Count(kernel), Wanted::Count(interrupt));
        let partition = plan(topology, &Wish { layout, kernel, interrupt }).unwrap();
        [partition.application, partition.kernel, partition.interrupt].map(|mask| mask.to_string())
    }

    #[test]
    fn packed_cores_lie_side_by_side_and_spread_ones_in_every_node() {
        let generos = machine(4, 4, 1);
        assert_eq!(parted(&generos, Layout::Packed, 3, 0), ["0-12", "13-15", ""]);
        assert_eq!(parted(&generos, Layout::Spread, 3, 0), ["0-6,8-10,12-14", "7,11,15", ""]);
        assert_eq!(parted(&generos, Layout::Spread, 1, 1), ["0-13", "15", "14"]);
    }

    #[test]
    fn spread_cores_of_one_cache_are_as_far_apart_as_there_is_room() {
        assert_eq!(parted(&machine(1, 16, 1), Layout::Spread, 2, 0)[1], "7,15");
        assert_eq!(parted(&machine(2, 8, 1), Layout::Spread, 3, 0)[1], "7,11,15");
    }

    #[test]
    fn a_core_is_taken_with_all_its_hardware_threads() {
        let smt = machine(2, 8, 2);
        assert_eq!(smt.cores(), 16);
        assert_eq!(parted(&smt, Layout::Packed, 2, 1), ["0-12,16-28", "14-15,30-31", "13,29"]);
        assert_eq!(parted(&smt, Layout::Spread, 2, 0)[1], "7,15,23,31");
    }

    #[test]
    fn where_there_is_one_core_its_hardware_threads_are_parted() {
        assert_eq!(parted(&machine(1, 1, 2), Layout::Packed, 1, 0), ["0", "1", ""]);
        assert_eq!(parted(&machine(1, 2, 1), Layout::Spread, 1, 0), ["0", "1", ""]);
    }

    #[test]
    fn applications_keep_a_core() {
        let two = machine(1, 2, 1);
        let wish = |kernel, interrupt| Wish { layout: Layout::Packed, kernel, interrupt };
        let refused = plan(&two, &wish(Wanted::Count(1), Wanted::Count(1)));
        assert_eq!(refused, Err(PlanError::NoApplication { wanted: 2, there: 2 }));
        let refused = plan(&two, &wish(Wanted::Count(900), Wanted::NONE));
        assert_eq!(refused, Err(PlanError::NoApplication { wanted: 900, there: 2 }));
        let refused = plan(&two, &wish(list("0-1"), Wanted::NONE));
        assert_eq!(refused, Err(PlanError::NoApplication { wanted: 2, there: 2 }));
        let refused = plan(&two, &wish(list("1-2"), Wanted::NONE));
        assert_eq!(refused, Err(PlanError::NotThere(CpuMask::parse("2").unwrap())));
    }

    #[test]
    fn interrupts_may_share_kernel_cores_by_a_list() {
        let wish = Wish { layout: Layout::Packed, kernel: list("3"), interrupt: list("3") };
        let partition = plan(&machine(1, 4, 1), &wish).unwrap();
        assert_eq!(partition.to_string(), "kernel 3, interrupt 3");
        assert_eq!(partition.application.to_string(), "0-2");
    }

    #[test]
    fn every_count_on_every_machine_takes_so_many_and_no_core_twice() {
        for (nodes, cores, threads) in [(1, 3, 1), (2, 4, 2), (4, 4, 1), (3, 5, 2)] {
            let topology = machine(nodes, cores, threads);
            let most = (nodes * cores) as u32;
            let counts =
                (0..most).flat_map(|kernel| (0..most - kernel).map(move |rest| (kernel, rest)));
            for ((kernel, interrupt), layout) in
                counts.flat_map(|counts| Layout::ALL.map(|layout| (counts, layout)))
            {
                let wish = Wish {
                    layout,
                    kernel: Wanted::Count(kernel),
                    interrupt: Wanted::Count(interrupt),
                };
                let partition = plan(&topology, &wish).unwrap();
                assert_eq!(partition.kernel.count(), kernel as usize * threads);
                assert_eq!(partition.interrupt.count(), interrupt as usize * threads);
                let sum = partition.application.count()
                    + partition.kernel.count()
                    + partition.interrupt.count();
                assert_eq!(sum, topology.cpus.len());
            }
        }
    }
}
