//! Ends of every kind: of the program, of its memory, of the tracer, and refusals.

use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::Ordering::SeqCst;

use heliostat_backend_pages::tracee::{TraceError, Tracee};

use crate::child::{goes_on, until, words, Child};

#[test]
fn a_program_killed_while_it_stands_is_gone() {
    let child = Child::run(|| loop {
        std::thread::park();
    });
    let tracee = Tracee::open(child.0).unwrap();
    let stopped = tracee.stop().unwrap();
    child.kill(libc::SIGKILL);
    until("ended", || !tracee.is_there());
    stopped.resume();
    assert_eq!(tracee.stop().map(drop), Err(TraceError::Gone));
    assert_eq!(Tracee::open(child.0).map(drop), Err(TraceError::Gone));
}

#[test]
fn a_program_that_becomes_another_is_gone_though_its_number_lives() {
    let shared = words();
    let child = Child::run(|| {
        until("told", || shared[0].load(SeqCst) == 1);
        panic!("{}", Command::new("sleep").arg("1000").exec());
    });
    let tracee = Tracee::open(child.0).unwrap();
    drop(tracee.stop().unwrap());
    assert!(tracee.is_there());
    shared[0].store(1, SeqCst);
    until("it is another", || !tracee.is_there());
    assert!(Tracee::open(child.0).unwrap().is_there());
}

#[test]
fn a_tracer_that_is_killed_leaves_the_program_running() {
    let shared = words();
    let child = Child::run(|| {
        std::thread::scope(|scope| {
            for word in &shared[..3] {
                scope.spawn(move || loop {
                    word.fetch_add(1, SeqCst);
                });
            }
        });
    });
    until("started", || shared[..3].iter().all(|word| word.load(SeqCst) > 0));
    let tracer = Child::run(|| {
        let tracee = Tracee::open(child.0).unwrap();
        // Where tracking is refused it is killed with less in its hands.
        let _tracker = tracee.track();
        let _stopped = tracee.stop().unwrap();
        shared[9].store(1, SeqCst);
        std::thread::sleep(std::time::Duration::from_secs(100));
    });
    until("stands", || shared[9].load(SeqCst) == 1);
    let seen: Vec<_> = shared[..3].iter().map(|word| word.load(SeqCst)).collect();
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(shared[..3].iter().zip(seen).all(|(word, seen)| word.load(SeqCst) == seen));
    drop(tracer);
    shared[..3].iter().for_each(|word| goes_on(word, 1000));
    assert_eq!(child.state().1, 0);
}

#[test]
fn a_program_under_a_debugger_is_refused_by_name_and_free_afterwards() {
    let shared = words();
    let child = Child::run(|| loop {
        shared[0].fetch_add(1, SeqCst);
    });
    let debugger = Child::run(|| {
        // SAFETY: PTRACE_SEIZE takes no pointer.
        assert_eq!(unsafe { libc::ptrace(libc::PTRACE_SEIZE, child.0, 0, 0) }, 0);
        shared[1].store(1, SeqCst);
        std::thread::sleep(std::time::Duration::from_secs(100));
    });
    until("traced", || shared[1].load(SeqCst) == 1);
    let tracee = Tracee::open(child.0).unwrap();
    assert_eq!(tracee.stop().map(drop), Err(TraceError::Traced { by: debugger.0 }));
    let by = debugger.0;
    assert!(matches!(tracee.track(), Err(TraceError::Traced { by: found }) if found == by));
    drop(debugger);
    until("free", || tracee.stop().is_ok());
    goes_on(&shared[0], 1000);
}

#[test]
fn another_users_program_is_refused_with_what_to_do_and_goes_on() {
    // SAFETY: geteuid takes nothing.
    if unsafe { libc::geteuid() } != 0 {
        return println!("skipped: needs root, to become another user");
    }
    let shared = words();
    let child = Child::run(|| loop {
        shared[0].fetch_add(1, SeqCst);
    });
    let stranger = Child::run(|| {
        // SAFETY: only numbers; from here on this process has no privilege.
        assert_eq!(unsafe { libc::setresuid(65534, 65534, 65534) }, 0);
        let refused = Tracee::open(child.0).map(drop).expect_err("it is another user's");
        assert!(refused.to_string().contains("run this as that user"), "{refused}");
        shared[1].store(1, SeqCst);
        std::thread::sleep(std::time::Duration::from_secs(100));
    });
    until("refused", || shared[1].load(SeqCst) == 1);
    drop(stranger);
    goes_on(&shared[0], 1000);
}

