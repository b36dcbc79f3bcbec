//! Where programs belong when the machine's cores are parted.

use heliostat_abi::cores::CpuMask;

use super::error::{ConfigError, Fault};
use super::field::Field;

/// Rules in one configuration: each is looked at for every program.
const RULES_MAX: usize = 256;
/// Bytes of a program's name: as long as a file's may be.
const NAME_BYTES_MAX: usize = 255;

/// Where a program belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProgramPlace {
    /// With applications.
    Application,
    /// With server loops.
    Kernel,
    /// Where it is.
    Left,
    /// On these cores.
    List(CpuMask),
}

/// A rule for programs of one name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgramRule {
    /// What the program calls itself, or its file is called.
    pub program: String,
    /// Where it belongs.
    pub place: ProgramPlace,
}

/// All rules, in the order of the configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProgramRules(pub Vec<ProgramRule>);

impl ProgramRules {
    /// Where a program with these names belongs: the first rule that is about one of them decides.
    pub fn place_of(&self, names: &[String]) -> ProgramPlace {
        let rule = self.0.iter().find(|rule| names.contains(&rule.program));
        rule.map_or(ProgramPlace::Application, |rule| rule.place)
    }

    /// From the tables `[[cores]]`.
    pub(super) fn read(field: &Field<'_>) -> Result<ProgramRules, ConfigError> {
        let list = field.list()?;
        if list.len() > RULES_MAX {
            let message = format!("{} rules, at most {RULES_MAX} are allowed", list.len());
            return Err(field.fault(Fault::Value(message)));
        }
        list.iter().map(read_rule).collect::<Result<_, _>>().map(ProgramRules)
    }
}

fn read_rule(field: &Field<'_>) -> Result<ProgramRule, ConfigError> {
    let section = field.section(&["program", "place"])?;
    let name = section.required("program")?;
    let program = name.text()?.to_owned();
    if program.is_empty() || program.contains('/') || program.len() > NAME_BYTES_MAX {
        let message = format!("{program:?} is no name of a program, without a folder");
        return Err(name.fault(Fault::Value(message)));
    }
    let place = section.required("place")?;
    Ok(ProgramRule { program, place: read_place(&place)? })
}

fn read_place(field: &Field<'_>) -> Result<ProgramPlace, ConfigError> {
    let text = field.text()?;
    match text {
        "application" => return Ok(ProgramPlace::Application),
        "kernel" => return Ok(ProgramPlace::Kernel),
        "left" => return Ok(ProgramPlace::Left),
        _ => {}
    }
    match CpuMask::parse(text) {
        Ok(mask) if !mask.is_empty() => Ok(ProgramPlace::List(mask)),
        _ => {
            let message = format!("{text:?} is not application, kernel, left, nor cores as 0-3,7");
            Err(field.fault(Fault::Value(message)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Names};

    struct Nobody;

    impl Names for Nobody {
        fn user(&self, _: &str) -> Option<u32> {
            None
        }

        fn group(&self, _: &str) -> Option<u32> {
            None
        }
    }

    fn read(text: &str) -> Result<ProgramRules, String> {
        Config::read(text, &Nobody).map(|config| config.cores).map_err(|error| error.to_string())
    }

    #[test]
    fn the_first_rule_about_one_of_its_names_places_a_program() {
        let rules = read(
            "[[cores]]\nprogram = \"redis-server\"\nplace = \"kernel\"\n\
             [[cores]]\nprogram = \"batch\"\nplace = \"2-3\"\n\
             [[cores]]\nprogram = \"batch\"\nplace = \"left\"\n",
        )
        .unwrap();
        let place = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            rules.place_of(&names)
        };
        assert_eq!(place(&["redis-server", "redis-check-rdb"]), ProgramPlace::Kernel);
        assert_eq!(place(&["x", "batch"]), ProgramPlace::List(CpuMask::parse("2-3").unwrap()));
        assert_eq!(place(&["y"]), ProgramPlace::Application);
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        let wrong = read("[[cores]]\nprogram = \"a/b\"\nplace = \"kernel\"\n").unwrap_err();
        assert!(wrong.starts_with("line 2: cores[1].program:"), "{wrong}");
        let wrong = read("[[cores]]\nprogram = \"a\"\nplace = \"kernal\"\n").unwrap_err();
        assert!(wrong.contains("not application, kernel, left, nor cores"), "{wrong}");
        assert!(read("[[cores]]\nprogram = \"a\"\n").unwrap_err().contains("place"));
    }
}
