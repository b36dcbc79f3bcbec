use super::*;

const MIB: u64 = 1 << 20;

/// Sessions of one user that begin files, each after the one before.
#[derive(Default)]
struct Readers {
    sets: Sets<u64>,
    at: HashMap<u32, u64>,
}

const USER: Holder = Holder::user(5);

impl Readers {
    /// A session begins a file: the blocks that were read ahead.
    fn begin(&mut self, session: u32, file: u64) -> u16 {
        let before = self.at.insert(session, file);
        self.sets.begin(USER, (before, file), (file * 10, MIB), 0)
    }

    fn next(&self, file: u64) -> Vec<u64> {
        self.sets.next(USER, file).into_iter().map(|(next, ..)| next).collect()
    }
}

#[test]
fn who_reads_behind_another_is_told_what_that_one_has_read() {
    let mut readers = Readers::default();
    for file in 1..=12 {
        readers.begin(1, file);
        assert_eq!(readers.next(file), [0; 0], "nobody was there before");
    }
    readers.begin(2, 1);
    assert_eq!(readers.next(1), [2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(readers.next(11), [12]);
    assert_eq!(readers.sets.next(USER, 11), [(12, 120, MIB)]);
    assert!(readers.sets.next(Holder::user(6), 11).is_empty(), "others learn nothing from it");
}

#[test]
fn a_set_that_is_read_again_and_again_ends_nowhere_and_no_file_comes_twice() {
    let mut readers = Readers::default();
    for file in [1, 2, 3, 1, 2, 3] {
        readers.begin(1, file);
    }
    assert_eq!(readers.next(2), [3, 1]);
}

#[test]
fn files_in_no_order_are_soon_not_believed_until_a_step_was_made_twice() {
    let mut readers = Readers::default();
    let mut dice = 7u64;
    for _ in 0..200 {
        dice = dice.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        readers.begin(1, dice >> 60);
    }
    readers.begin(1, 100);
    readers.begin(1, 101);
    assert_eq!(readers.next(100), [0; 0]);
    readers.begin(1, 100);
    readers.begin(1, 101);
    assert_eq!(readers.next(100), [101]);
}

#[test]
fn blocks_that_were_read_ahead_are_told_once() {
    let mut readers = Readers::default();
    readers.begin(1, 1);
    readers.begin(1, 2);
    for block in [0, 3, HEAD_BLOCKS - 1, HEAD_BLOCKS, 1000] {
        readers.sets.mark(USER, 2, block);
    }
    assert_eq!(readers.begin(2, 2), 0b1000_0000_0000_1001);
    assert_eq!(readers.begin(1, 1), 0);
    assert_eq!(readers.begin(1, 2), 0);
}

#[test]
fn files_before_are_those_that_another_came_to_by_the_same_step() {
    let mut readers = Readers::default();
    (1..=4).for_each(|file| assert_eq!(readers.begin(1, file), 0));
    assert_eq!(readers.sets.before(USER, 4), []);
    readers.begin(2, 1);
    readers.begin(2, 2);
    assert_eq!(readers.sets.before(USER, 4), [(2, MIB)], "the third lies between");
    readers.begin(2, 3);
    assert_eq!(readers.sets.before(USER, 4), [(3, 0), (2, MIB)]);
}

#[test]
fn holders_and_files_have_limits() {
    let mut sets: Sets<()> = Sets::default();
    for uid in 0..1000 {
        sets.begin(Holder::user(uid), (None, 1), ((), 1), u64::from(uid));
    }
    assert!(sets.orders.len() <= HOLDERS_MAX && sets.orders.contains_key(&Holder::user(999)));
    for file in 1..5000 {
        sets.begin(USER, (Some(file - 1), file), ((), 1), 2000);
    }
    assert!(sets.orders[&USER].files.len() <= FILES_MAX);
}
