//! Producers and consumers in processes of their own: killed, stopped, without privilege.

mod support;

use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use heliostat_backend_pages::track;
use heliostat_base::mapping::{Access, SharedMapping};
use heliostat_base::process::poll_readable;
use heliostat_stub_snapshot::{Attachment, EngineKind, PublishError, Settings, PAGE_BYTES};
use support::child::{forked, kill, waited};
use support::region::{attach, region};

const BYTES: usize = 64 * PAGE_BYTES;

fn byte_of(attachment: &Attachment, at: usize) -> u8 {
    let mut byte = [0];
    attachment.latest().unwrap().read(at, &mut byte).unwrap();
    byte[0]
}

#[test]
fn a_producer_that_is_killed_leaves_its_last_version_whole() {
    // The fork shares pool and table with the child; the child's region is the one that publishes.
    let mut bytes = vec![0u8; BYTES];
    let settings = Settings { engine: EngineKind::Whole, ..Settings::default() };
    let mut region = region(&bytes, settings);
    let (consumer, _) = attach(&mut region);
    let producer = forked(|| loop {
        let value = bytes[0].wrapping_add(1);
        bytes.fill(value);
        region.publish().unwrap();
    });
    assert!(consumer.wait(20, Some(Duration::from_secs(20))) || consumer.latest_number() > 0);
    kill(producer, libc::SIGKILL);
    waited(producer);
    for _ in 0..3 {
        let version = consumer.latest().unwrap();
        let mut content = vec![0; BYTES];
        version.read(0, &mut content).unwrap();
        assert!(content.iter().all(|byte| *byte == content[0]), "a torn version");
        assert_eq!(content[0], version.number() as u8);
    }
}

#[test]
fn a_consumer_that_is_killed_or_stopped_costs_only_its_pins() {
    let mut bytes = vec![0u8; BYTES];
    let settings = Settings { engine: EngineKind::Whole, colours: 3, ..Settings::default() };
    let mut region = region(&bytes, settings);
    let (consumer, place) = attach(&mut region);
    bytes[9] = 1;
    region.publish().unwrap();
    let (mut ready, mut say) = std::io::pipe().unwrap();
    let reader = forked(|| {
        use std::io::Write;
        let _pinned = consumer.latest().unwrap();
        say.write_all(b"!").unwrap();
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    std::io::Read::read_exact(&mut ready, &mut [0]).unwrap();
    kill(reader, libc::SIGSTOP);
    let began = Instant::now();
    for value in 2..100u8 {
        bytes[9] = value;
        region.publish().unwrap();
    }
    assert!(began.elapsed() < Duration::from_secs(30), "a stopped consumer held the producer up");
    let mut byte = [0];
    consumer.numbered(1).unwrap().read(9, &mut byte).unwrap();
    assert_eq!(byte[0], 1, "the pinned version is still there");
    kill(reader, libc::SIGKILL);
    waited(reader);
    region.dismiss(place);
    region.publish().unwrap();
    region.publish().unwrap();
    assert!(consumer.numbered(1).is_err(), "its pin went with it");
}

#[test]
fn a_consumer_that_never_hears_its_bell_does_not_hold_the_producer_up() {
    let bytes = vec![0u8; BYTES];
    let settings = Settings { engine: EngineKind::Declared, ..Settings::default() };
    let mut region = region(&bytes, settings);
    let (table, pool) = region.descriptors();
    let (table, pool) = (table.duplicate().unwrap(), pool.duplicate().unwrap());
    let announce = |pins: &_, bell: &_| region.admit_with_bell(pins, bell).map(drop);
    let consumer = Attachment::with_bell(&table, pool, announce).unwrap().unwrap();
    let fd = consumer.bell_fd().unwrap().as_raw_fd();
    // Far more rings than a socket takes.
    for number in 1..3000 {
        assert!(!consumer.arm(number - 1));
        region.publish().unwrap();
    }
    assert_eq!(poll_readable(fd, 0), Ok(true));
    while poll_readable(fd, 0) == Ok(true) {
        assert!(consumer.drain());
    }
    assert!(!consumer.arm(2999));
    drop(region);
    assert_eq!(poll_readable(fd, -1), Ok(true));
    assert!(!consumer.drain() && consumer.arm(2999));
}

#[test]
fn a_child_of_the_producer_cannot_publish_and_does_not_disturb() {
    if let Err(refused) = track::probe() {
        println!("skipped: {refused}");
        return;
    }
    let mut bytes = vec![0u8; BYTES];
    let settings = Settings { engine: EngineKind::Tracked, ..Settings::default() };
    let mut region = region(&bytes, settings);
    let (consumer, _) = attach(&mut region);
    region.publish().unwrap();
    let child = forked(|| {
        bytes[PAGE_BYTES * 3] = 77;
        matches!(region.publish(), Err(PublishError::Track(track::TrackError::Forked)))
    });
    assert_eq!(waited(child), 0);
    bytes[PAGE_BYTES * 5] = 5;
    region.publish().unwrap();
    assert_eq!(byte_of(&consumer, PAGE_BYTES * 3), 0);
    assert_eq!(byte_of(&consumer, PAGE_BYTES * 5), 5);
}

/// Becomes an ordinary user in a user namespace of its own, where this is allowed.
fn drop_privilege() {
    // SAFETY: none of these takes a pointer; each may be refused without harm.
    unsafe {
        if libc::getuid() == 0 {
            libc::setgid(65534);
            libc::setuid(65534);
        }
        libc::unshare(libc::CLONE_NEWUSER);
    }
}

#[test]
fn a_consumer_reads_without_privilege_and_can_write_by_no_means() {
    let bytes = vec![3u8; BYTES];
    let mut region = region(&bytes, Settings::default());
    let (consumer, _) = attach(&mut region);
    region.publish().unwrap();
    let (table, pool) = region.descriptors();
    let (table, pool) = (table.duplicate().unwrap(), pool.duplicate().unwrap());
    let reader = forked(|| {
        drop_privilege();
        assert_eq!(byte_of(&consumer, 100), 3);
        for fd in [&table, &pool] {
            assert!(SharedMapping::from_fd(fd.as_raw_fd(), 4096, Access::ReadWrite).is_err());
            // SAFETY: one live byte; the call is expected to be refused.
            let wrote = unsafe { libc::pwrite(fd.as_raw_fd(), [9u8].as_ptr().cast(), 1, 0) };
            assert_eq!(wrote, -1);
            // SAFETY: takes no pointer.
            assert_eq!(unsafe { libc::ftruncate(fd.as_raw_fd(), 0) }, -1);
            let again = format!("/proc/self/fd/{}", fd.as_raw_fd());
            if let Ok(file) = std::fs::OpenOptions::new().read(true).write(true).open(again) {
                let writable = SharedMapping::from_fd(file.as_raw_fd(), 4096, Access::ReadWrite);
                assert!(writable.is_err(), "opened anew and mapped for writing");
            }
        }
        true
    });
    assert_eq!(waited(reader), 0);
    assert_eq!(byte_of(&consumer, 100), 3);
}
