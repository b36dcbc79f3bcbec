//! A key-value store that is checkpointed while it serves: by snapshot, by fork, by standing still.
//!
//! Load and store share a process on one core; whoever writes the file has the other. Each trial
//! reads its file back and compares it with the store at the moment of the checkpoint. Writes one
//! JSON object per trial; `bench/suite/store.py` compares and draws them.
#![warn(missing_docs)]

mod arena;
mod checkpoint;
mod load;
mod phases;
mod process;
mod table;
mod trial;

use std::path::PathBuf;

use checkpoint::Way;
use serde_json::{json, Value};
use trial::Plan;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Operations per second of the paced load, half of them SET.
const RATE: f64 = 100e3;

struct Asked {
    mib: Vec<usize>,
    trials: usize,
    folder: PathBuf,
    out: PathBuf,
}

fn main() -> Result<(), Failure> {
    let asked = read_arguments()?;
    let mut runs: Vec<Value> = Vec::new();
    for mib in asked.mib {
        // A GiB takes several times as long, and its pauses spread less.
        for trial in 0..if mib > 256 { 1 } else { asked.trials } {
            for way in Way::ALL {
                for rate in [RATE, 0.0] {
                    let file = asked.folder.join("store-checkpoint.bin");
                    let plan = Plan { bytes: mib << 20, rate, file, watches: false };
                    let mut run = trial::run(&plan, way)?;
                    run["trial"] = trial.into();
                    runs.push(run);
                }
            }
        }
        for way in Way::ALL {
            let file = asked.folder.join("store-checkpoint.bin");
            runs.push(trial::run(
                &Plan { bytes: mib << 20, rate: RATE, file, watches: true },
                way,
            )?);
        }
        eprintln!("{mib} MiB: {} runs", runs.len());
        // After every size: who ends this early keeps what was measured.
        std::fs::write(&asked.out, json!(runs).to_string())?;
    }
    Ok(())
}

fn read_arguments() -> Result<Asked, Failure> {
    let folder = PathBuf::from(".");
    let mut asked = Asked { mib: vec![256], trials: 3, folder, out: "store-runs.json".into() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut next = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--mib" => asked.mib = next()?.split(',').map(str::parse).collect::<Result<_, _>>()?,
            "--trials" => asked.trials = next()?.parse()?,
            "--folder" => asked.folder = next()?.into(),
            "--out" => asked.out = next()?.into(),
            _ => return Err(format!("unknown: {word}; --mib, --trials, --folder, --out").into()),
        }
    }
    Ok(asked)
}
