use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use heliostat_backend_uring::By;

use super::*;

const MIB: u64 = 1 << 20;

/// A file in a folder on a disk, removed at the end.
struct Place(PathBuf);

impl Place {
    fn new(bytes: u64) -> Place {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("heliostat-block-{}-{number}", std::process::id());
        let place = Place(std::env::temp_dir().join(name));
        FileDevice::create(&place.0, bytes).expect("room in the folder for temporary files");
        place
    }

    fn open(&self, options: Options) -> FileDevice {
        FileDevice::open(&self.0, options).expect("opened")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Every way to drive a file: by ring and threads, direct or not, each kind of durability.
fn all_options() -> Vec<Options> {
    let by = [By::Threads, By::available()];
    let durability = [Durability::Dsync, Durability::Flush, Durability::DsyncAlone];
    let mut all = Vec::new();
    for (by, lone_calls) in by.into_iter().flat_map(|by| [(by, true), (by, false)]) {
        for (durability, direct) in durability.iter().flat_map(|it| [(*it, true), (*it, false)]) {
            let (by, durability) = (Some(by), Some(durability));
            all.push(Options { depth: 8, direct, by, durability, lone_calls });
        }
    }
    all
}

fn complete(device: &mut impl Device, count: usize) -> Vec<Completion> {
    let mut taken = Vec::new();
    while taken.len() < count {
        device.reap(Some(Duration::from_secs(20)), &mut taken).unwrap();
    }
    taken
}

fn perform(device: &mut impl Device, request: Request) -> Result<(), BlockError> {
    device.begin(77, request).unwrap();
    let taken = complete(device, 1);
    assert_eq!((taken.len(), taken[0].token), (1, 77));
    taken[0].result
}

fn page(value: u8) -> Buffer {
    let buffer = Buffer::new(4096).unwrap();
    buffer.copy_in(&[value; 4096]).unwrap();
    buffer
}

fn first_bytes(device: &mut impl Device, pages: u64) -> Vec<u8> {
    let into = Buffer::new(4096 * pages as usize).unwrap();
    perform(device, Request::Read { offset: 0, into: into.clone() }).unwrap();
    into.copy_out().unwrap().chunks(4096).map(|page| page[4095]).collect()
}

#[test]
fn bytes_come_back_in_every_way_alone_and_together() {
    for options in all_options() {
        let place = Place::new(MIB);
        let mut device = place.open(options);
        perform(&mut device, Request::Write { offset: 0, from: page(1), durable: true }).unwrap();
        for at in 1..8 {
            let durable = at % 2 == 0;
            let write = Request::Write { offset: at * 4096, from: page(at as u8 + 1), durable };
            device.begin(at, write).unwrap();
        }
        device.begin(8, Request::Flush).unwrap();
        let full = BeginError::Full { depth: 8 };
        assert_eq!(device.begin(9, Request::Flush), Err(full), "{options:?}");
        let taken = complete(&mut device, 8);
        assert!(taken.iter().all(|it| it.result.is_ok()), "{options:?} {taken:?}");
        let mut tokens: Vec<_> = taken.iter().map(|it| it.token).collect();
        tokens.sort_unstable();
        assert_eq!(tokens, [1, 2, 3, 4, 5, 6, 7, 8], "{options:?}");
        drop(device);
        assert_eq!(first_bytes(&mut place.open(options), 9), [1, 2, 3, 4, 5, 6, 7, 8, 0]);
    }
}

#[test]
fn ranges_are_zeroed_and_given_back() {
    for options in all_options() {
        let place = Place::new(4 * MIB);
        let mut device = place.open(options);
        for at in 0..4 {
            let from = page(9);
            let write = Request::Write { offset: at * 4096, from, durable: false };
            perform(&mut device, write).unwrap();
        }
        let last = Request::Write { offset: 3 * MIB, from: page(9), durable: false };
        perform(&mut device, last).unwrap();
        // Longer than one write of zeroes is.
        perform(&mut device, Request::Zero { offset: 4096, bytes: 3 * MIB }).unwrap();
        assert_eq!(first_bytes(&mut device, 5), [9, 0, 0, 0, 0], "{options:?}");
        let into = Buffer::new(4096).unwrap();
        perform(&mut device, Request::Read { offset: 3 * MIB, into: into.clone() }).unwrap();
        assert!(into.copy_out().unwrap() == [0; 4096], "{options:?}");
        let given_back = perform(&mut device, Request::Discard { offset: 0, bytes: 4096 });
        let refused = Err(BlockError::Device { errno: EOPNOTSUPP });
        let first = if given_back == refused { 9 } else { 0 };
        assert_eq!(first_bytes(&mut device, 1), [first], "{options:?}: {given_back:?}");
    }
}

#[test]
fn without_a_wait_nothing_is_waited_for_and_all_completes_in_the_end() {
    let place = Place::new(MIB);
    let mut device = place.open(Options::default());
    let mut taken = Vec::new();
    device.begin(1, Request::Write { offset: 0, from: page(1), durable: true }).unwrap();
    while taken.is_empty() {
        device.reap(None, &mut taken).unwrap();
        std::thread::yield_now();
    }
    assert_eq!(taken, [Completion { token: 1, result: Ok(()) }]);
    device.reap(Some(Duration::from_secs(60)), &mut taken).unwrap();
    assert_eq!(taken.len(), 1, "nothing is under way, so nothing is waited for");
}

#[test]
fn memory_that_is_used_often_is_kept_until_it_is_forgotten() {
    if By::available() != By::Uring {
        return;
    }
    let place = Place::new(4 * MIB);
    let mut device = place.open(Options { lone_calls: false, ..Options::default() });
    let all = Buffer::new(MIB as usize).unwrap();
    for _ in 0..10 {
        let from = all.clone();
        perform(&mut device, Request::Write { offset: 0, from, durable: false }).unwrap();
    }
    let held = Arc::strong_count(&all.memory);
    device.forget(&all.memory);
    assert_eq!((held, Arc::strong_count(&all.memory)), (2, 1));
    perform(&mut device, Request::Write { offset: 0, from: all, durable: false }).unwrap();
}

#[test]
fn after_a_flush_that_failed_nothing_is_said_to_be_durable() {
    let error = BlockError::Device { errno: EIO };
    let write = |durable| Request::Write { offset: 0, from: page(1), durable };
    for (request, is_over) in [(Request::Flush, true), (write(true), true), (write(false), false)] {
        let place = Place::new(MIB);
        let (mut device, mut taken) = (place.open(Options::default()), Vec::new());
        device.begin(1, request).unwrap();
        // The kernel's answer, as it would be.
        let under_way = device.waiting.pop().unwrap();
        device.complete(under_way, Err(error), &mut taken);
        assert_eq!(taken, [Completion { token: 1, result: Err(error) }]);
        device.begin(2, Request::Flush).unwrap();
        let reaped = device.reap(Some(Duration::from_secs(1)), &mut taken);
        let (wanted, completed) = if is_over { (Err(error), 1) } else { (Ok(()), 2) };
        assert_eq!((reaped, taken.len()), (wanted, completed));
    }
}

#[test]
fn a_durable_write_that_was_refused_fails_alone_and_its_flush_that_failed_does_not() {
    let write = || Request::Write { offset: 0, from: page(1), durable: true };
    let refused = [ENOSPC, EDQUOT, EFBIG, EINVAL, EFAULT];
    let refused = refused.map(|errno| BlockError::Device { errno });
    for error in refused.into_iter().chain([BlockError::Short { moved: 512 }]) {
        for is_written in [false, true] {
            let place = Place::new(MIB);
            let (mut device, mut taken) = (place.open(Options::default()), Vec::new());
            device.is_direct = true;
            device.begin(1, write()).unwrap();
            let under_way = device.waiting.pop().unwrap();
            device.operations[under_way].as_mut().unwrap().is_written = is_written;
            device.complete(under_way, Err(error), &mut taken);
            assert_eq!(taken, [Completion { token: 1, result: Err(error) }]);
            device.begin(2, Request::Flush).unwrap();
            let reaped = device.reap(Some(Duration::from_secs(1)), &mut taken);
            assert_eq!(reaped, if is_written { Err(error) } else { Ok(()) }, "{error}");
        }
    }
}

/// Places that a file has on its disk.
fn blocks(place: &Place) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(&place.0).unwrap())
}

