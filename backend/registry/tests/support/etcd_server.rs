//! A server of etcd of a test's own, on ports and with a folder that nobody else has.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server; killed, and its folder removed, when it is dropped.
pub struct EtcdServer {
    process: Option<Child>,
    folder: PathBuf,
    pub port: u16,
    peer_port: u16,
}

impl EtcdServer {
    /// Starts one; `None`, with the reason on the error stream, where etcd is not installed.
    pub fn start(name: &str) -> Option<EtcdServer> {
        if Command::new("etcd").arg("--version").stdout(Stdio::null()).status().is_err() {
            eprintln!("SKIPPED: etcd is not installed (Debian's etcd-server): nothing was tested");
            return None;
        }
        let ports = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [port, peer_port] = ports.map(|it| it.local_addr().unwrap().port());
        let folder = format!("heliostat-etcd-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        let _ = std::fs::remove_dir_all(&folder);
        let mut server = EtcdServer { process: None, folder, port, peer_port };
        server.restart();
        Some(server)
    }

    /// Kills it, if it runs, and starts it with what it had.
    pub fn restart(&mut self) {
        self.kill();
        let (client, peer) = (self.endpoint(), format!("http://127.0.0.1:{}", self.peer_port));
        let mut command = Command::new("etcd");
        command.args(["--name", "test", "--initial-cluster", &format!("test={peer}")]);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--heartbeat-interval", "20", "--election-timeout", "200"]);
        command.arg("--data-dir").arg(&self.folder).stdout(Stdio::null()).stderr(Stdio::null());
        self.process = Some(command.spawn().unwrap());
        let start = Instant::now();
        while !self.is_ready() {
            assert!(start.elapsed() < Duration::from_secs(60), "etcd does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    pub fn pid(&self) -> u32 {
        self.process.as_ref().unwrap().id()
    }

    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Writes a record, whatever it holds.
    pub fn put(&self, key: &str, value: &str) {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", &self.endpoint(), "put", "--", key]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        std::io::Write::write_all(&mut process.stdin.take().unwrap(), value.as_bytes()).unwrap();
        assert!(process.wait().unwrap().success());
    }

    /// Deletes a record.
    pub fn delete(&self, key: &str) {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", &self.endpoint(), "del", key]);
        assert!(command.stdout(Stdio::null()).status().unwrap().success());
    }

    /// Whether it answers, and has a leader.
    fn is_ready(&self) -> bool {
        use std::io::{Read, Write};
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let request = b"GET /health HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n\r\n";
        let mut said = String::new();
        stream.write_all(request).is_ok()
            && stream.read_to_string(&mut said).is_ok()
            && said.contains("\"true\"")
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
