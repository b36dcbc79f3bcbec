//! A library to preload: counts every system call of libc and lets each one happen.
//!
//! `HELIOSTAT_COUNT` names the file to which each process appends `pid calls spawns
//! patched unpatchable microseconds` when it exits. `HELIOSTAT_COUNT_CALL=1` makes the hook do the real calls by
//! itself, instead of passing them back; `HELIOSTAT_COUNT_WAIT=1` makes it wait in them. `HELIOSTAT_COUNT_NOP=n` answers calls of number `n`
//! without making them. `HELIOSTAT_COUNT_GATES=1` gives gates to all sites of which the number is known, open
//! ones to odd numbers, and shut ones to even numbers. `HELIOSTAT_COUNT_DIRTY=1` spoils every register a hook may change.

use heliostat_base::sys::raw;
use heliostat_interpose::{
    install, install_libraries, GateFn, Request, SyscallFrame, Threads, Verdict,
};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::OnceLock;

static CALLS: AtomicU64 = AtomicU64::new(0);
static SPAWNS: AtomicU64 = AtomicU64::new(0);
static MAKES_CALLS: AtomicBool = AtomicBool::new(false);
static WAITS: AtomicBool = AtomicBool::new(false);
static DIRTIES: AtomicBool = AtomicBool::new(false);
static ANSWERED: AtomicU32 = AtomicU32::new(u32::MAX);
static REPORT: OnceLock<Report> = OnceLock::new();

/// Where and what to report at exit; prepared at start, as the exit may be anywhere.
struct Report {
    path: Vec<u8>,
    sites: String,
}

/// Run by the dynamic linker before `main`.
#[used]
#[link_section = ".init_array"]
static START: extern "C" fn() = start;

extern "C" fn start() {
    let flag = |name: &str| std::env::var_os(name).is_some();
    MAKES_CALLS.store(flag("HELIOSTAT_COUNT_CALL"), Relaxed);
    WAITS.store(flag("HELIOSTAT_COUNT_WAIT"), Relaxed);
    DIRTIES.store(flag("HELIOSTAT_COUNT_DIRTY"), Relaxed);
    let nop = std::env::var("HELIOSTAT_COUNT_NOP").ok().and_then(|n| n.parse().ok());
    ANSWERED.store(nop.unwrap_or(u32::MAX), Relaxed);
    let request = Request {
        filter: |_| true,
        hook,
        before_spawn: Some(before_spawn),
        gate: flag("HELIOSTAT_COUNT_GATES").then_some(gate as GateFn),
        list: None,
        threads: Threads::MustBeAlone,
    };
    let begin = std::time::Instant::now();
    let installed = install(&request);
    let took_us = begin.elapsed().as_micros();
    match installed {
        Ok(done) => {
            let others = install_libraries(&request, &examine);
            if std::env::var_os("HELIOSTAT_COUNT_LEFT").is_some() {
                others.left.iter().for_each(|left| eprintln!("left: {left:?}"));
            }
            let sites = format!("{} {} {took_us}", done.patched, done.unpatchable.len());
            let path = std::env::var("HELIOSTAT_COUNT").map(|path| path + "\0");
            let path = path.unwrap_or_default().into_bytes();
            let _ = REPORT.set(Report { path, sites });
        }
        Err(error) => eprintln!("count: {error}"),
    }
}

/// Shut, open.
static GATES: [AtomicU32; 2] = [AtomicU32::new(0), AtomicU32::new(1)];

fn gate(number: u32) -> Option<&'static AtomicU32> {
    GATES.get(number as usize % 2)
}

/// Here in the program itself, which a test may do.
fn examine(files: &[PathBuf]) {
    let files: Vec<_> = files.iter().map(PathBuf::as_path).collect();
    #[cfg(feature = "scan")]
    if let Err(error) = heliostat_interpose::examine(&files) {
        eprintln!("count: {error}");
    }
    #[cfg(not(feature = "scan"))]
    drop(files);
}

/// How many calls the hooks have seen, for programs that ask (dlsym).
#[no_mangle]
pub extern "C" fn heliostat_count_calls() -> u64 {
    CALLS.load(Relaxed) + SPAWNS.load(Relaxed)
}

extern "C" fn before_spawn(_: *mut SyscallFrame) {
    SPAWNS.fetch_add(1, Relaxed);
}

