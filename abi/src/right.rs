//! The rights that a configuration gives and requests are judged by.

use std::fmt;

/// A right on a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Right {
    /// Open a channel to whoever listens on the name.
    Connect,
    /// Register the name as listened on.
    Listen,
    /// Give a snapshot region, or a memory region, the name; serve the function of the name.
    Publish,
    /// Read the snapshot region of the name.
    Attach,
    /// Read the file of the name from a mapping under a lease, or by delegated operations; or the
    /// memory region of the name.
    Read,
    /// Write the file of the name by delegated operations, or the memory region of the name.
    Write,
    /// Open, acquire and reset the lock, semaphore or barrier of the name.
    Acquire,
    /// Free, enlarge, move and name the memory region of the name, and appoint others.
    Manage,
    /// Call the function of the name.
    Call,
}

impl Right {
    /// Every right, with the word that a configuration uses for it.
    pub const ALL: [(&'static str, Right); 9] = [
        ("connect", Right::Connect),
        ("listen", Right::Listen),
        ("publish", Right::Publish),
        ("attach", Right::Attach),
        ("read", Right::Read),
        ("write", Right::Write),
        ("acquire", Right::Acquire),
        ("manage", Right::Manage),
        ("call", Right::Call),
    ];

    /// The right that a configuration means by `word`.
    pub fn from_word(word: &str) -> Option<Right> {
        Self::ALL.iter().find(|(known, _)| *known == word).map(|(_, right)| *right)
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Self::ALL.iter().find(|(_, right)| right == self).map_or("?", |(word, _)| word);
        f.write_str(word)
    }
}
