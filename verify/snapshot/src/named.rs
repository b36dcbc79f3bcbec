//! Named regions: a producer that will be killed, and a consumer that notices.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use heliostat_client::session;
use heliostat_stub_snapshot::{attach_of, publish_as, Attachment, NamedError};

use crate::consume::follow_for;
use crate::orders::Orders;
use crate::pen;
use crate::plan::Plan;

/// Longest silence of a producer before its consumer asks after it.
const SILENCE: Duration = Duration::from_millis(250);

/// The plan as a description, so that consumers know it from the region alone.
fn described(plan: &Plan) -> String {
    let Plan { seed, pages, least, surgery } = plan;
    format!("plan {seed} {pages} {least} {}", u8::from(*surgery))
}

fn planned(description: &[u8]) -> Option<Plan> {
    let text = std::str::from_utf8(description).ok()?;
    let mut words = text.strip_prefix("plan ")?.split(' ');
    let mut number = || words.next()?.parse::<u64>().ok();
    let (seed, pages) = (number()?, number()? as usize);
    Some(Plan { seed, pages, least: number()? as usize, surgery: number()? != 0 })
}

/// Publishes under a name until it is killed, or for as long as ordered.
pub fn produce(orders: &Orders) -> Result<(), String> {
    session::configure(orders.socket.clone(), "snapshot-verifier".into());
    let (mut pen, mut region) = pen::begin(orders)?;
    if !region.describe(described(&pen.plan).as_bytes()) {
        return Err("the plan is too long for a description".into());
    }
    // The first version before the name, so that whoever finds the name finds a version.
    pen.write(&mut region, 1, 1)?;
    let mut number = region.publish().map_err(|error| error.to_string())?.number;
    let mut region = publish_as(&orders.name, region).map_err(|error| error.to_string())?;
    println!("generation {}", region.generation());
    let (mut round, ends) = (1, std::time::Instant::now() + orders.time);
    while orders.time.is_zero() || std::time::Instant::now() < ends {
        round += 1;
        pen.write(&mut region, round, number + 1)?;
        if let Ok(done) = region.publish() {
            number = done.number;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Follows a name over as many generations as there are rounds, and keeps the mapping of each
/// that is gone: it must stay whole.
pub fn consume(orders: &Orders) -> Result<(), String> {
    session::configure(orders.socket.clone(), "snapshot-verifier".into());
    let attached = attach_of(&orders.name, orders.owner);
    let mut region = attached.map_err(|error| error.to_string())?;
    let mut gone: Vec<(Attachment, Plan)> = Vec::new();
    for _ in 0..orders.rounds {
        let plan = planned(&region.description()).ok_or("the region's plan is unreadable")?;
        println!("generation {}", region.generation());
        let verified = AtomicU64::new(0);
        let next = loop {
            follow_for(&region, plan, orders.habit(0), &verified, SILENCE)?;
            match region.successor() {
                Ok(Some(next)) => break next,
                Ok(None) | Err(NamedError::Refused(..)) => {}
                Err(error) => return Err(error.to_string()),
            }
        };
        println!("verified {}", verified.into_inner());
        gone.push((std::mem::replace(&mut region, next), plan));
        for (old, plan) in &gone {
            let again = AtomicU64::new(0);
            follow_for(old, *plan, orders.habit(1), &again, Duration::ZERO)?;
            if again.into_inner() == 0 {
                return Err("a mapping of a dead producer shows nothing".into());
            }
        }
    }
    println!("whole over {} producers", orders.rounds);
    Ok(())
}
