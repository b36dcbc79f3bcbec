//! How the daemon begins, ends, begins again, and what it says of mistakes.

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};

use heliostat_abi::session::record::{Reply, Request};
use rustix::process::Signal;
use support::*;

fn daemon(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_heliostatd")).args(arguments).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn sigterm_ends_it_and_removes_socket_and_pid_file() {
    let mut daemon = Daemon::start();
    let pid_file = daemon.folder().join("control.sock.pid");
    let pid = std::fs::read_to_string(&pid_file).unwrap();
    assert_eq!(pid.trim(), daemon.pid().to_string());
    daemon.signal(Signal::TERM);
    await_that("it ends", || daemon.ended().is_some());
    assert!(daemon.ended().unwrap().success());
    assert!(!daemon.socket().exists() && !pid_file.exists());
}

#[test]
fn a_request_to_stop_is_answered_and_obeyed() {
    let mut daemon = Daemon::start();
    assert_eq!(daemon.visit().ask(&Request::Stop).0, Reply::Done);
    await_that("it ends", || daemon.ended().is_some());
}

#[test]
fn a_second_one_on_the_same_socket_gives_way() {
    let first = Daemon::start();
    let socket = first.socket();
    let second = daemon(&["--socket", socket.to_str().unwrap()]);
    assert!(second.status.success());
    let said = format!("another heliostatd (process {}) already serves", first.pid());
    assert!(stderr(&second).contains(&said), "{}", stderr(&second));
    assert!(first.status()["pid"].is_number());
}

#[test]
fn after_a_kill_the_next_one_takes_over_with_another_boot_number() {
    let mut daemon = Daemon::start();
    let (_client, before) = daemon.session();
    daemon.restart();
    let (_again, after) = daemon.session();
    assert_ne!(before.boot, after.boot);
}

#[test]
fn an_idle_daemon_ends_and_a_used_one_stays() {
    let mut daemon = Daemon::with("", &["--idle-exit", "3"]);
    let (client, _) = daemon.session();
    std::thread::sleep(std::time::Duration::from_millis(3500));
    assert!(daemon.ended().is_none());
    drop(client);
    await_that("it ends", || daemon.ended().is_some());
    assert!(!daemon.socket().exists());
}

