//! Calls of a function that answers with 8 bytes, of this node or of another one.

use std::collections::VecDeque;
use std::error::Error;
use std::time::{Duration, Instant};

use heliostat_client::session;
use heliostat_stub_rpc::{Function, Rpc};

use crate::{sampled, Outcome};

const REPLY: usize = 8;

fn open() -> Result<Rpc, Box<dyn Error>> {
    session::configure(std::env::var("HELIOSTAT_SOCKET")?, "bench".into());
    Ok(Rpc::open()?)
}

fn find(rpc: &Rpc, node: u32, name: &str) -> Result<Function, Box<dyn Error>> {
    Ok(if node == 0 { rpc.find(name)? } else { rpc.on(node).find(name)? })
}

/// Serves the function until it is killed.
pub fn serve(name: &str, bytes: u32) -> Outcome {
    let service = open()?.publish(name).request_bytes(bytes).reply_bytes(REPLY as u32).serve()?;
    println!("ready");
    Err(service.run(|call| Ok(call.payload()[..REPLY.min(call.payload().len())].to_vec())).into())
}

/// The median time of a call, one after the other.
pub fn one_by_one(node: u32, name: &str, bytes: usize, limit: Duration) -> Outcome {
    let rpc = open()?;
    let function = find(&rpc, node, name)?;
    let (payload, mut reply) = (vec![1; bytes], Vec::new());
    let took = sampled(bytes, limit, || Ok(function.call_into(&payload, &mut reply, None)?))?;
    Ok(format!("{{\"ns\": {took:.1}}}"))
}

/// Calls a second with `depth` of them on their way.
pub fn at_once(node: u32, name: &str, bytes: usize, depth: usize, limit: Duration) -> Outcome {
    let rpc = open()?;
    let function = find(&rpc, node, name)?;
    let (payload, mut pending) = (vec![1; bytes], VecDeque::new());
    let (began, mut done) = (Instant::now(), 0_u64);
    while began.elapsed() < limit {
        while pending.len() < depth {
            pending.push_back(function.begin(&payload, None)?);
        }
        if let Some(first) = pending.pop_front() {
            first.wait()?;
            done += 1;
        }
    }
    Ok(format!("{{\"rate\": {:.1}}}", done as f64 / began.elapsed().as_secs_f64()))
}

/// Calls so many times, says so, and is there until it is killed.
pub fn stay(node: u32, name: &str, calls: u32) -> Outcome {
    let rpc = open()?;
    let function = find(&rpc, node, name)?;
    for _ in 0..calls {
        function.call(&[1; REPLY], None)?;
    }
    println!("ready");
    loop {
        std::thread::park();
    }
}
