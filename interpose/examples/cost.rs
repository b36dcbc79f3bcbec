//! What a caught system call costs, and what `install` costs at start.
//!
//! `cargo run --release --example cost --features scan [-- socket]`: patches all sites, or, with
//! `socket`, only those of a stub for sockets. Figures are the least and the median of 400 rounds.

use heliostat_interpose::{cache, install, scan_file, Request, SyscallFrame, Threads, Verdict};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

const ROUNDS: usize = 400;
const CALLS: u32 = 1000;

static ANSWER: AtomicU32 = AtomicU32::new(0);

extern "C" fn hook(frame: *mut SyscallFrame) -> Verdict {
    // SAFETY: the trampoline passes a frame on this thread's stack, its own until we return.
    let frame = unsafe { &mut *frame };
    if frame.rax != libc::SYS_getppid as u64 || ANSWER.load(Relaxed) == 0 {
        return Verdict::Pass;
    }
    frame.rax = 1;
    Verdict::Done
}

/// The calls that a stub for sockets looks at.
const SOCKET_CALLS: [u32; 47] = [
    0, 1, 3, 5, 7, 13, 16, 17, 18, 19, 20, 23, 32, 33, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50,
    51, 52, 53, 54, 55, 56, 57, 59, 60, 72, 110, 213, 231, 232, 233, 270, 271, 281, 288, 291, 292,
    436,
];

fn sockets(number: Option<u32>) -> bool {
    number.is_none_or(|number| SOCKET_CALLS.contains(&number))
}

fn measure(what: &str) {
    let mut rounds_ns: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let begin = Instant::now();
            for _ in 0..CALLS {
                // SAFETY: getppid takes nothing, touches nothing and cannot fail.
                unsafe { libc::getppid() };
            }
            begin.elapsed().as_nanos() as f64 / f64::from(CALLS)
        })
        .collect();
    rounds_ns.sort_by(f64::total_cmp);
    println!("{what:<28} {:7.1} {:7.1} ns", rounds_ns[0], rounds_ns[ROUNDS / 2]);
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let libc = heliostat_interpose::libc_path().ok_or("no libc in this process")?;
    let begin = Instant::now();
    let mut list = scan_file(&libc)?;
    println!("scan                         {:7} us", begin.elapsed().as_micros());
    let directory = std::env::temp_dir().join(format!("heliostat-cost-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let vector = std::env::args().any(|arg| arg == "xmm");
    list.sites.iter_mut().for_each(|site| site.save_xmm |= vector);
    let path = cache::store(&directory, &list)?;
    measure("getppid, libc untouched");
    let chosen = std::env::args().any(|arg| arg == "socket");
    let request = Request {
        filter: if chosen { sockets } else { |_| true },
        hook,
        before_spawn: None,
        gate: None,
        list: Some(&path),
        threads: Threads::MustBeAlone,
    };
    let begin = Instant::now();
    let installed = install(&request)?;
    let took = begin.elapsed();
    println!("install                      {:7} us, {} sites", took.as_micros(), installed.patched);
    measure("getppid, passed");
    ANSWER.store(1, Relaxed);
    measure("getppid, answered by hook");
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}
