//! Durable files: which of a program's files are flushed without waiting, and by which log.
//!
//! The command that runs a program reads these; the control plane checks that they are right.

use std::path::PathBuf;

use heliostat_abi::place::DETECT_PREFIX;

use super::error::{ConfigError, Fault};
use super::field::{Field, Section, Source};

/// Patterns of one program: its stub compares each flush with all of them.
const FILES_MAX: usize = 64;

/// Durable files of programs that are run by this configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Durable {
    /// Patterns of names, or of whole paths; with a prefix where it is to be seen first how a file of that
    /// name is used.
    pub files: Vec<String>,
    /// The log that what is appended to them goes to; one process has one.
    pub log: Option<PathBuf>,
}

impl Durable {
    /// From a configuration of which nothing else is wanted.
    ///
    /// # Errors
    /// The tables `[[durable]]` are not right, or the text is no configuration.
    pub fn of_text(text: &str) -> Result<Durable, ConfigError> {
        let source = Source(text);
        let document = source.document()?;
        let table = document.get_ref();
        let field = Section::whole(source, table).field(KEY);
        field.map_or(Ok(Durable::default()), |field| Self::read(&field))
    }

    /// From the tables `[[durable]]`.
    pub(super) fn read(field: &Field<'_>) -> Result<Durable, ConfigError> {
        let mut durable = Durable::default();
        for rule in field.list()? {
            let section = rule.section(&["files", "log", "mode"])?;
            let mode = section.field("mode");
            let choices = [("named", ""), ("detect", DETECT_PREFIX)];
            let prefix = mode.map_or(Ok(""), |mode| mode.choice(&choices))?;
            for pattern in section.required("files")?.list()? {
                let text = pattern.text()?;
                if text.is_empty() || text.contains('\n') || durable.files.len() == FILES_MAX {
                    let found = text.to_owned();
                    return Err(pattern.fault(Fault::Word { found, known: vec!["*.aof"] }));
                }
                durable.files.push(format!("{prefix}{text}"));
            }
            let Some(log) = section.field("log") else { continue };
            let path = PathBuf::from(log.text()?);
            if !path.is_absolute() || durable.log.as_ref().is_some_and(|other| *other != path) {
                let found = path.display().to_string();
                return Err(log.fault(Fault::Word { found, known: vec!["one absolute path"] }));
            }
            durable.log = Some(path);
        }
        Ok(durable)
    }
}

const KEY: &str = "durable";

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[limits]\nsessions = 3\n[[durable]]\nfiles = [\"*.aof\"]\nlog = \"/l\"\n\
        [[durable]]\nfiles = [\"/x/*\"]\nmode = \"detect\"\n";

    #[test]
    fn rules_are_read_together_and_beside_anything_else() {
        let durable = Durable::of_text(TEXT).expect("right");
        assert_eq!(durable.files, ["*.aof", "detect:/x/*"]);
        assert_eq!(durable.log, Some(PathBuf::from("/l")));
        assert_eq!(Durable::of_text("[limits]\n"), Ok(Durable::default()));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let line = |text: &str| Durable::of_text(text).expect_err("wrong").line;
        assert_eq!(line("[[durable]]\nfiles = [\"\"]\n"), 2);
        assert_eq!(line("[[durable]]\nfiles = [\"a\"]\nlog = \"relative\"\n"), 3);
        assert_eq!(line("[[durable]]\nfile = [\"a\"]\n"), 2);
        assert_eq!(line("[[durable]]\nfiles = [\"a\"]\nmode = \"guess\"\n"), 3);
        assert_eq!(line("[[durable]]\nlog = \"/l\"\n"), 1);
        let second = TEXT.replace("[\"/x/*\"]", "[\"y\"]\nlog = \"/other\"");
        assert_eq!(line(&second), 8);
    }
}
