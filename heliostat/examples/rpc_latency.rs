//! What a call of 8 bytes costs, beside a ping-pong of 8 bytes over a Unix socket by the same two
//! processes; and a call between two nodes, beside the same over TCP.
//!
//!     heliostat start; cargo run --release -p heliostat --example rpc_latency
//!     cargo run --release -p heliostat --example rpc_latency -- 2 /path/of/node-2.sock
//!
//! The process starts itself again as the server, and with the number of another node on this machine
//! and its control plane's socket (docs/cluster.md, Three nodes on one machine) as a server of that node
//! too. All ways are measured in turns, so that whatever else the machine does meets all; medians and
//! their ratios are printed.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use heliostat::control;
use heliostat::rpc::{Function, Rpc};

const SERVER: &str = "RPC_LATENCY_SERVER";
const NAME: &str = "example/latency";
const ROUNDS: usize = 40;
const CALLS: usize = 1_000;

type Failure = Box<dyn std::error::Error>;

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A server that was started, by both of its ways.
struct Way {
    what: &'static str,
    server: Child,
    function: Function,
    socket: Box<dyn Stream>,
    calls: Vec<f64>,
    pings: Vec<f64>,
}

fn main() -> Result<(), Failure> {
    control::configure_as_usual("rpc_latency");
    if let Ok(place) = std::env::var(SERVER) {
        return serve(&place);
    }
    let rpc = Rpc::open()?;
    let mut ways = vec![near(&rpc)?];
    let mut words = std::env::args().skip(1);
    if let (Some(node), Some(socket)) = (words.next(), words.next()) {
        ways.push(far(&rpc, node.parse()?, &socket)?);
    }
    for round in 0..ROUNDS as u64 {
        for way in &mut ways {
            way.measure(round)?;
        }
    }
    ways.iter_mut().for_each(Way::tell);
    Ok(())
}

/// A server of this node, and a Unix socket to it.
fn near(rpc: &Rpc) -> Result<Way, Failure> {
    let place = std::env::temp_dir().join(format!("rpc_latency.{}", std::process::id()));
    let listener = UnixListener::bind(&place)?;
    let server = started(&place.to_string_lossy(), None)?;
    let (socket, _) = listener.accept()?;
    std::fs::remove_file(&place)?;
    Way::new("Unix socket", server, rpc.find(NAME)?, Box::new(socket))
}

/// A server of another node, and a TCP connection to it.
fn far(rpc: &Rpc, node: u32, control: &str) -> Result<Way, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let server = started(&listener.local_addr()?.to_string(), Some(Path::new(control)))?;
    let (socket, _) = listener.accept()?;
    socket.set_nodelay(true)?;
    Way::new("between nodes, TCP", server, rpc.on(node).find(NAME)?, Box::new(socket))
}

fn started(place: &str, control: Option<&Path>) -> Result<Child, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(SERVER, place).stdin(Stdio::null());
    if let Some(control) = control {
        command.env("HELIOSTAT_SOCKET", control);
    }
    Ok(command.spawn()?)
}

/// Serves both, each by a thread of its own, until it is killed.
fn serve(place: &str) -> Result<(), Failure> {
    let rpc = Rpc::open()?;
    let service = rpc.publish(NAME).request_bytes(8).reply_bytes(8).serve()?;
    let mut socket: Box<dyn Stream> = if place.starts_with('/') {
        Box::new(UnixStream::connect(place)?)
    } else {
        let socket = TcpStream::connect(place)?;
        socket.set_nodelay(true)?;
        Box::new(socket)
    };
    std::thread::spawn(move || {
        let mut bytes = [0; 8];
        while socket.read_exact(&mut bytes).and_then(|()| socket.write_all(&bytes)).is_ok() {}
    });
    Err(service.run(|call| Ok(call.payload().to_vec())).into())
}

impl Way {
    fn new(
        what: &'static str,
        server: Child,
        function: Function,
        socket: Box<dyn Stream>,
    ) -> Result<Way, Failure> {
        Ok(Way { what, server, function, socket, calls: Vec::new(), pings: Vec::new() })
    }

    fn measure(&mut self, round: u64) -> Result<(), Failure> {
        let (sent, mut reply, mut bytes) = (round.to_le_bytes(), Vec::new(), [0; 8]);
        self.calls.push(time(|| {
            self.function.call_into(&sent, &mut reply, None)?;
            assert_eq!(reply, sent);
            Ok(())
        })?);
        self.pings.push(time(|| {
            self.socket.write_all(&sent)?;
            self.socket.read_exact(&mut bytes)?;
            Ok(())
        })?);
        Ok(())
    }

    fn tell(&mut self) {
        let (call, ping) = (median(&mut self.calls), median(&mut self.pings));
        println!(
            "{:20} call {call:8.2} us, ping {ping:8.2} us, ratio {:6.2}",
            self.what,
            call / ping
        );
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        // One that has ended already is as good.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Microseconds of one, over many.
fn time(mut one: impl FnMut() -> Result<(), Failure>) -> Result<f64, Failure> {
    let begun = Instant::now();
    for _ in 0..CALLS {
        one()?;
    }
    Ok(begun.elapsed().as_secs_f64() * 1e6 / CALLS as f64)
}

fn median(all: &mut [f64]) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}
