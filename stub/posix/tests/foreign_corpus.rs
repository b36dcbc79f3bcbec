//! Replays the stored corpora of the fuzz targets `reply` and `slot_foreign`, with mutations and
//! seeded noise, without the fuzzer; writes the corpora.

mod foreign;

use foreign::step::Step;
use foreign::{reply, slot};
use heliostat_abi::code::Code;
use heliostat_abi::limits::{
    ATTACHMENTS_MAX, CHANNELS_MAX, FDS_PER_REPLY_MAX, PORTS_MAX, REGIONS_MAX, SESSIONS_MAX,
};
use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_abi::session::record::{Bound, ChannelEntry, Reply, REPLY_BYTES};
use heliostat_abi::snapshot::region::{Change, Presence};
use std::path::{Path, PathBuf};

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/stub/corpus").join(target)
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let found = std::fs::read_dir(folder(target)).expect("the corpus is stored");
    let inputs: Vec<_> =
        found.map(|entry| std::fs::read(entry.unwrap().path()).expect("readable")).collect();
    assert!(inputs.len() >= 10, "{} inputs of {target}", inputs.len());
    inputs
}

#[test]
fn every_stored_reply_and_every_change_of_a_byte_can_be_used_or_is_refused() {
    for input in corpus("reply") {
        reply::exercise(&input);
        (0..input.len()).for_each(|length| reply::exercise(&input[..length]));
        for at in 0..input.len() {
            for value in [0, 1, 4, 6, 0x10, 0x11, 0x7f, 0x80, 0xff] {
                let mut changed = input.clone();
                changed[at] = value;
                reply::exercise(&changed);
            }
        }
    }
}

#[test]
fn every_stored_script_of_a_slot_gets_answers() {
    corpus("slot_foreign").iter().for_each(|input| slot::exercise(input));
}

#[test]
fn seeded_noise_gets_answers_of_slots() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..300 {
        let kinds: &[u8] =
            if round % 2 == 0 { &[3, 4, 5, 6, 7] } else { &[0, 1, 2, 4, 5, 6, 7, 8] };
        let mut input = vec![1 + round as u8 % 8, 14, 0, 0];
        for _ in 0..200 {
            let what = kinds[next() as usize % kinds.len()];
            input.extend(Step { what, a: next() as u16, word: next() }.bytes());
        }
        slot::exercise(&input);
    }
}

fn id(index: usize) -> ObjectId {
    ObjectId { index: index as u32, generation: 0x3fff_ffff }
}

fn replies() -> Vec<(&'static str, Reply)> {
    let address = |text: &str| NetAddress::new(text.parse().unwrap());
    let (port, last) = (id(3), id(PORTS_MAX - 1));
    let (id_last, client) = (id(CHANNELS_MAX - 1), id(SESSIONS_MAX - 1));
    let entry =
        ChannelEntry { id: id_last, client, peer_uid: u32::MAX, slots: 64, ring_bytes: 1 << 18 };
    let channels = |count, more| Reply::Channels { port, entries: vec![entry; count], more };
    let consumers = |count, more| {
        let state = if more { Presence::Joined } else { Presence::Left };
        let entries = vec![Change { consumer: id(7), state }; count];
        Reply::Consumers { region: id(2), entries, more }
    };
    let mut all = vec![
        ("welcome", Reply::Welcome { session: id(1), boot: 99 }),
        ("welcome_last", Reply::Welcome { session: client, boot: u64::MAX }),
        ("listening4", Reply::Listening { port, address: address("127.0.0.1:6379") }),
        ("listening6", Reply::Listening { port: last, address: address("[fd00::1]:80") }),
        ("channels_none", channels(0, false)),
        ("channels_one", channels(1, false)),
        ("channels_full", channels(FDS_PER_REPLY_MAX, true)),
        ("published", Reply::Published { region: id(REGIONS_MAX - 1), generation: u64::MAX }),
        (
            "region",
            Reply::Region { region: id(0), consumer: id(ATTACHMENTS_MAX - 1), generation: 3 },
        ),
        ("consumers_none", consumers(0, false)),
        ("consumers_full", consumers(FDS_PER_REPLY_MAX, true)),
        ("text", Reply::Text { bytes: u64::MAX }),
        ("done", Reply::Done),
    ];
    let names = ["refused_not_found", "refused_denied", "refused_full", "refused_internal"];
    let codes = [Code::NotFound, Code::Denied, Code::Full, Code::Internal];
    let refusals = names.into_iter().zip(codes);
    all.extend(
        refusals.map(|(name, code)| (name, Reply::Refused { code, limit: 64, bound: Bound::NONE })),
    );
    all
}

