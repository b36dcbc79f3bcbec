//! The command as people and scripts use it, with a control plane of its own.
//!
//! The daemon is the one built beside this command; where only this crate was built the tests
//! that need it say so and pass.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

mod support;

const HELIOSTAT: &str = env!("CARGO_BIN_EXE_heliostat");
/// A library that is on every glibc machine and does nothing when preloaded.
const HARMLESS: &str = "/lib/x86_64-linux-gnu/libm.so.6";

/// A place for a control plane; the control plane is told to stop when the value goes.
struct TestFolder(PathBuf);

impl TestFolder {
    fn new() -> TestFolder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("heliostat-test-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        TestFolder(folder)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(HELIOSTAT);
        command.args(arguments).env("HELIOSTAT_SOCKET", self.0.join("control.sock"));
        command.env("HELIOSTAT_STUB", HARMLESS).env("XDG_CACHE_HOME", &self.0);
        command.env_remove("LD_PRELOAD");
        command
    }

    fn call(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        self.call(&["stop"]);
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn no_daemon() -> bool {
    let missing = !Path::new(HELIOSTAT).with_file_name("heliostatd").is_file();
    if missing || !Path::new(HARMLESS).is_file() {
        eprintln!("skipped: heliostatd is not built beside heliostat, or no glibc here");
        return true;
    }
    false
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_program_under_it_has_the_stub_and_the_socket_and_keeps_its_status() {
    if no_daemon() {
        return;
    }
    let folder = TestFolder::new();
    let script = "echo $LD_PRELOAD $HELIOSTAT_SOCKET; exit 7";
    let output = folder.call(&["run", "--", "sh", "-c", script]);
    let wanted = format!("{HARMLESS} {}\n", folder.0.join("control.sock").display());
    assert_eq!((text(&output.stdout), text(&output.stderr)), (wanted, String::new()));
    assert_eq!(output.status.code(), Some(7));
    assert!(text(&folder.call(&["status"]).stdout).starts_with("heliostatd "));
}

#[test]
fn a_preloaded_library_stays_and_options_end_at_the_program() {
    if no_daemon() {
        return;
    }
    let folder = TestFolder::new();
    let mut command = folder.command(&[
        "run",
        "--no-direct",
        "sh",
        "-c",
        "echo $LD_PRELOAD $HELIOSTAT_DIRECT",
        "--verbose",
    ]);
    let output = command.env("LD_PRELOAD", "/lib/x86_64-linux-gnu/libdl.so.2").output().unwrap();
    assert_eq!(text(&output.stdout), format!("/lib/x86_64-linux-gnu/libdl.so.2:{HARMLESS} 0\n"));
}

/// Signals that a program ignores when a shell has prepared them so.
fn ignored_signals(folder: &TestFolder, preparation: &str) -> u64 {
    let script = format!("{preparation} exec {HELIOSTAT} run -- grep SigIgn /proc/self/status");
    let mut run = Command::new("sh");
    run.args(["-c", &script]).env("HELIOSTAT_SOCKET", folder.0.join("control.sock"));
    run.env("HELIOSTAT_STUB", HARMLESS).env("XDG_CACHE_HOME", &folder.0);
    let output = text(&run.output().unwrap().stdout);
    u64::from_str_radix(output.trim_start_matches("SigIgn:").trim(), 16).unwrap()
}

#[test]
fn a_program_inherits_which_signals_are_ignored() {
    if no_daemon() {
        return;
    }
    let folder = TestFolder::new();
    let pipe = 1 << 12;
    assert_eq!(ignored_signals(&folder, "trap '' PIPE;") & pipe, pipe);
    assert_eq!(ignored_signals(&folder, "trap - PIPE;") & pipe, 0);
}

#[test]
fn a_script_without_an_interpreter_is_run_by_the_shell() {
    if no_daemon() {
        return;
    }
    let folder = TestFolder::new();
    let script = folder.0.join("script");
    std::fs::write(&script, "echo it ran $1\n").unwrap();
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, all).unwrap();
    let output = folder.call(&["run", "--", script.to_str().unwrap(), "so"]);
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("it ran so\n".into(), String::new()));
}

#[test]
fn many_first_starts_at_once_share_one_control_plane() {
    if no_daemon() {
        return;
    }
    let folder = TestFolder::new();
    let children: Vec<_> =
        (0..8).map(|_| folder.command(&["run", "--", "true"]).spawn().unwrap()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let pid = text(&folder.call(&["status", "--json"]).stdout);
    let log = std::fs::read_to_string(folder.0.join("control.sock.log")).unwrap();
    assert_eq!(log.matches("the control plane serves").count(), 1, "{log}\n{pid}");
}

#[test]
fn what_cannot_be_run_ends_as_in_a_shell() {
    let folder = TestFolder::new();
    let missing = folder.call(&["run", "--", "no-such-program"]);
    assert_eq!(missing.status.code(), Some(127));
    assert_eq!(text(&missing.stderr), "heliostat: no-such-program: command not found\n");
    assert_eq!(folder.call(&["run", "--", "/etc/passwd"]).status.code(), Some(126));
}

#[test]
fn without_a_control_plane_the_program_runs_natively_or_not_at_all_as_asked() {
    let folder = TestFolder::new();
    let nowhere = "/proc/nowhere/control.sock";
    let mut run = folder.command(&["run", "--socket", nowhere, "--", "echo", "ran"]);
    let output = run.env("PATH", "/bin:/usr/bin").output().unwrap();
    assert_eq!(text(&output.stdout), "ran\n");
    let said = text(&output.stderr);
    assert!(
        said.starts_with("heliostat: echo runs natively: there is no control plane:"),
        "{said}"
    );
    let refused = folder.call(&["run", "--require", "--socket", nowhere, "--", "echo", "ran"]);
    assert_eq!((refused.status.code(), text(&refused.stdout)), (Some(125), String::new()));
}

#[test]
fn a_socket_that_another_user_serves_is_not_given_to_the_program() {
    if no_daemon() {
        return;
    }
    let folder = TestFolder::new();
    let socket = folder.0.join("control.sock");
    let daemon = Path::new(HELIOSTAT).with_file_name("heliostatd");
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&folder.0, all).unwrap();
    let mut command = Command::new(daemon);
    command.arg("--socket").arg(&socket).stderr(std::process::Stdio::null());
    let stranger = std::os::unix::process::CommandExt::uid(&mut command, 65534).spawn();
    let Ok(mut stranger) = stranger else {
        eprintln!("skipped: cannot become another user here");
        return;
    };
    while !support::accepts(&socket) && stranger.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let output = folder.call(&["run", "--", "sh", "-c", "echo [$LD_PRELOAD]"]);
    assert_eq!(text(&output.stdout), "[]\n");
    assert!(text(&output.stderr).contains("user 65534 serves"), "{}", text(&output.stderr));
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn a_missing_stub_is_named() {
    let folder = TestFolder::new();
    let mut run = folder.command(&["run", "--", "true"]);
    let output = run.env("HELIOSTAT_STUB", "/nonexistent/stub.so").output().unwrap();
    let wanted = "heliostat: true runs natively: HELIOSTAT_STUB names /nonexistent/stub.so, \
                  which is not there\n";
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), wanted.to_owned()));
}

