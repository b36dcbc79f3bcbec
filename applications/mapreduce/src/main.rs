//! The command line of the MapReduce application: a master, workers, the same by one thread, and a text.
#![forbid(unsafe_code)]

use std::path::Path;
use std::time::Duration;

use heliostat::control;
use mapreduce::job::Job;
use mapreduce::{generate, master, plain, worker, Failure};

const USAGE: &str = "usage:
  heliostat-mapreduce run count|sort INPUT OUTPUT [--name NAME] [--split BYTES] [--partitions N]
                                                  [--patience SECONDS]
  heliostat-mapreduce work --master NODE [--name NAME] [--patience SECONDS] [--slow MILLISECONDS]
  heliostat-mapreduce plain count|sort INPUT OUTPUT
  heliostat-mapreduce generate BYTES SEED OUTPUT
`run` and `work` reach the control plane of their node by HELIOSTAT_SOCKET. `run` prints what was done
when as JSON.";

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Err(error) = act(&words) {
        eprintln!("heliostat-mapreduce: {error}");
        std::process::exit(1);
    }
}

fn act(words: &[String]) -> Result<(), Failure> {
    let (plain_words, options) = parse(words)?;
    let plain_words: Vec<&str> = plain_words.iter().map(String::as_str).collect();
    match plain_words.as_slice() {
        ["run", job, input, output] => {
            control::configure_as_usual("mapreduce master");
            let settings = master::Settings {
                job: Job::parse(job).ok_or(USAGE)?,
                name: options.text("--name", "job"),
                input: absolute(input)?,
                output: absolute(output)?,
                split: options.number("--split", 16 << 20)?.max(1),
                partitions: options.number("--partitions", 4)? as usize,
                patience: Duration::from_secs(options.number("--patience", 3)?),
            };
            println!("{}", master::run(settings)?.to_json());
            Ok(())
        }
        ["work"] => {
            control::configure_as_usual("mapreduce worker");
            worker::work(worker::Settings {
                master: options.number("--master", 0)?,
                job: options.text("--name", "job"),
                patience: Duration::from_secs(options.number("--patience", 10)?),
                slowness: Duration::from_millis(options.number("--slow", 0)?),
            })
        }
        ["plain", job, input, output] => {
            let seconds = plain::run(Job::parse(job).ok_or(USAGE)?, input, output)?;
            println!(r#"{{"seconds":{seconds:.4}}}"#);
            Ok(())
        }
        ["generate", bytes, seed, output] => {
            let file = std::fs::File::create(output)?;
            let written = generate::write(bytes.parse()?, seed.parse()?, file)?;
            println!("{written} bytes");
            Ok(())
        }
        _ => Err(USAGE.into()),
    }
}

/// What stands behind words that begin with two dashes.
struct Options(Vec<(String, String)>);

impl Options {
    fn text(&self, name: &str, usual: &str) -> String {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map_or(usual, |(_, value)| value).to_owned()
    }

    fn number(&self, name: &str, usual: u64) -> Result<u64, Failure> {
        let text = self.text(name, &usual.to_string());
        Ok(text.parse().map_err(|error| format!("{name} {text}: {error}"))?)
    }
}

fn parse(words: &[String]) -> Result<(Vec<String>, Options), Failure> {
    const KNOWN: [&str; 6] =
        ["--name", "--split", "--partitions", "--patience", "--master", "--slow"];
    let (mut plain, mut options, mut words) = (Vec::new(), Vec::new(), words.iter());
    while let Some(word) = words.next() {
        if !word.starts_with("--") {
            plain.push(word.clone());
            continue;
        }
        let value = words.next().filter(|_| KNOWN.contains(&word.as_str()));
        options.push((word.clone(), value.ok_or(USAGE)?.clone()));
    }
    Ok((plain, Options(options)))
}

/// The file service takes absolute paths.
fn absolute(path: &str) -> Result<String, Failure> {
    Ok(std::path::absolute(Path::new(path))?.to_str().ok_or("a path of ours is UTF-8")?.to_owned())
}
