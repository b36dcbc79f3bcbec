//! One run of the simulation, alone or beside a consumer in a process of its own.

use heliostat_base::{affinity, clock};
use heliostat_bench_report::median;
use serde_json::{json, Value};

use crate::board::Tally;
use crate::problem::Problem;
use crate::quadrature::{self, Ordinate};
use crate::spectrum::Spectrum;
use crate::sweep::Solver;
use crate::ways::{consume, Sharing, Way};
use crate::Failure;

/// Pairs of steps before anything is measured: slots get used, page tables get filled.
const WARM_UPS: u64 = 3;
/// Sweeps before the one that ends a step. As many in each, so that steps can be compared.
const SWEEPS: usize = 5;
/// Cosines of the quadrature: 2 * 4 * 4 = 32 directions; beyond the paper's sizes 8, which makes
/// the step shorter and what is added to it weigh more.
const POLAR: [usize; 2] = [4, 2];
/// The paper's largest.
const LARGEST_CELLS: usize = 6144;

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Cells along each axis.
    pub cells: [usize; 3],
    /// Energy groups.
    pub groups: usize,
    /// Measured pairs of steps.
    pub pairs: u64,
    /// Cores of producer and consumer.
    pub cores: (usize, usize),
    /// Whether the producer analyses every step too, for comparison; then nothing is measured.
    pub checks: bool,
}

/// What came of it: medians over pairs of neighbouring steps, so that the moods of a machine, which
/// meet both alike, fall out.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Time of a step that nobody is told of.
    pub step_ns: f64,
    /// By how much a step whose predecessor is shared takes longer: sharing itself, page faults
    /// that follow from it, and the analysis that runs beside it.
    pub over_ns: f64,
    /// Of this, time in what shares the flux: locks, copies, publishing, ringing.
    pub shared_ns: f64,
    /// The consumer's counts.
    pub tally: Tally,
}

impl Outcome {
    /// As JSON, with what was run.
    pub fn json(&self, plan: &Plan, way: Way) -> Value {
        let tally = self.tally;
        json!({
            "cells": plan.cells.iter().product::<usize>(), "groups": plan.groups,
            "cores": if plan.cores.0 == plan.cores.1 { "one core" } else { "two cores" },
            "way": way.name(), "pairs": plan.pairs, "step_ns": self.step_ns,
            "over_ns": self.over_ns, "shared_ns": self.shared_ns, "analysed": tally.analysed,
            "checked": tally.checked, "wrong": tally.wrong,
            "analysis_ns": tally.busy_ns as f64 / tally.analysed.max(1) as f64,
        })
    }
}

/// Runs it. The consumer is a forked process; this one is the producer.
pub fn run(plan: &Plan, way: Way) -> Result<Outcome, Failure> {
    let problem = Problem::block(plan.cells, plan.groups);
    let mut sharing = Sharing::new(way, problem.flux_len())?;
    let attached = sharing.attach()?;
    let child = forked(|| {
        affinity::pin(plan.cores.1).map_err(|error| format!("{error:?}"))?;
        consume(&sharing, attached, plan.groups)
    })?;
    affinity::pin(plan.cores.0).map_err(|error| format!("{error:?}"))?;
    let done = produce(plan, problem, &mut sharing);
    sharing.end();
    match ended_well(child) {
        true => done,
        false => Err("the consumer failed".into()),
    }
}

/// Steps in pairs: one after its predecessor was shared, one after a predecessor that was not.
fn produce(plan: &Plan, problem: Problem, sharing: &mut Sharing) -> Result<Outcome, Failure> {
    let directions = ordinates(&problem);
    let mut solver = Solver::new(problem, directions);
    let [mut alone, mut over, mut shared] = [(); 3].map(|()| Vec::new());
    let mut shares = 0;
    for pair in 0..WARM_UPS + plan.pairs {
        let [mut with, mut without] = [0.0; 2];
        // Which of both comes first takes turns too.
        for is_shared in [pair % 2 == 0, pair % 2 == 1] {
            let began = clock::monotonic_ns();
            if is_shared {
                shares += 1;
                sharing.share(shares)?;
                shared.push((clock::monotonic_ns() - began) as f64);
            }
            // SAFETY: this process alone writes it, and holds the lock where others read it.
            let flux = unsafe { sharing.flux.values_mut() };
            step(&mut solver, flux);
            let took = (clock::monotonic_ns() - began) as f64;
            *(if is_shared { &mut with } else { &mut without }) = took;
            if plan.checks {
                sharing.board.expect(shares + 1, Spectrum::of(flux, plan.groups).digest());
            }
        }
        alone.push(without);
        over.push(with - without);
    }
    let warm = WARM_UPS as usize;
    let [step_ns, over_ns, shared_ns] =
        [&alone[warm..], &over[warm..], &shared[warm..]].map(median);
    Ok(Outcome { step_ns, over_ns, shared_ns, tally: sharing.board.tally() })
}

/// The directions of a problem, fewer where it is large.
pub fn ordinates(problem: &Problem) -> Vec<Ordinate> {
    quadrature::product(POLAR[usize::from(problem.cell_count() > LARGEST_CELLS)])
}

/// One step in time.
pub fn step(solver: &mut Solver, flux: &mut [f64]) {
    for _ in 0..SWEEPS {
        solver.iterate::<false>(flux);
    }
    solver.iterate::<true>(flux);
}

/// Processor time of this thread so far.
pub fn processor_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the live structure.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Runs `child` in a forked process; its pid.
fn forked(child: impl FnOnce() -> Result<(), Failure>) -> Result<i32, Failure> {
    // SAFETY: this process has one thread, and the child ends by _exit without returning.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error().into()),
        0 => {
            // SAFETY: asks the kernel to end this child with its parent; no pointer is passed.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            let answer = child();
            if let Err(error) = &answer {
                eprintln!("consumer: {error}");
            }
            // SAFETY: ends this process.
            unsafe { libc::_exit(i32::from(answer.is_err())) }
        }
        pid => Ok(pid),
    }
}

fn ended_well(pid: i32) -> bool {
    let mut status = 0;
    // SAFETY: a child of ours, and a live word for its status.
    unsafe { libc::waitpid(pid, &mut status, 0) == pid && status == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every way that shares data: what the consumer analysed is what the producer had.
    #[test]
    fn the_consumer_analyses_exactly_what_the_producer_had_at_that_step() {
        for way in [Way::Snapshot, Way::Whole, Way::Spin, Way::Copy] {
            let plan =
                Plan { cells: [6, 6, 9], groups: 24, pairs: 10, cores: (0, 0), checks: true };
            let tally = run(&plan, way).unwrap().tally;
            assert!(tally.checked > 0, "{}: nothing was analysed", way.name());
            assert_eq!(tally.wrong, 0, "{}: of {} checked", way.name(), tally.checked);
        }
    }
}
