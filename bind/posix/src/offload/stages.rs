//! What one offloaded call costs by stage: measured in a process of its own, which then ends.
//!
//! ```text
//! enter     from the program's call to its line: trampoline, judgement, the line written
//! there     until the executor has it
//! handle    until the kernel has answered the executor
//! back      until the thread sees the answer
//! leave     until the program has it
//! ```
//! `heliostat cores --stages` starts it, and shows what it prints: one object of JSON.

use std::ffi::CString;

use heliostat_base::affinity;
use heliostat_base::clock::{cycles, CycleRate};
use heliostat_base::sync::Ordering::Relaxed;
use heliostat_base::sys::{raw, Sysno};
use heliostat_ring::request::STAMPS;
use heliostat_stub_posix::offload::{self, executors};

const ROUNDS: usize = 4000;
/// Rounds before the first that counts.
const ROUNDS_WARM: usize = 200;
const BYTES: usize = 4096;
const STAGES: [&str; 5] = ["enter", "there", "handle", "back", "leave"];

/// Where and in what a call is made.
struct Place {
    path: CString,
    fd: i32,
    buffer: Vec<u8>,
}

/// One of the calls: by libc, and by the same system call plainly.
struct Measured {
    name: &'static str,
    by_libc: fn(&mut Place) -> i64,
    number: Sysno,
    args: fn(&mut Place) -> [usize; 6],
    /// Puts things back, untimed.
    after: fn(&mut Place, i64),
}

const CALLS: [Measured; 5] = [
    Measured {
        name: "read",
        // SAFETY: the buffer has so many bytes.
        by_libc: |it| unsafe { libc::read(it.fd, it.buffer.as_mut_ptr().cast(), BYTES) as i64 },
        number: Sysno::read,
        args: |it| [it.fd as usize, it.buffer.as_mut_ptr() as usize, BYTES, 0, 0, 0],
        after: |it, _| rewind(it.fd),
    },
    Measured {
        name: "write",
        // SAFETY: so many bytes are in the buffer.
        by_libc: |it| unsafe { libc::write(it.fd, it.buffer.as_ptr().cast(), BYTES) as i64 },
        number: Sysno::write,
        args: |it| [it.fd as usize, it.buffer.as_ptr() as usize, BYTES, 0, 0, 0],
        after: |it, _| rewind(it.fd),
    },
    Measured {
        name: "open",
        // SAFETY: a C string.
        by_libc: |it| i64::from(unsafe { libc::open(it.path.as_ptr(), libc::O_RDONLY) }),
        number: Sysno::openat,
        args: |it| [libc::AT_FDCWD as usize, it.path.as_ptr() as usize, 0, 0, 0, 0],
        after: |_, fd| close(fd as usize),
    },
    Measured {
        name: "close",
        // SAFETY: a descriptor that nobody else uses.
        by_libc: |it| i64::from(unsafe { libc::close(it.fd + 1) }),
        number: Sysno::close,
        args: |it| [it.fd as usize + 1, 0, 0, 0, 0, 0],
        after: |it, _| open_next(it),
    },
    Measured {
        name: "stat",
        by_libc: |it| {
            // SAFETY: a C string, and room for what is told.
            i64::from(unsafe { libc::stat(it.path.as_ptr(), it.buffer.as_mut_ptr().cast()) })
        },
        number: Sysno::newfstatat,
        args: |it| {
            [
                libc::AT_FDCWD as usize,
                it.path.as_ptr() as usize,
                it.buffer.as_mut_ptr() as usize,
                0,
                0,
                0,
            ]
        },
        after: |_, _| {},
    },
];

/// A system call that nothing catches.
fn plain(number: Sysno, args: [usize; 6]) -> i64 {
    // SAFETY: this module's own file, buffer and strings.
    unsafe { raw(number as usize, args) as i64 }
}

fn rewind(fd: i32) {
    plain(Sysno::lseek, [fd as usize, 0, libc::SEEK_SET as usize, 0, 0, 0]);
}

fn close(fd: usize) {
    plain(Sysno::close, [fd, 0, 0, 0, 0, 0]);
}

