//! Guarded copies: every length, both ends, and what is not there.

use super::*;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::Once;

fn file(bytes: &[u8]) -> std::fs::File {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Relaxed);
    let name = format!("heliostat-guarded-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let mut options = std::fs::File::options();
    let mut file = options.read(true).write(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file.write_all(bytes).unwrap();
    file
}

extern "C" fn on_fault(_: i32, _: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
    // SAFETY: the kernel's frame of this signal.
    let registers = unsafe { &mut (*context).uc_mcontext.gregs };
    match resume_at(registers[libc::REG_RIP as usize] as usize) {
        Some(next) => registers[libc::REG_RIP as usize] = next as i64,
        None => std::process::abort(),
    }
}

fn catch_faults() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for signal in [libc::SIGBUS, libc::SIGSEGV] {
            // SAFETY: a handler of the right shape for both signals.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = on_fault as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
            }
        }
    });
}

#[test]
fn every_length_and_shift_is_copied_exactly() {
    let content: Vec<u8> = (0..3000u32).map(|at| (at * 7 + at / 251) as u8).collect();
    let file = file(&content);
    let view = FileView::empty();
    view.map(file.as_raw_fd(), content.len()).unwrap();
    for length in (0..700).chain([1023, 1024, 2048, 2990]) {
        for shift in [0, 1, 9] {
            let mut into = vec![0xee; length + 2];
            assert_eq!(view.read(shift, &mut into[1..=length]), Ok(length));
            assert_eq!(into[1..=length], content[shift..shift + length], "{length} at {shift}");
            assert_eq!((into[0], into[length + 1]), (0xee, 0xee), "{length} at {shift}");
        }
    }
}

#[test]
fn the_end_of_the_view_is_the_end() {
    let file = file(b"0123456789");
    let view = FileView::empty();
    assert_eq!(view.read(0, &mut [0; 4]), Ok(0));
    view.map(file.as_raw_fd(), 10).unwrap();
    let mut into = [0; 8];
    assert_eq!(view.read(6, &mut into), Ok(4));
    assert_eq!(&into[..4], b"6789");
    assert_eq!(view.read(10, &mut into), Ok(0));
    assert_eq!(view.read(usize::MAX, &mut into), Ok(0));
    view.unmap();
    assert_eq!(view.read(0, &mut into), Ok(0));
}

#[test]
fn what_is_not_there_is_a_fault_at_either_side_and_of_every_size() {
    catch_faults();
    let file = file(&[5; 8192]);
    let view = FileView::empty();
    view.map(file.as_raw_fd(), 8192).unwrap();
    file.set_len(4096).unwrap();
    for length in [1, 3, 4, 8, 16, 33, 65, 300, 4096] {
        let mut into = vec![0; length];
        assert_eq!(view.read(4096, &mut into), Err(Fault), "{length} bytes beyond the end");
        assert_eq!(view.read(0, &mut into), Ok(length));
    }
    let page = [0, 4096, 0, (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize, usize::MAX, 0];
    // SAFETY: a new page that nothing may touch, lent out as a destination only to be refused.
    let nowhere = unsafe {
        let page = check(raw(Sysno::mmap as usize, page)).unwrap();
        std::slice::from_raw_parts_mut(page as *mut u8, 4096)
    };
    assert_eq!(view.read(0, &mut nowhere[..100]), Err(Fault));
    assert_eq!(view.read(0, nowhere), Err(Fault));
}
