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

/// A header for each service: what it is made of, and which headers its types come from.
const PARTS: [(&str, &[&str], &[&str]); 15] = [
    ("code", &["code.rs", "border.rs"], &[]),
    ("ring", &["ring.rs"], &["code"]),
    ("region", &["region.rs"], &["code"]),
    ("snapshot", &["snapshot.rs"], &["code", "region"]),
    ("delegated", &["operations.rs", "delegated.rs"], &["code"]),
    ("names", &["names.rs"], &["code", "delegated"]),
    ("joint", &["joint.rs"], &["code", "delegated"]),
    ("memory", &["memory.rs", "memory_bytes.rs", "memory_pieces.rs"], &["code"]),
    ("memory_spread", &["memory_spread.rs"], &["code", "memory"]),
    ("memory_operations", &["memory_operations.rs"], &["code", "memory"]),
    ("lock", &["lock.rs"], &["code"]),
    ("rpc", &["rpc.rs", "pending.rs", "service.rs"], &["code"]),
    ("log", &["log.rs", "log_append.rs", "log_reader.rs"], &["code"]),
    ("queue", &["queue.rs", "queue_push.rs"], &["code", "log"]),
    ("store", &["store.rs", "area_queue.rs"], &["code"]),
];

/// One of them, as cbindgen makes it today.
fn made(part: &str, sources: &[&str], needs: &[&str]) -> Vec<u8> {
    let mut config = cbindgen::Config::from_file(folder().join("cbindgen.toml")).expect("readable");
    config.include_guard = Some(format!("HELIOSTAT_{}_H", part.to_uppercase()));
    config.includes = needs.iter().map(|needed| format!("{needed}.h")).collect();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in sources {
        builder = builder.with_src(folder().join("src").join(source));
    }
    let mut made = Vec::new();
    builder.generate().expect("the sources parse").write(&mut made);
    made
}

#[test]
fn the_headers_are_what_cbindgen_makes_of_the_sources() {
    for (part, sources, needs) in PARTS {
        let made = made(part, sources, needs);
        let path = folder().join(format!("include/heliostat/{part}.h"));
        if std::env::var_os("HELIOSTAT_BLESS").is_some() {
            std::fs::write(&path, &made).expect("writable");
        }
        let stored = std::fs::read(&path).expect("stored");
        let hint = "run HELIOSTAT_BLESS=1 cargo test -p heliostat-c";
        assert!(stored == made, "include/heliostat/{part}.h is stale: {hint}");
    }
}

#[test]
fn heliostat_h_includes_every_header_there_is() {
    let text = std::fs::read_to_string(folder().join("include/heliostat.h")).expect("stored");
    let mut named: Vec<_> =
        text.lines().filter_map(|line| line.strip_prefix("#include ")).collect();
    let stored = std::fs::read_dir(folder().join("include/heliostat")).expect("there");
    let stored = stored.map(|entry| entry.expect("readable").file_name().into_string());
    let mut stored: Vec<_> =
        stored.map(|name| format!("\"heliostat/{}\"", name.expect("ASCII"))).collect();
    named.sort_unstable();
    stored.sort_unstable();
    assert_eq!(named, stored);
    assert_eq!(stored.len(), PARTS.len());
}

#[test]
fn each_header_stands_alone_in_c_and_in_cpp() {
    if !is_there("gcc") || !is_there("g++") {
        return;
    }
    let parts = PARTS.iter().map(|(part, ..)| format!("heliostat/{part}.h"));
    for header in parts.chain(["heliostat.h".to_owned()]) {
        for [compiler, standard] in
            [["gcc", "-std=c11"], ["gcc", "-std=c2x"], ["g++", "-std=c++17"]]
        {
            let mut command = Command::new(compiler);
            command.args([standard, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"]);
            command.arg(folder().join("include"));
            let language = if compiler == "gcc" { "c" } else { "c++" };
            command.args(["-include", &header, "-x", language, "/dev/null"]);
            let read = command.output().expect("runs");
            let found = String::from_utf8_lossy(&read.stderr);
            assert!(read.status.success(), "{header}, {standard}: {found}");
        }
    }
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
fn the_example_of_logs_runs_plainly_and_under_valgrind() {
    if !is_there("gcc") {
        return;
    }
    let program = compiled("log", &[]);
    // Beside the test's own program: a temporary folder may be memory.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let wanted = "first second third job\n";
    assert_eq!(printed(Command::new(&program).arg(folder)), wanted);
    if is_there("valgrind") {
        let mut command = Command::new("valgrind");
        command.args(["-q", "--error-exitcode=9", "--leak-check=full"]);
        command.args(["--errors-for-leak-kinds=definite"]);
        assert_eq!(printed(command.arg(&program).arg(folder)), wanted);
    }
    let _ = std::fs::remove_file(&program);
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
