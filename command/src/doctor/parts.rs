//! Heliostat's own parts on this machine: the site list of libc and the control plane.

use heliostat_abi::record::Request;
use heliostat_interpose::{libc_path, scan_file};

use super::Check;
use crate::args::ControlPlace;
use crate::client::{ask, ClientError};
use crate::place::surroundings;

/// All checks of this file.
pub fn checks(place: &ControlPlace) -> Vec<Check> {
    vec![sites(), control_plane(place)]
}

fn sites() -> Check {
    let name = "system calls of libc";
    let Some(libc) = libc_path() else {
        return Check::fail(name, "no libc was found", "only glibc is supported");
    };
    match scan_file(&libc) {
        Err(error) => Check::fail(
            name,
            format!("{}: {error}", libc.display()),
            "programs run natively with this C library",
        ),
        Ok(list) => {
            let refused = list.sites.iter().filter(|site| site.refusal.is_some()).count();
            let caught = list.sites.len() - refused;
            let found = format!(
                "{}: {caught} sites can be caught, {refused} cannot (their calls stay native)",
                libc.display()
            );
            match caught {
                0 => Check::fail(name, found, "programs run natively with this C library"),
                _ => Check::ok(name, found),
            }
        }
    }
}

fn control_plane(place: &ControlPlace) -> Check {
    let name = "control plane";
    let here = surroundings(place);
    match ask(&here, &Request::Metrics) {
        Ok(_) => Check::ok(name, format!("answers on {}", here.socket_path().display())),
        Err(ClientError::NotRunning { socket, .. }) => {
            Check::ok(name, format!("not running on {}; run starts it", socket.display()))
        }
        Err(error) => {
            Check::fail(name, error.to_string(), "heliostat stop, or another HELIOSTAT_SOCKET")
        }
    }
}
