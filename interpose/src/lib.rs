//! Catches the system calls that libc makes for an unmodified program.
//!
//! libc's text is patched in memory, in this process only (private copy-on-write pages): a
//! 5-byte `jmp` before a `syscall` instruction leads to a trampoline, which calls one Rust hook
//! with the kernel's own convention. One mechanism at the kernel's border covers exported
//! functions, their aliases and the calls libc makes inside itself; no symbol is wrapped.
//!
//! - [`scan`] (feature `scan`) decodes a library once and writes what it found to a cache.
//! - [`patch`] reads that cache in the running program and patches. It has no decoder.
//! - [`image`] is what patching leads to, kept in a file and mapped by each process.
//! - [`site`], [`format`] and [`cache`] are what the two agree on.
//!
//! What a hook *means* is left to others: this crate knows no descriptors and no grants.
#![warn(missing_docs)]

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_pointer_width = "64")))]
compile_error!("the trampolines are x86-64 Linux machine code");

pub mod cache;
pub mod format;
pub mod image;
pub mod index;
pub mod patch;
#[cfg(feature = "scan")]
pub mod scan;
pub mod site;

pub use patch::{
    before_thread, install, install_image, install_libraries, is_constant_of_libc, is_go_program,
    libc_path, on_loading, write_image, Examine, GateFn, HookFn, Installed, Left, Libraries,
    PatchError, Request, SyscallFrame, Threads, Verdict, Why,
};
#[cfg(feature = "scan")]
pub use scan::{ensure_cached, examine, scan_file, scan_library, ScanError, Scanned};
pub use site::{BuildId, Reason, Site, SiteList};
