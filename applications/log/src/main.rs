//! The command line of the log: writers, readers, a cleaner.
#![forbid(unsafe_code)]

use std::io::Write;
use std::time::{Duration, Instant};

use atomic_log::log::{Log, Position, Settings};
use atomic_log::reader::Reader;
use heliostat::control;
use heliostat::memory::Memory;

const USAGE: &str = "usage:
  heliostat-log append NAME --nodes 1,2,3 [--copies N] [--segment BYTES]
                            [--count N] [--entries N] [--bytes N] [--writer NAME]
  heliostat-log read   NAME --nodes 1,2,3 [--for MILLISECONDS] [--patience MILLISECONDS]
  heliostat-log clean  NAME --nodes 1,2,3 --before SEGMENT
`append` prints a line for each transaction that is in the log, `read` one for each that it meets, until it
has met none for so long.";

type Failure = Box<dyn std::error::Error>;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    control::configure_as_usual("log");
    if let Err(error) = act(&words) {
        eprintln!("heliostat-log: {error}");
        std::process::exit(1);
    }
}

fn act(words: &[String]) -> Result<(), Failure> {
    let [verb, name, options @ ..] = words else { return Err(USAGE.into()) };
    let options = Options::of(options)?;
    let nodes = options.text("--nodes", "").split(',').map(str::parse).collect::<Result<_, _>>();
    let settings = Settings {
        name: name.clone(),
        nodes: nodes.map_err(|_| USAGE)?,
        copies: options.number("--copies", 2)? as usize,
        segment_bytes: options.number("--segment", 4 << 20)?,
    };
    let memory = Memory::open()?;
    match verb.as_str() {
        "append" => append(&memory, settings, &options),
        "read" => read(&memory, settings, &options),
        "clean" => {
            let before = Position { segment: options.number("--before", 0)?, slot: 0 };
            println!("{} segments freed", Log::clean(&memory, &settings, before)?);
            Ok(())
        }
        _ => Err(USAGE.into()),
    }
}

/// Entries of a transaction say who wrote it, which of his it is, and which of its entries each is.
fn append(memory: &Memory, settings: Settings, options: &Options) -> Result<(), Failure> {
    let (count, entries) = (options.number("--count", 1)?, options.number("--entries", 3)?);
    let (bytes, writer) = (options.number("--bytes", 16)? as usize, options.text("--writer", "w"));
    let mut log = Log::open(memory, settings)?;
    let (begun, mut out) = (Instant::now(), std::io::stdout().lock());
    for number in 0..count {
        let texts: Vec<String> =
            (0..entries).map(|n| format!("{:<bytes$}", format!("{writer}.{number}.{n}"))).collect();
        let texts: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
        let done = log.append(&texts)?;
        let Position { segment, slot } = done.position;
        writeln!(out, "{segment} {slot} {} {writer}.{number}", done.copies)?;
    }
    let rate = count as f64 / begun.elapsed().as_secs_f64();
    eprintln!("{rate:.0} transactions a second");
    Ok(())
}

fn read(memory: &Memory, settings: Settings, options: &Options) -> Result<(), Failure> {
    let limit = Duration::from_millis(options.number("--for", 0)?);
    let patience = Duration::from_millis(options.number("--patience", 500)?);
    let mut reader = Reader::open(memory, settings, patience)?;
    let (mut found_last, mut out) = (Instant::now(), std::io::stdout().lock());
    loop {
        if let Some(found) = reader.read()? {
            found_last = Instant::now();
            let Position { segment, slot } = found.position;
            let texts = found.entries.iter().map(|entry| String::from_utf8_lossy(entry));
            let texts: Vec<String> = texts.map(|text| text.trim_end().to_owned()).collect();
            writeln!(out, "{segment} {slot} {}", texts.join(" "))?;
        } else if !reader.is_waiting() && found_last.elapsed() > limit {
            return Ok(());
        } else {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Pairs of a name and a value.
struct Options<'a>(&'a [String]);

impl<'a> Options<'a> {
    const KNOWN: [&'static str; 10] = [
        "--nodes",
        "--copies",
        "--segment",
        "--count",
        "--entries",
        "--bytes",
        "--writer",
        "--for",
        "--patience",
        "--before",
    ];

    fn of(words: &'a [String]) -> Result<Options<'a>, Failure> {
        for pair in words.chunks(2) {
            match pair {
                [name, _] if Self::KNOWN.contains(&name.as_str()) => {}
                [name, ..] => return Err(format!("{name}: no option with a value\n{USAGE}").into()),
                [] => {}
            }
        }
        Ok(Options(words))
    }

    fn text(&self, name: &str, usual: &str) -> String {
        let mut pairs = self.0.chunks_exact(2);
        pairs.find(|pair| pair[0] == name).map_or(usual, |pair| &pair[1]).to_owned()
    }

    fn number(&self, name: &str, usual: u64) -> Result<u64, Failure> {
        let text = self.text(name, &usual.to_string());
        Ok(text.parse().map_err(|error| format!("{name} {text}: {error}"))?)
    }
}
