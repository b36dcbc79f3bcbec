//! The flux after some steps, for other implementations of the same problem to be compared with.

use std::path::Path;

use crate::problem::Problem;
use crate::sweep::Solver;
use crate::{trial, Failure, GROUPS};

/// Which flux.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Cells along each axis.
    pub cells: [usize; 3],
    /// Steps in time from no particles at all.
    pub steps: usize,
}

/// Writes it: 64-bit floats in this machine's order, groups innermost, then x, y and z.
pub fn write(wanted: Wanted, path: &Path) -> Result<(), Failure> {
    let problem = Problem::block(wanted.cells, GROUPS);
    let mut flux = vec![0.0; problem.flux_len()];
    let ordinates = trial::ordinates(&problem);
    let mut solver = Solver::new(problem, ordinates);
    for _ in 0..wanted.steps {
        trial::step(&mut solver, &mut flux);
    }
    let bytes: Vec<u8> = flux.iter().flat_map(|value| value.to_ne_bytes()).collect();
    Ok(std::fs::write(path, bytes)?)
}