#[test]
fn in_the_background_it_returns_when_it_serves() {
    let folder = std::env::temp_dir().join(format!("heliostatd-background-{}", std::process::id()));
    let socket = folder.join("control.sock");
    let socket = socket.to_str().unwrap();
    let started = daemon(&["--background", "--socket", socket, "--idle-exit", "60"]);
    assert!(started.status.success(), "{}", stderr(&started));
    let again = daemon(&["--background", "--socket", socket]);
    assert!(again.status.success(), "{}", stderr(&again));
    assert_eq!(Client::connect(socket).ask(&Request::Stop).0, Reply::Done);
    await_that("it is gone", || !std::path::Path::new(socket).exists());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn in_the_background_nothing_inherited_stays_open() {
    let folder = std::env::temp_dir().join(format!("heliostatd-inherit-{}", std::process::id()));
    let socket = folder.join("c.sock");
    let script = "exec 9</dev/zero; exec \"$0\" --background --idle-exit 60 --socket \"$1\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_heliostatd"), socket.to_str().unwrap()]);
    assert!(shell.status().unwrap().success());
    let pid = std::fs::read_to_string(folder.join("c.sock.pid")).unwrap();
    let held = std::fs::read_dir(format!("/proc/{}/fd", pid.trim())).unwrap();
    let names = held.map(|fd| std::fs::read_link(fd.unwrap().path()).unwrap_or_default());
    let names: Vec<_> = names.collect();
    assert!(!names.contains(&"/dev/zero".into()), "{names:?}");
    assert_eq!(Client::connect(socket.to_str().unwrap()).ask(&Request::Stop).0, Reply::Done);
    await_that("it is gone", || !socket.exists());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn in_the_background_relative_paths_are_the_callers() {
    let folder = std::env::temp_dir().join(format!("heliostatd-relative-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("c.toml"), "[channel]\nslots = 9\n").unwrap();
    let started = Command::new(env!("CARGO_BIN_EXE_heliostatd"))
        .args(["--background", "--socket", "here/c.sock", "--config", "c.toml", "--log", "l"])
        .args(["--idle-exit", "60"])
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(started.status.success(), "{}", stderr(&started));
    let mut client = Client::connect(folder.join("here/c.sock").to_str().unwrap());
    assert!(client.text(&Request::Status).contains("\"channel_slots\":9"));
    assert!(folder.join("l").exists());
    assert_eq!(client.ask(&Request::Stop).0, Reply::Done);
    await_that("it is gone", || !folder.join("here/c.sock").exists());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_default_folder_that_another_could_have_made_is_refused() {
    let folder = std::env::temp_dir().join(format!("heliostatd-unsafe-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("heliostat")).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.join("heliostat"), open).unwrap();
    let start = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_heliostatd"));
        command.args(arguments).env("XDG_RUNTIME_DIR", &folder).env_remove("HELIOSTAT_SOCKET");
        if rustix::process::geteuid().is_root() {
            // Root's default does not depend on the environment; any other user's does.
            std::os::unix::process::CommandExt::uid(&mut command, 65534);
        }
        command.output()
    };
    for arguments in [&[][..], &["--background"]] {
        let Ok(output) = start(arguments) else {
            eprintln!("skipped: cannot become another user here");
            continue;
        };
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("is not safe"), "{}", stderr(&output));
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn in_the_background_a_failure_is_told() {
    let started = daemon(&["--background", "--socket", "/proc/nowhere/control.sock"]);
    assert_eq!(started.status.code(), Some(1));
    assert!(stderr(&started).contains("cannot make folder /proc/nowhere"), "{}", stderr(&started));
}

#[test]
fn a_mistake_in_the_configuration_is_told_with_file_line_and_key() {
    let path = std::env::temp_dir().join(format!("heliostatd-config-{}.toml", std::process::id()));
    std::fs::write(&path, "[limits]\nsession_per_user = 3\n").unwrap();
    let name = path.to_str().unwrap();
    let output = daemon(&["--check", "--config", name]);
    let wanted = format!(
        "heliostatd: {name}: line 2: limits.session_per_user: \
         no such key; did you mean sessions_per_user?\n"
    );
    assert_eq!((output.status.code(), stderr(&output)), (Some(1), wanted));
    std::fs::write(&path, "[limits]\nsessions_per_user = 3\n").unwrap();
    assert!(daemon(&["--check", "--config", name]).status.success());
    std::fs::remove_file(path).unwrap();
}

#[test]
fn sighup_reads_the_configuration_again_and_keeps_it_when_it_is_wrong() {
    let daemon = Daemon::start();
    let config = daemon.folder().join("config.toml");
    let slots = || daemon.status()["limits"]["channel_slots"].as_u64();
    std::fs::write(&config, "[channel]\nslots = 7\n").unwrap();
    daemon.signal(Signal::HUP);
    await_that("the new one is in force", || slots() == Some(7));
    std::fs::write(&config, "[channel]\nslots = 700\n").unwrap();
    daemon.signal(Signal::HUP);
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(slots(), Some(7));
}

#[test]
fn metrics_are_served_over_http_where_configured() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = format!("[daemon]\nmetrics_listen = \"{free}\"\n");
    let _daemon = Daemon::with(&config, &[]);
    // The control socket, which `with` waits for, listens before.
    await_that("it listens", || TcpStream::connect(free).is_ok());
    let mut connection = TcpStream::connect(free).unwrap();
    connection.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    connection.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
    assert!(text.contains("heliostat_sessions 0"), "{text}");
}

/// Ends with the test, however that ends.
struct Manager(std::process::Child);

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The path is there from bind(2) on, before listen(2): only the kernel's table tells.
fn is_listened_on(path: &str) -> bool {
    const ACCEPTS: &str = "00010000";
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
    let mut lines = sockets.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    lines.any(|fields| fields.get(3) == Some(&ACCEPTS) && fields.last() == Some(&path))
}

#[test]
fn a_socket_handed_over_is_used_and_left_alone() {
    let folder = std::env::temp_dir().join(format!("heliostatd-handed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("control.sock");
    // systemd-socket-activate does what a service manager does; it is not everywhere.
    let manager = Command::new("systemd-socket-activate")
        .args(["--seqpacket", "-l", path.to_str().unwrap()])
        .arg(env!("CARGO_BIN_EXE_heliostatd"))
        .args(["--idle-exit", "1", "--socket", path.to_str().unwrap()])
        .stderr(std::process::Stdio::null())
        .spawn();
    let Ok(manager) = manager else {
        eprintln!("skipped: no systemd-socket-activate here");
        return;
    };
    let mut manager = Manager(manager);
    await_that("the socket is listened on", || is_listened_on(path.to_str().unwrap()));
    assert!(Client::connect(path.to_str().unwrap()).text(&Request::Status).contains("boot"));
    await_that("it ends when idle", || manager.0.try_wait().unwrap().is_some());
    assert!(path.exists());
    std::fs::remove_dir_all(folder).unwrap();
}
