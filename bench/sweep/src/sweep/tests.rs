//! The numerics against what is known exactly.

use super::*;
use crate::problem::Material;
use crate::quadrature::product;

const GROUPS: usize = 3;

/// A uniform box with scattering up and down, and a different source in each group.
fn uniform(cells: [usize; 3]) -> Problem {
    let scatter = vec![0.3, 0.1, 0.0, 0.2, 0.4, 0.1, 0.1, 0.2, 0.5];
    let material = Material { total: vec![1.0, 1.2, 1.5], scatter, source: vec![1.0, 0.5, 0.25] };
    Problem {
        cells,
        width: cells.map(|count| 1.0 / count as f64),
        groups: GROUPS,
        materials: vec![material],
        filling: vec![0; cells.iter().product()],
        inflow: vec![0.0; GROUPS],
        per_step: vec![0.0; GROUPS],
    }
}

/// Iterates until the flux changes by less than `tolerance` of itself, then ends the step.
fn step(solver: &mut Solver, flux: &mut [f64], tolerance: f64) {
    let converges = (0..500).any(|_| solver.iterate::<false>(flux) < tolerance);
    assert!(converges, "it does not converge");
    solver.iterate::<true>(flux);
}

/// Iterates a steady problem until nothing changes any more.
fn solved(problem: Problem) -> (Solver, Vec<f64>) {
    let mut flux = vec![0.0; problem.flux_len()];
    let mut solver = Solver::new(problem, product(4));
    step(&mut solver, &mut flux, 1e-12);
    (solver, flux)
}

/// Flux where nothing changes in space: total phi = source + scatter phi, by fixed point.
fn infinite(material: &Material) -> Vec<f64> {
    let mut flux = vec![0.0; GROUPS];
    for _ in 0..2000 {
        let known = flux.clone();
        for to in 0..GROUPS {
            let row = &material.scatter[to * GROUPS..(to + 1) * GROUPS];
            let scattered: f64 = row.iter().zip(&known).map(|(share, flux)| share * flux).sum();
            flux[to] = (material.source[to] + scattered) / material.total[to];
        }
    }
    flux
}

#[test]
fn in_an_infinite_medium_flux_is_what_source_and_absorption_say() {
    let mut problem = uniform([4, 5, 6]);
    let exact = infinite(&problem.materials[0]);
    problem.inflow = exact.clone();
    let (_, flux) = solved(problem);
    for (at, flux) in flux.iter().enumerate() {
        let exact = exact[at % GROUPS];
        assert!((flux / exact - 1.0).abs() < 1e-12, "cell {}: {flux}, not {exact}", at / GROUPS);
    }
}

#[test]
fn what_is_born_is_absorbed_or_leaves() {
    let (solver, flux) = solved(uniform([6, 4, 5]));
    let problem = &solver.problem;
    let (material, volume) = (&problem.materials[0], problem.cell_volume());
    let sums: Vec<f64> =
        (0..GROUPS).map(|g| flux.iter().skip(g).step_by(GROUPS).sum::<f64>() * volume).collect();
    for g in 0..GROUPS {
        let row = &material.scatter[g * GROUPS..(g + 1) * GROUPS];
        let scattered: f64 = row.iter().zip(&sums).map(|(share, sum)| share * sum).sum();
        let gained = material.source[g] + scattered;
        let lost = material.total[g] * sums[g] + solver.leakage[g];
        assert!(solver.leakage[g] > 0.1, "nothing leaves");
        assert!((gained - lost).abs() < 1e-11, "group {g}: gains {gained}, loses {lost}");
    }
}

#[test]
fn a_step_in_time_keeps_the_balance() {
    let mut problem = uniform([4, 4, 4]);
    problem.per_step = vec![2.0, 3.0, 4.0];
    let volume = problem.cell_volume();
    let total = |flux: &[f64], g: usize| flux.iter().skip(g).step_by(GROUPS).sum::<f64>() * volume;
    let mut flux = vec![0.0; problem.flux_len()];
    let mut solver = Solver::new(problem, product(4));
    for _ in 0..3 {
        let before = flux.clone();
        step(&mut solver, &mut flux, 1e-13);
        let material = &solver.problem.materials[0];
        for g in 0..GROUPS {
            let row = &material.scatter[g * GROUPS..(g + 1) * GROUPS];
            let scattered: f64 =
                row.iter().enumerate().map(|(from, share)| share * total(&flux, from)).sum();
            let grown = solver.problem.per_step[g] * (total(&flux, g) - total(&before, g));
            let lost = material.total[g] * total(&flux, g) + solver.leakage[g];
            assert!((material.source[g] + scattered - lost - grown).abs() < 1e-11);
        }
    }
}

#[test]
fn a_symmetric_problem_has_a_symmetric_flux() {
    let n = 6;
    let (_, flux) =
        solved(Problem { per_step: vec![0.0; GROUPS], ..Problem::block([n; 3], GROUPS) });
    let at = |x: usize, y: usize, z: usize| flux[((z * n + y) * n + x) * GROUPS];
    for cell in 0..n * n * n {
        let (x, y, z) = (cell % n, cell / n % n, cell / (n * n));
        let here = at(x, y, z);
        for there in [at(n - 1 - x, y, z), at(x, n - 1 - y, z), at(x, y, n - 1 - z), at(y, x, z)] {
            assert!((here / there - 1.0).abs() < 1e-11, "{x} {y} {z}: {here} and {there}");
        }
    }
}

/// Error against `1 + sin sin sin` with the source that makes it the solution. The source differs
/// by direction, so it goes in where the flux of the step before stands.
fn error_on(n: usize) -> f64 {
    use std::f64::consts::PI;
    let mut problem = uniform([n; 3]);
    problem.groups = 1;
    problem.materials = vec![Material { total: vec![0.7], scatter: vec![0.2], source: vec![0.0] }];
    (problem.inflow, problem.per_step) = (vec![1.0], vec![1.3]);
    let place = |cell: usize| {
        [cell % n, cell / n % n, cell / (n * n)].map(|it| (it as f64 + 0.5) / n as f64)
    };
    let exact = |at: [f64; 3]| 1.0 + at.iter().map(|x| (PI * x).sin()).product::<f64>();
    let mut flux = vec![0.0; n * n * n];
    let mut solver = Solver::new(problem, product(2));
    for (m, ordinate) in product(2).iter().enumerate() {
        for cell in 0..n * n * n {
            let at = place(cell);
            let [sx, sy, sz] = at.map(|x| (PI * x).sin());
            let [cx, cy, cz] = at.map(|x| PI * (PI * x).cos());
            let [a, b, c] = ordinate.along;
            let streaming = a * cx * sy * sz + b * sx * cy * sz + c * sx * sy * cz;
            let stopped = (0.7 - 0.2 + 1.3) * exact(at);
            solver.old[m * n * n * n + cell] = (streaming + stopped) / 1.3;
        }
    }
    while solver.iterate::<false>(&mut flux) > 1e-12 {}
    let square = |cell: usize| (flux[cell] - exact(place(cell))).powi(2);
    ((0..n * n * n).map(square).sum::<f64>() / (n * n * n) as f64).sqrt()
}

#[test]
fn halving_the_cells_quarters_the_error() {
    let errors = [8, 16, 32].map(error_on);
    for pair in errors.windows(2) {
        let order = (pair[0] / pair[1]).log2();
        assert!((1.8..2.3).contains(&order), "order {order}, errors {errors:?}");
    }
}
