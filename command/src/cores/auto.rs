//! `heliostat cores --auto -- COMMAND`: tries partitions on a real workload, and keeps the best.
//!
//! Rounds go by turns, each partition once in a round, in the other direction every second time: what
//! changes on the machine meanwhile changes all of them. None takes part as the others do.

use heliostat_backend_cores::{probe, probe_ability, Root};
use heliostat_service_cores::{candidates, judge, Candidate, Verdict};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::measured::Measured;
use super::set::{begin, part, part_not, settled, state_text};
use super::trial::Figure;
use super::{plot, CoresError};
use crate::args::cores::CoresArguments;
use crate::place::surroundings;
use crate::show::print;
use crate::table::Table;

/// Tries them.
pub fn run(arguments: &CoresArguments) -> Result<(), CoresError> {
    let figure = Figure::parse(arguments.trial.figure.as_deref())?;
    begin(&arguments.format.place)?;
    let all = settled()?.all;
    let machine = probe(&Root::default());
    let is_root = rustix::process::geteuid().is_root();
    let ability = probe_ability(&Root::default(), &machine, &all, is_root);
    let tried = candidates(&machine.topology(&all), ability.moves_interrupts);
    // An interrupt ends the trial, and the partition that is being tried.
    let signals = Signals::new([SIGINT, SIGTERM]);
    let mut signals = signals.map_err(|error| CoresError::Command(error.to_string()))?;
    let rounds = measure(arguments, &figure, &tried, &mut signals);
    // Whatever happened: a partition that was tried is not one that is wanted.
    let reset = part_not();
    let rounds = rounds?;
    reset?;
    let verdict = judge(&rounds[0], &rounds[1..]);
    let state = match verdict.best {
        Some(place) => part(&tried[place].wish)?,
        None => settled()?,
    };
    let measured = remember(arguments, &tried, &verdict);
    let plotted = plot::write(&arguments.trial.plot, &measured, &tried, &verdict);
    if arguments.format.json {
        print(&format!("{}\n", as_json(&tried, &verdict)))?;
    } else {
        print(&table(&tried, &verdict, figure.unit()))?;
        print(&state_text(&state))?;
    }
    plotted
}

/// The rounds of none, and then those of each partition.
fn measure(
    arguments: &CoresArguments,
    figure: &Figure,
    tried: &[Candidate],
    signals: &mut Signals,
) -> Result<Vec<Vec<f64>>, CoresError> {
    let mut rounds = vec![Vec::new(); tried.len() + 1];
    for round in 0..arguments.trial.rounds {
        let mut order: Vec<usize> = (0..rounds.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for place in order {
            let state = match place.checked_sub(1) {
                None => part_not()?,
                Some(candidate) => part(&tried[candidate].wish)?,
            };
            let value = figure.measure(&arguments.program)?;
            if signals.pending().next().is_some() {
                return Err(CoresError::Command("interrupted".to_owned()));
            }
            if round == 0 && place == 1 && state.placed == 0 {
                eprintln!(
                    "heliostat: no program runs under Heliostat but what the command starts by \
                     `heliostat run`: others are not placed"
                );
            }
            eprintln!("round {}: {}: {value:.4}", round + 1, name(tried, place));
            rounds[place].push(value);
        }
    }
    Ok(rounds)
}

fn name(tried: &[Candidate], place: usize) -> String {
    place.checked_sub(1).map_or("none".to_owned(), |place| tried[place].partition.to_string())
}

fn remember(arguments: &CoresArguments, tried: &[Candidate], verdict: &Verdict) -> Measured {
    let words = arguments.program.iter().map(|word| word.to_string_lossy().into_owned());
    let each = tried.iter().zip(&verdict.each);
    let measured = Measured {
        command: words.collect::<Vec<_>>().join(" "),
        margin: verdict.margin,
        ratios: each.map(|(one, judged)| (one.partition.to_string(), judged.ratio)).collect(),
        kept: name(tried, verdict.best.map_or(0, |place| place + 1)),
    };
    measured.keep(&surroundings(&arguments.format.place));
    measured
}

fn table(tried: &[Candidate], verdict: &Verdict, unit: &str) -> String {
    let median = format!("#median ({unit})");
    let mut table = Table::new(&["partition", &median, "#of none", "#worst", "#best", ""]);
    let all = std::iter::once(&verdict.none).chain(&verdict.each);
    for (place, judged) in all.enumerate() {
        let is_kept = verdict.best.map_or(0, |best| best + 1) == place;
        table.row([
            name(tried, place),
            format!("{:.4}", judged.median),
            format!("{:.3}", judged.ratio),
            format!("{:.3}", judged.range.0),
            format!("{:.3}", judged.range.1),
            if is_kept { "kept" } else { "" }.to_owned(),
        ]);
    }
    let margin = verdict.margin * 100.0;
    format!("{}a partition is kept that is better than none by {margin:.1} %\n", table.render())
}

fn as_json(tried: &[Candidate], verdict: &Verdict) -> serde_json::Value {
    let all = std::iter::once(&verdict.none).chain(&verdict.each).enumerate();
    let each = all.map(|(place, judged)| {
        json!({
            "partition": name(tried, place),
            "median": judged.median,
            "ratio": judged.ratio,
            "worst": judged.range.0,
            "best": judged.range.1,
        })
    });
    json!({
        "partitions": each.collect::<Vec<_>>(),
        "margin": verdict.margin,
        "kept": name(tried, verdict.best.map_or(0, |place| place + 1)),
    })
}

#[cfg(test)]
mod tests {
    use heliostat_service_cores::{Cpu, Topology};

    use super::*;

    fn two_cores() -> Vec<Candidate> {
        let cpu = |cpu| Cpu { cpu, core: (0, cpu as u32), node: 0, cache: 0 };
        candidates(&Topology { cpus: vec![cpu(0), cpu(1)] }, false)
    }

    #[test]
    fn the_table_says_what_was_kept_and_by_which_rule() {
        let verdict = judge(&[100.0; 3], &[vec![62.0; 3]]);
        let wanted = "partition  median (runs/s)  of none  worst   best\n\
                      none              100.0000    1.000  1.000  1.000  kept\n\
                      kernel 1           62.0000    0.620  0.620  0.620\n\
                      a partition is kept that is better than none by 2.0 %\n";
        assert_eq!(table(&two_cores(), &verdict, "runs/s"), wanted);
        assert_eq!(as_json(&two_cores(), &verdict)["kept"], "none");
    }
}
