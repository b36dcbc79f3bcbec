//! Every number of the C header is the one that the Rust layouts have.

use std::collections::BTreeMap;
use std::process::Command;

use heliostat_abi::file::delegated as files;
use heliostat_abi::file::delegated::OpKind;
use heliostat_abi::lean;
use heliostat_abi::socket::operation as sockets;
use heliostat_bind_lean::HEADERS;

const HEADER: &str = include_str!("../include/heliostat_lean_layout.h");

/// The numbers that the header defines.
fn defined() -> BTreeMap<&'static str, u64> {
    let lines = HEADER.lines().filter_map(|line| line.strip_prefix("#define HL_"));
    let pair = |line: &'static str| {
        let (name, rest) = line.split_once(' ')?;
        let word = rest.split_whitespace().next()?.trim_end_matches(['u', 'l']);
        let value = match word.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => word.parse(),
        };
        Some((name, value.expect(line)))
    };
    lines.filter_map(pair).collect()
}

fn kinds() -> Vec<(String, u64)> {
    let in_header = |kind: OpKind| {
        HEADERS.iter().any(|(_, text)| text.contains(&format!("HL_{}", name_of(kind))))
    };
    let named = OpKind::ALL
        .into_iter()
        .filter(|kind| in_header(*kind) || defined().contains_key(&*name_of(*kind)));
    named.map(|kind| (name_of(kind), kind as u64)).collect()
}

fn name_of(kind: OpKind) -> String {
    format!("OP_{}", kind.name().to_uppercase())
}

fn known() -> Vec<(&'static str, u64)> {
    vec![
        ("MAGIC", lean::MAGIC),
        ("VERSION", u64::from(lean::VERSION)),
        ("OVER_AT", lean::OVER_AT as u64),
        ("QUEUE_AT", lean::QUEUE_AT as u64),
        ("QUEUE_BYTES", lean::QUEUE_BYTES as u64),
        ("SCRATCH_AT", lean::SCRATCH_AT as u64),
        ("SCRATCH_BYTES", lean::SCRATCH_BYTES as u64),
        ("SLOTS", lean::SLOTS as u64),
        ("PAYLOAD_AT", lean::PAYLOAD_AT as u64),
        ("WINDOW_BYTES_MIN", lean::WINDOW_BYTES_MIN),
        ("HAS_FILES", u64::from(lean::HAS_FILES)),
        ("HAS_SOCKETS", u64::from(lean::HAS_SOCKETS)),
        ("SUBMISSION_BYTES", files::SUBMISSION_BYTES),
        ("COMPLETION_BYTES", files::COMPLETION_BYTES),
        ("COMPLETION_AT", files::COMPLETION_AT as u64),
        ("RINGS_BYTES", files::RING_BYTES as u64),
        ("COMPLETION_RECORD_BYTES", files::COMPLETION_RECORD_BYTES as u64),
        ("OPERATION_HEAD_BYTES", files::OPERATION_HEAD_BYTES as u64),
        ("PIECE_BYTES", files::PIECE_BYTES as u64),
        ("PIECES_MAX", files::PIECES_MAX as u64),
        ("TRANSFER_BYTES_MAX", files::TRANSFER_BYTES_MAX),
        ("NAME_BYTES_MAX", u64::from(files::NAME_BYTES_MAX)),
        ("FETCH_BYTES_MAX", files::FETCH_BYTES_MAX as u64),
        ("READ", files::READ),
        ("WRITE", files::WRITE),
        ("DIRECT", files::DIRECT),
        ("BUFFERED", files::BUFFERED),
        ("CREATE", files::CREATE),
        ("EXCLUSIVE", files::EXCLUSIVE),
        ("TRUNCATE", files::TRUNCATE),
        ("DIRECTORY", files::DIRECTORY),
        ("MODE_SHIFT", u64::from(files::mode(1).trailing_zeros())),
        ("NOREPLACE", files::NOREPLACE),
        ("UNLOCK", files::UNLOCK),
        ("SHARED", files::SHARED),
        ("ALONE", files::ALONE),
        ("NOW", files::NOW),
        ("SHARED_LISTENER", sockets::SHARED_BIT),
        ("BY_LOAD", sockets::BY_LOAD),
        ("BY_TURN", sockets::BY_TURN),
        ("BY_ADDRESS", sockets::BY_ADDRESS),
        ("BY_CONTENT", sockets::BY_CONTENT),
        ("RECEIVING", sockets::RECEIVING),
        ("SENDING", sockets::SENDING),
        ("OWN", sockets::OWN),
        ("PEER", sockets::PEER),
        ("POLL_IN", u64::from(sockets::POLL_IN)),
        ("POLL_OUT", u64::from(sockets::POLL_OUT)),
        ("POLL_ENDED", u64::from(sockets::POLL_ENDED)),
        ("POLL_UNKNOWN", u64::from(sockets::POLL_UNKNOWN)),
        ("POLLED_MAX", sockets::POLLED_MAX as u64),
    ]
}

