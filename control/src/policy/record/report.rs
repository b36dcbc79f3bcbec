//! What was recorded, for people: a policy file with comments, and a list of refusals.

use std::fmt::Write;
use std::path::Path;

use heliostat_abi::snapshot::region_scope::{
    NamesOf, RegionNames, RegionRight, RegionScope, Whose,
};

use super::{covering, is_of_a_listing, secret, Ask, Recorder, Times, Wanted};
use crate::policy::write::{grant_text, list, one_line, quoted, Element};
use crate::policy::{Access, PathGrant};

/// Something that was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// What, in words.
    pub what: String,
    /// How often.
    pub times: u64,
    /// The flag that grants it; none where no grant does.
    pub grant: Option<String>,
}

impl Ask<'_> {
    /// What is asked for, in words.
    pub fn words(&self) -> String {
        match self {
            Self::Path(path, Access::Stat) => format!("to look at {}", path.display()),
            Self::Path(path, Access::ReadOnly) => format!("to read {}", path.display()),
            Self::Path(path, Access::ReadWrite) => format!("to write {}", path.display()),
            Self::Folder(path) => format!("to list {}", path.display()),
            Self::Connect(to) => format!("to connect or send to {to}"),
            Self::Listen(at) if at.port() == 0 => {
                format!("to listen at any port of {}", at.ip())
            }
            Self::Listen(at) => format!("to listen at {at}"),
            Self::Name(name) => format!("to look up {name}"),
            Self::Delegation => "to delegate operations on files".to_owned(),
            Self::Region(scope) => {
                format!("to {} {}", verb_of(scope.right), region_text(scope))
            }
            Self::Call(name) => format!("the call {name}"),
        }
    }

    /// The flag that grants it; none where no grant does.
    pub fn flag(&self) -> Option<String> {
        match self {
            Self::Path(path, access) => Some(grant_flag(path, *access)),
            Self::Folder(path) => Some(grant_flag(path, Access::ReadOnly)),
            Self::Connect(to) => Some(format!("--connect {}", super::exactly(*to))),
            Self::Listen(at) => Some(format!("--listen {}", super::exactly(*at))),
            Self::Name(name) => Some(format!("--lookup {name}")),
            Self::Delegation => Some("--delegate".to_owned()),
            Self::Region(scope) => Some(format!("{} {scope}", scope.right.names().flag())),
            Self::Call(_) => None,
        }
    }
}

fn verb_of(right: RegionRight) -> &'static str {
    match right {
        RegionRight::Publish => "publish",
        RegionRight::Attach => "attach to",
        RegionRight::Read => "map for reading",
        RegionRight::Write => "map for writing",
        RegionRight::Allocate => "make",
        RegionRight::Acquire => "open",
        RegionRight::Call => "call",
        RegionRight::Serve => "serve",
        RegionRight::ReadArea => "read",
        RegionRight::WriteArea => "write",
        RegionRight::ManageArea => "manage",
        RegionRight::CreateArea => "create",
    }
}

/// A region, lock, function or area as people name it, with whose it is where that is another's.
fn region_text(scope: &RegionScope) -> String {
    let name = match &scope.names {
        RegionNames::One(name) => name.as_str().to_owned(),
        RegionNames::Beginning(beginning) => format!("{beginning}*"),
    };
    let name = format!("{}{name}", scope.right.names().prefix());
    match scope.whose {
        Whose::Own => name,
        Whose::User(user) => format!("{name} of user {user}"),
        Whose::Everybody => format!("{name} of any user"),
    }
}

fn grant_flag(path: &Path, access: Access) -> String {
    format!("--grant {}:{}", path.display(), access.word())
}

impl Recorder {
    /// The recorded policy as a file. `command` says what was run; it stands in the first comment.
    pub fn to_toml(&self, command: &str) -> String {
        let mut text = format!(
            "# What `{}` asked for, sealed. Read it through before it is used, and remove what\n\
             # the program need not have: heliostat run --sealed --policy THIS_FILE -- PROGRAM\n\
             system = true\n",
            one_line(command)
        );
        list(&mut text, "grant", self.grant_lines());
        let listens = self.listens.iter();
        let listens = listens.map(|(at, times)| said(super::exactly(*at).to_string(), *times));
        list(&mut text, "listen", listens.collect());
        let connects = self.connect_endpoints().into_iter();
        list(
            &mut text,
            "connect",
            connects.map(|(to, times)| said(to.to_string(), times)).collect(),
        );
        let lookups = self.lookups().into_iter();
        list(
            &mut text,
            "lookup",
            lookups.map(|(name, times)| said(name.to_string(), times)).collect(),
        );
        self.write_services(&mut text);
        self.write_environment(&mut text);
        self.write_refused_calls(&mut text);
        text
    }

