//! Whole files in one operation: what Fetch brings, what it refuses, and by which rules.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::delegated::*;
use crate::support::*;
use heliostat_abi::file::delegated::*;

/// Where in the window the bytes go: behind the longest name.
const ROOM_AT: u64 = 8192;

fn fetch(session: &mut Delegate, path: &Path, offset: u64, rooms: &[u32]) -> Result<Vec<u8>, i64> {
    let name = path.as_os_str().as_bytes();
    session.window.copy_in(0, name).unwrap();
    let mut places = vec![(0, name.len() as u32)];
    let mut at = ROOM_AT;
    for bytes in rooms {
        places.push((at, *bytes));
        at += u64::from(*bytes);
    }
    let asked = Operation { kind: OpKind::Fetch, offset, pieces: pieces(&places), ..blank(1) };
    let got = session.run(&asked).result;
    let length = usize::try_from(got).map_err(|_| got)?;
    let mut bytes = vec![0; length];
    session.window.copy_out(ROOM_AT as usize, &mut bytes).unwrap();
    Ok(bytes)
}

fn errno(errno: i32) -> Result<Vec<u8>, i64> {
    Err(-i64::from(errno))
}

#[test]
fn a_file_is_read_whole_in_parts_and_beyond_its_end() {
    let daemon = Daemon::start();
    let path = daemon.folder().join("text");
    let whole: Vec<u8> = (0..100_000u32).map(|at| (at / 3) as u8).collect();
    write_file(&path, &whole);
    let mut session = Delegate::new(&daemon);
    assert_eq!(fetch(&mut session, &path, 0, &[500]), Ok(whole[..500].to_vec()));
    assert_eq!(fetch(&mut session, &path, 99_000, &[400, 3000]), Ok(whole[99_000..].to_vec()));
    let most = fetch(&mut session, &path, 0, &[70_000, 50_000]).unwrap();
    assert_eq!(most, whole[..FETCH_BYTES_MAX], "no more than is kept for a session");
    for offset in [100_000, 1 << 40] {
        assert_eq!(fetch(&mut session, &path, offset, &[10]), Ok(Vec::new()));
    }
    write_file(&path, b"shorter");
    assert_eq!(fetch(&mut session, &path, 0, &[500]), Ok(b"shorter".to_vec()));
    let status = daemon.status();
    let done = ["fetch", "open", "close"]
        .map(|kind| status["delegated"][format!("operations_{kind}")].clone());
    assert_eq!(done, [6, 0, 0].map(serde_json::Value::from), "{status}");
}

#[test]
fn what_is_no_file_or_not_there_is_refused_and_holds_up_nobody() {
    let daemon = Daemon::start();
    let mut session = Delegate::new(&daemon);
    let at = |name: &str| daemon.folder().join(name);
    write_file(&at("file"), b"bytes");
    symlink("file", at("link")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RWXU).unwrap();
    assert_eq!(fetch(&mut session, &at("link"), 0, &[9]), Ok(b"bytes".to_vec()));
    for (path, refused) in [
        (at("none"), libc::ENOENT),
        (at("file/below"), libc::ENOTDIR),
        (daemon.folder().to_owned(), libc::EISDIR),
        (at("pipe"), libc::EINVAL),
        ("relative".into(), libc::EINVAL),
        ("/proc/self/fd/0".into(), libc::ELOOP),
        ("/proc/self/environ".into(), libc::EOPNOTSUPP),
    ] {
        assert_eq!(fetch(&mut session, &path, 0, &[9]), errno(refused), "{path:?}");
    }
    serves(&daemon);
}

#[test]
fn a_rule_denies_it_and_a_name_with_a_rate_has_to_be_opened() {
    let folder = place().join(format!("heliostatd-fetch-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let [open, secret, link] = ["open", "secret", "link"].map(|name| folder.join(name));
    [&open, &secret].into_iter().for_each(|path| write_file(path, b"bytes"));
    let _ = symlink(&secret, &link);
    let name = secret.to_str().unwrap();
    let rule =
        format!("[[rule]]\naction = \"deny\"\nrights = [\"read\"]\nnames = [\"/file{name}\"]\n");
    let rate = format!(
        "[[rate]]\nper = \"session\"\nnames = [\"/file{name}\"]\nbytes_per_second = 1000000\n"
    );
    let daemon = Daemon::with(&rule, &[]);
    let mut session = Delegate::new(&daemon);
    assert_eq!(fetch(&mut session, &open, 0, &[9]), Ok(b"bytes".to_vec()));
    for path in [&secret, &link] {
        assert_eq!(fetch(&mut session, path, 0, &[9]), errno(libc::EACCES));
    }
    assert!(daemon.status()["denials"].to_string().contains("secret"));
    let rated = Daemon::with(&rate, &[]);
    let mut session = Delegate::new(&rated);
    assert_eq!(fetch(&mut session, &open, 0, &[9]), errno(libc::EOPNOTSUPP));
    assert!(session.open(open.to_str().unwrap(), READ).is_ok());
    std::fs::remove_dir_all(&folder).unwrap();
}
