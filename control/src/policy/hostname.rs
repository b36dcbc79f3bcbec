//! Patterns of host names: `example.org`, `*.example.org` (everything below it), `*` (all).

use std::fmt;

/// Longest name in bytes without its last dot (RFC 1035, section 2.3.4, as text).
const NAME_BYTES_MAX: usize = 253;
/// Longest part between two dots.
const LABEL_BYTES_MAX: usize = 63;

/// Which names are meant. Case does not count, nor does a dot at the end.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum NamePattern {
    /// All names.
    Any,
    /// This name, in small letters.
    Exact(String),
    /// The names below this one, at any depth, and not the name itself.
    Below(String),
}

/// Why a text is no pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NameError {
    /// Nothing is there.
    Empty,
    /// It is longer than names can be.
    Length(usize),
    /// A star stands elsewhere than alone before the first dot.
    Star(String),
    /// A part between dots is empty, too long or has a character that names do not have.
    Label {
        /// The part.
        found: String,
    },
    /// It is an address: those need no look-up.
    Address(String),
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "there is no name; write one as example.org"),
            Self::Length(bytes) => {
                write!(f, "{bytes} bytes are too long, names have at most {NAME_BYTES_MAX}")
            }
            Self::Star(found) => write!(
                f,
                "{found:?} has a star elsewhere than as its first part; \
                 write *.example.org for all names below example.org, or * for all names"
            ),
            Self::Label { found } => write!(
                f,
                "{found:?} is no part of a name: 1 to {LABEL_BYTES_MAX} letters, digits, - or _ \
                 (write names in other scripts in their xn-- form)"
            ),
            Self::Address(found) => {
                write!(f, "{found} is an address and needs no look-up; grant a connection to it")
            }
        }
    }
}

impl std::error::Error for NameError {}

impl NamePattern {
    /// Reads a pattern as a person writes it.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if text == "*" {
            return Ok(Self::Any);
        }
        if text.parse::<std::net::IpAddr>().is_ok() {
            return Err(NameError::Address(text.to_owned()));
        }
        let (name, below) = match text.strip_prefix("*.") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        if name.contains('*') {
            return Err(NameError::Star(text.to_owned()));
        }
        let name = checked(name)?;
        Ok(if below { Self::Below(name) } else { Self::Exact(name) })
    }

    /// Whether a name is meant. What is no name at all is never meant, not by [`Any`](Self::Any)
    /// either.
    pub fn matches(&self, name: &str) -> bool {
        let Ok(name) = checked(name) else { return false };
        match self {
            Self::Any => true,
            Self::Exact(own) => *own == name,
            Self::Below(parent) => {
                name.strip_suffix(parent.as_str()).is_some_and(|rest| rest.ends_with('.'))
            }
        }
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Exact(name) => f.write_str(name),
            Self::Below(parent) => write!(f, "*.{parent}"),
        }
    }
}

/// The name in small letters without its last dot.
fn checked(text: &str) -> Result<String, NameError> {
    let name = text.strip_suffix('.').unwrap_or(text);
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(NameError::Length(name.len()));
    }
    match name.split('.').find(|label| !is_label(label)) {
        Some(label) => Err(NameError::Label { found: label.to_owned() }),
        None => Ok(name.to_ascii_lowercase()),
    }
}

fn is_label(label: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=LABEL_BYTES_MAX).contains(&label.len()) && label.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        NamePattern::parse(pattern).unwrap().matches(name)
    }

    #[test]
    fn names_match_whole_parts_without_case_and_last_dot() {
        assert!(matches("Example.org", "example.ORG."));
        assert!(!matches("example.org", "a.example.org"));
        assert!(matches("*.example.org", "a.b.example.org"));
        assert!(!matches("*.example.org", "example.org"));
        assert!(!matches("*.example.org", "badexample.org"));
        assert!(matches("*", "anything_at-all.x"));
    }

    #[test]
    fn what_is_no_name_matches_nothing() {
        for name in ["", ".", "a..b", "a b", "a\0.example.org", "é.org", &"x".repeat(64)] {
            assert!(!matches("*", name), "{name:?}");
        }
        assert!(!matches("*", &"ab.".repeat(85)));
    }

    #[test]
    fn what_is_no_pattern_says_what_to_write() {
        let said = |text: &str| NamePattern::parse(text).unwrap_err().to_string();
        assert!(said("a.*.org").contains("write *.example.org"));
        assert!(said("*a.org").contains("write *.example.org"));
        assert!(said("10.0.0.1").contains("grant a connection"));
        assert!(said("ex ample").contains("letters, digits"));
        assert!(said("").contains("there is no name"));
    }
}
