//! A partition is made, extended and undone, and the control plane dies after every change of it.

use heliostat_abi::cores::CpuMask;

use crate::apply::{apply, extend, Applied, Orders};
use crate::fake::{Fake, OWN};
use crate::journal::{Entry, Journal, JournalError};
use crate::plan::Partition;
use crate::system::{Fault, Program};
use crate::undo::undo;

fn mask(text: &str) -> CpuMask {
    CpuMask::parse(text).unwrap()
}

/// Two programs, of which one has a thread with its own place, one that a rule places, the control
/// plane with a loop that has its own core, and two interrupts of which one cannot be moved.
fn machine(has_groups: bool) -> Fake {
    let mut fake = Fake { has_groups, ..Fake::default() };
    fake.thread(100, 100, "0-3");
    fake.thread(101, 100, "0-3");
    fake.thread(200, 200, "0-3");
    fake.thread(201, 200, "1");
    fake.thread(300, 300, "0-3");
    fake.thread(OWN, OWN, "0-3");
    fake.thread(2, OWN, "3");
    fake.state.interrupts = [(24, mask("0-3")), (25, mask("0"))].into();
    fake.state.fixed = vec![25];
    fake
}

fn placed_by_rule(program: &Program) -> Option<CpuMask> {
    Some(if program.pid == 300 { mask("2") } else { mask("0-1") })
}

fn orders() -> Orders<'static> {
    let (application, kernel, interrupt) = (mask("0-1"), mask("2"), mask("3"));
    Orders {
        generation: 1,
        all: mask("0-3"),
        partition: Partition { application, kernel, interrupt },
        group_name: "h".into(),
        place: &placed_by_rule,
    }
}

#[test]
fn programs_server_loops_and_interrupts_go_to_their_cores() {
    let mut fake = machine(false);
    let (_, applied) = apply(&mut fake, &orders()).unwrap();
    let masks = [100, 101, 200, 201, 300, OWN, 2].map(|tid| fake.mask(tid));
    assert_eq!(masks, ["0-1", "0-1", "0-1", "1", "2", "2", "3"]);
    assert_eq!(fake.state.interrupts[&24], mask("3"));
    let Applied { placed, left, interrupts_moved, interrupts_refused, means } = applied;
    assert_eq!((placed, left, interrupts_moved, interrupts_refused), (4, 1, 1, 1));
    assert!(means.masks && means.interrupts && !means.cpusets);
}

#[test]
fn where_groups_can_be_made_whole_programs_go_into_one() {
    let mut fake = machine(true);
    let (_, applied) = apply(&mut fake, &orders()).unwrap();
    assert_eq!(fake.state.threads[&101].group, "/g/h");
    assert_eq!((fake.state.threads[&100].mask, fake.mask(100)), (mask("0-3"), "0-1".into()));
    // One of its threads has a place of its own, which a cpuset would override.
    assert_eq!((fake.state.threads[&200].group.as_str(), fake.mask(200)), ("/g", "0-1".into()));
    assert_eq!(fake.mask(300), "2");
    assert!(applied.means.cpusets && applied.means.masks);
}

#[test]
fn what_a_death_after_any_change_leaves_is_undone_by_the_next_start() {
    for has_groups in [false, true] {
        let begun = machine(has_groups);
        let mut whole = begun.clone();
        apply(&mut whole, &orders()).unwrap();
        assert!(whole.changes > 8);
        for life in 0..=whole.changes {
            let mut fake = Fake { life: Some(life), ..begun.clone() };
            apply(&mut fake, &orders()).unwrap();
            // The process and its threads are gone; the next one's begin as its starter's.
            fake.state
                .threads
                .extend(begun.state.threads.clone().into_iter().filter(|(_, t)| t.pid == OWN));
            fake.life = None;
            undo(&mut fake).unwrap();
            assert_eq!(fake.state, begun.state, "groups: {has_groups}, died after {life}");
            assert_eq!(fake.journal, None);
        }
    }
}

#[test]
fn a_death_after_any_change_of_undoing_is_undone_as_well() {
    for has_groups in [false, true] {
        let begun = machine(has_groups);
        let mut parted = begun.clone();
        apply(&mut parted, &orders()).unwrap();
        parted.changes = 0;
        let mut whole = parted.clone();
        undo(&mut whole).unwrap();
        for life in 0..=whole.changes {
            let mut fake = Fake { life: Some(life), ..parted.clone() };
            undo(&mut fake).unwrap();
            fake.life = None;
            undo(&mut fake).unwrap();
            // Its own threads died with it, and need nothing.
            fake.state.threads.retain(|_, thread| thread.pid != OWN);
            let mut wanted = begun.state.clone();
            wanted.threads.retain(|_, thread| thread.pid != OWN);
            assert_eq!(fake.state, wanted, "groups: {has_groups}, died after {life}");
        }
    }
}

