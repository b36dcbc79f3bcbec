//! What two ends together tell of a connection.

use super::*;

const SPACE: Namespace = Namespace(7);

fn entry(path: Path, local: &str, peer: &str) -> Entry {
    let address = |text: &str| NetAddress::new(text.parse().unwrap());
    let (local, peer) = (address(local), address(peer));
    Entry { fd: 3, path, accepted: true, local, peer, received: 0, sent: 0 }
}

/// A server's native connection for `own`, whose client's session reports `other`.
fn explained(own: Native, other: Option<Path>) -> Value {
    let mine = entry(Path::Native(own), "127.0.0.1:80", "127.0.0.1:9000");
    let mut peers = Peers::wanted([(SPACE, &mine)].into_iter());
    let (report, _fd) = Report::create().unwrap();
    if let Some(path) = other {
        report.write_entry(0, &entry(path, "127.0.0.1:9000", "127.0.0.1:80"));
    }
    peers.look_into(SPACE, &report, Some(&json!({ "pid": 5, "program": "curl" })));
    peers.entry_json(Some(SPACE), &mine)
}

#[test]
fn a_reason_that_the_other_end_knows_is_taken_from_it() {
    let other = Path::Native(Native::PolledBefore);
    let told = explained(Native::NoOffer, Some(other));
    let wanted = format!("at the other end: {}", Native::PolledBefore.text());
    assert_eq!(told["reason_text"], wanted);
    assert_eq!((&told["reason"], &told["peers"][0]["pid"]), (&json!("NoOffer"), &json!(5)));
    assert_eq!(told["peers"][0]["reason"], "PolledBefore");
}

#[test]
fn an_own_reason_stays_whatever_the_other_end_says() {
    let told = explained(Native::Option, Some(Path::Native(Native::PeerAsked)));
    assert_eq!(
        (&told["reason"], &told["reason_text"]),
        (&json!("Option"), &json!(Native::Option.text()))
    );
}

#[test]
fn nobody_is_told_from_somebody_who_is_not_listed() {
    assert_eq!(explained(Native::NoOffer, None)["reason"], "PeerNotOurs");
    let mine = entry(Path::Native(Native::NoOffer), "127.0.0.1:80", "127.0.0.1:9000");
    let mut peers = Peers::wanted([(SPACE, &mine)].into_iter());
    let (report, _fd) = Report::create().unwrap();
    report.count(Counter::Unlisted);
    peers.look_into(SPACE, &report, None);
    assert!(!peers.is_complete);
    let told = peers.entry_json(Some(SPACE), &mine);
    assert_eq!(told["reason"], "NoOffer");
    assert!(told["reason_text"].as_str().unwrap().starts_with("not known"), "{told}");
}

#[test]
fn the_same_addresses_in_another_namespace_are_another_connection() {
    let mine = entry(Path::Direct, "127.0.0.1:80", "127.0.0.1:9000");
    let mut peers = Peers::wanted([(SPACE, &mine)].into_iter());
    let (report, _fd) = Report::create().unwrap();
    report.write_entry(0, &entry(Path::Direct, "127.0.0.1:9000", "127.0.0.1:80"));
    peers.look_into(Namespace(8), &report, None);
    assert_eq!(peers.entry_json(Some(SPACE), &mine)["peers"], json!([]));
    peers.look_into(SPACE, &report, None);
    assert_eq!(peers.entry_json(Some(SPACE), &mine)["peers"][0]["path"], "direct");
}
