//! Directions in which particles fly: a product of Gauss-Legendre and equal azimuthal angles.

/// One direction and its share of the unit sphere.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ordinate {
    /// Cosines against x, y and z; their squares sum to 1.
    pub along: [f64; 3],
    /// Share of the sphere; all shares sum to 1.
    pub weight: f64,
}

/// Nodes and weights of Gauss-Legendre quadrature on -1..1, by Newton's method on the polynomial.
pub fn gauss_legendre(points: usize) -> Vec<(f64, f64)> {
    let n = points as f64;
    (0..points)
        .map(|at| {
            let mut x = (std::f64::consts::PI * (at as f64 + 0.75) / (n + 0.5)).cos();
            let mut slope = 1.0;
            for _ in 0..100 {
                let (value, derivative) = legendre(points, x);
                slope = derivative;
                let step = value / slope;
                x -= step;
                if step.abs() < 1e-15 {
                    break;
                }
            }
            (x, 2.0 / ((1.0 - x * x) * slope * slope))
        })
        .collect()
}

/// The Legendre polynomial of a degree and its derivative, by the three-term recurrence.
fn legendre(degree: usize, x: f64) -> (f64, f64) {
    let (mut before, mut value) = (1.0, x);
    for k in 2..=degree {
        let k = k as f64;
        (before, value) = (value, ((2.0 * k - 1.0) * x * value - (k - 1.0) * before) / k);
    }
    (value, degree as f64 * (x * value - before) / (x * x - 1.0))
}

/// `polar` cosines against z times `2 * polar` azimuthal angles; `polar` is even, so that no
/// direction lies in a plane between octants.
pub fn product(polar: usize) -> Vec<Ordinate> {
    let turns = 2 * polar;
    let mut found = Vec::with_capacity(polar * turns);
    for (z, weight) in gauss_legendre(polar) {
        let across = (1.0 - z * z).sqrt();
        for turn in 0..turns {
            let angle = std::f64::consts::TAU * (turn as f64 + 0.5) / turns as f64;
            let along = [across * angle.cos(), across * angle.sin(), z];
            found.push(Ordinate { along, weight: weight / 2.0 / turns as f64 });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauss_legendre_integrates_polynomials_of_degree_2n_less_1_exactly() {
        for points in [2, 4, 8] {
            for degree in 0..2 * points {
                let nodes = gauss_legendre(points);
                let sum: f64 = nodes.iter().map(|(x, w)| w * x.powi(degree as i32)).sum();
                let exact = if degree % 2 == 0 { 2.0 / (degree as f64 + 1.0) } else { 0.0 };
                assert!((sum - exact).abs() < 1e-13, "{points} points, degree {degree}: {sum}");
            }
        }
    }

    #[test]
    fn ordinates_cover_the_sphere_evenly() {
        let ordinates = product(4);
        assert_eq!(ordinates.len(), 32);
        let moment = |of: &dyn Fn(&Ordinate) -> f64| -> f64 {
            ordinates.iter().map(|it| it.weight * of(it)).sum()
        };
        assert!((moment(&|_| 1.0) - 1.0).abs() < 1e-14);
        for axis in 0..3 {
            assert!(moment(&|it| it.along[axis]).abs() < 1e-14);
            assert!((moment(&|it| it.along[axis].powi(2)) - 1.0 / 3.0).abs() < 1e-14);
        }
    }
}
