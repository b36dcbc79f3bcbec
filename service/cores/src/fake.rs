//! A machine in memory, whose control plane may die after any change.

use std::collections::BTreeMap;

use heliostat_abi::cores::CpuMask;

use crate::system::{Fault, Interrupt, Program, System, Thread};

/// The process of the control plane itself.
pub const OWN: u32 = 1;

/// One thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FakeThread {
    pub pid: u32,
    pub mask: CpuMask,
    pub group: String,
    /// Whether it may be changed.
    pub is_ours: bool,
    /// The process that made its own.
    pub parent: u32,
}

/// What the machine is; two are compared.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct State {
    pub threads: BTreeMap<u32, FakeThread>,
    pub interrupts: BTreeMap<u32, CpuMask>,
    /// Interrupts that cannot be moved.
    pub fixed: Vec<u32>,
    /// Groups, with their cores.
    pub groups: BTreeMap<String, CpuMask>,
    /// Groups whose children have cpusets.
    pub handed: Vec<String>,
    /// Groups that cannot be removed.
    pub busy: Vec<String>,
    /// Processes that have said that they have a place of their own.
    pub keeping: Vec<u32>,
}

/// The machine, and how long its control plane lives.
#[derive(Clone, Default)]
pub struct Fake {
    pub state: State,
    pub journal: Option<Vec<u8>>,
    /// Whether groups can be made.
    pub has_groups: bool,
    /// The journal cannot be written.
    pub is_full: bool,
    /// Changes until it dies: what it does after that does not happen.
    pub life: Option<usize>,
    pub changes: usize,
    /// After so many changes the first program makes a thread and a child.
    pub forks_at: Option<usize>,
}

impl Fake {
    fn changes(&mut self) -> bool {
        self.changes += 1;
        if self.forks_at == Some(self.changes) {
            self.fork(100, 190, 100);
            self.fork(100, 191, 191);
        }
        self.life.is_none_or(|life| self.changes <= life)
    }

    /// A thread of a process, or a process, that inherits.
    pub fn fork(&mut self, from: u32, tid: u32, pid: u32) {
        if let Some(maker) = self.state.threads.get(&from).cloned() {
            let parent = if pid == maker.pid { maker.parent } else { maker.pid };
            self.state.threads.insert(tid, FakeThread { pid, parent, ..maker });
        }
    }

    pub fn thread(&mut self, tid: u32, pid: u32, mask: &str) {
        let mask = CpuMask::parse(mask).unwrap();
        let group = if self.has_groups { "/g".to_owned() } else { String::new() };
        self.state.threads.insert(tid, FakeThread { pid, mask, group, is_ours: true, parent: 0 });
    }

    pub fn mask(&self, tid: u32) -> String {
        let thread = &self.state.threads[&tid];
        let within = self.state.groups.get(&thread.group);
        within.map_or(thread.mask, |group| thread.mask.intersection(group)).to_string()
    }
}

impl System for Fake {
    fn journal(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        Ok(self.journal.clone())
    }

    fn write_journal(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        if self.is_full {
            return Err(Fault::Refused(28));
        }
        if self.changes() {
            self.journal = Some(bytes.to_vec());
        }
        Ok(())
    }

    fn remove_journal(&mut self) -> Result<(), Fault> {
        if self.changes() {
            self.journal = None;
        }
        Ok(())
    }

    fn boot(&mut self) -> [u8; 16] {
        [7; 16]
    }

    fn programs(&mut self, _: &[u32]) -> Vec<Program> {
        let mut programs: BTreeMap<u32, Program> = BTreeMap::new();
        for (tid, thread) in self.state.threads.iter().filter(|(_, thread)| thread.pid != OWN) {
            let group = Some(thread.group.clone()).filter(|group| !group.is_empty());
            let program = programs.entry(thread.pid).or_insert_with(|| Program {
                pid: thread.pid,
                parent: thread.parent,
                keeps_place: self.state.keeping.contains(&thread.pid),
                names: vec![format!("program-{}", thread.pid)],
                group,
                threads: Vec::new(),
            });
            program.threads.push(Thread { tid: *tid, start: 5, mask: thread.mask });
        }
        programs.into_values().collect()
    }

    fn own_threads(&mut self) -> Vec<Thread> {
        let own = self.state.threads.iter().filter(|(_, thread)| thread.pid == OWN);
        own.map(|(tid, thread)| Thread { tid: *tid, start: 5, mask: thread.mask }).collect()
    }

    fn thread(&mut self, tid: u32, start: u64) -> Option<CpuMask> {
        self.state.threads.get(&tid).filter(|_| start == 5).map(|thread| thread.mask)
    }

    fn set_thread(&mut self, tid: u32, _: u64, mask: &CpuMask) -> Result<(), Fault> {
        let lives = self.changes();
        let thread = self.state.threads.get_mut(&tid).ok_or(Fault::Gone)?;
        if !thread.is_ours {
            return Err(Fault::Refused(1));
        }
        if lives {
            thread.mask = *mask;
        }
        Ok(())
    }

    fn interrupts(&mut self) -> Vec<Interrupt> {
        let all = self.state.interrupts.iter();
        all.map(|(number, mask)| Interrupt { number: *number, mask: *mask }).collect()
    }

    fn set_interrupt(&mut self, number: u32, mask: &CpuMask) -> Result<(), Fault> {
        let lives = self.changes();
        if self.state.fixed.contains(&number) {
            return Err(Fault::Refused(5));
        }
        if lives {
            self.state.interrupts.insert(number, *mask);
        }
        Ok(())
    }

    fn has_cpusets(&mut self, group: &str) -> bool {
        self.state.handed.iter().any(|handed| handed == group)
    }

    fn hand_cpusets(&mut self, group: &str, on: bool) -> Result<(), Fault> {
        if self.changes() {
            self.state.handed.retain(|handed| handed != group);
            if on {
                self.state.handed.push(group.to_owned());
            }
        }
        Ok(())
    }

    fn make_group(&mut self, child: &str, mask: &CpuMask) -> Result<(), Fault> {
        if self.changes() {
            self.state.groups.insert(child.to_owned(), *mask);
        }
        Ok(())
    }

    fn move_process(&mut self, group: &str, pid: u32) -> Result<(), Fault> {
        if self.changes() {
            let all = self.state.threads.values_mut().filter(|thread| thread.pid == pid);
            all.for_each(|thread| group.clone_into(&mut thread.group));
        }
        Ok(())
    }

    fn remove_group(&mut self, child: &str) -> Result<(), Fault> {
        if !self.changes() {
            return Ok(());
        }
        let above = child.rsplit_once('/').map_or("", |(above, _)| above);
        let within = self.state.threads.values_mut().filter(|thread| thread.group == child);
        within.for_each(|thread| above.clone_into(&mut thread.group));
        if self.state.busy.iter().any(|busy| busy == child) {
            return Err(Fault::Refused(16));
        }
        self.state.groups.remove(child).map(|_| ()).ok_or(Fault::Gone)
    }
}
