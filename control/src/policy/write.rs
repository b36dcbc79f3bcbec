//! From a policy to the text of its file.

use std::fmt::{Display, Write};
use std::path::Path;

use super::size::bytes_text;
use super::{Limits, PathGrant, Policy};

impl Policy {
    /// The policy as a file that [`from_toml`](Self::from_toml) reads back to the same. Paths that
    /// are no UTF-8 cannot stand in such a file and become comments.
    pub fn to_toml(&self) -> String {
        let mut text = format!("system = {}\n", self.system);
        let grants = self.grants.iter().map(|grant| (grant_text(grant), String::new()));
        list(&mut text, "grant", grants.collect());
        list(&mut text, "listen", plain(&self.listen));
        list(&mut text, "connect", plain(&self.connect));
        list(&mut text, "lookup", plain(&self.lookup));
        list(&mut text, "env", plain(&self.env));
        list(&mut text, "user", plain(&self.users));
        if self.delegate {
            text.push_str("\ndelegate = true\n");
        }
        list(&mut text, "snapshot", plain(&self.regions));
        list(&mut text, "memory", plain(&self.memory));
        self.write_limits(&mut text);
        text
    }

    pub(super) fn write_limits(&self, text: &mut String) {
        if self.limits == Limits::default() {
            return;
        }
        text.push_str("\n[limits]\n");
        if let Some(memory) = self.limits.memory {
            let _ = writeln!(text, "memory = {}", quoted(&bytes_text(memory)));
        }
        if let Some(processes) = self.limits.processes {
            let _ = writeln!(text, "processes = {processes}");
        }
        if let Some(bytes) = self.limits.tmp {
            let _ = writeln!(text, "tmp = {}", quoted(&bytes_text(bytes)));
        }
    }
}

/// One element of a list: the text, or why it cannot stand there.
pub(super) type Element = Result<String, String>;

/// A grant's text; an error for a path that is no UTF-8.
pub(super) fn grant_text(grant: &PathGrant) -> Element {
    let path: &Path = &grant.path;
    match path.to_str() {
        Some(path) => Ok(format!("{path}:{}", grant.access.word())),
        None => {
            Err(format!("{path:?} is no UTF-8 and cannot stand in this file; grant its folder"))
        }
    }
}

fn plain<T: Display>(entries: &[T]) -> Vec<(Element, String)> {
    entries.iter().map(|entry| (Ok(entry.to_string()), String::new())).collect()
}

/// Writes a list, one element a line with its comment; nothing for an empty one.
pub(super) fn list(text: &mut String, key: &str, elements: Vec<(Element, String)>) {
    if elements.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{key} = [");
    let quotes: Vec<_> =
        elements.iter().map(|(element, _)| element.as_ref().map(|it| quoted(it))).collect();
    let width = quotes.iter().flatten().map(|quote| quote.chars().count()).max().unwrap_or(0);
    let width = width.min(COMMENT_COLUMN_MAX);
    for (quote, (_, comment)) in quotes.iter().zip(&elements) {
        let _ = match (quote, comment.as_str()) {
            (Ok(quote), "") => writeln!(text, "  {quote},"),
            (Ok(quote), comment) => {
                let gap = width.saturating_sub(quote.chars().count());
                writeln!(text, "  {quote},{:gap$}  # {}", "", one_line(comment))
            }
            (Err(why), _) => writeln!(text, "  # {}", one_line(why)),
        };
    }
    text.push_str("]\n");
}

/// Comments stand below each other up to this column.
const COMMENT_COLUMN_MAX: usize = 48;

/// A TOML basic string.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            control if control.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// Text from a program in a comment: nothing of it may end the line.
pub(super) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