/// Records that no control plane writes: a reply with some bytes changed.
fn broken_replies() -> Vec<(&'static str, Vec<u8>)> {
    let good = |name: &str| replies().into_iter().find(|(n, _)| *n == name).unwrap().1.encode(5);
    let with = |name: &str, at: usize, bytes: &[u8]| {
        let mut record = good(name).to_vec();
        record[at..at + bytes.len()].copy_from_slice(bytes);
        record
    };
    let mapped = [&[6u8, 0, 80, 0], [0u8; 10].as_slice(), &[0xff, 0xff, 127, 0, 0, 1]].concat();
    vec![
        ("cut", good("channels_full")[..REPLY_BYTES - 1].to_vec()),
        ("overlong", [good("done").as_slice(), &[0]].concat()),
        ("session_beyond_page", with("welcome", 16, &(SESSIONS_MAX as u32).to_le_bytes())),
        ("port_beyond_page", with("listening4", 16, &(PORTS_MAX as u32).to_le_bytes())),
        ("channel_beyond_page", with("channels_one", 32, &[0xff; 4])),
        ("client_beyond_page", with("channels_one", 40, &[0xff; 4])),
        ("count_beyond_limit", with("channels_full", 24, &[17])),
        ("address_mapped", with("listening6", 24, &mapped)),
        ("family_unknown", with("listening4", 24, &[5])),
        ("code_unknown", with("refused_full", 12, &[9])),
        ("kind_of_a_request", with("done", 6, &[1, 0])),
        ("region_beyond_page", with("published", 16, &[0xff; 4])),
        ("consumer_beyond_limit", with("region", 24, &[0xff; 4])),
        ("changes_beyond_limit", with("consumers_full", 24, &[17])),
        ("version_other", with("done", 4, &[2])),
    ]
}

const SHAPE: [u8; 4] = [2, 14, 0, 0];
const TAKE: Step = Step { what: 4, a: 0, word: 0 };
const HOLD: Step = Step { what: 5, a: 0, word: 0 };
const BYTES: Step = Step { what: 8, a: 0, word: 200 };

/// Steps by the numbers that `slot_acts` gives them.
fn client(words: &[u64]) -> Vec<Step> {
    words.iter().map(|word| Step { what: 6, a: 0, word: *word }).collect()
}

fn acceptor(words: &[u64]) -> Vec<Step> {
    words.iter().map(|word| Step { what: 7, a: 0, word: *word }).collect()
}

/// A stream's whole life on slot 0, in which every word of the header is looked at.
fn life() -> Vec<Step> {
    let parts = [client(&[0, 4]), acceptor(&[9, 1, 4, 8]), vec![BYTES], client(&[8, 5, 6, 7])];
    [vec![TAKE, HOLD], parts.concat(), acceptor(&[8, 6, 7]), client(&[11]), vec![TAKE]].concat()
}

/// The peer writes `value` into one word of slot 0's header before each step of a life.
fn struck(word: u64, value: u32) -> Vec<Step> {
    let strike = Step { what: 0, a: 0, word: word << 32 | u64::from(value) };
    life().into_iter().flat_map(|step| [strike, step]).collect()
}

