//! On which cores the threads of this process belong, as the control plane has parted them.
//!
//! The control plane publishes the partition here for its own process, and puts every thread of it
//! that has no core of its own on kernel cores; a new thread inherits that from whoever makes it. So
//! a server loop asks for nothing. A thread that belongs elsewhere says so with [`place`], and one
//! whose work pays only beside kernel cores asks [`current`].

use std::sync::{Arc, Mutex, PoisonError};

use crate::affinity::{restrict, CpuSet};

/// How cores are parted.
#[derive(Clone, Debug)]
pub struct Partition {
    /// Counts changes.
    pub generation: u32,
    /// For programs.
    pub application: CpuSet,
    /// For server loops; empty where cores are not parted.
    pub kernel: CpuSet,
    /// For interrupts; empty where they are left alone.
    pub interrupt: CpuSet,
}

/// For what a thread is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// It does a program's work.
    Application,
    /// It serves operations of programs.
    Kernel,
}

static CURRENT: Mutex<Option<Arc<Partition>>> = Mutex::new(None);

/// Says how cores are parted from now on; `None` where they are not.
pub fn publish(partition: Option<Partition>) {
    *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = partition.map(Arc::new);
}

/// Returns how cores are parted; `None` where they are not.
pub fn current() -> Option<Arc<Partition>> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// How many cores server loops have for themselves; 0 where cores are not parted.
pub fn kernel_cores() -> usize {
    current().map_or(0, |partition| partition.kernel.count())
}

/// Puts the calling thread where threads of its kind belong, and says whether it is there now. Where
/// cores are not parted it stays where it is.
pub fn place(place: Place) -> bool {
    let Some(partition) = current() else { return false };
    let set = match place {
        Place::Application => &partition.application,
        Place::Kernel => &partition.kernel,
    };
    set.count() > 0 && restrict(0, set).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affinity::allowed;

    #[test]
    fn a_thread_goes_to_its_place_where_there_is_one() {
        std::thread::spawn(|| {
            let before = allowed(0).expect("the kernel says");
            assert!(!place(Place::Kernel));
            let last = before.iter().last().expect("at least one core");
            let kernel = CpuSet::single(last);
            let (application, interrupt) = (before.clone(), CpuSet::empty());
            publish(Some(Partition { generation: 1, application, kernel, interrupt }));
            assert_eq!(kernel_cores(), 1);
            assert!(place(Place::Kernel));
            assert_eq!(allowed(0), Ok(CpuSet::single(last)));
            assert!(place(Place::Application));
            assert_eq!(allowed(0), Ok(before));
            publish(None);
            assert_eq!(kernel_cores(), 0);
        })
        .join()
        .expect("no panic");
    }
}
