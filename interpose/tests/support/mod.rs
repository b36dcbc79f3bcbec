//! What the tests share: the counting library, compiled C programs, and runs under the library.
#![allow(dead_code)] // each test file uses a part

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{env, fs, process};

/// How the counting library's hook treats calls: see examples/count.rs.
pub const MODES: [&str; 3] =
    ["HELIOSTAT_COUNT_PASS", "HELIOSTAT_COUNT_CALL", "HELIOSTAT_COUNT_WAIT"];

/// Sites have gates, and every second one is shut: see examples/count.rs.
pub const GATES: &str = "HELIOSTAT_COUNT_GATES";

/// A directory of this test's own, removed at the end.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        let path = env::temp_dir().join(format!("heliostat-{name}-{}", process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("the temporary directory is writable");
        Scratch(path)
    }

    /// The directory that holds the site lists if this is the cache home.
    pub fn sites(&self) -> PathBuf {
        let path = self.0.join("heliostat/sites");
        fs::create_dir_all(&path).expect("the temporary directory is writable");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The preloadable library that cargo builds with the tests.
pub fn counting_library() -> PathBuf {
    let test = env::current_exe().expect("a test has a path");
    let profile = test.parent().and_then(Path::parent).expect("target/<profile>/deps/<test>");
    let library = profile.join("examples/libcount.so");
    assert!(library.exists(), "{} is missing: build the examples", library.display());
    library
}

/// Compiles a program of tests/c; `None`, with a remark, where there is no compiler.
pub fn compile(scratch: &Scratch, name: &str) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(name);
    let program = scratch.0.join(name.trim_end_matches(".c"));
    let arguments = ["-O1", "-Wall", "-Werror", "-fexceptions", "-pthread", "-rdynamic"];
    let mut compiler = Command::new("cc");
    let compiled =
        compiler.args(arguments).arg(source).arg("-o").arg(&program).arg("-ldl").output();
    let Ok(output) = compiled else {
        eprintln!("skipped: no C compiler");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

/// A command that will run under the counting library.
pub fn under_library(scratch: &Scratch, mode: &str, program: &Path) -> Command {
    let libc = heliostat_interpose::libc_path().expect("tests are linked dynamically");
    heliostat_interpose::scan::ensure_cached_in(&scratch.sites(), &libc).expect("libc scans");
    let mut command = Command::new(program);
    command
        .env("LD_PRELOAD", counting_library())
        .env("XDG_CACHE_HOME", &scratch.0)
        .env("HELIOSTAT_COUNT", scratch.0.join("log"))
        .env(mode, "1")
        .stdin(Stdio::null());
    command
}

/// The lines that the processes of a run have left: calls seen by each.
pub fn calls_counted(scratch: &Scratch) -> Vec<u64> {
    let log = fs::read_to_string(scratch.0.join("log")).unwrap_or_default();
    log.lines().filter_map(|line| line.split(' ').nth(1)?.parse().ok()).collect()
}

/// Standard output as text, after a successful run.
pub fn text(what: &str, output: Output) -> String {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{what}: {}\n{out}\n{err}", output.status);
    assert!(!err.contains("count:"), "{what}: not patched: {err}");
    out.into_owned()
}