#[test]
fn threads_and_children_that_are_made_at_any_moment_are_placed_and_released() {
    for (has_groups, forks_at) in (1..20).flat_map(|at| [(false, at), (true, at)]) {
        let mut fake = Fake { forks_at: Some(forks_at), ..machine(has_groups) };
        let (mut journal, mut applied) = apply(&mut fake, &orders()).unwrap();
        extend(&mut fake, &orders(), &mut journal, &mut applied).unwrap();
        if fake.state.threads.contains_key(&190) {
            assert_eq!(
                (fake.mask(190), fake.mask(191)),
                ("0-1".into(), "0-1".into()),
                "{forks_at}"
            );
        }
        undo(&mut fake).unwrap();
        for (tid, thread) in fake.state.threads.iter().filter(|(tid, _)| ![2, 201].contains(*tid)) {
            assert_eq!(thread.mask, mask("0-3"), "thread {tid}, forked at {forks_at}");
        }
        assert_eq!(fake.mask(201), "1");
        assert!(fake.state.groups.is_empty() && fake.state.handed.is_empty());
    }
}

#[test]
fn a_program_that_comes_later_is_placed_and_undone() {
    let mut fake = machine(false);
    let (mut journal, mut applied) = apply(&mut fake, &orders()).unwrap();
    fake.thread(400, 400, "0-3");
    extend(&mut fake, &orders(), &mut journal, &mut applied).unwrap();
    assert_eq!((fake.mask(400), applied.placed), ("0-1".into(), 5));
    undo(&mut fake).unwrap();
    assert_eq!(fake.mask(400), "0-3");
}

#[test]
fn who_goes_elsewhere_meanwhile_stays_there() {
    let mut fake = machine(false);
    apply(&mut fake, &orders()).unwrap();
    fake.thread(101, 100, "1");
    undo(&mut fake).unwrap();
    assert_eq!((fake.mask(100), fake.mask(101)), ("0-3".into(), "1".into()));
}

#[test]
fn one_who_had_the_applications_place_by_himself_keeps_it() {
    let mut fake = machine(false);
    fake.thread(201, 200, "0-1");
    apply(&mut fake, &orders()).unwrap();
    undo(&mut fake).unwrap();
    assert_eq!(fake.mask(201), "0-1");
}

#[test]
fn threads_that_may_not_be_changed_are_left_and_counted() {
    let mut fake = machine(false);
    fake.state.threads.get_mut(&200).unwrap().is_ours = false;
    let (_, applied) = apply(&mut fake, &orders()).unwrap();
    assert_eq!((applied.left, fake.mask(200)), (2, "0-3".into()));
}

#[test]
fn where_the_journal_cannot_be_written_nothing_is_changed() {
    let mut fake = Fake { is_full: true, ..machine(true) };
    assert!(matches!(apply(&mut fake, &orders()), Err(Fault::Refused(28))));
    assert_eq!(fake.state, machine(true).state);
}

#[test]
fn another_partition_replaces_the_first_as_if_that_had_not_been() {
    let mut fake = machine(true);
    apply(&mut fake, &orders()).unwrap();
    let second = Orders {
        generation: 2,
        partition: Partition {
            application: mask("0-2"),
            kernel: mask("3"),
            interrupt: CpuMask::EMPTY,
        },
        place: &|_| Some(mask("0-2")),
        ..orders()
    };
    apply(&mut fake, &second).unwrap();
    assert_eq!((fake.mask(100), fake.mask(OWN)), ("0-2".into(), "3".into()));
    assert_eq!(fake.state.interrupts[&24], mask("0-3"));
    undo(&mut fake).unwrap();
    assert_eq!(fake.state, machine(true).state);
}

#[test]
fn a_journal_that_cannot_be_read_is_told_and_ends() {
    let mut fake = Fake { journal: Some(vec![1; 700]), ..machine(false) };
    assert_eq!(undo(&mut fake).unwrap().unreadable, Some(JournalError::NoJournal));
    assert_eq!(fake.journal, None);
}

#[test]
fn what_another_run_of_the_kernel_had_is_not_undone() {
    let mut fake = machine(false);
    let (journal, _) = apply(&mut fake, &orders()).unwrap();
    fake.journal = Some(Journal { boot: [8; 16], ..journal }.encode());
    assert!(undo(&mut fake).unwrap().is_nothing());
    assert_eq!((fake.mask(100), fake.journal), ("0-1".into(), None));
}

