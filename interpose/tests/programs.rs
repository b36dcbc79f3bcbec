//! Real programs under the counting library do what they do without it.
#![cfg(feature = "scan")]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{calls_counted, text, under_library, Scratch, GATES, MODES};

const BASH: &str = r#"
set -e; cd "$1"
for i in $(seq 20); do echo "line $i"; done | sort -r | tee sorted | head -3; wc -l < sorted
trap 'echo trapped' USR1; kill -USR1 $$
trap 'echo leaving' EXIT
for i in 1 2 3; do (echo "child $i"; exit $i) || echo "status $?"; done
x=$(echo substituted); echo "$x"; cat <(echo process) - <<< here
sleep 0.05 & wait $!; echo "waited $?"; find . -type f | sort; rm sorted; exec echo replaced
"#;

const PYTHON: &str = r#"
import os, signal, socket, sqlite3, subprocess, sys, tempfile, threading, time
done = []
def work(i):
    for _ in range(100): os.getppid(); os.stat('/'); open('/dev/null').close()
    done.append(i)
threads = [threading.Thread(target=work, args=(i,)) for i in range(12)]
[t.start() for t in threads]; [t.join() for t in threads]; print(sorted(done))
print(subprocess.run(['sh', '-c', 'cat; exit 3'], input=b'in', capture_output=True))
print(os.system('exit 4'), os.popen('echo popen').read())
child = os.fork()
if child == 0: os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
with tempfile.TemporaryDirectory() as d:
    db = sqlite3.connect(d + '/x.db'); db.execute('create table t(a)')
    db.executemany('insert into t values(?)', [(i,) for i in range(1000)]); db.commit()
    print(db.execute('select sum(a) from t').fetchone(), sorted(os.listdir(d)))
signal.signal(signal.SIGALRM, lambda *_: print('alarm'))
signal.setitimer(signal.ITIMER_REAL, 0.03); time.sleep(0.1)
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname()); served, _ = server.accept()
threading.Thread(target=lambda: (served.sendall(b'x' * 3000000), served.close())).start()
total = 0
while data := client.recv(65536): total += len(data)
print(total); print(os.posix_spawn('/bin/true', ['true'], os.environ) > 0, os.wait()[1])
"#;

/// Where a program is, or a remark that the test is skipped.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|p| p.join(name)).find(|p| p.is_file());
    if found.is_none() {
        eprintln!("skipped: {name} is not installed");
    }
    found
}

/// Runs a program plainly and in all modes; its output must be the same.
fn compare(name: &str, arguments: &[&str], calls_least: u64) {
    let Some(path) = program(name) else { return };
    let scratch = Scratch::new(&format!("program-{name}"));
    let plain = Command::new(&path).args(arguments).stdin(Stdio::null()).output();
    let plain = text(name, plain.expect("runs"));
    assert!(!plain.is_empty());
    for mode in MODES.into_iter().chain([GATES]) {
        let output = under_library(&scratch, mode, &path).args(arguments).output();
        assert_eq!(text(mode, output.expect("runs")), plain, "{name} {mode}");
    }
    let calls: u64 = calls_counted(&scratch).iter().sum();
    assert!(calls >= calls_least, "{name}: only {calls} calls reached the hook");
}

#[test]
fn ls_lists_the_same_files() {
    compare("ls", &["-R", env!("CARGO_MANIFEST_DIR")], 60);
}

#[test]
fn calls_of_a_shut_gate_do_not_reach_the_hook() {
    let Some(path) = program("ls") else { return };
    let counted = |mode: &str| {
        let scratch = Scratch::new(&format!("gates-{mode}"));
        let output = under_library(&scratch, mode, &path).arg("/").output();
        assert!(!text(mode, output.expect("runs")).is_empty());
        calls_counted(&scratch).iter().sum::<u64>()
    };
    let (open, shut) = (counted(MODES[0]), counted(GATES));
    // openat and close have odd numbers, write and mmap none of these; something is left in any case.
    assert!(0 < shut && shut < open, "{shut} of {open} calls");
}

#[test]
fn bash_runs_pipelines_forks_and_traps() {
    let scratch = Scratch::new("bash-files");
    let directory = scratch.0.to_str().expect("the temporary directory is text");
    compare("bash", &["-c", BASH, "test", directory], 1000);
}

#[test]
fn python_runs_threads_children_and_sqlite() {
    compare("python3", &["-c", PYTHON], 5000);
}

/// A server that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn redis_answers(cli: &Path, socket: &str, arguments: &[&str]) -> String {
    let output = Command::new(cli).args(["-s", socket]).args(arguments).output();
    String::from_utf8_lossy(&output.expect("redis-cli runs").stdout).trim().to_owned()
}

fn wait_for(what: &str, ready: impl Fn() -> bool) {
    let begin = Instant::now();
    while !ready() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what} does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn redis_serves_its_benchmark_and_saves_in_a_child() {
    let found = (program("redis-server"), program("redis-benchmark"), program("redis-cli"));
    let (Some(server), Some(benchmark), Some(cli)) = found else { return };
    for mode in MODES {
        let scratch = Scratch::new("redis");
        let socket = scratch.0.join("socket").display().to_string();
        let mut command = under_library(&scratch, mode, &server);
        command.args(["--port", "0", "--save", "", "--unixsocket", &socket, "--dir"]);
        command.arg(&scratch.0).stdout(Stdio::null());
        let mut running = Server(command.spawn().expect("redis-server runs"));
        wait_for("redis", || redis_answers(&cli, &socket, &["ping"]) == "PONG");
        let mut command = under_library(&scratch, mode, &benchmark);
        let arguments = ["-n", "5000", "-c", "20", "-t", "set,get,lpush", "-P", "2", "-q"];
        let output = command.args(["-s", &socket]).args(arguments).output();
        let report = text(mode, output.expect("redis-benchmark runs"));
        assert!(report.contains("GET:") && report.contains("LPUSH:"), "{report}");
        assert_eq!(redis_answers(&cli, &socket, &["llen", "mylist"]), "5000", "{mode}");
        redis_answers(&cli, &socket, &["bgsave"]);
        wait_for("the dump", || scratch.0.join("dump.rdb").exists());
        redis_answers(&cli, &socket, &["shutdown", "nosave"]);
        assert!(running.0.wait().expect("our child").success());
        let calls = calls_counted(&scratch);
        assert!(calls.len() >= 3 && calls.iter().sum::<u64>() > 5000, "{calls:?}");
    }
}
