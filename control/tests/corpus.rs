//! Replays the stored fuzz corpus, and its small mutations, in every ordinary test run.

use std::path::{Path, PathBuf};

use heliostat_abi::cores::{self, CoresReply, CoresRequest};
use heliostat_abi::file::delegated::{OpKind, Operation, OPERATION_BYTES_MAX};
use heliostat_abi::memory::peer::{PeerAnswer, PeerControl, PeerOperation, PeerReply};
use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_abi::session::record::{Own, Request};
use heliostat_abi::session::report::{Entry, ENTRY_BYTES};
use heliostat_abi::session::restriction::{Destination, Services};
use heliostat_abi::snapshot::region::{RegionName, NAME_BYTES, OWN_USER};
use heliostat_abi::store::request::FIRST;
use heliostat_abi::store::{StoreReply, StoreRequest};
use heliostat_abi::stream::delegated::{self, Hand};
use heliostat_control::config::{Config, Names};
use heliostat_control::policy::Policy;

struct Nobody;

impl Names for Nobody {
    fn user(&self, _: &str) -> Option<u32> {
        None
    }
    fn group(&self, _: &str) -> Option<u32> {
        None
    }
}

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/control/corpus").join(target)
}

/// Every file of a target's corpus, in order of name.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let found = std::fs::read_dir(folder(target)).unwrap();
    let mut paths: Vec<_> = found.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "the corpus of {target} is empty");
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// The input with one byte changed, for every byte and some values, and every shorter input.
fn mutations(input: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let changed = (0..input.len()).flat_map(|at| {
        [0, 1, 0x7f, 0x80, 0xff].map(|value| {
            let mut bytes = input.to_vec();
            bytes[at] = value;
            bytes
        })
    });
    changed.chain((0..input.len()).map(|length| input[..length].to_vec()))
}

#[test]
fn every_request_in_the_corpus_means_one_thing_or_nothing() {
    for input in corpus("request") {
        for bytes in mutations(&input) {
            match Request::decode(&bytes) {
                // A program's name that is no text is repaired for people, so it need not
                // return as it came; it decides nothing.
                Ok((Request::Hello { .. }, _)) | Err(_) => {}
                Ok((request, sequence)) => {
                    let again = Request::decode(&request.encode(sequence));
                    assert_eq!(again, Ok((request, sequence)));
                }
            }
        }
    }
}

#[test]
fn every_record_of_listeners_in_the_corpus_means_one_thing_or_nothing() {
    use heliostat_abi::listener::{request::FIRST, ListenerReply, ListenerRequest};
    for bytes in corpus("listener_record").iter().flat_map(|input| mutations(input)) {
        let Some((number, rest)) = bytes.split_first() else { continue };
        let number = FIRST + u16::from(*number);
        let request = Own { number, body: body(rest) };
        if let Ok(decoded) = ListenerRequest::decode(&request) {
            assert_eq!(ListenerRequest::decode(&decoded.encode()), Ok(decoded));
        }
        let reply = Own { number, body: body(rest) };
        if let Ok(decoded) = ListenerReply::decode(&reply) {
            assert_eq!(decoded.encode(), reply);
        }
    }
}

#[test]
fn the_corpus_has_an_operation_of_every_kind() {
    let whole = corpus("operation");
    let decoded = whole.iter().filter_map(|bytes| Operation::decode(bytes, 1 << 16).ok());
    let found: Vec<_> = decoded.map(|operation| operation.kind).collect();
    assert_eq!(OpKind::ALL.into_iter().find(|kind| !found.contains(kind)), None);
}

#[test]
fn every_operation_in_the_corpus_lies_in_the_window_or_is_none() {
    let window_bytes = 1 << 16;
    for input in corpus("operation") {
        for bytes in mutations(&input) {
            let Ok(operation) = Operation::decode(&bytes, window_bytes) else { continue };
            let pieces = operation.pieces.as_slice();
            assert!(pieces.iter().all(|it| it.offset + u64::from(it.bytes) <= window_bytes));
            let mut again = [0; OPERATION_BYTES_MAX];
            let length = operation.encode(&mut again);
            assert_eq!(again[..length], bytes);
        }
    }
}

#[test]
fn every_configuration_in_the_corpus_is_read_or_explained() {
    for input in corpus("config") {
        for bytes in mutations(&input) {
            let text = String::from_utf8_lossy(&bytes);
            if let Err(error) = Config::read(&text, &Nobody) {
                assert!(error.line <= text.lines().count() + 1, "{error}");
            }
        }
    }
}

