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
    for source in ["code.rs", "ring.rs"] {
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

#[test]
fn the_example_compiles_with_gcc_and_runs() {
    if Command::new("gcc").arg("--version").output().is_err() {
        eprintln!("skipped: no gcc");
        return;
    }
    let program = std::env::temp_dir().join(format!("heliostat-example-{}", std::process::id()));
    let built = Command::new("gcc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(folder().join("include"))
        .arg(folder().join("examples/ring.c"))
        .arg(library())
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program)
        .output()
        .expect("gcc runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let ran = Command::new(&program).output().expect("runs");
    // A leftover in the temporary folder is not worth a failure.
    let _ = std::fs::remove_file(&program);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "6 hello\n");
}
