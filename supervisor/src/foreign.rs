//! All that reads the bytes of sealed programs, from bytes alone: where the fuzzer begins.
//!
//! The readers are those that answer calls; only where the bytes come from is different. What
//! each promises for any bytes is asserted here. Not part of the supervisor that runs.

use std::path::Path;

use crate::calls::{name, open_how};
use crate::lookup::question::Question;
use crate::net::address::{self, Address};
use crate::net::message;
use crate::paths::visible::VisibleNames;
use crate::tree;

/// Grants that paths are judged against.
const GRANTED: [&str; 4] = ["/usr", "/srv/data/in", "/etc/passwd", "/proc"];
/// Bytes of a control message's header (source: socket.h, 64 bits).
const CONTROL_HEADER_BYTES: usize = 16;

/// Reads the bytes by the reader that the first of them names. Panics if a promise is broken.
pub fn read(bytes: &[u8]) {
    let Some((reader, bytes)) = bytes.split_first() else { return };
    match reader % 6 {
        0 => read_address(bytes),
        1 => read_control(bytes),
        2 => drop(open_how::parse(bytes)),
        3 => read_path(bytes),
        4 => read_question(bytes),
        _ => read_process(bytes),
    }
}

fn read_address(bytes: &[u8]) {
    if let Ok(Address::Path(path)) = address::parse(bytes) {
        assert!(!path.is_empty() && !path.contains(&0), "a path ends before its NUL");
    }
}

/// Every control message lies within the bytes, after the one before.
fn read_control(bytes: &[u8]) {
    let Ok(parts) = message::parts(bytes) else { return };
    let all: usize = parts.iter().map(|(_, _, data)| CONTROL_HEADER_BYTES + data.len()).sum();
    assert!(all <= bytes.len(), "{all} bytes of {}", bytes.len());
}

/// What is said to lead to nothing neither is granted nor leads to a grant.
fn read_path(path: &[u8]) {
    use std::os::unix::ffi::OsStrExt;
    if let Some((_, before)) = name::ending(path) {
        assert!(before.ends_with(b"/"), "what comes before is a directory");
    }
    let mut visible = VisibleNames::default();
    GRANTED.iter().for_each(|granted| visible.add(Path::new(granted)));
    if visible.lacks(path) {
        let path = Path::new(std::ffi::OsStr::from_bytes(path));
        assert!(path.is_absolute());
        for granted in GRANTED {
            assert!(!path.starts_with(granted) && !Path::new(granted).starts_with(path));
        }
    }
}

/// What is passed on says what was asked, and is a question again.
fn read_question(bytes: &[u8]) {
    let Some(question) = Question::read(bytes) else { return };
    assert!(question.name.split('.').all(|label| label.len() < 64));
    if let Some(again) = question.message().as_deref().and_then(Question::read) {
        assert_eq!(again, question);
    }
    let refusal = question.refusal();
    let refused = refusal.as_deref().and_then(|answer| question.addresses(answer));
    assert!(refused.is_none_or(|addresses| addresses.is_empty()));
    drop(question.addresses(bytes));
}

/// A process's name, which it chooses itself, never passes for the fields after it.
fn read_process(name: &[u8]) {
    let _ = tree::field_of(name, 1);
    let entry = [b"7 (", name, b") S 5 6 7"].concat();
    assert_eq!(tree::field_of(&entry, 1), Some(5));
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Every file of the corpus, whole, cut short, and with a byte changed.
    #[test]
    fn the_corpus_breaks_no_promise() {
        let folder =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/supervisor/corpus/foreign");
        let files = std::fs::read_dir(folder).unwrap();
        let inputs: Vec<_> =
            files.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect();
        assert!(!inputs.is_empty(), "there is no corpus");
        for input in inputs {
            (0..=input.len()).for_each(|end| super::read(&input[..end]));
            for (at, value) in (0..input.len()).flat_map(|at| [(at, 0), (at, 0x2f), (at, 0xff)]) {
                let mut changed = input.clone();
                changed[at] = value;
                super::read(&changed);
            }
        }
    }
}
