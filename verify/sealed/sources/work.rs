//! A program in Rust: files, folders, threads, children and channels by its standard library.
//!
//! Prints what it saw; nothing printed depends on time or process numbers.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::thread;

fn files() -> io::Result<()> {
    fs::create_dir_all("r/a/b")?;
    for i in 0..100 {
        fs::write(format!("r/f{i}"), "x".repeat(i))?;
    }
    let mut sizes = 0;
    for entry in fs::read_dir("r")? {
        let meta = entry?.metadata()?;
        sizes += if meta.is_file() { meta.len() } else { 0 };
    }
    println!("bytes {sizes}");
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open("r/new")?;
    file.write_all(b"0123456789")?;
    file.seek(SeekFrom::Start(3))?;
    let mut four = [0; 4];
    file.read_exact(&mut four)?;
    file.write_all_at(b"AB", 20)?;
    file.sync_all()?;
    println!("{} {}", String::from_utf8_lossy(&four), file.metadata()?.len());
    fs::set_permissions("r/new", fs::Permissions::from_mode(0o640))?;
    symlink("new", "r/link")?;
    fs::hard_link("r/new", "r/hard")?;
    fs::rename("r/f1", "r/a/moved")?;
    let meta = fs::symlink_metadata("r/hard")?;
    println!("{:o} {} {:?}", meta.mode(), meta.nlink(), fs::read_link("r/link")?);
    println!("{}", fs::copy("r/new", "r/copied")?);
    println!("{}", fs::canonicalize("r/link")?.ends_with("r/new"));
    for error in [fs::remove_dir("r").err(), File::open("r/f1").err(), fs::read("r").err()] {
        println!("{:?}", error.map(|error| error.kind()));
    }
    fs::remove_dir_all("r")
}

fn threads() {
    let (sender, receiver) = mpsc::channel();
    let all: Vec<_> = (0..12)
        .map(|i| {
            let sender = sender.clone();
            thread::spawn(move || {
                let path = format!("rt{i}");
                for round in 0..40 {
                    fs::write(&path, vec![b'y'; round * 100]).expect("written");
                    let length = fs::read(&path).expect("read").len();
                    sender.send(length).expect("sent");
                }
                fs::remove_file(&path).expect("removed");
            })
        })
        .collect();
    drop(sender);
    println!("sum {}", receiver.iter().sum::<usize>());
    for one in all {
        one.join().expect("joined");
    }
}

fn children() -> io::Result<()> {
    let mut child = Command::new("sh")
        .args(["-c", "read line; echo got $line; exit 4"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    child.stdin.take().expect("stdin").write_all(b"words\n")?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("stdout")).read_line(&mut line)?;
    println!("{} {:?}", line.trim(), child.wait()?.code());
    let mut sleeper = Command::new("sleep").arg("30").spawn()?;
    sleeper.kill()?;
    println!("{:?}", sleeper.wait()?.signal());
    println!("{:?}", Command::new("/no/such").spawn().map(|_| ()).map_err(|error| error.kind()));
    let output = Command::new("env").env_clear().env("ONLY", "this").current_dir("/").output()?;
    println!("{}", String::from_utf8_lossy(&output.stdout).trim());
    let (mut left, mut right) = UnixStream::pair()?;
    let echo = thread::spawn(move || io::copy(&mut right, &mut io::sink()));
    left.write_all(&[7; 100_000])?;
    drop(left);
    println!("{}", echo.join().expect("joined")?);
    Ok(())
}

fn main() -> ExitCode {
    files().expect("files");
    threads();
    children().expect("children");
    println!("{:?}", std::env::args().skip(1).collect::<Vec<_>>());
    ExitCode::from(22)
}
