//! Takes a partition back, by its journal alone: each step may be done twice, or have never been begun.

use std::collections::{HashMap, HashSet};

use heliostat_abi::cores::CpuMask;

use crate::journal::{Entry, Journal, JournalError, ENTRIES_MAX};
use crate::plan::Partition;
use crate::system::{Fault, Program, System, Thread};

/// Passes over all programs, for threads that are made meanwhile.
const PASSES_MAX: usize = 8;

/// What was taken back.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Undone {
    /// Threads that may run where they might before.
    pub threads: usize,
    /// Interrupts that come where they came.
    pub interrupts: usize,
    /// Control groups that are gone.
    pub groups: usize,
    /// What the system did not allow: the journal names it still.
    pub refused: usize,
    /// There was a journal that says nothing: it was set aside.
    pub unreadable: Option<JournalError>,
}

impl Undone {
    /// Whether there was nothing to undo.
    pub fn is_nothing(&self) -> bool {
        *self == Undone::default()
    }
}

/// Undoes what the journal names, and ends it. What the system refuses is all that it names then.
///
/// # Errors
/// The journal cannot be read, replaced or ended; what could be undone is.
pub fn undo(system: &mut impl System) -> Result<Undone, Fault> {
    let Some(bytes) = system.journal()? else { return Ok(Undone::default()) };
    let mut undoing = Undoing::default();
    match Journal::decode(&bytes) {
        // What another run of the kernel had is gone with it.
        Ok(journal) if journal.boot == system.boot() => {
            undoing.entries(system, &journal);
            undoing.inherited(system, &journal);
            widen_own(system, &journal);
            undoing.keep_refused(system, journal)?;
        }
        Ok(_) => system.remove_journal()?,
        Err(error) => {
            undoing.undone.unreadable = Some(error);
            system.remove_journal()?;
        }
    }
    Ok(undoing.undone)
}

/// What was undone until now, and what could not be.
#[derive(Default)]
struct Undoing {
    undone: Undone,
    refused: Vec<Entry>,
}

impl Undoing {
    fn entries(&mut self, system: &mut impl System, journal: &Journal) {
        let places: HashMap<u32, CpuMask> =
            system.interrupts().into_iter().map(|it| (it.number, it.mask)).collect();
        for entry in &journal.entries {
            match entry {
                // Whoever has gone elsewhere meanwhile wants to be there.
                Entry::Thread { tid, start, before, now } => {
                    if system.thread(*tid, *start) == Some(*now) && before != now {
                        let done = system.set_thread(*tid, *start, before);
                        self.count(done, entry);
                    }
                }
                // So does one that a person has moved; one that the system has kept is where it was.
                Entry::Interrupt { number, before, now } => {
                    if places.get(number) == Some(now) && before != now {
                        let done = system.set_interrupt(*number, before);
                        self.count(done, entry);
                    }
                }
                Entry::Group { child, handed } => self.group(system, child, *handed),
                Entry::Left { .. } => {}
            }
        }
    }

    fn group(&mut self, system: &mut impl System, child: &str, handed: bool) {
        let done = system.remove_group(child);
        let is_gone = !matches!(done, Err(Fault::Refused(_)));
        self.count(done, &Entry::Group { child: child.to_owned(), handed });
        let group = child.rsplit_once('/').map(|(group, _)| group);
        if let Some(group) = group.filter(|_| handed && is_gone) {
            // Others may need cpusets there by now, and then it stays.
            let _ = system.hand_cpusets(group, false);
        }
    }

    fn count(&mut self, done: Result<(), Fault>, entry: &Entry) {
        let kind = match entry {
            Entry::Thread { .. } | Entry::Left { .. } => &mut self.undone.threads,
            Entry::Interrupt { .. } => &mut self.undone.interrupts,
            Entry::Group { .. } => &mut self.undone.groups,
        };
        match done {
            Ok(()) => *kind += 1,
            Err(Fault::Gone) => {}
            Err(Fault::Refused(_)) => {
                self.undone.refused += 1;
                self.refused.push(entry.clone());
            }
        }
    }

    /// Threads and programs that were made since have their makers' place.
    fn inherited(&mut self, system: &mut impl System, journal: &Journal) {
        let known = Known::of(journal);
        let mut tried: HashSet<(u32, u64)> = self.refused.iter().filter_map(named).collect();
        for _ in 0..PASSES_MAX {
            let programs = system.programs(&known.threads);
            let narrow = known.inherited(&programs);
            let new: Vec<_> = narrow.filter(|it| tried.insert((it.tid, it.start))).collect();
            if new.is_empty() {
                break;
            }
            for Thread { tid, start, mask } in new {
                let done = system.set_thread(tid, start, &journal.all);
                self.count(done, &Entry::Thread { tid, start, before: journal.all, now: mask });
            }
        }
    }

