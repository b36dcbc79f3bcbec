//! The plot of a measurement: how each partition fared against none, as an SVG file.

use std::error::Error;
use std::path::Path;

use heliostat_service_cores::{Candidate, Judged, Verdict};
use plotters::prelude::*;

use super::measured::Measured;
use super::CoresError;

const WIDTH: u32 = 900;
/// Height of one bar with what is around it, and of everything else.
const ROW: u32 = 34;
const FRAME: u32 = 110;
const KEPT: RGBColor = RGBColor(26, 122, 76);
const OTHER: RGBColor = RGBColor(120, 144, 180);

/// Writes it.
pub fn write(
    path: &Path,
    measured: &Measured,
    tried: &[Candidate],
    verdict: &Verdict,
) -> Result<(), CoresError> {
    let names = tried.iter().map(|candidate| candidate.partition.to_string());
    let names: Vec<String> = std::iter::once("none".to_owned()).chain(names).collect();
    let judged: Vec<Judged> = std::iter::once(verdict.none).chain(verdict.each.clone()).collect();
    let kept = verdict.best.map_or(0, |best| best + 1);
    draw(path, &measured.command, &names, &judged, kept)
        .map_err(|error| CoresError::Plot(format!("{}: {error}", path.display())))
}

fn draw(
    path: &Path,
    title: &str,
    names: &[String],
    judged: &[Judged],
    kept: usize,
) -> Result<(), Box<dyn Error>> {
    let rows = names.len();
    let root = SVGBackend::new(path, (WIDTH, ROW * rows as u32 + FRAME)).into_drawing_area();
    root.fill(&WHITE)?;
    let most = judged.iter().map(|one| one.range.1).fold(1.0, f64::max) * 1.08;
    let mut chart = ChartBuilder::on(&root)
        .caption(short(title), ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(230)
        .build_cartesian_2d(0.0..most, 0.0..rows as f64)?;
    let label = |y: &f64| {
        let place = rows as f64 - y - 0.5;
        names.get(place.round() as usize).filter(|_| place >= -0.01).cloned().unwrap_or_default()
    };
    chart.configure_mesh().disable_mesh().x_desc("median of none = 1").y_labels(0).draw()?;
    for (place, one) in judged.iter().enumerate() {
        let y = (rows - place) as f64 - 0.5;
        let color = if place == kept { KEPT } else { OTHER };
        let bar = Rectangle::new([(0.0, y - 0.3), (one.ratio, y + 0.3)], color.filled());
        let range = PathElement::new([(one.range.0, y), (one.range.1, y)], BLACK.stroke_width(2));
        let value = Text::new(
            format!("{:.3}", one.ratio),
            (0.01 * most, y + 0.15),
            ("sans-serif", 14).into_font().color(&WHITE),
        );
        chart.draw_series([bar])?;
        chart.draw_series([range])?;
        chart.draw_series([value])?;
        let (_, pixel) = chart.backend_coord(&(0.0, y));
        let style = ("sans-serif", 14).into_font().color(&BLACK);
        root.draw(&Text::new(label(&y), (16, pixel - 7), style))?;
    }
    let none = [(1.0, 0.0), (1.0, rows as f64)];
    chart.draw_series([PathElement::new(none, BLACK.mix(0.5))])?;
    root.present()?;
    Ok(())
}

/// A title that has room.
fn short(text: &str) -> String {
    const CHARACTERS_MAX: usize = 90;
    match text.chars().count() {
        0..=CHARACTERS_MAX => text.to_owned(),
        _ => text.chars().take(CHARACTERS_MAX).chain("...".chars()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use heliostat_service_cores::judge;

    use super::*;

    #[test]
    fn the_plot_names_every_partition_and_its_ratio() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.svg");
        let verdict = judge(&[100.0, 101.0, 99.0], &[vec![62.0; 3], vec![120.0; 3]]);
        let judged: Vec<Judged> = std::iter::once(verdict.none).chain(verdict.each).collect();
        let names = ["none", "kernel 1", "kernel 0"].map(str::to_owned);
        draw(&path, "wrk -d 5 <x>", &names, &judged, 2).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        for word in ["none", "kernel 1", "kernel 0", "0.620", "1.200", "wrk -d 5 &lt;x&gt;"] {
            assert!(text.contains(word), "{word} is not in the plot");
        }
    }
}