#[test]
fn nothing_is_given_back_where_that_is_not_wanted_and_discarded_bytes_are_zero() {
    for options in all_options() {
        let place = Place::new(MIB);
        let mut device = place.open(options);
        device.keep_discarded();
        let before = blocks(&place);
        perform(&mut device, Request::Write { offset: 0, from: page(9), durable: true }).unwrap();
        perform(&mut device, Request::Discard { offset: 0, bytes: MIB / 2 }).unwrap();
        assert_eq!(first_bytes(&mut device, 2), [0, 0], "{options:?}");
        assert!(!device.geometry().discard_zeroes && blocks(&place) >= before, "{options:?}");
    }
}

#[test]
fn a_file_without_room_for_zeroes_gets_a_hole_instead() {
    let place = Place::new(MIB);
    let mut device = place.open(Options::default());
    perform(&mut device, Request::Write { offset: 0, from: page(9), durable: true }).unwrap();
    device.begin(1, Request::Zero { offset: 0, bytes: 8192 }).unwrap();
    // The kernel's answer, as it would be.
    let under_way = device.waiting.pop().unwrap();
    assert_eq!(device.go_on(under_way, -ENOSPC), None);
    let ended = complete(&mut device, 1);
    if ended[0].result == Err(BlockError::Device { errno: EOPNOTSUPP }) {
        return eprintln!("skipped: the file system makes no holes");
    }
    assert_eq!((ended[0].result, first_bytes(&mut device, 2)), (Ok(()), vec![0, 0]));
}

