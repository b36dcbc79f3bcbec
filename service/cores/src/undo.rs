//! Takes a partition back, by its journal alone: each step may be done twice, or have never been begun.

use std::collections::{HashMap, HashSet};

use heliostat_abi::cores::CpuMask;

use crate::journal::{Entry, Journal, JournalError};
use crate::system::{Fault, Program, System};

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
    /// What the system did not allow.
    pub refused: usize,
    /// There was a journal that says nothing: it was set aside.
    pub unreadable: Option<JournalError>,
}

impl Undone {
    /// Whether there was nothing to undo.
    pub fn is_nothing(&self) -> bool {
        *self == Undone::default()
    }

    fn count(done: Result<(), Fault>, kind: &mut usize, refused: &mut usize) {
        match done {
            Ok(()) => *kind += 1,
            Err(Fault::Gone) => {}
            Err(Fault::Refused(_)) => *refused += 1,
        }
    }
}

/// Undoes what the journal names, and ends it.
///
/// # Errors
/// The journal cannot be read or ended; what could be undone is.
pub fn undo(system: &mut impl System) -> Result<Undone, Fault> {
    let mut undone = Undone::default();
    let Some(bytes) = system.journal()? else { return Ok(undone) };
    match Journal::decode(&bytes) {
        // What another run of the kernel had is gone with it.
        Ok(journal) if journal.boot == system.boot() => {
            undo_entries(system, &journal, &mut undone);
            undo_inherited(system, &journal, &mut undone);
            widen_own(system, &journal);
        }
        Ok(_) => {}
        Err(error) => undone.unreadable = Some(error),
    }
    system.remove_journal()?;
    Ok(undone)
}

fn undo_entries(system: &mut impl System, journal: &Journal, undone: &mut Undone) {
    let places: HashMap<u32, CpuMask> =
        system.interrupts().into_iter().map(|it| (it.number, it.mask)).collect();
    for entry in &journal.entries {
        match entry {
            Entry::Thread { tid, start, before, now } => {
                // Whoever has gone elsewhere meanwhile wants to be there.
                if system.thread(*tid, *start) == Some(*now) && before != now {
                    let done = system.set_thread(*tid, *start, before);
                    Undone::count(done, &mut undone.threads, &mut undone.refused);
                }
            }
            // One that the system has kept is where it was.
            Entry::Interrupt { number, before } if places.get(number) == Some(before) => {}
            Entry::Interrupt { number, before } => {
                let done = system.set_interrupt(*number, before);
                Undone::count(done, &mut undone.interrupts, &mut undone.refused);
            }
            Entry::Group { child, handed } => {
                let done = system.remove_group(child);
                Undone::count(done, &mut undone.groups, &mut undone.refused);
                let group = child.rsplit_once('/').map(|(group, _)| group);
                if let Some(group) = group.filter(|_| *handed) {
                    // Others may need cpusets there by now, and then it stays.
                    let _ = system.hand_cpusets(group, false);
                }
            }
            Entry::Left { .. } => {}
        }
    }
}

/// Threads and programs that were made since have their makers' place.
fn undo_inherited(system: &mut impl System, journal: &Journal, undone: &mut Undone) {
    let (mut left, mut given, mut threads) = (HashSet::new(), HashSet::new(), Vec::new());
    given.insert(journal.partition.application);
    for entry in &journal.entries {
        match entry {
            Entry::Left { tid, start } => {
                left.insert((*tid, *start));
            }
            Entry::Thread { tid, now, .. } => {
                given.insert(*now);
                threads.push(*tid);
            }
            Entry::Interrupt { .. } | Entry::Group { .. } => {}
        }
    }
    given.remove(&journal.all);
    let mut tried = HashSet::new();
    for _ in 0..PASSES_MAX {
        let programs = system.programs(&threads);
        let narrow = programs.iter().flat_map(|program| inherited(program, &left, &given));
        let new: Vec<_> = narrow.filter(|thread| tried.insert(*thread)).collect();
        if new.is_empty() {
            break;
        }
        for (tid, start) in new {
            let done = system.set_thread(tid, start, &journal.all);
            Undone::count(done, &mut undone.threads, &mut undone.refused);
        }
    }
}

/// The threads of a program that have a place which was given, unless it, or its first thread, had
/// one of its own.
fn inherited<'a>(
    program: &'a Program,
    left: &'a HashSet<(u32, u64)>,
    given: &'a HashSet<CpuMask>,
) -> impl Iterator<Item = (u32, u64)> + 'a {
    let first = program.threads.iter().find(|thread| thread.tid == program.pid);
    let is_left = first.is_some_and(|thread| left.contains(&(thread.tid, thread.start)));
    let narrow = program.threads.iter().filter(move |thread| {
        !is_left && !left.contains(&(thread.tid, thread.start)) && given.contains(&thread.mask)
    });
    narrow.map(|thread| (thread.tid, thread.start))
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