    /// Everything that was refused, with the flag that would grant it.
    pub fn refusals(&self) -> Vec<Refusal> {
        let paths = self.paths.iter().map(|(path, one)| match one.listed {
            true => (Ask::Folder(path), one.times),
            false => (Ask::Path(path, one.access), one.times),
        });
        let connects = self.connects.iter().map(|(to, times)| (Ask::Connect(*to), *times));
        let listens = self.listens.iter().map(|(at, times)| (Ask::Listen(*at), *times));
        let names = self.names.iter().map(|(name, times)| (Ask::Name(name), *times));
        let delegations = [(Ask::Delegation, self.delegations)];
        let regions = self.regions.each().map(|(scope, times)| (Ask::Region(scope), *times));
        let calls = self.calls.iter();
        let calls = calls.map(|(name, n)| (Ask::Call(name), Times { granted: 0, refused: *n }));
        let addresses = connects.chain(listens);
        let all = paths.chain(addresses).chain(names).chain(delegations).chain(regions);
        let all = all.chain(calls);
        let refused = all.filter(|(_, times)| times.refused > 0);
        let refusal = |(ask, times): (Ask<'_>, Times)| Refusal {
            what: ask.words(),
            times: times.refused,
            grant: ask.flag(),
        };
        refused.map(refusal).collect()
    }

    fn grant_lines(&self) -> Vec<(Element, String)> {
        let all = self.folded();
        let line = |(path, one): (&std::path::PathBuf, &Wanted)| {
            let grant = PathGrant { path: path.clone(), access: one.access };
            if let Some(why) = secret::of(path) {
                return Some((
                    Err(withheld(&grant, why, covering(path, one, &all))),
                    String::new(),
                ));
            }
            if !self.grants_path(path, one, &all) {
                if is_of_a_listing(path, one, &all) {
                    return None;
                }
                // Grants above or below make it visible; what is left to say is why it is not here.
                let is_look = one.listed || one.access == Access::Stat;
                let alone =
                    is_look && !all.keys().any(|other| other != path && other.starts_with(path));
                let why = format!("looked at, and too much to grant for that: {}", path.display());
                return alone.then_some((Err(why), String::new()));
            }
            Some((grant_text(&grant), comment(one)))
        };
        all.iter().filter_map(line).collect()
    }

    /// What it asked of the control plane.
    fn write_services(&self, text: &mut String) {
        if self.delegations != Times::default() {
            let refused = refused(self.delegations);
            let comment = if refused.is_empty() { refused } else { format!("  # {refused}") };
            let _ = writeln!(text, "\ndelegate = true{comment}");
        }
        let (regions, is_all) = self.regions.folded();
        let said = |scope: RegionScope, times: Times| said(scope.to_string(), times);
        for names in NamesOf::ALL {
            let its = regions.iter().filter(|(scope, _)| scope.right.names() == names);
            let its = its.map(|(scope, times)| said(scope.clone(), *times)).collect();
            list(text, names.key(), its);
        }
        if !is_all {
            let _ = writeln!(text, "\n# More names than a policy holds: end them in *.");
        }
    }

    /// What a program reads of its environment nobody sees: what it was told stays, and what it was
    /// not is named, so that a person may add it.
    fn write_environment(&self, text: &mut String) {
        let env = self.env.iter().map(|one| said(one.to_string(), Times::default()));
        list(text, "env", env.collect());
        let users = self.users.iter().map(|name| said(name.clone(), Times::default()));
        list(text, "user", users.collect());
        if !self.untold.is_empty() {
            let names = one_line(&self.untold.join(", "));
            let _ = writeln!(text, "\n# Set outside, and not told to the program: {names}");
        }
    }

    fn write_refused_calls(&self, text: &mut String) {
        if !self.calls.is_empty() {
            let calls: Vec<_> =
                self.calls.iter().map(|(name, times)| format!("{name} ({times})")).collect();
            let _ = writeln!(
                text,
                "\n# Refused, and no grant allows it: {}",
                one_line(&calls.join(", "))
            );
        }
        if self.lost > 0 {
            let _ =
                writeln!(text, "\n# {} further requests found no room in this record.", self.lost);
        }
    }
}

/// A line that grants nothing, for a person to read.
fn withheld(grant: &PathGrant, why: &str, covering: Option<&Path>) -> String {
    let wanted = match grant_text(grant) {
        Ok(text) => format!("{},", quoted(&text)),
        Err(text) => text,
    };
    match covering {
        None => format!("{wanted}  not granted: it may hold {why}"),
        Some(above) => {
            format!("{wanted}  comes with {}, and may hold {why}", above.display())
        }
    }
}

fn said(element: String, times: Times) -> (Element, String) {
    (Ok(element), refused(times))
}

fn refused(times: Times) -> String {
    match times.refused {
        0 => String::new(),
        1 => "refused once".to_owned(),
        many => format!("refused {many} times"),
    }
}

fn comment(one: &Wanted) -> String {
    let folded = match one.folded {
        0 => String::new(),
        many => format!("{many} paths below it"),
    };
    let parts = [folded, refused(one.times)];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(", ")
}
