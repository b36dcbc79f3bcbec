//! Carries a partition out: what is about to be changed goes into the journal first, always.
//!
//! ```text
//! undo what there was -> journal: interrupts      -> interrupts
//!                     -> journal: threads, groups -> threads, groups   (again, until none is new)
//!                     -> own threads (they end with the process, and need no journal)
//! ```
//! A thread that is made meanwhile inherits its place, or is found by the next pass.

use std::collections::{HashMap, HashSet};

use heliostat_abi::cores::{CpuMask, Means};

use crate::journal::{Entry, Journal, ENTRIES_MAX};
use crate::plan::Partition;
use crate::system::{Fault, Interrupt, Program, System, Thread};
use crate::undo::undo;

/// Passes over all programs: one that makes threads for ever is not run after for ever.
const PASSES_MAX: usize = 8;

/// What is to be done.
pub struct Orders<'a> {
    /// Which partition.
    pub generation: u32,
    /// Every core that the control plane may use.
    pub all: CpuMask,
    /// The partition.
    pub partition: Partition,
    /// The name of control groups that are made, nobody else's.
    pub group_name: String,
    /// Where a program belongs; `None` leaves it alone.
    pub place: &'a dyn Fn(&Program) -> Option<CpuMask>,
}

/// What was done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Applied {
    /// By what.
    pub means: Means,
    /// Threads that were given their place.
    pub placed: usize,
    /// Threads that keep a place of their own, or may not be changed.
    pub left: usize,
    /// Interrupts that were moved.
    pub interrupts_moved: usize,
    /// Interrupts that the system keeps where they are.
    pub interrupts_refused: usize,
}

/// Parts the cores, after what there was is undone.
///
/// # Errors
/// The journal could not be written: everything is as it was.
pub fn apply(system: &mut impl System, orders: &Orders<'_>) -> Result<(Journal, Applied), Fault> {
    undo(system)?;
    let boot = system.boot();
    let Orders { generation, all, partition, .. } = *orders;
    let mut journal = Journal { boot, generation, all, partition, entries: refused(system)? };
    let mut applied = Applied::default();
    let room = ENTRIES_MAX.saturating_sub(journal.entries.len());
    journal.entries.extend(own_places(system, &all).into_iter().take(room));
    let done = move_interrupts(system, &mut journal, &mut applied)
        .and_then(|()| Pass::over(system, orders, &mut journal, &mut applied, true));
    if let Err(fault) = done {
        let _ = undo(system);
        return Err(fault);
    }
    place_own(system, &all, &partition.kernel);
    Ok((journal, applied))
}

/// Places programs that have come since.
///
/// # Errors
/// The journal could not be written: they stay where they are.
pub fn extend(
    system: &mut impl System,
    orders: &Orders<'_>,
    journal: &mut Journal,
    applied: &mut Applied,
) -> Result<(), Fault> {
    place_own(system, &orders.all, &orders.partition.kernel);
    Pass::over(system, orders, journal, applied, false)
}

/// What undoing could not take back, so that this partition's journal names it as well.
fn refused(system: &mut impl System) -> Result<Vec<Entry>, Fault> {
    let journal = system.journal()?.and_then(|bytes| Journal::decode(&bytes).ok());
    let entries = journal.map(|journal| journal.entries).unwrap_or_default();
    Ok(entries.into_iter().filter(|entry| !matches!(entry, Entry::Left { .. })).collect())
}

fn move_interrupts(
    system: &mut impl System,
    journal: &mut Journal,
    applied: &mut Applied,
) -> Result<(), Fault> {
    let target = journal.partition.interrupt;
    if target.is_empty() {
        return system.write_journal(&journal.encode());
    }
    let elsewhere = system.interrupts().into_iter().filter(|interrupt| interrupt.mask != target);
    let room = ENTRIES_MAX.saturating_sub(journal.entries.len());
    let moved: Vec<_> = elsewhere.take(room).collect();
    name_interrupts(&mut journal.entries, &moved, target);
    system.write_journal(&journal.encode())?;
    for interrupt in moved {
        match system.set_interrupt(interrupt.number, &target) {
            Ok(()) => applied.interrupts_moved += 1,
            Err(_) => applied.interrupts_refused += 1,
        }
    }
    applied.means.interrupts = applied.interrupts_moved > 0;
    Ok(())
}

