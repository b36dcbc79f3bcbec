//! A file system whose server answers what it likes: open, or never close, its files.
//!
//! It has one folder with as many files as are asked for, all alike. The kernel's side is
//! /dev/fuse; the records are those of linux/fuse.h, as far as these few calls need them.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Operations (source: linux/fuse.h).
pub const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
pub const GETATTR: u32 = 3;
pub const OPEN: u32 = 14;
const RELEASE: u32 = 18;
pub const FLUSH: u32 = 25;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const RELEASEDIR: u32 = 29;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;
/// Bytes of a request's head and of an answer's.
const IN_HEADER: usize = 40;
const OUT_HEADER: usize = 16;
const FOLDER: u64 = 1;

/// A mounted one. Its end lets everybody go who waits for it.
pub struct Hanging {
    folder: PathBuf,
    server: Option<JoinHandle<()>>,
    waiting: Arc<Mutex<HashSet<u64>>>,
}

impl Hanging {
    /// Mounts one that answers all but the operations that hang; none where this may not be had.
    pub fn mount(folder: &Path, hangs: &'static [u32]) -> Option<Hanging> {
        std::fs::create_dir_all(folder).unwrap();
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse").ok()?;
        let number = device.as_raw_fd();
        let options = format!("fd={number},rootmode=40000,user_id=0,group_id=0,allow_other");
        let text = |text: &str| std::ffi::CString::new(text).unwrap();
        let (name, path) = (text("hanging"), text(folder.to_str().unwrap()));
        let (kind, options) = (text("fuse"), text(&options));
        let flags = libc::MS_NOSUID | libc::MS_NODEV;
        // SAFETY: all strings end, and outlive the call.
        let mounted = unsafe {
            let options = options.as_ptr().cast();
            libc::mount(name.as_ptr(), path.as_ptr(), kind.as_ptr(), flags, options)
        };
        if mounted != 0 {
            return None;
        }
        let waiting = Arc::new(Mutex::new(HashSet::new()));
        let shared = waiting.clone();
        let server = std::thread::spawn(move || serve(device, hangs, &shared));
        Some(Hanging { folder: folder.to_owned(), server: Some(server), waiting })
    }

    /// A file of this name; each has its own.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Callers that wait for an answer that does not come.
    pub fn waiting(&self) -> usize {
        self.waiting.lock().unwrap().len()
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        let path = std::ffi::CString::new(self.folder.to_str().unwrap()).unwrap();
        // SAFETY: the string ends, and outlives the call. By force: whoever waits is let go.
        unsafe { libc::umount2(path.as_ptr(), libc::MNT_FORCE | libc::MNT_DETACH) };
        drop(self.server.take());
    }
}

/// Answers until the file system is gone.
fn serve(mut device: File, hangs: &[u32], waiting: &Mutex<HashSet<u64>>) {
    let mut request = vec![0; 1 << 17];
    loop {
        let Ok(length) = device.read(&mut request) else { return };
        let request = &request[..length];
        let (operation, unique) = (word(request, 4), long(request, 8));
        if hangs.contains(&operation) {
            waiting.lock().unwrap().insert(unique);
            continue;
        }
        if let Some(answer) = answer(operation, request) {
            let length = (OUT_HEADER + answer.len()) as u32;
            let mut record = Vec::from(length.to_ne_bytes());
            record.extend(0u32.to_ne_bytes());
            record.extend(unique.to_ne_bytes());
            record.extend(answer);
            // Who asked may have gone meanwhile.
            let _ = device.write(&record);
        }
    }
}

fn answer(operation: u32, request: &[u8]) -> Option<Vec<u8>> {
    let node = long(request, 16);
    Some(match operation {
        INIT => {
            let mut answer = vec![0; 64];
            answer[..4].copy_from_slice(&7u32.to_ne_bytes());
            answer[4..8].copy_from_slice(&31u32.to_ne_bytes());
            answer[20..24].copy_from_slice(&4096u32.to_ne_bytes());
            answer
        }
        LOOKUP => {
            let name = &request[IN_HEADER..request.len() - 1];
            let node = name
                .iter()
                .fold(7u64, |sum, byte| sum.wrapping_mul(131).wrapping_add(u64::from(*byte)))
                | 2;
            let mut answer = Vec::from(node.to_ne_bytes());
            answer.extend([0; 32]);
            answer.extend(attributes(node));
            answer
        }
        GETATTR => {
            let mut answer = vec![0; 16];
            answer.extend(attributes(node));
            answer
        }
        OPEN | OPENDIR => vec![0; 16],
        RELEASE | RELEASEDIR | FLUSH => Vec::new(),
        FORGET | BATCH_FORGET | INTERRUPT => return None,
        _ => return None,
    })
}

/// struct fuse_attr: everybody's folder, or everybody's file.
fn attributes(node: u64) -> [u8; 88] {
    let mut attributes = [0; 88];
    let mode: u32 = if node == FOLDER { 0o040_777 } else { 0o100_666 };
    attributes[..8].copy_from_slice(&node.to_ne_bytes());
    attributes[8..16].copy_from_slice(&4096u64.to_ne_bytes());
    attributes[60..64].copy_from_slice(&mode.to_ne_bytes());
    attributes[64..68].copy_from_slice(&1u32.to_ne_bytes());
    attributes
}

fn word(request: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(request[at..at + 4].try_into().unwrap())
}

fn long(request: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(request[at..at + 8].try_into().unwrap())
}
