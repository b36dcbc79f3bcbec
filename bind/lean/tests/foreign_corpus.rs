//! Replays the stored corpora of the fuzz targets `lean_completions` and `lean_text`, and small mutations.

use std::path::{Path, PathBuf};
use std::process::Command;

fn files(target: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/lean/corpus").join(target);
    let each = std::fs::read_dir(folder).expect("the corpus is stored");
    each.map(|entry| entry.expect("listed").path()).collect()
}

#[test]
fn whatever_a_host_writes_is_taken_or_refused() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("foreign");
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=gnu17", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]);
    gcc.args(["-Wno-unused-function", "-fsanitize=undefined", "-fno-sanitize-recover=all"]);
    gcc.arg("-I").arg(own.join("include")).arg("-o").arg(&program);
    assert!(gcc.arg(own.join("tests/foreign.c")).status().expect("gcc is there").success());
    for target in ["completions", "text"] {
        let files = files(&format!("lean_{target}"));
        assert!(files.len() >= 5, "{target}: {} inputs", files.len());
        let output = Command::new(&program).arg(target).args(files).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{target}: {}\n{told}", output.status);
    }
}