#[test]
fn what_is_not_the_devices_or_not_aligned_is_refused() {
    let place = Place::new(MIB);
    let mut device = place.open(Options::default());
    let unit = device.geometry().sector_bytes;
    let write = |offset| Request::Write { offset, from: page(1), durable: false };
    let beyond = BeginError::OutOfRange { offset: MIB, bytes: 4096, limit: MIB };
    assert_eq!(device.begin(1, write(MIB)), Err(beyond));
    assert_eq!(device.begin(1, write(17)), Err(BeginError::Unaligned { unit }));
    let outside = Buffer { bytes: 8192, ..page(1) };
    let write = Request::Write { offset: 0, from: outside, durable: false };
    assert_eq!(device.begin(1, write), Err(BeginError::Buffer));
    assert_eq!(device.geometry().bytes, MIB);
}

#[test]
fn a_file_is_open_once_at_a_time_and_is_not_made_over_another() {
    let place = Place::new(MIB);
    let device = place.open(Options::default());
    let again = || FileDevice::open(&place.0, Options::default());
    assert!(matches!(again(), Err(OpenError::InUse)));
    drop(device);
    assert!(again().is_ok());
    let made = FileDevice::create(&place.0, MIB);
    assert!(matches!(made, Err(OpenError::System { errno: 17, .. })), "{made:?}");
    let folder = FileDevice::open(&std::env::temp_dir(), Options::default());
    assert!(matches!(folder, Err(OpenError::NotADevice)));
    let nothing = Place::new(0);
    let opened = FileDevice::open(&nothing.0, Options::default());
    assert!(matches!(opened, Err(OpenError::Empty)));
}

#[test]
fn measuring_leaves_the_bytes_and_the_choice_as_they_were() {
    let place = Place::new(MIB);
    for options in all_options() {
        let mut device = place.open(options);
        let write = Request::Write { offset: 4096, from: page(5), durable: false };
        perform(&mut device, write).unwrap();
        let costs = device.measure(0, 3).unwrap();
        assert!(costs.dsync > Duration::ZERO && costs.together_flush > Duration::ZERO);
        assert_eq!((costs.together, Some(device.durability())), (8, options.durability));
        assert_eq!(first_bytes(&mut device, 3), [0, 5, 0]);
        device.set_durability(costs.best());
        perform(&mut device, Request::Write { offset: 0, from: page(0), durable: true }).unwrap();
    }
    let beyond = place.open(Options::default()).measure(MIB - 4096, 1);
    assert_eq!(beyond, Err(BlockError::Device { errno: EINVAL }));
}