#[test]
fn every_policy_in_the_corpus_is_read_back_from_its_own_file_or_explained() {
    for input in corpus("policy") {
        for bytes in mutations(&input) {
            let text = String::from_utf8_lossy(&bytes);
            match Policy::from_toml(&text) {
                Ok(policy) => {
                    assert_eq!(Policy::from_toml(&policy.to_toml()), Ok(policy), "{text}")
                }
                Err(error) => {
                    assert!(error.mistake.line <= text.lines().count() + 1, "{error}");
                }
            }
        }
    }
}

#[test]
fn every_report_entry_in_the_corpus_is_an_entry_or_nothing() {
    for input in corpus("report") {
        for bytes in mutations(&input) {
            let Ok(bytes) = <[u8; ENTRY_BYTES]>::try_from(bytes.as_slice()) else { continue };
            if let Some(entry) = Entry::decode(&bytes) {
                assert_eq!(Entry::decode(&entry.encode()), Some(entry));
            }
        }
    }
}

/// Whether bytes are some message about memory between nodes, as the fuzz target cuts them.
fn is_peer_message(bytes: &[u8]) -> bool {
    let Some((cut, rest)) = bytes.split_first() else { return false };
    let (header, payload) = rest.split_at(rest.len().min(usize::from(*cut)));
    let operation = PeerOperation::decode(header, payload.len());
    let (answer, control) = (PeerAnswer::decode(header), PeerControl::decode(header));
    let reply = PeerReply::decode(header, payload);
    // What is taken is what would be sent.
    operation.iter().for_each(|it| assert_eq!(it.encode(), header));
    answer.iter().for_each(|it| assert_eq!(it.encode(), header));
    control.iter().for_each(|it| assert_eq!(it.encode(), header));
    reply.iter().for_each(|it| assert_eq!(it.encode().0, header));
    operation.is_ok() || answer.is_ok() || control.is_ok() || reply.is_ok()
}

#[test]
fn every_message_of_another_node_in_the_corpus_has_one_form_or_is_none() {
    for input in corpus("memory_peer") {
        assert!(is_peer_message(&input), "{input:?}");
        for bytes in mutations(&input) {
            is_peer_message(&bytes);
        }
    }
}

/// Whether bytes are some message about functions between nodes, cut as above.
fn is_rpc_message(bytes: &[u8]) -> bool {
    use heliostat_abi::rpc::peer::{PeerAnswer, PeerControl, PeerMessage, PeerReply};
    let Some((cut, rest)) = bytes.split_first() else { return false };
    let (header, payload) = rest.split_at(rest.len().min(usize::from(*cut)));
    let message = PeerMessage::decode(header);
    let (answer, control) = (PeerAnswer::decode(header), PeerControl::decode(header));
    let reply = PeerReply::decode(header, payload);
    message.iter().for_each(|it| assert_eq!(it.encode(), header));
    answer.iter().for_each(|it| assert_eq!(it.encode(), header));
    control.iter().for_each(|it| assert_eq!(it.encode(), header));
    reply.iter().for_each(|it| assert_eq!(it.encode().0, header));
    message.is_ok() || answer.is_ok() || control.is_ok() || reply.is_ok()
}

#[test]
fn every_record_of_cores_in_the_corpus_means_one_thing_or_nothing() {
    for input in corpus("cores_record") {
        for bytes in mutations(&input) {
            let Some((number, rest)) = bytes.split_first() else { continue };
            let number = cores::request::FIRST + u16::from(*number);
            let request = Own { number, body: body(rest) };
            if let Ok(decoded) = CoresRequest::decode(&request) {
                assert_eq!(decoded.encode(), request);
            }
            let reply = Own { number, body: body(rest) };
            if let Ok(decoded) = CoresReply::decode(&reply) {
                assert_eq!(decoded.encode(), reply);
            }
        }
    }
}

#[test]
fn every_record_of_the_store_in_the_corpus_means_one_thing_or_nothing() {
    let mut meant = 0;
    for input in corpus("store_record") {
        for bytes in std::iter::once(input.clone()).chain(mutations(&input)) {
            let Some((number, rest)) = bytes.split_first() else { continue };
            let number = FIRST + u16::from(*number);
            let request = Own { number, body: body(rest) };
            if let Ok(decoded) = StoreRequest::decode(&request) {
                assert_eq!(decoded.encode(), request);
                meant += 1;
            }
            let reply = Own { number, body: body(rest) };
            if let Ok(decoded) = StoreReply::decode(&reply) {
                assert_eq!(decoded.encode(), reply);
                meant += 1;
            }
        }
    }
    assert!(meant > 100, "the corpus has {meant} records that mean something");
}

