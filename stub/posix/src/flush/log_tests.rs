//! What a log of durable files takes, and when it is emptied.

use super::super::writing::{self, Begun};
use super::*;
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use heliostat_backend_durable::entry::{decode, Entry};

/// A write at `at` that lands after a flush, before which it began: what the next flush has logged.
fn overtaken(
    sink: &mut LogSink,
    file: &File,
    at: u64,
    is_right: impl Fn(Result<Appended, Unlogged>) -> bool,
) -> (u64, Vec<u8>) {
    let fd = file.as_raw_fd();
    let path = std::fs::read_link(format!("/proc/self/fd/{fd}")).expect("named");
    let path = path.into_os_string().into_encoded_bytes();
    assert_eq!(sink.writes.begin(call::identity(fd).expect("told"), at), Begun::Noted);
    assert!(is_right(sink.append(fd, &path)));
    file.write_all_at(b"X", at).expect("written");
    sink.writes.end(writing::take_noted());
    assert!(matches!(sink.append(fd, &path), Ok(Appended::Until(_))), "it is counted already");
    let log = sink.handle().expect("open");
    log.sync().expect("a log that works");
    let entry = log.read().last().expect("one").expect("read");
    let Ok(Entry::Appended(head, bytes)) = decode(&entry.payload) else { panic!("an entry") };
    (head.offset, bytes.to_vec())
}

#[test]
fn what_is_appended_comes_into_the_log_and_to_forget_empties_it() {
    let _alone = super::super::changing::ALONE.lock();
    let stem = format!("heliostat-log-sink-{}", std::process::id());
    let (log_path, path) =
        (std::env::temp_dir().join(&stem), std::env::temp_dir().join(stem + ".aof"));
    heliostat_backend_durable::create(&log_path, 1 << 20).expect("a folder for a log");
    let mut file = std::fs::File::create(&path).expect("made");
    let (fd, name) = (file.as_raw_fd(), path.as_os_str().as_bytes());
    let mut sink = LogSink::new();
    assert_eq!(sink.append(fd, name).err(), Some(Unlogged::None), "nobody has named a log");
    place::set(log_path.clone());
    sink = LogSink::new();
    file.write_all(b"first").expect("written");
    match sink.append(fd, name).err() {
        Some(Unlogged::NoRing) => return,
        why => assert_eq!(why, Some(Unlogged::First)),
    }
    file.write_all(b"second").expect("written");
    let Ok(Appended::Until(end)) = sink.append(fd, name) else { panic!("appended") };
    assert!(sink.is_unpushed());
    sink.push();
    let until = Instant::now() + Duration::from_secs(60);
    while sink.progress().expect("a log that works") < end {
        assert!(Instant::now() < until, "the device never answers");
        std::thread::yield_now();
    }
    assert!(matches!(sink.append(fd, name), Ok(Appended::Nothing)));
    let log = sink.handle().expect("open");
    let entry = log.read().next().expect("one").expect("read");
    let Ok(Entry::Appended(head, bytes)) = decode(&entry.payload) else { panic!("an entry") };
    assert_eq!((head.offset, head.path, bytes), (5, name, &b"second"[..]));
    file.write_all(b"more").expect("written");
    let logged =
        overtaken(&mut sink, &file, 12, |appended| matches!(appended, Ok(Appended::Until(_))));
    assert_eq!(logged, (12, b"Xre".to_vec()), "nobody else has it");
    file.set_len(3).expect("cut");
    assert_eq!(sink.append(fd, name).err(), Some(Unlogged::Shortened));
    assert_eq!(sink.forget(), Ok(()));
    assert_eq!((log.begin(), sink.kept.iter().count()), (log.end(), 0));
    assert_eq!(sink.append(fd, name).err(), Some(Unlogged::First), "it begins anew");
    file.write_all(b"third").expect("written");
    assert!(matches!(sink.append(fd, name), Ok(Appended::Until(_))));
    assert_eq!(sink.forget(), Ok(()));
    let logged = overtaken(&mut sink, &file, 1, |it| matches!(it, Err(Unlogged::First)));
    assert_eq!((logged.0, logged.1[0]), (1, b'X'), "the first flush may have come before");
    sink.keep();
    assert_eq!(sink.forget(), Ok(()));
    assert_ne!(log.begin(), log.end(), "nobody else has what a failed flush has left");
    assert_eq!(sink.append(fd, name).err(), Some(Unlogged::LogFailed));
    let _ = (std::fs::remove_file(&log_path), std::fs::remove_file(&path));
}
