//! What a call of 8 bytes costs, beside a ping-pong of 8 bytes over a Unix socket by the same two
//! processes.
//!
//!     heliostat start; cargo run --release -p heliostat --example rpc_latency
//!
//! The process starts itself again as the server. Both ways are measured in turns, so that whatever
//! else the machine does meets both; medians and their ratio are printed.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Instant;

use heliostat::control;
use heliostat::rpc::Rpc;

const SERVER: &str = "RPC_LATENCY_SERVER";
const NAME: &str = "example/latency";
const ROUNDS: usize = 40;
const CALLS: usize = 2_000;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    control::configure_as_usual("rpc_latency");
    if let Ok(path) = std::env::var(SERVER) {
        return serve(&path);
    }
    let folder = std::env::temp_dir().join(format!("rpc_latency.{}", std::process::id()));
    let listener = std::os::unix::net::UnixListener::bind(&folder)?;
    let mut server =
        Command::new(std::env::current_exe()?).env(SERVER, &folder).stdin(Stdio::null()).spawn()?;
    let (socket, _) = listener.accept()?;
    let measured = measure(socket);
    server.kill()?;
    server.wait()?;
    std::fs::remove_file(&folder)?;
    measured
}

/// Serves both, each by a thread of its own, until it is killed.
fn serve(path: &str) -> Result<(), Failure> {
    let rpc = Rpc::open()?;
    let service = rpc.publish(NAME).request_bytes(8).reply_bytes(8).serve()?;
    let mut socket = UnixStream::connect(path)?;
    std::thread::spawn(move || {
        let mut bytes = [0; 8];
        while socket.read_exact(&mut bytes).and_then(|()| socket.write_all(&bytes)).is_ok() {}
    });
    Err(service.run(|call| Ok(call.payload().to_vec())).into())
}

fn measure(mut socket: UnixStream) -> Result<(), Failure> {
    let function = Rpc::open()?.find(NAME)?;
    let (mut calls, mut pings) = (Vec::new(), Vec::new());
    let mut reply = Vec::new();
    for round in 0..ROUNDS as u64 {
        let sent = round.to_le_bytes();
        calls.push(time(|| {
            function.call_into(&sent, &mut reply, None)?;
            assert_eq!(reply, sent);
            Ok(())
        })?);
        let mut bytes = [0; 8];
        pings.push(time(|| {
            socket.write_all(&sent)?;
            socket.read_exact(&mut bytes)?;
            Ok(())
        })?);
    }
    let (call, ping) = (median(&mut calls), median(&mut pings));
    println!("call of 8 bytes         {call:8.2} us");
    println!("Unix socket, 8 bytes    {ping:8.2} us");
    println!("ratio                   {:8.2}", call / ping);
    Ok(())
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
