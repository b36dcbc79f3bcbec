//! This machine, as what parting cores needs of one.

use std::collections::{HashMap, HashSet};
use std::io;

use heliostat_abi::cores::CpuMask;
use heliostat_base::affinity::{self, CpuSet};
use heliostat_service_cores::{Fault, Interrupt, Program, System, Thread};

use crate::groups;
use crate::interrupts;
use crate::journal_file::JournalFile;
use crate::root::Root;
use crate::tasks::{Marker, Process, Tasks};

/// The machine.
pub struct RealSystem {
    root: Root,
    journal: JournalFile,
    marker: Marker,
    /// Whose programs may be placed; root places everybody's.
    user: u32,
    /// Processes that have shown themselves, with their beginning.
    known: HashMap<u32, u64>,
    /// Those that were begun with a place of their own.
    keeping: HashMap<u32, u64>,
}

impl RealSystem {
    /// This machine, with the journal in a file.
    pub fn new(journal: JournalFile, marker: Marker) -> RealSystem {
        let user = rustix::process::geteuid().as_raw();
        let (known, keeping) = (HashMap::new(), HashMap::new());
        RealSystem { root: Root::default(), journal, marker, user, known, keeping }
    }

    /// A process is a program under Heliostat, with its children.
    pub fn know(&mut self, pid: u32) {
        if let Some(process) = Tasks(&self.root).process(pid) {
            self.known.insert(pid, process.start);
        }
    }

    /// A process was begun with a place of its own, which it keeps.
    pub fn keep(&mut self, pid: u32) {
        if let Some(process) = Tasks(&self.root).process(pid) {
            self.keeping.insert(pid, process.start);
        }
    }

    /// Who is a program: those that have shown themselves and their children, and those that were told
    /// of this control plane when they began.
    fn members(&mut self, also: &[u32]) -> Vec<Process> {
        let tasks = Tasks(&self.root);
        let own = std::process::id();
        let processes = tasks.processes();
        let begun: HashMap<u32, u64> =
            processes.iter().map(|process| (process.pid, process.start)).collect();
        self.known.retain(|pid, start| begun.get(pid) == Some(start));
        self.keeping.retain(|pid, start| begun.get(pid) == Some(start));
        let mut members: HashSet<u32> = self.known.keys().copied().collect();
        members.extend(also.iter().filter_map(|tid| tasks.process_of(*tid)));
        let is_told = |process: &&Process| {
            (self.user == 0 || tasks.user(process.pid) == Some(self.user))
                && tasks.was_told(process.pid, &self.marker)
        };
        let told = processes.iter().filter(is_told).map(|process| process.pid);
        members.extend(told.collect::<Vec<_>>());
        add_children(&processes, &mut members);
        members.remove(&own);
        let mut found = processes;
        found.retain(|process| members.contains(&process.pid));
        found.sort_unstable_by_key(|process| process.pid);
        found
    }
}

/// Adds whoever was made by a member, again and again.
fn add_children(processes: &[Process], members: &mut HashSet<u32>) {
    let mut count = 0;
    while count != members.len() {
        count = members.len();
        let children = processes.iter().filter(|process| members.contains(&process.parent));
        let children: Vec<u32> = children.map(|process| process.pid).collect();
        members.extend(children);
    }
}

impl System for RealSystem {
    fn journal(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        self.journal.read().map_err(fault)
    }

    fn write_journal(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.journal.write(bytes).map_err(fault)
    }

    fn remove_journal(&mut self) -> Result<(), Fault> {
        self.journal.remove().map_err(fault)
    }

    fn boot(&mut self) -> [u8; 16] {
        let text = self.root.text("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
        let byte = |place: usize| digits.get(place).copied().unwrap_or(0) as u8;
        std::array::from_fn(|place| byte(2 * place) << 4 | byte(2 * place + 1))
    }

    fn programs(&mut self, also: &[u32]) -> Vec<Program> {
        let members = self.members(also);
        let tasks = Tasks(&self.root);
        let keeping = &self.keeping;
        let program = |Process { pid, parent, .. }: Process| Program {
            pid,
            parent,
            keeps_place: keeping.contains_key(&pid),
            names: tasks.names(pid),
            group: groups::group_of(&self.root, pid),
            threads: tasks.threads(pid),
        };
        members.into_iter().map(program).filter(|program| !program.threads.is_empty()).collect()
    }

    fn own_threads(&mut self) -> Vec<Thread> {
        Tasks(&self.root).threads(std::process::id())
    }

    fn thread(&mut self, tid: u32, start: u64) -> Option<CpuMask> {
        Tasks(&self.root).thread(tid).filter(|it| it.start == start).map(|it| it.mask)
    }

    fn set_thread(&mut self, tid: u32, start: u64, mask: &CpuMask) -> Result<(), Fault> {
        if self.thread(tid, start).is_none() {
            return Err(Fault::Gone);
        }
        // It may end, and its id be another's, between these two lines: the kernel has no call that
        // names a thread for ever. It takes a whole round of ids within microseconds.
        let set: CpuSet = mask.iter().collect();
        affinity::restrict(tid as i32, &set).map_err(|errno| match errno.0 {
            ESRCH => Fault::Gone,
            other => Fault::Refused(other),
        })
    }

    fn interrupts(&mut self) -> Vec<Interrupt> {
        interrupts::places(&self.root)
    }

    fn set_interrupt(&mut self, number: u32, mask: &CpuMask) -> Result<(), Fault> {
        interrupts::set(&self.root, number, mask).map_err(fault)
    }

    fn has_cpusets(&mut self, group: &str) -> bool {
        groups::has_cpusets(group)
    }

    fn hand_cpusets(&mut self, group: &str, on: bool) -> Result<(), Fault> {
        groups::hand(group, on).map_err(fault)
    }

    fn make_group(&mut self, child: &str, mask: &CpuMask) -> Result<(), Fault> {
        groups::make(child, mask).map_err(fault)
    }

    fn move_process(&mut self, group: &str, pid: u32) -> Result<(), Fault> {
        groups::join(group, pid).map_err(fault)
    }

    fn remove_group(&mut self, child: &str) -> Result<(), Fault> {
        groups::remove(child).map_err(fault)
    }
}

const ESRCH: i32 = 3;

fn fault(error: io::Error) -> Fault {
    let number = error.raw_os_error().unwrap_or(0);
    match error.kind() {
        io::ErrorKind::NotFound => Fault::Gone,
        _ if number == ESRCH => Fault::Gone,
        _ => Fault::Refused(number),
    }
}

/// The cores that this process may use, as its first thread has them.
pub fn allowed_here() -> CpuMask {
    let first = affinity::allowed(std::process::id() as i32);
    first.map(|set| set.iter().collect()).unwrap_or(CpuMask::EMPTY)
}
