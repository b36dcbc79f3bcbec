//! What parting cores needs of a system, so that a test can be one.

use heliostat_abi::cores::CpuMask;

/// A thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thread {
    /// Its id.
    pub tid: u32,
    /// When it began, in the kernel's ticks: with the id, it names one thread for ever.
    pub start: u64,
    /// Where it may run.
    pub mask: CpuMask,
}

/// A program under Heliostat.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// Its process id, which is its first thread's.
    pub pid: u32,
    /// The process that made it, or to which it was left.
    pub parent: u32,
    /// It has said that it was begun with a place of its own.
    pub keeps_place: bool,
    /// The names that a rule may mean it by.
    pub names: Vec<String>,
    /// The folder of its control group, where a cpuset may be made beneath.
    pub group: Option<String>,
    /// Its threads.
    pub threads: Vec<Thread>,
}

/// An interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interrupt {
    /// Its number.
    pub number: u32,
    /// Where it may come.
    pub mask: CpuMask,
}

/// Why something was not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It is not there any more.
    Gone,
    /// The system says no, with this number of an error.
    Refused(i32),
}

/// A machine, with a file that outlives the control plane. Each change is done or not done, whatever
/// happens meanwhile; a journal that is written is there after any crash of the process.
pub trait System {
    /// The journal; `None` where there is none.
    fn journal(&mut self) -> Result<Option<Vec<u8>>, Fault>;
    /// Replaces the journal as one step.
    fn write_journal(&mut self, bytes: &[u8]) -> Result<(), Fault>;
    /// Ends the journal.
    fn remove_journal(&mut self) -> Result<(), Fault>;
    /// What tells this run of the kernel from every other.
    fn boot(&mut self) -> [u8; 16];

    /// The programs under Heliostat as they are now, and the processes of these threads.
    fn programs(&mut self, also: &[u32]) -> Vec<Program>;
    /// The threads of the control plane itself, which server loops are among.
    fn own_threads(&mut self) -> Vec<Thread>;
    /// Where a thread may run, if it is there.
    fn thread(&mut self, tid: u32, start: u64) -> Option<CpuMask>;
    /// Says where a thread may run.
    fn set_thread(&mut self, tid: u32, start: u64, mask: &CpuMask) -> Result<(), Fault>;

    /// Interrupts that have a place.
    fn interrupts(&mut self) -> Vec<Interrupt>;
    /// Says where an interrupt may come.
    fn set_interrupt(&mut self, number: u32, mask: &CpuMask) -> Result<(), Fault>;

    /// Whether cpusets are at hand to the children of a group without being asked for.
    fn has_cpusets(&mut self, group: &str) -> bool;
    /// Hands cpusets to the children of a group, or takes them back.
    fn hand_cpusets(&mut self, group: &str, on: bool) -> Result<(), Fault>;
    /// Makes the group of threads beneath another one, with these cores.
    fn make_group(&mut self, child: &str, mask: &CpuMask) -> Result<(), Fault>;
    /// Puts a process with all its threads into a group.
    fn move_process(&mut self, group: &str, pid: u32) -> Result<(), Fault>;
    /// Puts every thread of a group back into the one above, and removes it.
    fn remove_group(&mut self, child: &str) -> Result<(), Fault>;
}
