//! What is wrong with a configuration, in words that say where and what would be right.

use std::fmt;

/// One mistake.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The text is not TOML.
    Syntax(String),
    /// No key of this name exists here.
    UnknownKey {
        /// The known key that looks most like it, if one does.
        meant: Option<&'static str>,
        /// Every key that is known here.
        known: Vec<&'static str>,
    },
    /// The value has the wrong type.
    Type {
        /// The type wanted, in words.
        wanted: &'static str,
        /// The type found.
        found: &'static str,
    },
    /// The number is out of range.
    Range {
        /// Smallest value allowed.
        least: u64,
        /// Largest value allowed.
        most: u64,
        /// The value found.
        found: String,
    },
    /// The word is none of those that are known here.
    Word {
        /// The word found.
        found: String,
        /// The words known.
        known: Vec<&'static str>,
    },
    /// The value fails a check of its own.
    Value(String),
    /// The key must be there.
    Missing,
}

/// A mistake with its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// Line, from 1.
    pub line: usize,
    /// The key's full name, such as `limits.sessions_per_user`.
    pub key: String,
    /// What is wrong.
    pub fault: Fault,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        match &self.fault {
            Fault::Syntax(message) => f.write_str(message),
            Fault::UnknownKey { meant: Some(meant), .. } => {
                write!(f, "no such key; did you mean {meant}?")
            }
            Fault::UnknownKey { meant: None, known } => {
                write!(f, "no such key; known here: {}", known.join(", "))
            }
            Fault::Type { wanted, found } => write!(f, "wanted {wanted}, found {found}"),
            Fault::Range { least, most, found } => {
                write!(f, "{found} is out of range; allowed is {least} to {most}")
            }
            Fault::Word { found, known } => {
                write!(f, "{found:?} is not known; one of: {}", known.join(", "))
            }
            Fault::Value(message) => f.write_str(message),
            Fault::Missing => f.write_str("this key must be given"),
        }
    }
}

impl std::error::Error for ConfigError {}

/// The candidate that looks most like `word`, if one is near enough to be a misspelling.
pub(super) fn nearest(word: &str, candidates: &[&'static str]) -> Option<&'static str> {
    let near_enough = word.len() / 3 + 1;
    candidates
        .iter()
        .map(|candidate| (distance(word, candidate), *candidate))
        .filter(|(distance, _)| *distance <= near_enough)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein's distance, row by row.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, left) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, right) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(left != *right);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelling_finds_its_key_and_nonsense_finds_none() {
        let known = ["sessions_per_user", "ports_per_session"];
        assert_eq!(nearest("session_per_user", &known), Some("sessions_per_user"));
        assert_eq!(nearest("colour", &known), None);
    }
}
