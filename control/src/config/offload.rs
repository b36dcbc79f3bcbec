//! Call offload by rule: which programs have groups of their calls made on kernel cores.
//!
//! The command that runs a program reads these; the control plane checks that they are right.

use heliostat_abi::offload::{Group, Request};

use super::error::{ConfigError, Fault};
use super::field::{Field, Section, Source};

/// Rules of one configuration: each run of a program compares its name with all of them.
const RULES_MAX: usize = 64;
/// A rule for programs of any name.
const ANY: &str = "*";

/// Programs, by name, and the groups of their calls.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Offload {
    rules: Vec<(String, Request)>,
}

impl Offload {
    /// From a configuration of which nothing else is wanted.
    ///
    /// # Errors
    /// The tables `[[offload]]` are not right, or the text is no configuration.
    pub fn of_text(text: &str) -> Result<Offload, ConfigError> {
        let source = Source(text);
        let document = source.document()?;
        let table = document.get_ref();
        let field = Section::whole(source, table).field(KEY);
        field.map_or(Ok(Offload::default()), |field| Self::read(&field))
    }

    /// What a program of this name (without its folder) is to have offloaded: the first rule that fits.
    pub fn request(&self, program: &str) -> Option<Request> {
        let fits = |(name, _): &&(String, Request)| name == ANY || name == program;
        self.rules.iter().find(fits).map(|(_, request)| *request)
    }

    /// From the tables `[[offload]]`.
    pub(super) fn read(field: &Field<'_>) -> Result<Offload, ConfigError> {
        let mut offload = Offload::default();
        for rule in field.list()? {
            let section = rule.section(&["program", "groups"])?;
            let program = section.required("program")?;
            let name = program.text()?;
            if name.is_empty() || name.contains('/') || offload.rules.len() == RULES_MAX {
                let found = name.to_owned();
                return Err(program.fault(Fault::Word { found, known: vec!["a program's name"] }));
            }
            let request = match section.field("groups") {
                Some(groups) => Request::parse(groups.text()?).map_err(|unknown| {
                    let known = Group::ALL.into_iter().map(Group::name).collect();
                    groups.fault(Fault::Word { found: unknown.0, known })
                })?,
                None => Request::parse("").unwrap_or_default(),
            };
            offload.rules.push((name.to_owned(), request));
        }
        Ok(offload)
    }
}

const KEY: &str = "offload";

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "[limits]\nsessions = 3\n[[offload]]\nprogram = \"git\"\ngroups = \"metadata\"\n\
        [[offload]]\nprogram = \"*\"\n";

    #[test]
    fn the_first_rule_that_fits_is_taken_and_its_groups_are_the_usual_ones_if_not_said() {
        let offload = Offload::of_text(TEXT).expect("right");
        let shown = |name| offload.request(name).map(|request| request.to_string());
        assert_eq!(shown("git").as_deref(), Some("metadata"));
        assert_eq!(shown("tar").as_deref(), Some("files,metadata,sockets"));
        assert_eq!(Offload::of_text("[limits]\n").map(|none| none.request("git")), Ok(None));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let line = |text: &str| Offload::of_text(text).expect_err("wrong").line;
        assert_eq!(line("[[offload]]\nprogram = \"/bin/x\"\n"), 2);
        assert_eq!(line("[[offload]]\nprogram = \"x\"\ngroups = \"disks\"\n"), 3);
        assert_eq!(line("[[offload]]\ngroups = \"files\"\n"), 1);
    }
}
