//! One measurement of delegated operations per call; `bench/suite/delegated.py` puts them together.
//!
//! ```text
//! line CORE CORE                              round trip of a cache line, and a copy of 4 KiB
//! roundtrip FILE SECONDS CORE                 one cached 4 KiB read after the other
//! now FILE SECONDS CORE PAUSE_US              the same with a pause between them
//! batch FILE SECONDS CORE BYTES BATCH         cached reads in batches, and pread of as many
//! device FILE SECONDS CORE BYTES DEPTH ORDER WHO  reads past every cache; ORDER is seq or rand, made
//!                                             by WHO: the server loop, or an own ring
//! scan FILE BYTES PASSES                      a whole file through the cache
//! flood FILE SECONDS CORE BYTES DEPTH         cached reads, so many under way all the time
//! ```
//! The control plane is where HELIOSTAT_SOCKET says. Each prints one line of JSON.
#![forbid(unsafe_code)]

mod line;
mod reads;
mod trip;

use std::error::Error;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::Duration;

use heliostat_client::session;
use heliostat_stub_file::{Delegated, File as Opened, Way, DIRECT};

use reads::Reads;

type Outcome = Result<String, Box<dyn Error>>;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let text = match words.as_slice() {
        ["line", one, other] => line::measure(one.parse()?, other.parse()?),
        ["roundtrip", file, seconds, core] => trip::roundtrip(&on(file, seconds, core)?),
        ["now", file, seconds, core, pause] => {
            trip::now_and_then(&on(file, seconds, core)?, pause.parse()?)
        }
        ["batch", file, seconds, core, bytes, batch] => {
            trip::batch(&on(file, seconds, core)?, bytes.parse()?, batch.parse()?)
        }
        ["device", file, seconds, core, bytes, depth, order, who] => {
            let way = if *who == "own" { Way::Own } else { Way::Direct };
            let reads = Reads { bytes: bytes.parse()?, depth: depth.parse()?, way };
            reads::device(&on(file, seconds, core)?, &reads, *order == "rand")
        }
        ["flood", file, seconds, core, bytes, depth] => {
            reads::flood(&on(file, seconds, core)?, bytes.parse()?, depth.parse()?)
        }
        ["scan", file, bytes, passes] => reads::scan(file, bytes.parse()?, passes.parse()?),
        _ => Err("what is measured? see the head of bench/delegated/src/main.rs".into()),
    }?;
    println!("{text}");
    Ok(())
}

/// What every measurement works on.
struct Place {
    file: String,
    seconds: Duration,
}

fn on(file: &str, seconds: &str, core: &str) -> Result<Place, Box<dyn Error>> {
    heliostat_base::affinity::pin(core.parse()?).map_err(|errno| errno.to_string())?;
    Ok(Place { file: file.to_owned(), seconds: Duration::from_secs_f64(seconds.parse()?) })
}

/// A session with this file open, for the device if it says by which way; and the file's length.
fn begin(
    file: &str,
    window: usize,
    direct: Option<Way>,
) -> Result<(Delegated, Opened, u64), Box<dyn Error>> {
    let socket = std::env::var("HELIOSTAT_SOCKET")?;
    session::configure(socket, "bench".into());
    let mut delegated = Delegated::start(window)?;
    let shown = File::open(file)?;
    delegated.read_directly(direct == Some(Way::Own));
    let opened = delegated.show(shown.as_raw_fd(), if direct.is_some() { DIRECT } else { 0 })?;
    Ok((delegated, opened, shown.metadata()?.len()))
}

/// Numbers that look random, the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }
}