#[test]
fn an_id_that_another_thread_has_by_now_is_not_touched() {
    let mut fake = machine(false);
    let (mut journal, _) = apply(&mut fake, &orders()).unwrap();
    let other = Entry::Thread { tid: 2, start: 4, before: mask("0"), now: mask("3") };
    journal.entries = vec![other];
    fake.journal = Some(journal.encode());
    undo(&mut fake).unwrap();
    assert_eq!(fake.mask(2), "3");
}

#[test]
fn what_is_refused_stays_in_the_journal_and_is_undone_later() {
    let mut fake = machine(true);
    apply(&mut fake, &orders()).unwrap();
    fake.state.busy = vec!["/g/h".into()];
    fake.state.threads.get_mut(&300).unwrap().is_ours = false;
    let undone = undo(&mut fake).unwrap();
    assert_eq!((undone.refused, fake.mask(300), fake.mask(100)), (2, "2".into(), "0-3".into()));
    assert_eq!(fake.state.handed, ["/g"], "its group has cpusets yet");
    let kept = Journal::decode(fake.journal.as_ref().unwrap()).unwrap();
    let is_left = |entry: &&Entry| matches!(entry, Entry::Left { .. });
    assert_eq!(kept.entries.iter().filter(|entry| !is_left(entry)).count(), 2);
    assert_eq!(undo(&mut fake).unwrap().refused, 2, "as often as it is tried");
    fake.state.busy.clear();
    fake.state.threads.get_mut(&300).unwrap().is_ours = true;
    let undone = undo(&mut fake).unwrap();
    assert_eq!((undone.refused, undone.groups, undone.threads), (0, 1, 1));
    assert_eq!((fake.state, fake.journal), (machine(true).state, None));
}

#[test]
fn another_partition_does_not_forget_what_could_not_be_undone() {
    let mut fake = machine(true);
    apply(&mut fake, &orders()).unwrap();
    fake.state.busy = vec!["/g/h".into()];
    fake.state.fixed = vec![24, 25];
    assert_eq!(undo(&mut fake).unwrap().refused, 2);
    fake.state.fixed = vec![25];
    let partition = Partition { application: mask("0"), kernel: mask("1"), interrupt: mask("2") };
    let second = Orders { generation: 2, partition, place: &|_| Some(mask("0")), ..orders() };
    let (journal, _) = apply(&mut fake, &second).unwrap();
    assert_eq!((fake.mask(100), fake.state.interrupts[&24]), ("0".into(), mask("2")));
    let groups = journal.entries.iter().filter(|entry| matches!(entry, Entry::Group { .. }));
    assert_eq!(groups.count(), 1, "the journal names it once");
    fake.state.busy.clear();
    undo(&mut fake).unwrap();
    let wanted = machine(true).state;
    assert_eq!((&fake.state.interrupts, &fake.state.groups), (&wanted.interrupts, &wanted.groups));
    assert_eq!((fake.state.handed.len(), fake.mask(100), fake.journal), (0, "0-3".into(), None));
}

#[test]
fn an_interrupt_that_a_person_moves_meanwhile_stays_there() {
    let mut fake = machine(false);
    apply(&mut fake, &orders()).unwrap();
    fake.state.interrupts.insert(24, mask("1"));
    let undone = undo(&mut fake).unwrap();
    assert_eq!((undone.interrupts, fake.state.interrupts[&24]), (0, mask("1")));
}

#[test]
fn one_that_comes_with_the_applications_place_as_its_own_keeps_it() {
    let mut fake = machine(false);
    let (mut journal, mut applied) = apply(&mut fake, &orders()).unwrap();
    // Begun by taskset(1); another has put itself there because cores are parted.
    fake.thread(400, 400, "0-1");
    fake.state.keeping = vec![400];
    fake.thread(500, 500, "0-1");
    extend(&mut fake, &orders(), &mut journal, &mut applied).unwrap();
    assert_eq!(applied.left, 2);
    for (from, tid, pid) in [(400, 401, 400), (400, 410, 410), (410, 411, 410), (500, 510, 510)] {
        fake.fork(from, tid, pid);
    }
    undo(&mut fake).unwrap();
    let masks = [400, 401, 410, 411, 500, 510].map(|tid| fake.mask(tid));
    assert_eq!(masks, ["0-1", "0-1", "0-1", "0-1", "0-3", "0-3"]);
}