#[test]
fn questions_without_a_control_plane_say_how_to_get_one() {
    let folder = TestFolder::new();
    for arguments in [&["status"][..], &["explain", "1"], &["metrics"], &["stop"]] {
        let output = folder.call(arguments);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains("`heliostat run` starts one"), "{arguments:?}");
    }
}

#[test]
fn answers_are_json_where_asked_and_errors_name_the_process() {
    if no_daemon() {
        return;
    }
    let folder = TestFolder::new();
    assert!(folder.call(&["run", "--", "true"]).status.success());
    let status: serde_json::Value =
        serde_json::from_slice(&folder.call(&["status", "--json"]).stdout).unwrap();
    assert_eq!(status["sessions"].as_array().map(Vec::len), Some(0));
    assert!(text(&folder.call(&["metrics"]).stdout).contains("heliostat_sessions 0"));
    let unknown = folder.call(&["explain", "1"]);
    assert!(text(&unknown.stderr).contains("process 1 has no session here"));
    assert!(text(&folder.call(&["revoke", "1"]).stderr).contains("process 1 has no session here"));
}

#[test]
fn the_doctor_examines_everything_in_both_forms() {
    let folder = TestFolder::new();
    let lines = text(&folder.call(&["doctor"]).stdout);
    for name in ["kernel", "sealed memory", "futex", "patching of program text", "control plane"] {
        assert!(lines.contains(name), "{name} is missing in\n{lines}");
    }
    let found: serde_json::Value =
        serde_json::from_slice(&folder.call(&["doctor", "--json"]).stdout).unwrap();
    let checks = found["checks"].as_array().unwrap();
    assert!(checks.iter().all(|check| check["verdict"].is_string() && check["advice"].is_string()));
    let of = |name: &str| checks.iter().find(|check| check["name"] == name).unwrap();
    for name in ["io_uring", "locked memory (ulimit -l)"] {
        let found = of(name)["found"].as_str().unwrap();
        let begins = ["ok: ", "missing: ", "degraded: "];
        assert!(begins.iter().any(|word| found.starts_with(word)), "{name}: {found}");
    }
}

/// The stub of another build is no stub: what needs it cannot work, and what does not is not judged
/// by it.
#[test]
fn the_doctor_fails_by_what_it_is_asked_for() {
    let folder = TestFolder::new();
    let asked = |what: &str| {
        let mut command = folder.command(&["doctor", "--for", what]);
        let done = command.env("HELIOSTAT_STUB", "/nonexistent").output().unwrap();
        (done.status.code(), text(&done.stdout))
    };
    let (status, said) = asked("streams");
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("cannot work here: preloading (LD_PRELOAD)"), "{said}");
    let (status, said) = asked("snapshots");
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("nothing that it needs is missing"), "{said}");
    assert_eq!(asked("snapshots,files").0, Some(1));
    assert_eq!(asked("nothing").0, Some(2));
}
