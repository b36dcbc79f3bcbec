//! On which cores a thread may run.

use crate::sys::{check, raw, Errno, Sysno};

/// The largest core number plus one that a [`CpuSet`] holds; Linux's own default for x86-64 is 8192.
pub const CPUS_MAX: usize = 8192;

const WORDS: usize = CPUS_MAX / 64;

/// A set of cores.
#[derive(Clone, PartialEq, Eq)]
pub struct CpuSet([u64; WORDS]);

impl CpuSet {
    /// The set without a core.
    pub const fn empty() -> CpuSet {
        CpuSet([0; WORDS])
    }

    /// The set with one core; a number beyond [`CPUS_MAX`] gives the empty set.
    pub fn single(cpu: usize) -> CpuSet {
        [cpu].into_iter().collect()
    }

    /// Adds a core and says whether the number fits.
    pub fn insert(&mut self, cpu: usize) -> bool {
        match self.0.get_mut(cpu / 64) {
            Some(word) => {
                *word |= 1 << (cpu % 64);
                true
            }
            None => false,
        }
    }

    /// Whether the core is in the set.
    pub fn contains(&self, cpu: usize) -> bool {
        self.0.get(cpu / 64).is_some_and(|word| word & (1 << (cpu % 64)) != 0)
    }

    /// How many cores are in the set.
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The cores in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..CPUS_MAX).filter(|&cpu| self.contains(cpu))
    }
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> CpuSet {
        let mut set = CpuSet::empty();
        for cpu in cpus {
            set.insert(cpu);
        }
        set
    }
}

impl std::fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// The cores that thread `tid` may use; 0 means the calling thread.
pub fn allowed(tid: i32) -> Result<CpuSet, Errno> {
    let mut set = CpuSet::empty();
    let args = [tid as usize, WORDS * 8, set.0.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: the set has as many writable bytes as the call is told.
    check(unsafe { raw(Sysno::sched_getaffinity as usize, args) })?;
    Ok(set)
}

/// Restricts thread `tid` (0 means the calling thread) to `set`.
pub fn restrict(tid: i32, set: &CpuSet) -> Result<(), Errno> {
    let args = [tid as usize, WORDS * 8, set.0.as_ptr() as usize, 0, 0, 0];
    // SAFETY: the set has as many readable bytes as the call is told.
    check(unsafe { raw(Sysno::sched_setaffinity as usize, args) }).map(|_| ())
}

/// Pins the calling thread to one core.
pub fn pin(cpu: usize) -> Result<(), Errno> {
    restrict(0, &CpuSet::single(cpu))
}

/// How many cores the calling thread may use; 1 where the kernel will not say.
pub fn cpu_count() -> usize {
    allowed(0).map_or(1, |set| set.count().max(1))
}

/// The core the calling thread runs on at this moment.
pub fn current_cpu() -> usize {
    let mut cpu = 0u32;
    let args = [&mut cpu as *mut u32 as usize, 0, 0, 0, 0, 0];
    // SAFETY: `cpu` is writable; the other two pointers may be null (getcpu(2)).
    let _ = unsafe { raw(Sysno::getcpu as usize, args) };
    cpu as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_runs_on_its_core_and_can_be_released() {
        std::thread::spawn(|| {
            let before = allowed(0).expect("the kernel says");
            let last = before.iter().last().expect("at least one core");
            pin(last).expect("an allowed core");
            assert_eq!(allowed(0).map(|set| set.count()), Ok(1));
            assert_eq!(current_cpu(), last);
            restrict(0, &before).expect("restored");
            assert_eq!(cpu_count(), before.count());
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn a_core_number_beyond_the_limit_is_not_in_the_set() {
        let mut set = CpuSet::empty();
        assert!(!set.insert(CPUS_MAX));
        assert_eq!(set, CpuSet::single(CPUS_MAX));
        assert!(restrict(0, &set).is_err());
    }
}
