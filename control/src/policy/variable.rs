//! Variables of the environment, as a person names them: `TOKEN`, `AWS_*`, `DEBUG=1`.

use std::fmt;

/// What a sealed program is told by way of its environment.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Variable {
    /// What is set outside under this name, or one that begins so where the text ends in `*`.
    Crosses(String),
    /// A name and its value, whatever is set outside.
    Is(String, String),
}

/// Why a text names no variable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VariableError {
    /// There is no name.
    Empty,
    /// A star in another place than the end.
    Star,
    /// Neither names nor values can hold a byte 0.
    Zero,
}

impl fmt::Display for VariableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "there is no name; write NAME, NAME_* or NAME=VALUE"),
            Self::Star => {
                write!(f, "a * stands at the end of a name only: LC_* is all that begin with LC_")
            }
            Self::Zero => write!(f, "a variable cannot hold a byte 0"),
        }
    }
}

impl std::error::Error for VariableError {}

impl Variable {
    /// Reads `NAME`, `BEGINNING*` or `NAME=VALUE`.
    pub fn parse(text: &str) -> Result<Self, VariableError> {
        if text.contains('\0') {
            return Err(VariableError::Zero);
        }
        match text.split_once('=') {
            Some(("", _)) => Err(VariableError::Empty),
            Some((name, value)) => Ok(Self::Is(name.to_owned(), value.to_owned())),
            None if text.is_empty() => Err(VariableError::Empty),
            None if text.strip_suffix('*').unwrap_or(text).contains('*') => {
                Err(VariableError::Star)
            }
            None => Ok(Self::Crosses(text.to_owned())),
        }
    }

    /// Its name, or how those begin that it is about, with a star.
    pub fn name(&self) -> &str {
        match self {
            Self::Crosses(name) | Self::Is(name, _) => name,
        }
    }

    /// Whether what is set outside under a name crosses by this.
    pub fn lets_cross(&self, name: &str) -> bool {
        let Self::Crosses(own) = self else { return false };
        match own.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => own == name,
        }
    }

    /// Whether a variable crosses into every sealed program that is told nothing else: where things
    /// lie, who and where the user is, how to speak and to draw. None of them is a secret's usual
    /// place.
    pub fn is_harmless(name: &str) -> bool {
        let one = |known: &str| match known.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => known == name,
        };
        HARMLESS.iter().any(|known| one(known))
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crosses(name) => f.write_str(name),
            Self::Is(name, value) => write!(f, "{name}={value}"),
        }
    }
}

/// As docs/sealed.md lists them; a test compares.
#[rustfmt::skip]
const HARMLESS: &[&str] = &[
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "SHLVL", "HOSTNAME",
    "TERM", "COLORTERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR*", "LS_COLORS",
    "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "TMP", "TEMP",
    "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME",
    "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "EDITOR", "VISUAL", "PAGER",
    "LD_LIBRARY_PATH", "LD_PRELOAD", "HELIOSTAT_*",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beginnings_and_values_are_told_apart_and_read_back() {
        let parsed = |text: &str| Variable::parse(text).unwrap();
        assert_eq!(parsed("TOKEN"), Variable::Crosses("TOKEN".into()));
        assert_eq!(parsed("A=b=c*"), Variable::Is("A".into(), "b=c*".into()));
        assert_eq!(parsed("A="), Variable::Is("A".into(), String::new()));
        for text in ["TOKEN", "LC_*", "*", "A=b=c"] {
            assert_eq!(parsed(text).to_string(), text);
        }
        assert!(parsed("AWS_*").lets_cross("AWS_REGION") && !parsed("AWS_*").lets_cross("AWS"));
        assert!(parsed("A").lets_cross("A") && !parsed("A").lets_cross("AB"));
        assert!(parsed("*").lets_cross("ANY") && !parsed("A=b").lets_cross("A"));
    }

    #[test]
    fn what_is_no_variable_says_what_to_write() {
        assert_eq!(Variable::parse(""), Err(VariableError::Empty));
        assert_eq!(Variable::parse("=x"), Err(VariableError::Empty));
        assert_eq!(Variable::parse("A*B"), Err(VariableError::Star));
        assert_eq!(Variable::parse("**"), Err(VariableError::Star));
        assert_eq!(Variable::parse("A=\0"), Err(VariableError::Zero));
        assert!(VariableError::Empty.to_string().contains("write NAME"));
        assert_eq!(Variable::parse("*é"), Err(VariableError::Star));
        assert_eq!(Variable::parse("é"), Ok(Variable::Crosses("é".into())));
    }

    #[test]
    fn the_document_lists_what_crosses_by_itself() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/sealed.md");
        let document = std::fs::read_to_string(file).expect("docs/sealed.md");
        let listed = HARMLESS.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        assert!(document.contains(&listed), "docs/sealed.md should list: {listed}");
        assert!(Variable::is_harmless("LC_TIME") && Variable::is_harmless("PATH"));
        for secret in ["TOKEN", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "PATHS", "GPG_AGENT_INFO"]
        {
            assert!(!Variable::is_harmless(secret), "{secret}");
        }
    }
}