/// One that could not be put back before still has the place where it came then.
fn name_interrupts(entries: &mut Vec<Entry>, moved: &[Interrupt], target: CpuMask) {
    let mut known = HashMap::new();
    for (at, entry) in entries.iter().enumerate() {
        if let Entry::Interrupt { number, .. } = entry {
            known.insert(*number, at);
        }
    }
    for interrupt in moved {
        let at = known.get(&interrupt.number);
        match at.and_then(|at| entries.get_mut(*at)) {
            Some(Entry::Interrupt { now, .. }) => *now = target,
            _ => entries.push(Entry::Interrupt {
                number: interrupt.number,
                before: interrupt.mask,
                now: target,
            }),
        }
    }
}

/// The threads of the control plane that have cores of their own, which undoing must not widen.
fn own_places(system: &mut impl System, all: &CpuMask) -> Vec<Entry> {
    let threads = system.own_threads().into_iter();
    let narrow = threads.filter(|thread| !all.is_within(&thread.mask));
    narrow.map(|thread| Entry::Left { tid: thread.tid, start: thread.start }).collect()
}

/// Server loops go to kernel cores; those that have a core of their own keep it.
fn place_own(system: &mut impl System, all: &CpuMask, kernel: &CpuMask) {
    if kernel.is_empty() {
        return;
    }
    let wide = system.own_threads().into_iter().filter(|thread| all.is_within(&thread.mask));
    for thread in wide.collect::<Vec<_>>() {
        // One that is gone needs no place.
        let _ = system.set_thread(thread.tid, thread.start, kernel);
    }
}

/// One change of a pass.
enum Step {
    Thread { tid: u32, start: u64, now: CpuMask },
    Group { child: String, handed: bool },
    Process { child: String, pid: u32, threads: usize },
}

/// What passes over the programs remember of each other.
struct Pass<'a> {
    orders: &'a Orders<'a>,
    /// Threads that the journal names.
    known: HashSet<(u32, u64)>,
    /// Processes that this round put into groups.
    moved: HashSet<u32>,
    /// Groups that were made, and those in which none can be.
    groups: HashMap<String, bool>,
    /// Groups of the partition before that could not be removed: the journal names them already.
    kept: HashSet<String>,
    /// A thread that is found narrower has a place of its own, and has inherited none.
    is_first: bool,
}

impl<'a> Pass<'a> {
    fn over(
        system: &mut impl System,
        orders: &'a Orders<'a>,
        journal: &mut Journal,
        applied: &mut Applied,
        is_first: bool,
    ) -> Result<(), Fault> {
        let mut pass = Pass {
            orders,
            known: HashSet::new(),
            moved: HashSet::new(),
            groups: HashMap::new(),
            kept: HashSet::new(),
            is_first,
        };
        pass.remember(journal);
        for _ in 0..PASSES_MAX {
            let (entries, steps) = pass.look(system, journal, applied);
            if entries.is_empty() && steps.is_empty() {
                break;
            }
            journal.entries.extend(entries);
            system.write_journal(&journal.encode())?;
            for step in steps {
                pass.take(system, step, applied);
            }
            pass.is_first = false;
        }
        Ok(())
    }

    fn remember(&mut self, journal: &Journal) {
        for entry in &journal.entries {
            match entry {
                Entry::Thread { tid, start, .. } | Entry::Left { tid, start } => {
                    self.known.insert((*tid, *start));
                }
                Entry::Group { child, .. } if self.is_first => {
                    self.kept.insert(child.clone());
                }
                Entry::Group { child, .. } => {
                    self.groups.insert(child.clone(), true);
                }
                Entry::Interrupt { .. } => {}
            }
        }
    }

    /// What is new, as entries of the journal and as steps.
    fn look(
        &mut self,
        system: &mut impl System,
        journal: &Journal,
        applied: &mut Applied,
    ) -> (Vec<Entry>, Vec<Step>) {
        let (mut entries, mut steps) = (Vec::new(), Vec::new());
        for program in system.programs(&[]) {
            let Some(mask) = (self.orders.place)(&program) else { continue };
            let room = ENTRIES_MAX.saturating_sub(journal.entries.len() + entries.len());
            if room <= program.threads.len() {
                applied.left += program.threads.len();
                break;
            }
            match self.child_for(&program, &mask) {
                Some(child) => self.join(system, &program, child, &mut entries, &mut steps),
                None => self.by_thread(&program, mask, applied, &mut entries, &mut steps),
            }
        }
        (entries, steps)
    }

