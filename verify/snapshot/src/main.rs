//! `snapshot-verifier ROLE key=value...`: snapshots between processes, every page checked.
//!
//! ```text
//! run       a producer and its consumers; what each checks, and how they are hurt, is ordered
//! pinned    writes that no page table sees: invisible undeclared, and seen when declared
//! produce   a producer of a named region, until it is killed
//! consume   consumers of a named region, over the deaths of its producers
//! intrude   a consumer that tries to write what it may only read
//! ```
//! It ends with 0 when all is as promised. What a machine does not have is skipped with a line.

mod child;
mod consume;
mod intrude;
mod memory;
mod named;
mod orders;
mod pen;
mod pinned;
mod plan;
mod produce;
mod sandbox;
mod surgery;
mod uring;
mod writes;

use orders::Orders;

fn play(mut words: impl Iterator<Item = String>) -> Result<(), String> {
    let role = words.next().unwrap_or_default();
    let orders = Orders::read(words)?;
    if let Some(lack) = orders.lack {
        sandbox::take_away(lack).map_err(|error| format!("seccomp: {error}"))?;
    }
    match role.as_str() {
        "run" => produce::run(&orders),
        "pinned" => pinned::run(&orders),
        "produce" => named::produce(&orders),
        "consume" => named::consume(&orders),
        "intrude" => intrude::run(&orders),
        "heir" => intrude::heir(&orders),
        _ => Err(format!("{role:?} is none of run, pinned, produce, consume, intrude")),
    }
}

fn main() -> std::process::ExitCode {
    match play(std::env::args().skip(1)) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("snapshot-verifier: {why}");
            std::process::ExitCode::FAILURE
        }
    }
}
