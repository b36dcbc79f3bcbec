//! By which rule a shared listener chooses a worker.

use std::fmt;

use super::limits::{DEADLINE_MS_MAX, DEADLINE_MS_USUAL, PEEK_BYTES_MAX, PEEK_BYTES_USUAL};
use crate::wire::{Reader, WireError, Writer};

/// A rule, with what it needs to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Rule {
    /// The worker with the fewest open connections; equals in turn.
    LeastLoad,
    /// Each in its turn.
    RoundRobin,
    /// By the address of the peer, without its port: the same worker as long as there is that worker.
    Address,
    /// By the first bytes, up to the end of the first line.
    Content(Peek),
    /// By a plug-in, which is told of the first bytes where `bytes_max` is not zero.
    Plugin(Peek),
}

/// How much of a connection is looked at, and how long that may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Peek {
    /// So many bytes at most.
    pub bytes_max: u32,
    /// A client that is silent for so long is given by least load.
    pub deadline_ms: u32,
}

impl Peek {
    /// What holds where nobody says otherwise.
    pub const USUAL: Peek = Peek { bytes_max: PEEK_BYTES_USUAL, deadline_ms: DEADLINE_MS_USUAL };
    const NONE: Peek = Peek { bytes_max: 0, deadline_ms: 0 };
}

impl Rule {
    /// Every rule, each with its usual numbers.
    pub const ALL: [Rule; 5] = [
        Rule::LeastLoad,
        Rule::RoundRobin,
        Rule::Address,
        Rule::Content(Peek::USUAL),
        Rule::Plugin(Peek { bytes_max: 0, ..Peek::USUAL }),
    ];

    /// The rule of this name, with its usual numbers.
    pub fn parse(text: &str) -> Option<Rule> {
        Self::ALL.into_iter().find(|rule| rule.name() == text)
    }

    /// Its name, in configurations and commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::LeastLoad => "least-load",
            Self::RoundRobin => "round-robin",
            Self::Address => "address",
            Self::Content(_) => "content",
            Self::Plugin(_) => "plugin",
        }
    }

    /// How much of each connection it looks at.
    pub fn peek(self) -> Option<Peek> {
        match self {
            Self::Content(peek) => Some(peek),
            Self::Plugin(peek) => Some(peek).filter(|peek| peek.bytes_max > 0),
            _ => None,
        }
    }

    /// The same rule with other numbers, where it has any.
    pub fn with(self, peek: Peek) -> Rule {
        match self {
            Self::Content(_) => Self::Content(peek),
            Self::Plugin(_) => Self::Plugin(peek),
            other => other,
        }
    }

    fn number(self) -> u32 {
        match self {
            Self::LeastLoad => 1,
            Self::RoundRobin => 2,
            Self::Address => 3,
            Self::Content(_) => 4,
            Self::Plugin(_) => 5,
        }
    }

    /// Writes a rule, or none.
    pub(crate) fn encode(rule: Option<Rule>, w: &mut Writer<'_>) {
        let peek = match rule {
            Some(Self::Content(peek) | Self::Plugin(peek)) => peek,
            _ => Peek::NONE,
        };
        w.u32(rule.map_or(0, Rule::number)).u32(peek.bytes_max).u32(peek.deadline_ms);
    }

    /// The rule in foreign bytes, or none.
    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Option<Rule>, WireError> {
        let (number, peek) = (r.u32(), Peek { bytes_max: r.u32(), deadline_ms: r.u32() });
        let wrong = |name, found: u32| WireError::Field { name, found: u64::from(found) };
        let rule = match number {
            0 => None,
            4 => Some(Self::Content(peek)),
            5 => Some(Self::Plugin(peek)),
            other => {
                let plain = [Self::LeastLoad, Self::RoundRobin, Self::Address];
                let found = plain.into_iter().find(|rule| rule.number() == other);
                Some(found.ok_or(wrong("rule", other))?)
            }
        };
        let (least, most) = match rule {
            Some(Self::Content(_)) => (1, PEEK_BYTES_MAX),
            Some(Self::Plugin(_)) => (0, PEEK_BYTES_MAX),
            _ => (0, 0),
        };
        if !(least..=most).contains(&peek.bytes_max) {
            return Err(wrong("bytes", peek.bytes_max));
        }
        let waits = matches!(rule, Some(Self::Content(_) | Self::Plugin(_)));
        let deadline = if waits { 1..=DEADLINE_MS_MAX } else { 0..=0 };
        if !deadline.contains(&peek.deadline_ms) {
            return Err(wrong("deadline", peek.deadline_ms));
        }
        Ok(rule)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
