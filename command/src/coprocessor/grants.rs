//! What workers may reach, from the command line's words.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::Path;

use heliostat_abi::session::restriction::Destination;
use heliostat_abi::socket::Access;
use heliostat_control::policy::{Access as FileAccess, Endpoint, Host, NamePattern, PathGrant};
use rustix::fs::{open, Mode, OFlags};

use super::Fault;
use crate::args::coprocessor::CoprocessorArguments;

/// A folder that is held open, so that what it is called later does not matter.
pub(super) struct Folder {
    pub held: OwnedFd,
    pub writes: bool,
}

/// What all workers may reach.
#[derive(Default)]
pub(super) struct Reach {
    pub folders: Vec<Folder>,
    pub addresses: Vec<(Access, Destination)>,
}

/// What the command line says.
///
/// # Errors
/// What is wrong with which word.
pub(super) fn reach(arguments: &CoprocessorArguments) -> Result<Reach, Fault> {
    let mut reach = Reach::default();
    for word in &arguments.root {
        reach.folders.push(folder(word)?);
    }
    for word in &arguments.listen {
        let endpoint =
            Endpoint::parse_listen(word).map_err(|error| wrong("--listen", word, &error))?;
        add(&mut reach, Access::Listen, &endpoint, word)?;
    }
    for word in &arguments.connect {
        let endpoint =
            Endpoint::parse_connect(word).map_err(|error| wrong("--connect", word, &error))?;
        add(&mut reach, Access::Connect, &endpoint, word)?;
    }
    Ok(reach)
}

fn wrong(flag: &str, word: &str, error: &dyn std::fmt::Display) -> Fault {
    Fault::Word(format!("{flag} {word}: {error}"))
}

fn folder(word: &str) -> Result<Folder, Fault> {
    let PathGrant { path, access } =
        PathGrant::parse(word).map_err(|error| wrong("--root", word, &error))?;
    let writes = match access {
        FileAccess::ReadOnly => false,
        FileAccess::ReadWrite => true,
        FileAccess::Stat => return Err(wrong("--root", word, &"files are read, or written too")),
    };
    let held = open_folder(&path).map_err(|error| wrong("--root", word, &error))?;
    Ok(Folder { held, writes })
}

fn open_folder(path: &Path) -> Result<OwnedFd, std::io::Error> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(open(path, flags, Mode::empty())?)
}

/// Lean workers look no names up: an address is a number, or `localhost`.
fn add(reach: &mut Reach, access: Access, endpoint: &Endpoint, word: &str) -> Result<(), Fault> {
    let hosts: Vec<Option<IpAddr>> = match &endpoint.host {
        Host::Any => vec![None],
        Host::Ip(ip) => vec![Some(*ip)],
        Host::Name(NamePattern::Exact(name)) if name == "localhost" => {
            vec![Some([127, 0, 0, 1].into()), Some([0, 0, 0, 0, 0, 0, 0, 1].into())]
        }
        Host::Name(_) => {
            return Err(Fault::Word(format!("{word}: workers look no names up; name an address")));
        }
    };
    let ports = endpoint.ports;
    let those = hosts.into_iter().map(|host| (access, Destination { host, ports }));
    reach.addresses.extend(those);
    Ok(())
}
