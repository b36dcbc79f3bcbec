//! Whether the machine's cores can be parted, and whether that pays.

use heliostat_backend_cores::{allowed_here, probe, probe_ability, Root};

use super::Check;
use crate::args::ControlPlace;
use crate::client::connect;
use crate::cores::{ability_text, journal_path, Measured};
use crate::place::surroundings;

/// Cores below which a kernel core costs programs half of the machine.
const CORES_FEW: usize = 4;

/// All checks of this file.
pub fn checks(place: &ControlPlace) -> Vec<Check> {
    vec![possible(), pays(place), left(place)]
}

fn possible() -> Check {
    let root = Root::default();
    let is_root = rustix::process::geteuid().is_root();
    let ability = probe_ability(&root, &probe(&root), &allowed_here(), is_root);
    let text = ability_text(&ability);
    let found = text.trim_end().trim_start_matches("possible here: ").to_owned();
    match ability.allowed.count() {
        0 | 1 => Check::ok("cores parted", "one core: there is nothing to part"),
        _ => Check::ok("cores parted", found),
    }
}

/// The rule is what was measured; without a measurement nothing is parted.
fn pays(place: &ControlPlace) -> Check {
    let name = "kernel cores pay";
    if let Some(measured) = Measured::last(&surroundings(place)) {
        return Check::ok(name, measured.text());
    }
    let count = allowed_here().count();
    let few = match count < CORES_FEW {
        true => format!("; of {count} cores one for server loops is a large part"),
        false => String::new(),
    };
    let how = "measure: heliostat cores --auto -- COMMAND";
    Check::ok(name, format!("not measured, so none by default{few} ({how})"))
}

/// A journal without a control plane is a crash's.
fn left(place: &ControlPlace) -> Check {
    let name = "cores left parted";
    let here = surroundings(place);
    match journal_path(&here).exists() && connect(&here).is_err() {
        true => Check::warn(
            name,
            "a control plane has died while cores were parted",
            "heliostat cores reset, or the next start of the control plane, undoes it",
        ),
        false => Check::ok(name, "no"),
    }
}
