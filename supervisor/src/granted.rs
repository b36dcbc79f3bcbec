//! From a plan to what is granted: folders and files held open, and namespaces of the program's own.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use heliostat_control::policy::{
    Access, Endpoint, Host, NamePattern, PathGrant, Policy, RegionRight, RegionScope,
};

use crate::paths::{Roots, View};
use crate::plan::{Plan, SealError};
use crate::report::Report;
use crate::spaces::{Spaces, Wanted, OWN_PLACES};
use crate::system;

/// Adds what is granted beside the policy to it, and says what every program is given.
pub fn take_besides(plan: &mut Plan<'_>) -> Vec<PathGrant> {
    let mut given = system::grants();
    given.extend(plan.besides.iter().cloned());
    // What the stub only looks at is no need of the program's, and not granted.
    plan.besides.retain(|grant| grant.access != Access::Stat);
    // The program's own policy has the last word on them.
    plan.policy.grants.splice(0..0, plan.besides.drain(..));
    if plan.traces {
        grant_everything(&mut plan.policy);
    }
    given
}

/// Folders that are the program's own unless what is granted holds them. A traced program has none:
/// what it asked for there would be missing in its policy. Nor one without the system's grants.
pub fn own_places(plan: &Plan<'_>) -> Vec<&'static str> {
    let is_private = |place: &&str| {
        let place = Path::new(place);
        let is_plain = place.is_dir() && place.canonicalize().is_ok_and(|found| found == place);
        let granted = plan.policy.grants.iter().filter_map(|grant| grant.path.canonicalize().ok());
        is_plain && granted.into_iter().all(|path| !place.starts_with(path))
    };
    let wants = plan.policy.system && !plan.traces;
    OWN_PLACES.into_iter().filter(|_| wants).filter(is_private).collect()
}

/// Namespaces of the program's own, where they can be made; with its own places if possible. Root
/// needs no more for its System V objects than its right to make such a namespace.
pub fn make_spaces(plan: &Plan<'_>, places: &[&'static str]) -> Option<Spaces> {
    let granted: Vec<_> =
        plan.policy.grants.iter().filter_map(|grant| grant.path.canonicalize().ok()).collect();
    let is_below = |path: &&PathBuf| places.iter().any(|place| path.starts_with(place));
    let is_whole =
        |path: &&PathBuf| !granted.iter().any(|above| above != *path && path.starts_with(above));
    let mut granted: Vec<_> = granted.iter().filter(is_below).filter(is_whole).cloned().collect();
    granted.sort();
    granted.dedup();
    let limits = plan.policy.limits;
    let wanted = Wanted { places, granted: &granted, bytes: limits.tmp.or(limits.memory) };
    let made = if places.is_empty() { None } else { Spaces::make(&wanted) };
    let is_root = rustix::process::geteuid().is_root();
    made.or_else(|| if is_root { None } else { Spaces::make(&Wanted::default()) })
}

/// What is granted, opened; what of it is not there is said, unless it is the system's.
pub fn open_roots(
    plan: &Plan<'_>,
    view: &View<'_>,
    report: Option<&Report>,
) -> Result<Roots, SealError> {
    let mut grants = if plan.policy.system { system::grants() } else { Vec::new() };
    let of_system = grants.len();
    grants.extend(plan.policy.grants.iter().cloned());
    let own: Vec<PathBuf> = grants[of_system..].iter().map(|grant| grant.path.clone()).collect();
    let mut tell = |path: &Path, error: &io::Error| {
        if own.iter().any(|granted| granted == path) {
            let what = match error.kind() {
                io::ErrorKind::InvalidInput => "not granted",
                _ => "granted, but not there",
            };
            let _ = writeln!(io::stderr(), "heliostat: {what}: {}: {error}", path.display());
        }
    };
    let opened = Roots::open(view, &grants, plan.folder, &mut tell);
    let mut roots = opened.map_err(|error| SealError::Place(plan.folder.to_owned(), error))?;
    if let Some(report) = report {
        // Who reads it takes it for the supervisor's.
        let _ = roots.guard(report.path());
    }
    let named: Vec<_> = own.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let devices = system::devices().filter(|device| !named.contains(device));
    roots.open_only(&devices.collect::<Vec<_>>());
    Ok(roots)
}

/// What is traced shows all that it needs in one run.
fn grant_everything(policy: &mut Policy) {
    policy.grants.push(PathGrant { path: PathBuf::from("/"), access: Access::ReadWrite });
    let everything = Endpoint { host: Host::Any, ports: (0, u16::MAX) };
    policy.connect.push(everything.clone());
    policy.listen.push(everything);
    policy.lookup.push(NamePattern::Any);
    policy.delegate = true;
    policy.regions =
        [RegionRight::Publish, RegionRight::Attach].map(RegionScope::everything).into();
    policy.memory = [RegionRight::Write, RegionRight::Allocate].map(RegionScope::everything).into();
    policy.locks = [RegionRight::Acquire].map(RegionScope::everything).into();
    policy.calls = [RegionRight::Call, RegionRight::Serve].map(RegionScope::everything).into();
    policy.areas =
        [RegionRight::ManageArea, RegionRight::CreateArea].map(RegionScope::everything).into();
}