    /// The journal of what the system has refused, for the next undoing; none where it has not.
    fn keep_refused(&mut self, system: &mut impl System, journal: Journal) -> Result<(), Fault> {
        if self.refused.is_empty() {
            return system.remove_journal();
        }
        let own = journal.entries.iter().filter(|entry| matches!(entry, Entry::Left { .. }));
        let entries = self.refused.drain(..).chain(own.cloned()).take(ENTRIES_MAX).collect();
        let partition = Partition::none(journal.all);
        system.write_journal(&Journal { partition, entries, ..journal }.encode())
    }
}

fn named(entry: &Entry) -> Option<(u32, u64)> {
    match entry {
        Entry::Thread { tid, start, .. } | Entry::Left { tid, start } => Some((*tid, *start)),
        Entry::Interrupt { .. } | Entry::Group { .. } => None,
    }
}

/// What a journal tells of threads that it does not name.
struct Known {
    /// Threads that have a place of their own.
    left: HashSet<(u32, u64)>,
    /// Threads that were placed.
    placed: HashSet<(u32, u64)>,
    /// Places that were given.
    given: HashSet<CpuMask>,
    /// The ids of those that were placed.
    threads: Vec<u32>,
}

impl Known {
    fn of(journal: &Journal) -> Known {
        let mut given: HashSet<CpuMask> = [journal.partition.application].into();
        let (mut left, mut placed) = (HashSet::new(), HashSet::new());
        for entry in &journal.entries {
            match entry {
                Entry::Left { tid, start } => {
                    left.insert((*tid, *start));
                }
                Entry::Thread { tid, start, now, .. } => {
                    given.insert(*now);
                    placed.insert((*tid, *start));
                }
                Entry::Interrupt { .. } | Entry::Group { .. } => {}
            }
        }
        given.remove(&journal.all);
        let threads = placed.iter().map(|(tid, _)| *tid).collect();
        Known { left, placed, given, threads }
    }

    /// Threads that have a place which was given, unless they, or the programs that they are of, have
    /// one of their own.
    fn inherited<'a>(&'a self, programs: &'a [Program]) -> impl Iterator<Item = Thread> + 'a {
        let own = self.own_programs(programs);
        let others = programs.iter().filter(move |program| !own.contains(&program.pid));
        let threads = others.flat_map(|program| &program.threads).copied();
        threads
            .filter(|it| !self.left.contains(&(it.tid, it.start)) && self.given.contains(&it.mask))
    }

    /// Programs whose first thread has a place of its own, and those that have it from such a one.
    fn own_programs(&self, programs: &[Program]) -> HashSet<u32> {
        let firsts: HashMap<u32, Thread> =
            programs.iter().filter_map(|program| Some((program.pid, first(program)?))).collect();
        let is_own = |thread: &Thread| self.left.contains(&(thread.tid, thread.start));
        let mut own: HashSet<u32> =
            firsts.iter().filter(|(_, it)| is_own(it)).map(|(pid, _)| *pid).collect();
        loop {
            let has_it = |program: &&Program| {
                let (Some(maker), Some(it)) = (firsts.get(&program.parent), first(program)) else {
                    return false;
                };
                own.contains(&program.parent)
                    && maker.mask == it.mask
                    && !self.placed.contains(&(it.tid, it.start))
                    && !own.contains(&program.pid)
            };
            let more: Vec<u32> = programs.iter().filter(has_it).map(|it| it.pid).collect();
            if more.is_empty() {
                return own;
            }
            own.extend(more);
        }
    }
}

fn first(program: &Program) -> Option<Thread> {
    program.threads.iter().find(|thread| thread.tid == program.pid).copied()
}

/// The threads of this process: those that served, or that were begun by a program that was placed.
fn widen_own(system: &mut impl System, journal: &Journal) {
    let given = [journal.partition.kernel, journal.partition.application];
    for thread in system.own_threads() {
        let own = Entry::Left { tid: thread.tid, start: thread.start };
        if journal.entries.contains(&own) {
            continue;
        }
        if given.contains(&thread.mask) && thread.mask != journal.all {
            let _ = system.set_thread(thread.tid, thread.start, &journal.all);
        }
    }
}
