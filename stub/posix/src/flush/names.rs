//! Which files are durable: patterns that the program was started with.
//!
//! The file is asked for by its path at the very call, so that no table has to follow descriptors
//! through dup, fork and renames; that costs a microsecond beside a flush of a hundred.

use std::sync::OnceLock;

use heliostat_abi::place::DETECT_PREFIX;
use heliostat_base::call;

/// Longer paths are no file of ours.
pub const PATH_BYTES_MAX: usize = 1024;
/// Between two patterns in the variable.
pub const SEPARATOR: u8 = b'\n';

static PATTERNS: OnceLock<Vec<Pattern>> = OnceLock::new();

/// A pattern, and whether a file of that name is durable only if it is seen to be appended to.
struct Pattern {
    text: Vec<u8>,
    is_detecting: bool,
}

/// Sets the patterns, once, at start.
pub fn set(patterns: &[u8]) {
    let each = patterns.split(|byte| *byte == SEPARATOR).map(Pattern::of);
    let _ = PATTERNS.set(each.filter(|pattern| !pattern.text.is_empty()).collect());
}

impl Pattern {
    fn of(line: &[u8]) -> Self {
        let detecting = line.strip_prefix(DETECT_PREFIX.as_bytes());
        Self { text: detecting.unwrap_or(line).to_vec(), is_detecting: detecting.is_some() }
    }
}

/// No file is durable.
#[inline]
pub fn is_none() -> bool {
    PATTERNS.get().is_none_or(Vec::is_empty)
}

/// The path of what `fd` has open, if one of the patterns names it, and whether it has to be seen first
/// how that file is used.
pub fn durable_path(fd: i32, room: &mut [u8]) -> Option<(&[u8], bool)> {
    let patterns = PATTERNS.get().filter(|all| !all.is_empty())?;
    let path = call::path_of(fd, room)?;
    let named = |pattern: &&Pattern| names(&pattern.text, path);
    // Who names a file outright knows what it is.
    let found = patterns.iter().filter(named).min_by_key(|pattern| pattern.is_detecting)?;
    Some((path, found.is_detecting))
}

/// A pattern with a slash names a whole path, one without the last part of it.
fn names(pattern: &[u8], path: &[u8]) -> bool {
    if path.first() != Some(&b'/') {
        return false; // "pipe:[1]" and its like
    }
    match pattern.contains(&b'/') {
        true => matches(pattern, path),
        false => {
            path.rsplit(|byte| *byte == b'/').next().is_some_and(|last| matches(pattern, last))
        }
    }
}

/// `*` stands for any bytes but a slash, `?` for one. Goes back to the last `*` only.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from, mut star) = (0, 0, None);
    while from < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at + 1, from));
                at += 1;
            }
            Some(byte) if *byte == text[from] || (*byte == b'?' && text[from] != b'/') => {
                (at, from) = (at + 1, from + 1);
            }
            _ => match &mut star {
                Some((after, taken)) if text[*taken] != b'/' => {
                    *taken += 1;
                    (at, from) = (*after, *taken);
                }
                _ => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_may_say_that_files_are_to_be_watched_first() {
        let pattern = |line: &str| {
            let Pattern { text, is_detecting } = Pattern::of(line.as_bytes());
            (String::from_utf8(text).expect("text"), is_detecting)
        };
        assert_eq!(pattern("detect:*.wal"), ("*.wal".into(), true));
        assert_eq!(pattern("*.aof"), ("*.aof".into(), false));
    }

    #[test]
    fn patterns_name_files_by_their_last_part_or_their_whole_path() {
        let cases: [(&str, &str, bool); 12] = [
            ("*.aof", "/var/lib/redis/appendonly.aof", true),
            ("*.aof", "/var/lib/redis.aof/dump.rdb", false),
            ("appendonly.aof.?.incr.aof", "/d/appendonly.aof.3.incr.aof", true),
            ("appendonly.aof.?.incr.aof", "/d/appendonly.aof.33.incr.aof", false),
            ("/var/*/x", "/var/lib/x", true),
            ("/var/*/x", "/var/lib/more/x", false),
            ("*", "pipe:[77]", false),
            ("*", "/a", true),
            ("a*b*c", "/x/aXbYbZc", true),
            ("a*b*c", "/x/aXbYbZ", false),
            ("", "/x/", true),
            ("?", "/x/", false),
        ];
        for (pattern, path, expected) in cases {
            let found = names(pattern.as_bytes(), path.as_bytes());
            assert_eq!(found, expected, "{pattern} and {path}");
        }
    }
}