/// Opens the file at the number after its first descriptor.
fn open_next(it: &mut Place) {
    plain(Sysno::dup2, [it.fd as usize, it.fd as usize + 1, 0, 0, 0, 0]);
}

/// Measures, prints, and ends the process.
pub fn measure(folder: &str) -> ! {
    let told = measured(folder);
    println!("{told}");
    // SAFETY: ends the process; nothing of the program has run yet.
    unsafe { libc::_exit(0) }
}

fn measured(folder: &str) -> String {
    let cores: Vec<usize> =
        affinity::allowed(0).map(|set| set.iter().collect()).unwrap_or_default();
    let executor = offload::program().and_then(|program| program.cores.first().copied());
    let own = cores.iter().copied().find(|core| Some(*core) != executor).or(cores.first().copied());
    if let Some(own) = own {
        let _ = affinity::pin(own);
    }
    let path = format!("{folder}/heliostat-stages-{}", std::process::id());
    let Ok(path) = CString::new(path) else { return String::from("{}") };
    let flags = (libc::O_CREAT | libc::O_RDWR | libc::O_EXCL) as usize;
    let at = [libc::AT_FDCWD as usize, path.as_ptr() as usize, flags, 0o600, 0, 0];
    let fd = plain(Sysno::openat, at) as i32;
    let mut it = Place { path, fd, buffer: vec![0; BYTES] };
    plain(Sysno::write, [fd as usize, it.buffer.as_ptr() as usize, BYTES, 0, 0, 0]);
    rewind(fd);
    open_next(&mut it);
    executors::IS_STAMPED.store(true, Relaxed);
    let calls: Vec<String> = CALLS.iter().map(|call| one(call, &mut it)).collect();
    plain(Sysno::unlink, [it.path.as_ptr() as usize, 0, 0, 0, 0, 0]);
    format!(
        "{{\"core\": {}, \"kernel_core\": {}, \"calls\": [{}]}}",
        own.unwrap_or(0),
        executor.unwrap_or(0),
        calls.join(", ")
    )
}

/// One call: plainly, and by stages, in turn.
fn one(call: &Measured, it: &mut Place) -> String {
    let mut plain_cycles = Vec::with_capacity(ROUNDS);
    let mut stages: [Vec<u64>; STAGES.len()] = Default::default();
    let mut totals = Vec::with_capacity(ROUNDS);
    for round in 0..ROUNDS + ROUNDS_WARM {
        let args = (call.args)(it);
        let before = cycles();
        let answer = plain(call.number, args);
        let plain_took = cycles().wrapping_sub(before);
        (call.after)(it, answer);
        let before = cycles();
        let answer = (call.by_libc)(it);
        let after = cycles();
        (call.after)(it, answer);
        // A call that went plainly has left moments of the one before it.
        let is_whole = |stamps: &[u64; STAMPS]| stamps[0] >= before && stamps.is_sorted();
        let Some(stamps) = offload::stamps().filter(is_whole) else { continue };
        if round < ROUNDS_WARM {
            continue;
        }
        plain_cycles.push(plain_took);
        totals.push(after.wrapping_sub(before));
        let [_, asked, taken, made, seen] = stamps;
        let moments = [before, asked, taken, made, seen, after];
        for (stage, ends) in stages.iter_mut().zip(moments.windows(2)) {
            stage.push(ends[1].saturating_sub(ends[0]));
        }
    }
    let parts: Vec<String> = STAGES
        .iter()
        .zip(&mut stages)
        .map(|(name, stage)| format!("\"{name}\": {}", shown(stage)))
        .collect();
    format!(
        "{{\"call\": \"{}\", \"rounds\": {}, \"plain\": {}, \"total\": {}, {}}}",
        call.name,
        totals.len(),
        shown(&mut plain_cycles),
        shown(&mut totals),
        parts.join(", ")
    )
}

/// Median and p99 in ns; zeros where there are none.
fn shown(found: &mut [u64]) -> String {
    found.sort_unstable();
    let rate = CycleRate::of_machine();
    let at = |share: usize| found.get(found.len() * share / 100).map_or(0.0, |it| rate.to_ns(*it));
    format!("[{:.0}, {:.0}]", at(50), at(99))
}