    /// The group that a program goes to as a whole: one for applications, and only where no thread of
    /// it has a place of its own, which a cpuset would override.
    fn child_for(&self, program: &Program, mask: &CpuMask) -> Option<String> {
        let group = program.group.as_ref()?;
        let child = format!("{group}/{}", self.orders.group_name);
        let is_wide = |thread: &Thread| self.orders.all.is_within(&thread.mask);
        let fits = *mask == self.orders.partition.application
            && program.threads.iter().all(is_wide)
            && self.groups.get(&child) != Some(&false);
        fits.then_some(child)
    }

    fn join(
        &mut self,
        system: &mut impl System,
        program: &Program,
        child: String,
        entries: &mut Vec<Entry>,
        steps: &mut Vec<Step>,
    ) {
        // Whoever was moved and is still above was moved back by somebody, who is left in peace.
        if !self.moved.insert(program.pid) {
            return;
        }
        if !self.groups.contains_key(&child) {
            let group = program.group.as_deref().unwrap_or_default();
            let handed = !system.has_cpusets(group);
            self.groups.insert(child.clone(), true);
            if !self.kept.contains(&child) {
                entries.push(Entry::Group { child: child.clone(), handed });
            }
            steps.push(Step::Group { child: child.clone(), handed });
        }
        steps.push(Step::Process { child, pid: program.pid, threads: program.threads.len() });
    }

    fn by_thread(
        &mut self,
        program: &Program,
        now: CpuMask,
        applied: &mut Applied,
        entries: &mut Vec<Entry>,
        steps: &mut Vec<Step>,
    ) {
        if self.is_in_group(program) {
            return;
        }
        for thread in &program.threads {
            let Thread { tid, start, mask } = *thread;
            let has_inherited = !self.is_first && mask == now && !program.keeps_place;
            if has_inherited || !self.known.insert((tid, start)) {
                continue;
            }
            let (all, partition) = (self.orders.all, &self.orders.partition);
            // A program that begins under a partition puts itself where applications go.
            let came_by_itself =
                !self.is_first && mask == partition.application && !program.keeps_place;
            if all.is_within(&mask) || came_by_itself {
                let before = if came_by_itself { all } else { mask };
                entries.push(Entry::Thread { tid, start, before, now });
                steps.push(Step::Thread { tid, start, now });
            } else {
                entries.push(Entry::Left { tid, start });
                applied.left += 1;
            }
        }
    }

    /// Whether a program is where it belongs by its group.
    fn is_in_group(&self, program: &Program) -> bool {
        let group = program.group.as_deref().unwrap_or_default();
        self.groups.get(group) == Some(&true)
    }

    fn take(&mut self, system: &mut impl System, step: Step, applied: &mut Applied) {
        match step {
            Step::Thread { tid, start, now } => match system.set_thread(tid, start, &now) {
                Ok(()) => {
                    applied.placed += 1;
                    applied.means.masks = true;
                }
                Err(Fault::Gone) => {}
                Err(Fault::Refused(_)) => applied.left += 1,
            },
            Step::Group { child, handed } => self.make_group(system, child, handed),
            Step::Process { child, pid, threads } => {
                if self.groups.get(&child) != Some(&true) {
                    // Its threads are placed one by one, by the next pass.
                    self.moved.remove(&pid);
                } else if system.move_process(&child, pid).is_ok() {
                    applied.placed += threads;
                    applied.means.cpusets = true;
                } else {
                    applied.left += threads;
                }
            }
        }
    }

    fn make_group(&mut self, system: &mut impl System, child: String, handed: bool) {
        let group = child.rsplit_once('/').map_or("", |(group, _)| group);
        let handing = if handed { system.hand_cpusets(group, true) } else { Ok(()) };
        let made =
            handing.and_then(|()| system.make_group(&child, &self.orders.partition.application));
        self.groups.insert(child, made.is_ok());
    }
}