extern "C" fn hook(frame: *mut SyscallFrame) -> Verdict {
    CALLS.fetch_add(1, Relaxed);
    // SAFETY: the trampoline passes a frame on this thread's stack, its own until we return.
    let frame = unsafe { &mut *frame };
    if DIRTIES.load(Relaxed) {
        spoil_registers();
    }
    if frame.rax == libc::SYS_exit_group as u64 {
        report();
    }
    if frame.rax == u64::from(ANSWERED.load(Relaxed)) {
        frame.rax = 0;
        return Verdict::Done;
    }
    if WAITS.load(Relaxed) && frame.rax != libc::SYS_clone as u64 {
        return wait(frame);
    }
    if !MAKES_CALLS.load(Relaxed) {
        return Verdict::Pass;
    }
    let args = frame.args.map(|arg| arg as usize);
    // SAFETY: the arguments are the program's own; it is as safe as the program is.
    frame.rax = unsafe { raw(frame.rax as usize, args) } as u64;
    Verdict::Done
}

/// Lets the trampoline make the call, then takes its result for the program's.
fn wait(frame: &mut SyscallFrame) -> Verdict {
    if frame.rounds == 0 {
        let [a, b, c, d, e, f] = frame.args;
        frame.wait = [frame.rax, a, b, c, d, e, f];
        return Verdict::Wait;
    }
    frame.rax = frame.waited as u64;
    Verdict::Done
}

/// What the wide instructions of a memory function may leave: nothing above xmm.
#[target_feature(enable = "avx512f")]
unsafe fn spoil_widest() {
    // SAFETY: only registers named as clobbered are written.
    unsafe {
        core::arch::asm!(
            "vpternlogd zmm16, zmm16, zmm16, 255",
            "vpternlogd zmm31, zmm31, zmm31, 255",
            "kxnorw k1, k1, k1",
            "kxnorw k7, k7, k7",
            out("zmm16") _, out("zmm31") _, out("k1") _, out("k7") _,
            options(nostack)
        );
    }
}

/// As above, of AVX.
#[target_feature(enable = "avx")]
unsafe fn spoil_wide() {
    // SAFETY: only registers named as clobbered are written.
    unsafe { core::arch::asm!("vzeroall", clobber_abi("C"), options(nostack)) };
}

/// Overwrites what the C calling convention lets a function overwrite.
fn spoil_registers() {
    if is_x86_feature_detected!("avx") {
        // SAFETY: the processor has it.
        unsafe { spoil_wide() };
    }
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has it.
        unsafe { spoil_widest() };
    }
    // SAFETY: only registers named as clobbered are written.
    unsafe {
        core::arch::asm!(
            "mov rax, -1",
            "mov rcx, rax",
            "mov rdx, rax",
            "mov rsi, rax",
            "mov rdi, rax",
            "mov r8, rax",
            "mov r9, rax",
            "mov r10, rax",
            "mov r11, rax",
            "pcmpeqd xmm0, xmm0",
            "movdqa xmm1, xmm0",
            "movdqa xmm2, xmm0",
            "movdqa xmm3, xmm0",
            "movdqa xmm4, xmm0",
            "movdqa xmm5, xmm0",
            "movdqa xmm6, xmm0",
            "movdqa xmm7, xmm0",
            "movdqa xmm8, xmm0",
            "movdqa xmm9, xmm0",
            "movdqa xmm10, xmm0",
            "movdqa xmm11, xmm0",
            "movdqa xmm12, xmm0",
            "movdqa xmm13, xmm0",
            "movdqa xmm14, xmm0",
            "movdqa xmm15, xmm0",
            clobber_abi("C"),
            options(nostack)
        );
    }
}

/// Appends one line to the report file, without libc.
fn report() {
    let Some(Report { path, sites }) = REPORT.get() else { return };
    if path.len() < 2 {
        return;
    }
    let mut line = [0_u8; 96];
    let mut rest = io::Cursor::new(&mut line[..]);
    let (calls, spawns) = (CALLS.load(Relaxed), SPAWNS.load(Relaxed));
    let _ = writeln!(rest, "{} {calls} {spawns} {sites}", std::process::id());
    let length = rest.position() as usize;
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC;
    let open = [path.as_ptr() as usize, flags as usize, 0o600, 0, 0, 0];
    // SAFETY: the path ends with a zero byte; the line is `length` bytes long.
    unsafe {
        let fd = raw(libc::SYS_open as usize, open);
        if fd >= 0 {
            raw(libc::SYS_write as usize, [fd as usize, line.as_ptr() as usize, length, 0, 0, 0]);
            raw(libc::SYS_close as usize, [fd as usize, 0, 0, 0, 0, 0]);
        }
    }
}
