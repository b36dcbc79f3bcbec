//! The discrete-ordinates equations, diamond difference, solved by source iteration.
//!
//! For direction m and group g, with isotropic scattering and backward Euler in time:
//!
//! ```text
//! along_m . grad psi + (total + 1/(v dt)) psi = source + sum_from scatter phi_from + psi_old/(v dt)
//! phi = sum_m weight_m psi
//! ```
//!
//! A sweep solves it cell by cell in the direction of flight: the value in a cell's middle is the
//! mean of its faces (diamond difference), so what leaves a cell is twice the middle less what came
//! in. Groups lie innermost, since they are what a sweep may do at once. No fix-up of negative
//! fluxes: cells are thin enough here.

use crate::problem::Problem;
use crate::quadrature::Ordinate;

/// A problem in the course of its solution. The flux itself lies in memory of the caller's.
pub struct Solver {
    /// What is solved.
    pub problem: Problem,
    ordinates: Vec<Ordinate>,
    /// Angular flux at the end of the step before: ordinate, cell, group.
    pub old: Vec<f64>,
    /// Source and scattering per cell and group.
    emission: Vec<f64>,
    /// Flux of the sweep in progress.
    sum: Vec<f64>,
    /// What left through all faces less what came in, per group, in the last committed sweep.
    pub leakage: Vec<f64>,
    faces: Faces,
}

/// Flux on the faces between what was swept and what was not yet.
struct Faces {
    x: Vec<f64>,
    y: Vec<f64>,
    z: Vec<f64>,
}

/// Coefficients of one ordinate.
struct Flight {
    weight: f64,
    /// Twice the cosine over the cell's width.
    slope: [f64; 3],
    /// True where the flight goes towards smaller indices.
    is_back: [bool; 3],
    /// One over all that stops a particle, per material and group.
    inverse: Vec<f64>,
    /// Weight times cosine times area, per axis: what a face's flux carries.
    carried: [f64; 3],
}

impl Solver {
    /// Begins with no particles anywhere.
    pub fn new(problem: Problem, ordinates: Vec<Ordinate>) -> Self {
        let (groups, len) = (problem.groups, problem.flux_len());
        let [nx, ny, _] = problem.cells;
        let faces = Faces {
            x: vec![0.0; groups],
            y: vec![0.0; nx * groups],
            z: vec![0.0; nx * ny * groups],
        };
        Self {
            old: vec![0.0; len * ordinates.len()],
            emission: vec![0.0; len],
            sum: vec![0.0; len],
            leakage: vec![0.0; groups],
            problem,
            ordinates,
            faces,
        }
    }

    /// One sweep over all ordinates with the flux's scattering, which then becomes the sweep's.
    /// Answers the greatest relative change. `COMMIT` ends the step in time.
    pub fn iterate<const COMMIT: bool>(&mut self, flux: &mut [f64]) -> f64 {
        self.scatter(flux);
        self.sum.fill(0.0);
        self.leakage.fill(0.0);
        for ordinate in 0..self.ordinates.len() {
            let flight = self.flight(ordinate);
            self.fly::<COMMIT>(ordinate, &flight);
        }
        let mut change = 0.0f64;
        for (known, new) in flux.iter_mut().zip(&self.sum) {
            change = change.max((new - *known).abs() / new.abs().max(1e-12));
            *known = *new;
        }
        change
    }

    /// Emission of every cell from the flux.
    fn scatter(&mut self, flux: &[f64]) {
        let groups = self.problem.groups;
        let cells = self.emission.chunks_exact_mut(groups).zip(flux.chunks_exact(groups));
        for ((emission, flux), filling) in cells.zip(&self.problem.filling) {
            let material = &self.problem.materials[*filling as usize];
            let rows = material.scatter.chunks_exact(groups);
            for ((to, source), row) in emission.iter_mut().zip(&material.source).zip(rows) {
                *to = source + row.iter().zip(flux).map(|(share, flux)| share * flux).sum::<f64>();
            }
        }
    }

    fn flight(&self, ordinate: usize) -> Flight {
        let Ordinate { along, weight } = self.ordinates[ordinate];
        let problem = &self.problem;
        let slope = [0, 1, 2].map(|axis| 2.0 * along[axis].abs() / problem.width[axis]);
        let stopped = slope.iter().sum::<f64>();
        let inverse = problem.materials.iter().flat_map(|material| {
            let sections = material.total.iter().zip(&problem.per_step);
            sections.map(|(total, step)| 1.0 / (total + step + stopped))
        });
        let carried = slope.map(|slope| weight * slope / 2.0 * problem.cell_volume());
        let is_back = along.map(|cosine| cosine < 0.0);
        Flight { weight, slope, is_back, inverse: inverse.collect(), carried }
    }