#[test]
fn every_hand_of_the_corpus_means_one_thing_or_nothing() {
    let mut meant = 0;
    for input in corpus("hand") {
        for bytes in std::iter::once(input.clone()).chain(mutations(&input)) {
            if let Ok(hand) = Hand::decode(&bytes) {
                assert_eq!(hand.encode(), &bytes[..]);
                meant += 1;
            }
            let reply = Own { number: delegated::GRANTED, body: body(&bytes) };
            if let Ok(entry) = delegated::granted(&reply) {
                assert_eq!(delegated::granted(&delegated::reply(&entry)), Ok(entry));
                meant += 1;
            }
            let request = Own { number: delegated::CHANNEL, body: body(&bytes) };
            if let Ok(wanted) = delegated::asked(&request) {
                assert_eq!(delegated::request(wanted), request);
                meant += 1;
            }
        }
    }
    assert!(meant > 20, "the corpus has {meant} records that mean something");
}

/// What there is of a body, and zeroes behind it.
fn body<const BYTES: usize>(bytes: &[u8]) -> [u8; BYTES] {
    let mut body = [0; BYTES];
    let length = bytes.len().min(BYTES);
    body[..length].copy_from_slice(&bytes[..length]);
    body
}

#[test]
fn every_message_about_functions_in_the_corpus_has_one_form_or_is_none() {
    for input in corpus("rpc_peer") {
        assert!(is_rpc_message(&input), "{input:?}");
        for bytes in mutations(&input) {
            is_rpc_message(&bytes);
        }
    }
}

/// Writes one input of each kind; run by hand when a record is added to the protocol:
/// `cargo test -p heliostat-control --test corpus -- --ignored`.
#[test]
#[ignore = "writes the stored corpus anew; by hand, when a format changes"]
fn write_seeds() {
    let id = ObjectId { index: 3, generation: 9 };
    let address = |text: &str| NetAddress::new(text.parse().unwrap());
    let region = |text: &str| RegionName::parse(text).unwrap();
    let requests = [
        ("hello", Request::Hello { program: "redis-server".into() }),
        ("listen", Request::Listen),
        ("unlisten", Request::Unlisten { port: id }),
        ("open4", Request::Open { address: address("127.0.0.1:6379") }),
        ("open6", Request::Open { address: address("[fd00::1]:80") }),
        ("attach", Request::Attach { port: id }),
        ("status", Request::Status),
        ("explain", Request::Explain { pid: 77 }),
        ("metrics", Request::Metrics),
        ("revoke", Request::Revoke { pid: 78 }),
        ("stop", Request::Stop),
        ("publish", Request::Publish { name: region("model/a") }),
        ("publish_longest", Request::Publish { name: region(&"n".repeat(NAME_BYTES)) }),
        ("attach_own", Request::AttachRegion { name: region("a"), owner: OWN_USER }),
        ("attach_other", Request::AttachRegion { name: region("a/b.c-d_e"), owner: 1000 }),
        ("consumers", Request::Consumers { region: id }),
        ("unpublish", Request::Unpublish { region: id }),
        ("lease", Request::Lease),
        ("end_lease", Request::EndLease { lease: id }),
        ("allow", Request::Allow { destination: Destination { host: None, ports: (80, 443) } }),
        (
            "restrict",
            Request::Restrict { services: Services::STREAMS.and(Services::FILES), pid: 9 },
        ),
        ("detach", Request::Detach { region: id, consumer: ObjectId { index: 4, generation: 1 } }),
    ];
    for (name, request) in requests {
        write("request", name, &request.encode(5));
    }
    let entry = Entry {
        fd: 7,
        path: heliostat_abi::session::report::Path::Direct,
        accepted: true,
        local: address("127.0.0.1:80"),
        peer: address("[::1]:81"),
        received: 11,
        sent: 12,
    };
    write("report", "direct", &entry.encode());
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/heliostat.toml");
    write("config", "sample", &std::fs::read(sample).unwrap());
}

fn write(target: &str, name: &str, bytes: &[u8]) {
    std::fs::create_dir_all(folder(target)).unwrap();
    std::fs::write(folder(target).join(name), bytes).unwrap();
}
