//! Becoming the program: this process's image is replaced, everything else stays as inherited.
//!
//! The standard library's `exec` is not used, because it resets what the program should inherit:
//! Rust's start-up ignores SIGPIPE and `exec` sets it to its default, so that a service started
//! with SIGPIPE ignored (as systemd starts them) would die of the first closed connection.
//! Here the disposition is read before Rust's start-up and put back before the image changes;
//! the signal mask is never touched.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether SIGPIPE was ignored when this process began.
static PIPE_IGNORED: AtomicBool = AtomicBool::new(false);

#[used]
#[link_section = ".init_array"]
static REMEMBER: extern "C" fn() = remember_disposition;

extern "C" fn remember_disposition() {
    // SAFETY: all-zero bytes are a valid `sigaction`.
    let mut found: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null new action only asks; `found` is writable.
    unsafe { libc::sigaction(libc::SIGPIPE, ptr::null(), &mut found) };
    PIPE_IGNORED.store(found.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
}

/// Lets this process write to a terminal from the background although it stops others that do
/// (`stty tostop`). A program that is started later has it so too.
pub fn ignore_terminal_output() {
    // SAFETY: ignoring a signal takes no handler.
    unsafe { libc::signal(libc::SIGTTOU, libc::SIG_IGN) };
}

/// The environment that the program will have.
#[derive(Clone)]
pub struct Environment(Vec<(OsString, OsString)>);

impl Environment {
    /// This process's own.
    pub fn inherited() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// Sets one variable.
    pub fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.0.retain(|(known, _)| known != name);
        self.0.push((name.into(), value.into()));
    }

    /// Takes one variable away.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(known, _)| known != name);
    }

    /// Keeps the variables whose names are wanted; the names of the others.
    pub fn keep(&mut self, wanted: impl Fn(&OsStr) -> bool) -> Vec<OsString> {
        let (kept, others): (Vec<_>, Vec<_>) =
            self.0.drain(..).partition(|(name, _)| wanted(name.as_os_str()));
        self.0 = kept;
        others.into_iter().map(|(name, _)| name).collect()
    }

    /// The value of one variable.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
    }

    fn to_strings(&self) -> io::Result<Vec<CString>> {
        let each = |(name, value): &(OsString, OsString)| {
            let mut whole = name.clone();
            whole.push("=");
            whole.push(value);
            terminated(&whole)
        };
        self.0.iter().map(each).collect()
    }
}

/// Replaces this process's image; returns only when that failed. What the kernel does not know
/// as a program is run by the shell, as execvp(3) does.
pub fn become_program(file: &Path, arguments: &[OsString], environment: &Environment) -> io::Error {
    let error = match replace(file.as_os_str(), arguments, environment) {
        Err(error) => error,
        Ok(never) => match never {},
    };
    if error.raw_os_error() != Some(libc::ENOEXEC) {
        return error;
    }
    let mut of_shell = vec![OsString::from("sh"), file.as_os_str().to_owned()];
    of_shell.extend(arguments.iter().skip(1).cloned());
    match replace(OsStr::new("/bin/sh"), &of_shell, environment) {
        Err(error) => error,
        Ok(never) => match never {},
    }
}

fn replace(
    file: &OsStr,
    arguments: &[OsString],
    environment: &Environment,
) -> io::Result<std::convert::Infallible> {
    let file = terminated(file)?;
    let arguments: io::Result<Vec<_>> = arguments.iter().map(|word| terminated(word)).collect();
    let (arguments, environment) = (arguments?, environment.to_strings()?);
    let (argv, envp) = (pointers(&arguments), pointers(&environment));
    if !PIPE_IGNORED.load(Ordering::Relaxed) {
        // SAFETY: restoring the default disposition involves no handler of ours.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }
    // SAFETY: `file` and every element of the two null-ended lists are C strings that outlive
    // the call.
    unsafe { libc::execve(file.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    Err(io::Error::last_os_error())
}

fn terminated(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(io::Error::other)
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|string| CStr::as_ptr(string)).chain([ptr::null()]).collect()
}
