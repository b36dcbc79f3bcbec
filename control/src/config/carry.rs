//! The network service by rule: which programs' connections it carries, and by loops on which cores.
//!
//! The command that runs a program reads these; the control plane checks that they are right.

use heliostat_abi::cores::{CpuMask, CpuRanges};

use super::error::{ConfigError, Fault};
use super::field::{Field, Section, Source};

/// Rules of one configuration: each run of a program compares its name with all of them.
const RULES_MAX: usize = 64;
/// A rule for programs of any name.
const ANY: &str = "*";
const KEY: &str = "carry";

/// What a program is to have of the network service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CarryRule {
    /// Nothing.
    Never,
    /// All that can be carried is, by any loop.
    Any,
    /// By loops on so many kernel cores.
    Count(usize),
    /// By loops on these cores.
    Cores(CpuMask),
}

/// A text that says none of this.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoCarryRule(pub String);

impl std::fmt::Display for NoCarryRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} is no number of cores, no list as 2-3 or 2,5, nor any or never", self.0)
    }
}

impl std::error::Error for NoCarryRule {}

impl CarryRule {
    /// Reads what `heliostat run --network-cores` takes: a number, a list with a comma or a dash, `any`
    /// or `never`.
    ///
    /// # Errors
    /// The text is something else.
    pub fn parse(text: &str) -> Result<CarryRule, NoCarryRule> {
        let wrong = || NoCarryRule(text.to_owned());
        match text {
            "never" | "0" => Ok(CarryRule::Never),
            "any" => Ok(CarryRule::Any),
            list if list.contains([',', '-']) => {
                let mask = CpuMask::parse(list).map_err(|_| wrong())?;
                let is_sendable = !mask.is_empty() && CpuRanges::of(mask).is_some();
                is_sendable.then_some(CarryRule::Cores(mask)).ok_or_else(wrong)
            }
            count => count.parse().map(CarryRule::Count).map_err(|_| wrong()),
        }
    }
}

/// Programs, by name, and what they are to have.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CarryRules {
    rules: Vec<(String, CarryRule)>,
}

impl CarryRules {
    /// From a configuration of which nothing else is wanted.
    ///
    /// # Errors
    /// The tables `[[carry]]` are not right, or the text is no configuration.
    pub fn of_text(text: &str) -> Result<CarryRules, ConfigError> {
        let source = Source(text);
        let document = source.document()?;
        let field = Section::whole(source, document.get_ref()).field(KEY);
        field.map_or(Ok(CarryRules::default()), |field| Self::read(&field))
    }

    /// What a program of this name (without its folder) is to have: the first rule that fits.
    pub fn of_program(&self, program: &str) -> Option<&CarryRule> {
        let fits = |(name, _): &&(String, CarryRule)| name == ANY || name == program;
        self.rules.iter().find(fits).map(|(_, rule)| rule)
    }

    /// From the tables `[[carry]]`.
    pub(super) fn read(field: &Field<'_>) -> Result<CarryRules, ConfigError> {
        let mut found = CarryRules::default();
        for rule in field.list()? {
            let section = rule.section(&["program", "cores"])?;
            let program = section.required("program")?;
            let name = program.text()?;
            if name.is_empty() || name.contains('/') || found.rules.len() == RULES_MAX {
                let found = name.to_owned();
                return Err(program.fault(Fault::Word { found, known: vec!["a program's name"] }));
            }
            let rule = match section.field("cores") {
                Some(cores) => CarryRule::parse(cores.text()?)
                    .map_err(|wrong| cores.fault(Fault::Value(wrong.to_string())))?,
                None => CarryRule::Any,
            };
            found.rules.push((name.to_owned(), rule));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_is_taken() {
        let text =
            "[[carry]]\nprogram = \"redis-server\"\ncores = \"2-3\"\n[[carry]]\nprogram = \"*\"\n";
        let rules = CarryRules::of_text(text).expect("right");
        let cores = CarryRule::Cores(CpuMask::parse("2-3").expect("a list"));
        assert_eq!(rules.of_program("redis-server"), Some(&cores));
        assert_eq!(rules.of_program("nginx"), Some(&CarryRule::Any));
        assert_eq!(CarryRules::of_text("[limits]\n").expect("right").of_program("nginx"), None);
    }

    #[test]
    fn a_number_counts_cores_and_a_list_names_them() {
        assert_eq!(CarryRule::parse("2"), Ok(CarryRule::Count(2)));
        assert_eq!(CarryRule::parse("0"), Ok(CarryRule::Never));
        let one = CpuMask::parse("2").map(CarryRule::Cores).expect("a list");
        assert_eq!(CarryRule::parse("2,"), Ok(one));
        for text in ["", "-1", "3-2", "two", ","] {
            assert!(CarryRule::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let line = |text: &str| CarryRules::of_text(text).expect_err("wrong").line;
        assert_eq!(line("[[carry]]\nprogram = \"/bin/x\"\n"), 2);
        assert_eq!(line("[[carry]]\nprogram = \"x\"\ncores = \"many\"\n"), 3);
    }
}