#[test]
fn a_program_that_is_not_dumpable_is_refused_with_the_reason() {
    // SAFETY: geteuid takes nothing.
    if unsafe { libc::geteuid() } != 0 {
        return println!("skipped: needs root, to become another user");
    }
    let shared = words();
    let family = Child::run(|| {
        // SAFETY: takes only numbers. Another user's program and tracer, neither with a privilege.
        unsafe {
            assert_eq!(libc::setresuid(65534, 65534, 65534), 0);
            assert_eq!(libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
        }
        let child = Child::run(|| {
            // SAFETY: takes only numbers.
            unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
            shared[0].store(1, SeqCst);
            until("for ever", || false);
        });
        until("hidden", || shared[0].load(SeqCst) == 1);
        let refused = Tracee::open(child.0).map(drop).expect_err("it is not dumpable");
        assert!(refused.to_string().contains("it cannot be traced"), "{refused}");
        shared[1].store(1, SeqCst);
        until("for ever", || false);
    });
    until("refused", || shared[1].load(SeqCst) == 1);
    drop(family);
}

/// An i386 program that waits for ever: pause() again and again.
fn program_of_32_bits() -> Vec<u8> {
    let code = [0xb8, 29, 0, 0, 0, 0xcd, 0x80, 0xeb, 0xf7];
    let (base, head) = (0x0804_8000u32, 52 + 32);
    let mut file = b"\x7fELF\x01\x01\x01".to_vec();
    file.resize(16, 0);
    [2u16, 3].iter().for_each(|half| file.extend(half.to_le_bytes()));
    for word in [1, base + head, 52, 0, 0] {
        file.extend(word.to_le_bytes());
    }
    [52u16, 32, 1, 0, 0, 0].iter().for_each(|half| file.extend(half.to_le_bytes()));
    let bytes = head + code.len() as u32;
    for word in [1, 0, base, base, bytes, bytes, 5, 4096] {
        file.extend(word.to_le_bytes());
    }
    file.extend(code);
    file
}

#[test]
fn a_program_of_32_bits_is_refused() {
    let path = std::env::temp_dir().join(format!("heliostat-i386-{}", std::process::id()));
    let opened = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o755).open(&path);
    std::io::Write::write_all(&mut opened.unwrap(), &program_of_32_bits()).unwrap();
    let started = Command::new(&path).spawn();
    let refused = started.map(|mut child| {
        let answer = Tracee::open(child.id() as i32).map(drop);
        child.kill().unwrap();
        child.wait().unwrap();
        answer
    });
    std::fs::remove_file(&path).unwrap();
    match refused {
        Ok(answer) => assert_eq!(answer, Err(TraceError::Foreign)),
        Err(error) => println!("skipped: this kernel runs no 32-bit programs: {error}"),
    }
}

/// A filter that lets everything pass, for the calling thread alone.
fn filter() {
    let code = (libc::BPF_RET | libc::BPF_K) as u16;
    let mut pass = libc::sock_filter { code, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW };
    let program = libc::sock_fprog { len: 1, filter: &mut pass };
    // SAFETY: a live program of one step, which the kernel copies.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
    }
}

#[test]
fn a_filter_of_any_thread_is_noticed() {
    let shared = words();
    let child = Child::run(|| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                until("told", || shared[0].load(SeqCst) == 1);
                filter();
                shared[1].store(1, SeqCst);
                std::thread::park();
            });
        });
    });
    let tracee = Tracee::open(child.0).unwrap();
    assert!(!tracee.has_foreign_filter());
    shared[0].store(1, SeqCst);
    until("it has a filter", || shared[1].load(SeqCst) == 1);
    assert!(tracee.has_foreign_filter());
}