fn scripts() -> Vec<(String, [u8; 4], Vec<Step>)> {
    let mut all: Vec<(String, [u8; 4], Vec<Step>)> = vec![
        ("life".into(), SHAPE, life()),
        (
            "declined".into(),
            SHAPE,
            [vec![TAKE, HOLD], client(&[0]), acceptor(&[2]), client(&[3])].concat(),
        ),
        ("withdrawn".into(), SHAPE, [vec![TAKE, HOLD], client(&[0, 3]), acceptor(&[1])].concat()),
        (
            "started".into(),
            SHAPE,
            [
                vec![TAKE, HOLD],
                client(&[0, 12]),
                acceptor(&[1]),
                client(&[12, 12, 3]),
                acceptor(&[10]),
            ]
            .concat(),
        ),
        (
            "given_up".into(),
            SHAPE,
            [vec![TAKE, HOLD], client(&[0]), acceptor(&[1, 10]), client(&[12, 3])].concat(),
        ),
        ("all_taken".into(), [64, 14, 0, 0], vec![TAKE; 70]),
        ("slots_none".into(), [0, 14, 0, 0], vec![TAKE]),
        ("slots_too_many".into(), [65, 14, 0, 0], vec![TAKE]),
        ("ring_too_small".into(), [2, 13, 0, 0], vec![TAKE]),
        ("ring_no_power".into(), [2, 100, 0, 0], vec![TAKE]),
        ("mark_wrong".into(), [2, 14, 1, 0], vec![TAKE]),
        ("file_cut".into(), [2, 14, 0, 1], vec![TAKE]),
    ];
    let holds = [0, 1, 2, 63, 64, 79].map(|a| Step { a, ..HOLD });
    all.push(("numbers_beyond".into(), SHAPE, holds.to_vec()));
    for word in [0, u64::MAX] {
        let offers = Step { what: 1, a: 0, word };
        let steps = life().into_iter().flat_map(|step| [offers, step]).collect();
        all.push((format!("offers_{:x}", word & 0xff), SHAPE, steps));
    }
    let sessions = [0, 5, 6, 9].map(|word| Step { what: 3, a: 1, word });
    let lives = sessions.into_iter().flat_map(|session| [vec![session], life()].concat());
    all.push(("sessions".into(), SHAPE, lives.collect()));
    let mapped = [(0, 6u64), (22, 0xff), (23, 0xff)].map(|(at, byte)| Step {
        what: 2,
        a: 0,
        word: at << 32 | byte,
    });
    all.push((
        "address_mapped".into(),
        SHAPE,
        [vec![HOLD], mapped.to_vec(), acceptor(&[9])].concat(),
    ));
    let words = [("state", 0), ("family", 1), ("client_ip", 6), ("closed", 16), ("acceptor", 17)];
    for (name, word) in words.into_iter().chain([
        ("holders", 19),
        ("tail", 32),
        ("prefix", 40),
        ("head", 64),
        ("taken", 82),
    ]) {
        for value in [0, 0x0001_0006, u32::MAX] {
            all.push((format!("{name}_{value:x}"), SHAPE, struck(word, value)));
        }
    }
    all
}

/// Run by hand when a record or a slot changes:
/// `cargo test -p heliostat-stub-posix --test foreign_corpus -- --ignored`.
#[test]
#[ignore = "writes the stored corpus anew; by hand, when a format changes"]
fn write_seeds() {
    let write = |target: &str, name: &str, bytes: &[u8]| {
        std::fs::create_dir_all(folder(target)).expect("writable");
        std::fs::write(folder(target).join(name), bytes).expect("writable");
    };
    replies().iter().for_each(|(name, reply)| write("reply", name, &reply.encode(5)));
    broken_replies().iter().for_each(|(name, bytes)| write("reply", name, bytes));
    for (name, shape, steps) in scripts() {
        let steps = steps.into_iter().flat_map(Step::bytes);
        write("slot_foreign", &name, &shape.into_iter().chain(steps).collect::<Vec<_>>());
    }
}