#[test]
fn the_cheapest_way_is_chosen_and_one_call_where_it_is_the_same() {
    let us = Duration::from_micros;
    let costs = |dsync, flush, together_dsync, together_flush| Costs {
        write: us(40),
        dsync: us(dsync),
        flush: us(flush),
        together: 16,
        together_dsync: us(together_dsync),
        together_flush: us(together_flush),
        forced_unit_access: None,
    };
    assert_eq!(costs(100, 98, 400, 400).best(), Durability::Dsync);
    assert_eq!(costs(100, 98, 473, 350).best(), Durability::DsyncAlone);
    assert_eq!(costs(200, 98, 300, 350).best(), Durability::Flush);
}

#[test]
fn what_was_granted_is_known_until_its_last_copy_is_closed() {
    let place = Place::new(16 * 4096);
    let device = place.open(Options::default());
    let shared = device.shared();
    let granted = shared.grant(&[(4096, 4096), (5 * 4096, 8192)], true).unwrap();
    assert_eq!(shared.is_granted(&[(0, 4096), (2 * 4096, 3 * 4096)]), Ok(false));
    assert_eq!(shared.is_granted(&[(0, 4096), (6 * 4096, 4096)]), Ok(true));
    // As after the end of a process: the file is opened again, and the grant is still there.
    drop((device, shared));
    let again = place.open(Options::default()).shared();
    assert_eq!(again.is_granted(&[(4096, 1)]), Ok(true));
    drop(granted);
    assert_eq!(again.is_granted(&[(0, 16 * 4096)]), Ok(false));
}

#[test]
fn two_devices_on_one_open_file_read_what_the_other_wrote() {
    let place = Place::new(16 * 4096);
    let mut first = place.open(Options::default());
    let mut second = first.shared().device(Options::default()).unwrap();
    let (from, into) = (Buffer::new(4096).unwrap(), Buffer::new(4096).unwrap());
    from.copy_in(&[7; 4096]).unwrap();
    perform(&mut first, Request::Write { offset: 8192, from, durable: true }).unwrap();
    perform(&mut second, Request::Read { offset: 8192, into: into.clone() }).unwrap();
    assert_eq!(into.copy_out().unwrap(), [7; 4096]);
}

#[test]
fn a_file_that_is_being_made_has_its_name_when_its_maker_says_so_and_leaves_nothing_else() {
    let place = Place::new(0);
    std::fs::remove_file(&place.0).unwrap();
    let hidden = || NewFile::hidden(&place.0, rustix::fs::Mode::from_raw_mode(0o600));
    let makers: [&dyn Fn() -> NewFile; 2] =
        [&|| NewFile::make(&place.0, MIB, 0o600).unwrap(), &|| hidden().unwrap()];
    for make in makers {
        drop(make());
        let made = make();
        assert!(!place.0.exists());
        made.publish().unwrap();
        assert_eq!(std::fs::metadata(&place.0).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::remove_file(&place.0).unwrap();
        let late = make();
        std::fs::write(&place.0, "another").unwrap();
        let refused = late.publish();
        assert!(matches!(refused, Err(OpenError::System { errno: 17, .. })), "{refused:?}");
        assert_eq!(std::fs::read(&place.0).unwrap(), b"another");
        std::fs::remove_file(&place.0).unwrap();
    }
    let name = format!(".{}.", place.0.file_name().unwrap().to_string_lossy());
    let left = std::fs::read_dir(place.0.parent().unwrap()).unwrap();
    let left =
        left.filter(|it| it.as_ref().unwrap().file_name().to_string_lossy().starts_with(&name));
    assert_eq!(left.count(), 0);
    std::fs::write(&place.0, "for its end").unwrap();
}

#[test]
fn a_file_with_the_longest_name_may_have_a_hidden_one_until_it_is_made() {
    let own = format!("heliostat-block-{}-", std::process::id());
    for filler in ["x", "\u{10348}"] {
        let name = own.clone() + &filler.repeat((255 - own.len()) / filler.len());
        let place = Place(std::env::temp_dir().join(name));
        let made = NewFile::hidden(&place.0, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        made.publish().unwrap();
        assert!(place.0.exists());
    }
}
