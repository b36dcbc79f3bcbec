//! Locks and barriers, of this node or of another one.

use std::error::Error;
use std::time::{Duration, Instant};

use heliostat_client::session;
use heliostat_stub_lock::Locks;

use crate::{sampled, Outcome};

/// Bytes of an operation of a few microseconds: so many of them are one sample.
const SHORT: usize = 8;

fn locks(node: u64) -> Result<Locks, Box<dyn Error>> {
    session::configure(std::env::var("HELIOSTAT_SOCKET")?, "bench".into());
    let locks = Locks::open()?;
    Ok(if node == 0 { locks } else { locks.on(node) })
}

/// An acquisition for which nobody waits, and its release.
pub fn pairs(node: u64, limit: Duration) -> Outcome {
    let lock = locks(node)?.lock("bench/lock")?;
    let took = sampled(SHORT, limit, || Ok(lock.acquire()?.release()?))?;
    Ok(format!("{{\"ns\": {took:.1}}}"))
}

/// So many rounds of a barrier of two, of which this process is one.
pub fn barrier(node: u64, name: &str, rounds: u32, limit: Duration) -> Outcome {
    let barrier = locks(node)?.barrier(name, 2)?;
    let pass = || match barrier.wait_within(limit) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err("the other one has not come".into()),
        Err(error) => Err(Box::<dyn Error>::from(error)),
    };
    // Before the first both have to be there.
    pass()?;
    let began = Instant::now();
    for _ in 0..rounds {
        pass()?;
    }
    let took = began.elapsed().as_nanos() as f64 / f64::from(rounds.max(1));
    Ok(format!("{{\"ns\": {took:.1}}}"))
}
