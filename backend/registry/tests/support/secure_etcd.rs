//! A server of etcd that is asked over TLS, with certificates of a test's own, and perhaps with users.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server; killed, and its folder removed, when it is dropped.
pub struct SecureEtcd {
    process: Option<Child>,
    folder: PathBuf,
    ports: [u16; 2],
    /// Whether only those are served who show a certificate.
    asks_for_certificates: bool,
}

/// A user of etcd with rights on the keys of tests, and the password.
pub const USER: (&str, &str) = ("ann", "open sesame");

impl SecureEtcd {
    /// Starts one; `None`, with the reason on the error stream, where etcd or openssl is not installed.
    pub fn start(name: &str, asks_for_certificates: bool) -> Option<SecureEtcd> {
        for program in ["etcd", "openssl"] {
            let word = if program == "etcd" { "--version" } else { "version" };
            if Command::new(program).arg(word).stdout(Stdio::null()).status().is_err() {
                eprintln!("SKIPPED: {program} is not installed: nothing was tested");
                return None;
            }
        }
        let folder = format!("heliostat-etcd-tls-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let ports = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let ports = ports.map(|it| it.local_addr().unwrap().port());
        let mut server = SecureEtcd { process: None, folder, ports, asks_for_certificates };
        server.certify();
        server.restart();
        Some(server)
    }

    /// Makes an authority, etcd's certificate, a node's, and another authority that has signed nothing.
    fn certify(&self) {
        self.openssl(&["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "ca.key"]);
        let request = ["req", "-x509", "-new", "-days", "30", "-sha256"];
        let subject = ["-key", "ca.key", "-subj", "/CN=test authority"];
        self.openssl(&[&request[..], &subject, &["-out", "ca.pem"]].concat());
        self.openssl(&["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "other.key"]);
        let subject = ["-key", "other.key", "-subj", "/CN=another authority"];
        self.openssl(&[&request[..], &subject, &["-out", "other.pem"]].concat());
        // A node's has no common name: with users, etcd's gateway refuses who shows one.
        for (name, subject) in [("server", "/CN=server"), ("node", "/O=node")] {
            let (key, csr, pem) =
                (format!("{name}.key"), format!("{name}.csr"), format!("{name}.pem"));
            let made = ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];
            self.openssl(&[&made[..], &["-out", &key]].concat());
            self.openssl(&["req", "-new", "-key", &key, "-subj", subject, "-out", &csr]);
            let names = self.folder.join("names");
            std::fs::write(&names, "subjectAltName = IP:127.0.0.1, DNS:localhost\n").unwrap();
            let signed = ["x509", "-req", "-in", &csr, "-CA", "ca.pem", "-CAkey", "ca.key"];
            let more = ["-CAcreateserial", "-days", "30", "-sha256", "-extfile", "names", "-out"];
            self.openssl(&[&signed[..], &more, &[&pem]].concat());
        }
    }

    fn openssl(&self, words: &[&str]) {
        let done = Command::new("openssl").current_dir(&self.folder).args(words).output().unwrap();
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// A file of those that were made.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.file(name)).unwrap()
    }

    /// Kills it, if it runs, and starts it with what it had. Tokens end with it.
    pub fn restart(&mut self) {
        self.kill();
        let (client, peer) = (self.endpoint(), format!("http://127.0.0.1:{}", self.ports[1]));
        let mut command = Command::new("etcd");
        command.args(["--name", "test", "--initial-cluster", &format!("test={peer}")]);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--heartbeat-interval", "20", "--election-timeout", "200"]);
        command.args(["--bcrypt-cost", "4"]);
        let file = |name| self.file(name).into_os_string();
        command.arg("--cert-file").arg(file("server.pem"));
        command.arg("--key-file").arg(file("server.key"));
        if self.asks_for_certificates {
            command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(file("ca.pem"));
        }
        command.arg("--data-dir").arg(self.folder.join("data"));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.process = Some(command.spawn().unwrap());
        let start = Instant::now();
        while !self.control(&["endpoint", "status"]).status().unwrap().success() {
            assert!(start.elapsed() < Duration::from_secs(60), "etcd does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Has users from now on: nobody else reads or writes, and [`USER`] only keys that begin so.
    pub fn has_users(&self, prefix: &str) {
        let (name, password) = USER;
        let with = format!("{name}:{password}");
        for words in [
            &["user", "add", "root:all of it"][..],
            &["user", "grant-role", "root", "root"],
            &["user", "add", &with],
            &["role", "add", "nodes"],
            &["role", "grant-permission", "nodes", "readwrite", "--prefix=true", prefix],
            &["user", "grant-role", name, "nodes"],
            &["auth", "enable"],
        ] {
            assert!(self.control(words).status().unwrap().success(), "{words:?}");
        }
    }

    fn control(&self, words: &[&str]) -> Command {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", &self.endpoint()]);
        let add = |command: &mut Command, flag: &str, path: &Path| {
            command.arg(flag).arg(path);
        };
        add(&mut command, "--cacert", &self.file("ca.pem"));
        add(&mut command, "--cert", &self.file("node.pem"));
        add(&mut command, "--key", &self.file("node.key"));
        command.args(words).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    pub fn endpoint(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports[0])
    }
}

impl Drop for SecureEtcd {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
