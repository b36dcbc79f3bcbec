//! What is solved: a box of cells, materials with cross sections per energy group, and a source.

/// Cross sections and source of one material, per energy group.
#[derive(Clone, Debug)]
pub struct Material {
    /// Total cross section.
    pub total: Vec<f64>,
    /// Scattering from group `from` to group `to`, at `to * groups + from`.
    pub scatter: Vec<f64>,
    /// Isotropic source.
    pub source: Vec<f64>,
}

/// A problem of neutral-particle transport on a structured mesh.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Cells along x, y and z.
    pub cells: [usize; 3],
    /// Width of a cell along x, y and z.
    pub width: [f64; 3],
    /// Energy groups.
    pub groups: usize,
    /// What cells may consist of.
    pub materials: Vec<Material>,
    /// Index of each cell's material, x fastest.
    pub filling: Vec<u8>,
    /// What comes in through every face, per group, the same from all directions.
    pub inflow: Vec<f64>,
    /// One over speed times time step, per group; zero for a steady state.
    pub per_step: Vec<f64>,
}

impl Problem {
    /// Cells altogether.
    pub fn cell_count(&self) -> usize {
        self.cells.iter().product()
    }

    /// Flux values: cells times groups.
    pub fn flux_len(&self) -> usize {
        self.cell_count() * self.groups
    }

    /// Volume of a cell.
    pub fn cell_volume(&self) -> f64 {
        self.width.iter().product()
    }

    /// A bare block with a source in its middle third, vacuum around it, and scattering that keeps
    /// a part in its group and hands the rest down: what the benchmark solves.
    pub fn block(cells: [usize; 3], groups: usize) -> Self {
        let filling = filled(cells, |at| {
            (0..3).all(|axis| (cells[axis] / 3..cells[axis] - cells[axis] / 3).contains(&at[axis]))
        });
        let speed = |group: usize| 1.0 + 9.0 * (groups - group) as f64 / groups as f64;
        Self {
            cells,
            width: cells.map(|count| 4.0 / count as f64),
            groups,
            materials: vec![material(groups, 0.0), material(groups, 1.0)],
            filling,
            inflow: vec![0.0; groups],
            per_step: (0..groups).map(|group| 1.0 / (speed(group) * 0.5)).collect(),
        }
    }
}

/// A material that scatters 60 % of what it stops: half of it within the group, a quarter to each
/// of the two groups below.
fn material(groups: usize, source: f64) -> Material {
    let total: Vec<f64> = (0..groups).map(|g| 1.0 + 0.5 * g as f64 / groups as f64).collect();
    let mut scatter = vec![0.0; groups * groups];
    for (from, section) in total.iter().enumerate() {
        for (below, share) in [(0, 0.3), (1, 0.15), (2, 0.15)] {
            let to = (from + below).min(groups - 1);
            scatter[to * groups + from] += share * section;
        }
    }
    let source = (0..groups).map(|g| source / (1.0 + g as f64)).collect();
    Material { total, scatter, source }
}

/// One for each cell in which `is_inside`, else zero.
fn filled(cells: [usize; 3], is_inside: impl Fn([usize; 3]) -> bool) -> Vec<u8> {
    let [nx, ny, nz] = cells;
    let all = (0..nx * ny * nz).map(|cell| [cell % nx, cell / nx % ny, cell / (nx * ny)]);
    all.map(|at| u8::from(is_inside(at))).collect()
}
