//! Which ranges of a program's memory are meant by the words of `--memory`.

use std::ops::Range;

use heliostat_backend_pages::tracee::{Mapping, MappingKind};

use crate::snapshot::error::SnapshotError;

/// Bytes that a heap may grow before its region has to be made anew: an eighth, at least this.
const SLACK_BYTES_MIN: usize = 2 << 20;

/// One word of `--memory`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Wanted {
    Heap,
    Stack,
    Anonymous,
    /// Whatever the program alone can write.
    AllPrivate,
    /// So many of the largest of those.
    Largest(usize),
    Range {
        start: usize,
        len: usize,
    },
    /// A mapped file.
    Path(String),
}

/// A range to publish, and the last part of its name; none for one that was given by address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Chosen {
    pub(super) range: Range<usize>,
    /// End of what is in use of it.
    pub(super) used_end: usize,
    pub(super) label: Option<String>,
}

impl Wanted {
    pub(super) fn parse(text: &str) -> Result<Self, SnapshotError> {
        let wrong = || {
            SnapshotError::Asked(format!(
                "--memory {text:?}: heap, stack, anon, all-private, largest:N, ADDRESS+LENGTH \
                 (0x for hexadecimal) or a path"
            ))
        };
        Ok(match text {
            "heap" => Self::Heap,
            "stack" => Self::Stack,
            "anon" => Self::Anonymous,
            "all-private" => Self::AllPrivate,
            path if path.starts_with('/') => Self::Path(path.to_owned()),
            _ => match (text.strip_prefix("largest:"), text.split_once('+')) {
                (Some(count), _) => Self::Largest(count.parse().map_err(|_| wrong())?),
                (_, Some((start, len))) => {
                    let start = number(start).ok_or_else(wrong)?;
                    let len = number(len).filter(|len| *len > 0).ok_or_else(wrong)?;
                    Self::Range { start, len }
                }
                _ => return Err(wrong()),
            },
        })
    }

    /// The ranges it means now.
    pub(super) fn choose(&self, mappings: &[Mapping]) -> Vec<Chosen> {
        let private = |it: &Mapping| it.is_readable && it.is_writable && !it.is_shared;
        let by_address = |it: Range<usize>| {
            let label = Some(format!("{:#x}", it.start));
            Chosen { used_end: it.end, range: it, label }
        };
        let all = |is_wanted: &dyn Fn(&Mapping) -> bool| {
            let wanted =
                mappings.iter().filter(|it| is_wanted(it) && it.kind != MappingKind::Kernel);
            joined(wanted).into_iter().map(by_address).collect::<Vec<_>>()
        };
        match self {
            Self::Heap => whole(mappings, MappingKind::Heap).map(heap).into_iter().collect(),
            Self::Stack => whole(mappings, MappingKind::Stack)
                .map(|range| Chosen { used_end: range.end, range, label: Some("stack".to_owned()) })
                .into_iter()
                .collect(),
            Self::Anonymous => all(&|it| private(it) && it.kind == MappingKind::Anonymous),
            Self::AllPrivate => {
                let named = [Self::Heap, Self::Stack].map(|it| it.choose(mappings)).concat();
                let is_named =
                    |it: &Mapping| matches!(it.kind, MappingKind::Heap | MappingKind::Stack);
                [named, all(&|it| private(it) && !is_named(it))].concat()
            }
            Self::Largest(count) => {
                let mut found = Self::AllPrivate.choose(mappings);
                found.sort_by_key(|it| std::cmp::Reverse(it.range.len()));
                found.truncate(*count);
                found
            }
            Self::Range { start, len } => {
                let used_end = start.saturating_add(*len);
                vec![Chosen { range: *start..used_end, used_end, label: None }]
            }
            Self::Path(path) => all(&|it| it.is_readable && it.name == *path),
        }
    }
}

/// The heap and room for it to grow.
fn heap(range: Range<usize>) -> Chosen {
    let slack = (range.len() / 8).max(SLACK_BYTES_MIN);
    let label = Some("heap".to_owned());
    Chosen { range: range.start..range.end + slack, used_end: range.end, label }
}

/// From the first to the last mapping of a kind.
fn whole(mappings: &[Mapping], kind: MappingKind) -> Option<Range<usize>> {
    let mut found = mappings.iter().filter(|it| it.kind == kind);
    let first = found.next()?;
    Some(first.pages.start..found.next_back().unwrap_or(first).pages.end)
}

/// Neighbours as one.
fn joined<'a>(mappings: impl Iterator<Item = &'a Mapping>) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for it in mappings {
        match found.last_mut().filter(|last| last.end == it.pages.start) {
            Some(last) => last.end = it.pages.end,
            None => found.push(it.pages.clone()),
        }
    }
    found
}

fn number(text: &str) -> Option<usize> {
    match text.strip_prefix("0x") {
        Some(digits) => usize::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(pages: Range<usize>, kind: MappingKind, rights: &str) -> Mapping {
        let has = |right| rights.contains(right);
        let (is_readable, is_writable, is_shared) = (has('r'), has('w'), has('s'));
        Mapping { pages, is_readable, is_writable, is_shared, kind, name: String::new() }
    }

    #[test]
    fn words_choose_ranges_and_neighbours_are_one() {
        let mappings = [
            mapping(0x1000..0x2000, MappingKind::File, "rw"),
            mapping(0x2000..0x3000, MappingKind::Heap, "rw"),
            mapping(0x5000..0x6000, MappingKind::Anonymous, "rw"),
            mapping(0x6000..0x9000, MappingKind::Anonymous, "rw"),
            mapping(0xa000..0xb000, MappingKind::Anonymous, "rws"),
            mapping(0xc000..0xd000, MappingKind::Anonymous, ""),
            mapping(0xe000..0xf000, MappingKind::Stack, "rw"),
        ];
        let ranges = |text| -> Vec<_> {
            let chosen = Wanted::parse(text).unwrap().choose(&mappings);
            chosen.into_iter().map(|it| (it.range.start, it.range.len())).collect()
        };
        assert_eq!(ranges("heap"), [(0x2000, 0x1000 + SLACK_BYTES_MIN)]);
        assert_eq!(ranges("anon"), [(0x5000, 0x4000)]);
        assert_eq!(ranges("stack"), [(0xe000, 0x1000)]);
        assert_eq!(ranges("0x1234+10"), [(0x1234, 10)]);
        assert_eq!(ranges("all-private").len(), 4);
        assert_eq!(ranges("largest:1"), ranges("heap"));
        assert_eq!(ranges("/none"), []);
        for text in ["heaps", "1+", "1+0", "largest:x", "+5", ""] {
            assert!(Wanted::parse(text).is_err(), "{text}");
        }
    }
}
