//! The C header is current, and a C program compiled against it runs.

use std::path::{Path, PathBuf};
use std::process::Command;

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where cargo has put this crate's static library: beside the test's own folder.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("we run");
    let deps = test.parent().expect("a folder");
    let built = deps.parent().expect("a folder").join("libheliostat_c.a");
    if built.exists() {
        return built;
    }
    deps.join("libheliostat_c.a")
}

#[test]
fn the_header_is_what_cbindgen_makes_of_the_sources() {
    let config = cbindgen::Config::from_file(folder().join("cbindgen.toml")).expect("readable");
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in ["code.rs", "border.rs", "ring.rs", "region.rs", "snapshot.rs", "delegated.rs"] {
        builder = builder.with_src(folder().join("src").join(source));
    }
    let mut made = Vec::new();
    builder.generate().expect("the sources parse").write(&mut made);
    let path = folder().join("include/heliostat.h");
    if std::env::var_os("HELIOSTAT_BLESS").is_some() {
        std::fs::write(&path, &made).expect("writable");
    }
    let stored = std::fs::read(&path).expect("stored");
    let hint = "run HELIOSTAT_BLESS=1 cargo test -p heliostat-c";
    assert!(stored == made, "include/heliostat.h is stale: {hint}");
}

/// Compiles an example against header and library.
fn compiled(example: &str, more: &[&str]) -> PathBuf {
    let name = format!("heliostat-{example}-{}-{}", std::process::id(), more.len());
    let program = std::env::temp_dir().join(name);
    let built = Command::new("gcc")
        .args(["-std=c11", "-D_GNU_SOURCE", "-g", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(folder().join("include"))
        .args(more)
        .arg(folder().join("examples").join(example).with_extension("c"))
        .arg(library())
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program)
        .output()
        .expect("gcc runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    program
}

/// Runs a program to its end; what it printed, when it ended well.
fn printed(command: &mut Command) -> String {
    let ran = command.env_remove("HELIOSTAT_SOCKET").output().expect("runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

/// True where a tool is there; says so where it is not.
fn is_there(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: no {tool}");
    }
    found
}

const EXAMPLES: [(&str, &str); 3] =
    [("ring", "6 hello\n"), ("snapshot", "41 42 43\n"), ("handed", "0.5 1 1.5 over\n")];

#[test]
fn the_examples_compile_with_gcc_and_run() {
    if !is_there("gcc") {
        return;
    }
    for (example, wanted) in EXAMPLES {
        let program = compiled(example, &[]);
        assert_eq!(printed(&mut Command::new(&program)), wanted);
        // A leftover in the temporary folder is not worth a failure.
        let _ = std::fs::remove_file(&program);
    }
}

#[test]
fn the_examples_leak_nothing_and_touch_nothing_freed() {
    if !is_there("gcc") || !is_there("valgrind") {
        return;
    }
    for (example, wanted) in EXAMPLES {
        let program = compiled(example, &["-O1"]);
        let mut command = Command::new("valgrind");
        command.args(["-q", "--error-exitcode=9", "--leak-check=full"]);
        command.args(["--errors-for-leak-kinds=definite"]);
        command.arg(&program).arg("declared");
        assert_eq!(printed(&mut command), wanted);
        let _ = std::fs::remove_file(&program);
    }
}