/// What the ring crate says, which no binding of C imports: `docs/ring.md` has the same numbers.
const RING: [(&str, u64); 4] = [
    ("RING_HEAD_AT", heliostat_ring::layout::HEAD_AT as u64),
    ("RING_TAIL_AT", heliostat_ring::layout::TAIL_AT as u64),
    ("RING_BELL_AT", heliostat_ring::layout::CONSUMER_BELL_AT as u64),
    ("RING_DATA_AT", heliostat_ring::layout::CONTROL_BYTES as u64),
];

#[test]
fn numbers_are_the_same_and_none_is_unknown() {
    let mut defined = defined();
    let wanted = known().into_iter().chain(RING).map(|(name, value)| (name.to_owned(), value));
    for (name, value) in wanted.chain(kinds()) {
        assert_eq!(defined.remove(&*name), Some(value), "{name}");
    }
    defined.retain(|name, _| !name.starts_with('E'));
    assert!(defined.is_empty(), "nothing in Rust says so: {defined:?}");
}

#[test]
fn errnos_are_those_of_linux() {
    let errnos = [
        ("ENOENT", 2),
        ("EFAULT", 14),
        ("EINVAL", 22),
        ("ENAMETOOLONG", 36),
        ("EPROTO", 71),
        ("ENOTSUP", 95),
        ("ESHUTDOWN", 108),
    ];
    let found: Vec<_> = defined().into_iter().filter(|(name, _)| name.starts_with('E')).collect();
    let found: Vec<_> = found.into_iter().filter(|(name, _)| *name != "EXCLUSIVE").collect();
    let mut wanted = errnos.to_vec();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
}

/// Compiles a C program over the headers and returns what it prints.
fn printed(program: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (source, binary) = (folder.path().join("sizes.c"), folder.path().join("sizes"));
    std::fs::write(&source, program).unwrap();
    let headers = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include");
    let mut gcc = Command::new("cc");
    gcc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", headers, "-o"]);
    assert!(gcc.args([&binary, &source]).status().unwrap().success());
    String::from_utf8(Command::new(&binary).output().unwrap().stdout).unwrap()
}

/// The structures that the stub copies as they are have the records' lengths.
#[test]
fn structures_have_the_lengths_of_their_records() {
    let found = printed(
        "#include \"heliostat_lean.h\"\n#include <stdio.h>\nint main(void) { printf(\"%zu %zu %zu %d\", \
         sizeof(hl_facts), sizeof(hl_address), sizeof(hl_poll_entry), sizeof(hl_queue) <= HL_QUEUE_BYTES); \
         return 0; }\n",
    );
    let (facts, address) = (files::FACTS_BYTES, sockets::ADDRESS_BYTES);
    assert_eq!(found, format!("{facts} {address} {} 1", sockets::POLL_ENTRY_BYTES));
}
