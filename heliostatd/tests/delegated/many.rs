//! Many reads past the caches at once: all are made, whatever is kept back and wherever they land.

use std::fs::File;
use std::time::Duration;

use crate::support::delegated::*;
use crate::support::*;
use heliostat_abi::file::delegated::*;
use heliostat_abi::name::ObjectId;

const PAGE: usize = 4096;
const PAGES: u64 = 512;

/// A direct file, each of whose pages tells its number.
fn numbered(daemon: &Daemon, session: &mut Delegate) -> ObjectId {
    let path = daemon.folder().join("numbered");
    let pages = (0..PAGES).flat_map(|page| page.to_le_bytes().repeat(PAGE / 8));
    std::fs::write(&path, pages.collect::<Vec<u8>>()).unwrap();
    session.show(&File::open(&path).unwrap(), true).unwrap()
}

/// Reads one page of the file into the page of the window with the operation's number.
fn page(object: ObjectId, page: u64, tag: u64) -> Operation {
    let pieces = pieces(&[(tag * PAGE as u64, PAGE as u32)]);
    Operation { kind: OpKind::Read, object, offset: page * PAGE as u64, pieces, ..blank(tag) }
}

fn number_at(session: &Delegate, tag: u64) -> [u64; 2] {
    let word = |at: usize| {
        let mut bytes = [0; 8];
        session.window.copy_out(tag as usize * PAGE + at, &mut bytes).unwrap();
        u64::from_le_bytes(bytes)
    };
    [word(0), word(PAGE - 8)]
}

#[test]
fn any_number_at_once_is_done() {
    let daemon = Daemon::start();
    let mut session = Delegate::new(&daemon);
    let file = numbered(&daemon, &mut session);
    for (round, depth) in [1, 23, 24, 25, 31, 32, 33, 64, 200].into_iter().enumerate() {
        let of = |tag: u64| (tag * 7 + round as u64) % PAGES;
        (0..depth).for_each(|tag| session.submit(&page(file, of(tag), tag)));
        for _ in 0..depth {
            let Completion { tag, result, way, .. } = session.next();
            assert_eq!((result, way), (PAGE as i64, Way::Direct), "{tag} of {depth}");
            assert_eq!(number_at(&session, tag), [of(tag); 2], "{tag} of {depth}");
        }
    }
}

#[test]
fn a_window_that_is_read_into_long_enough_gets_the_same_bytes() {
    let daemon = Daemon::start();
    let mut session = Delegate::new(&daemon);
    let file = numbered(&daemon, &mut session);
    // Both pieces of the window have had more than twice their size by the end.
    let (mut asked, mut done) = (0..6000u64, 0);
    let mut of = vec![0; 1024];
    let mut ask = |session: &mut Delegate, of: &mut Vec<u64>, tag: u64| {
        let Some(number) = asked.next() else { return };
        of[tag as usize] = number * 31 % PAGES;
        session.submit(&page(file, of[tag as usize], tag));
    };
    for slot in 0..64 {
        ask(&mut session, &mut of, slot * 16);
    }
    while done < 6000 {
        let Completion { tag, result, .. } = session.next();
        assert_eq!((result, number_at(&session, tag)), (PAGE as i64, [of[tag as usize]; 2]));
        done += 1;
        ask(&mut session, &mut of, tag);
    }
}

#[test]
fn one_that_is_kept_back_can_be_cancelled_and_one_that_is_late_ends() {
    let daemon = Daemon::start();
    let mut session = Delegate::new(&daemon);
    let file = numbered(&daemon, &mut session);
    for tag in 0..30 {
        session.submit(&Operation { timeout_us: 1, ..page(file, tag, tag) });
    }
    session.submit(&Operation { kind: OpKind::Cancel, argument: 29, ..blank(100) });
    let mut told: Vec<u64> = (0..31).map(|_| session.next().tag).collect();
    told.sort_unstable();
    assert_eq!(told, (0..30).chain([100]).collect::<Vec<_>>());
}

#[test]
fn windows_come_and_go_with_reads_under_way() {
    let daemon = Daemon::start();
    for _ in 0..80 {
        let mut session = Delegate::new(&daemon);
        let file = numbered(&daemon, &mut session);
        for round in 0..20 {
            (0..64).for_each(|tag| session.submit(&page(file, round, tag * 8)));
            (0..64).for_each(|_| assert_eq!(session.next().result, PAGE as i64));
        }
        (0..64).for_each(|tag| session.submit(&page(file, 1, tag)));
    }
    std::thread::sleep(Duration::from_millis(50));
    serves(&daemon);
}