    /// Sweeps one ordinate through the whole box.
    fn fly<const COMMIT: bool>(&mut self, ordinate: usize, flight: &Flight) {
        let (groups, [nx, ny, nz]) = (self.problem.groups, self.problem.cells);
        self.enter::<COMMIT>(flight);
        for k in 0..nz {
            let z = if flight.is_back[2] { nz - 1 - k } else { k };
            fill(&mut self.faces.y, &self.problem.inflow);
            for j in 0..ny {
                let y = if flight.is_back[1] { ny - 1 - j } else { j };
                self.faces.x.copy_from_slice(&self.problem.inflow);
                let row = (z * ny + y) * nx;
                self.row::<COMMIT>(ordinate, flight, row, y);
                leave::<COMMIT>(&mut self.leakage, &self.faces.x, flight.carried[0]);
            }
            leave::<COMMIT>(&mut self.leakage, &self.faces.y, flight.carried[1]);
        }
        debug_assert_eq!(self.faces.z.len(), nx * ny * groups);
        leave::<COMMIT>(&mut self.leakage, &self.faces.z, flight.carried[2]);
    }

    /// Puts the inflow on the faces where the flight begins, and takes it from the leakage.
    fn enter<const COMMIT: bool>(&mut self, flight: &Flight) {
        fill(&mut self.faces.z, &self.problem.inflow);
        if COMMIT {
            let [nx, ny, nz] = self.problem.cells;
            let sides = [ny * nz, nx * nz, nx * ny];
            let carried: f64 = (0..3).map(|it| sides[it] as f64 * flight.carried[it]).sum();
            let into = self.leakage.iter_mut().zip(&self.problem.inflow);
            into.for_each(|(leakage, inflow)| *leakage -= carried * inflow);
        }
    }

    /// Sweeps the cells of one row, which begins with cell `row` and lies at `y`.
    fn row<const COMMIT: bool>(&mut self, ordinate: usize, flight: &Flight, row: usize, y: usize) {
        let (groups, nx) = (self.problem.groups, self.problem.cells[0]);
        let past = ordinate * self.sum.len();
        for i in 0..nx {
            let x = if flight.is_back[0] { nx - 1 - i } else { i };
            let (cell, filling) = (row + x, self.problem.filling[row + x] as usize);
            let here = cell * groups..(cell + 1) * groups;
            let old = past + here.start..past + here.end;
            let (side, floor) = (x * groups..(x + 1) * groups, (y * nx + x) * groups);
            cross::<COMMIT>(
                flight,
                &flight.inverse[filling * groups..(filling + 1) * groups],
                [&self.emission[here.clone()], &self.problem.per_step],
                [
                    &mut self.faces.x,
                    &mut self.faces.y[side],
                    &mut self.faces.z[floor..floor + groups],
                ],
                [&mut self.old[old], &mut self.sum[here]],
            );
        }
    }
}

/// One cell, one ordinate, all groups: the innermost loop.
#[inline(always)]
fn cross<const COMMIT: bool>(
    flight: &Flight,
    inverse: &[f64],
    [emission, per_step]: [&[f64]; 2],
    [x, y, z]: [&mut [f64]; 3],
    [old, sum]: [&mut [f64]; 2],
) {
    let (n, [sx, sy, sz]) = (inverse.len(), flight.slope);
    // The lengths said once, so that the compiler may drop the checks and use vectors.
    let (emission, per_step, old, sum) =
        (&emission[..n], &per_step[..n], &mut old[..n], &mut sum[..n]);
    let (x, y, z) = (&mut x[..n], &mut y[..n], &mut z[..n]);
    for g in 0..n {
        let gained = emission[g] + per_step[g] * old[g] + sx * x[g] + sy * y[g] + sz * z[g];
        let middle = gained * inverse[g];
        x[g] = 2.0 * middle - x[g];
        y[g] = 2.0 * middle - y[g];
        z[g] = 2.0 * middle - z[g];
        sum[g] += flight.weight * middle;
        if COMMIT {
            old[g] = middle;
        }
    }
}

/// The same value on every face.
fn fill(faces: &mut [f64], inflow: &[f64]) {
    faces.chunks_exact_mut(inflow.len()).for_each(|face| face.copy_from_slice(inflow));
}

/// Adds what faces at the border carry away.
fn leave<const COMMIT: bool>(leakage: &mut [f64], faces: &[f64], carried: f64) {
    if COMMIT {
        for face in faces.chunks_exact(leakage.len()) {
            leakage.iter_mut().zip(face).for_each(|(sum, flux)| *sum += carried * flux);
        }
    }
}

#[cfg(test)]
mod tests;
