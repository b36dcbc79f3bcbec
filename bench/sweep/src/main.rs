//! A transport sweep whose flux another process analyses while it runs: what does that cost?
//!
//! The experiment of the XASM paper (ROSS 2016) with its sizes and larger ones. Writes one JSON
//! object per run; `bench/suite/sweep.py` compares and draws them. Ways take turns, so that a slow
//! minute of the machine meets all of them.
#![warn(missing_docs)]

mod board;
mod faults;
mod memory;
mod problem;
mod quadrature;
mod reference;
mod small;
mod spectrum;
mod sweep;
mod trial;
mod ways;

use heliostat_base::affinity;
use serde_json::{json, Value};
use trial::Plan;
use ways::Way;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The paper's sizes (x * y * z, z half as much again as x and y), then larger ones.
const SIZES: [[usize; 3]; 8] = [
    [4, 4, 6],
    [5, 5, 8],
    [6, 6, 9],
    [7, 7, 10],
    [8, 8, 12],
    [16, 16, 24],
    [32, 32, 48],
    [64, 64, 96],
];
const QUICK: [usize; 3] = [0, 4, 5];
const GROUPS: usize = 24;
/// How long a run of a small size lasts.
const RUN_NS: f64 = 120e6;

/// What the command line asks for.
struct Asked {
    is_quick: bool,
    trials: usize,
    out: std::path::PathBuf,
    reference: Option<reference::Wanted>,
}

fn main() -> Result<(), Failure> {
    let asked = read_arguments()?;
    if let Some(wanted) = asked.reference {
        return reference::write(wanted, &asked.out);
    }
    // Asked before anything is pinned.
    let places = placements();
    let small = small::measure(if asked.is_quick { 3 } else { 9 })?;
    let faults = faults::measure(if asked.is_quick { 2 } else { 8 })?;
    let mut runs = Vec::new();
    for (at, cells) in SIZES.into_iter().enumerate() {
        if !asked.is_quick || QUICK.contains(&at) {
            runs.extend(measure(cells, &asked, &places)?);
            // After every size: who ends this early keeps what was measured.
            let all = json!({ "runs": runs, "faults": faults, "small": small });
            std::fs::write(&asked.out, all.to_string())?;
        }
    }
    Ok(())
}

fn read_arguments() -> Result<Asked, Failure> {
    let out = "sweep-runs.json".into();
    let mut asked = Asked { is_quick: false, trials: 6, out, reference: None };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut next = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--quick" => (asked.is_quick, asked.trials) = (true, 3),
            "--trials" => asked.trials = next()?.parse()?,
            "--out" => asked.out = next()?.into(),
            // The flux of X,Y,Z cells after some steps, and nothing measured.
            "--flux" => {
                let (cells, steps) = (numbers(&next()?)?, next()?.parse()?);
                asked.reference = Some(reference::Wanted { cells, steps });
            }
            _ => return Err(format!("unknown: {word}; --quick, --trials, --out, --flux").into()),
        }
    }
    Ok(asked)
}

/// Three numbers with commas between.
fn numbers(text: &str) -> Result<[usize; 3], Failure> {
    let found: Result<Vec<usize>, _> = text.split(',').map(str::parse).collect();
    found?.try_into().map_err(|_| format!("{text} is not three numbers").into())
}

/// All ways and placements of one size.
fn measure(
    cells: [usize; 3],
    asked: &Asked,
    places: &[(usize, usize)],
) -> Result<Vec<Value>, Failure> {
    let mut plan = Plan { cells, groups: GROUPS, pairs: 2, cores: (0, 0), checks: false };
    let step_ns = trial::run(&plan, Way::Own)?.step_ns;
    let is_large = plan.cells[0] > 32;
    // With fewer pairs the differences of single steps hide one per cent.
    let least = if is_large { 2 } else { 8 };
    plan.pairs = ((RUN_NS / step_ns) as u64).clamp(least, 200);
    let is_long = plan.cells[0] > 8;
    let trials = if is_long { asked.trials.div_ceil(2) } else { asked.trials };
    let mut runs = vec![check(&plan)?];
    for cores in places.iter().copied() {
        plan.cores = cores;
        // What takes seconds a step is run where the paper runs it: on cores of their own.
        if is_large && cores.0 == cores.1 {
            continue;
        }
        for trial in 0..trials {
            for way in Way::ALL {
                let mut run = trial::run(&plan, way)?.json(&plan, way);
                run["trial"] = trial.into();
                runs.push(run);
            }
        }
    }
    eprintln!("{} cells: {} runs", cells.iter().product::<usize>(), runs.len());
    Ok(runs)
}

/// Versions of real data against the producer's own analysis, before anything is measured.
fn check(plan: &Plan) -> Result<Value, Failure> {
    let plan = Plan { checks: true, pairs: plan.pairs.min(20), ..*plan };
    let outcome = trial::run(&plan, Way::Snapshot)?;
    match outcome.tally {
        tally if tally.wrong > 0 => Err(format!("inconsistent versions: {tally:?}").into()),
        tally if tally.checked == 0 => Err("no version was compared".into()),
        _ => Ok(outcome.json(&plan, Way::Snapshot)),
    }
}

/// Two cores where the machine has them, and one.
fn placements() -> Vec<(usize, usize)> {
    let cores: Vec<usize> = affinity::allowed(0).map_or(vec![0], |set| set.iter().collect());
    match cores[..] {
        [one, two, ..] => vec![(one, two), (one, one)],
        [one] => vec![(one, one)],
        [] => vec![(0, 0)],
    }
}
