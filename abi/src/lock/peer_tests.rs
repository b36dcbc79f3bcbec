use super::*;
use crate::lock::{Claim, LockName, Outcome, Shape};

const SESSION: ObjectId = ObjectId { index: 7, generation: 3 };

fn asks() -> Vec<PeerLock> {
    let id = ObjectId { index: 1, generation: 2 };
    let name = LockName::parse("jobs/0").unwrap();
    let requests = [
        LockRequest::Open { user: 5, name, shape: Shape::LOCK },
        LockRequest::Acquire { handle: id, claim: Claim::Permits(3), wait: true },
        LockRequest::Release { ticket: id, untouched: true },
        LockRequest::List { user: 1, from: 0, beginning: "a".into() },
    ];
    let ask = |request| PeerLock::Ask { user: 1000, process: 9, session: SESSION, request };
    let outcomes = [
        Outcome::Granted { token: u64::MAX, has_owner_died: true },
        Outcome::Passed { generation: 1, index: 2 },
    ];
    let news =
        outcomes.map(|outcome| PeerNews { session: SESSION, event: Event { ticket: id, outcome } });
    let others = [PeerLock::End { session: SESSION }, PeerLock::News(news.to_vec())];
    requests.into_iter().map(ask).chain(others).collect()
}

#[test]
fn what_nodes_ask_comes_back_as_it_was() {
    for ask in asks() {
        let (header, payload) = ask.encode();
        assert_eq!(PeerLock::decode(&header, &payload), Ok(ask));
    }
}

#[test]
fn what_means_nothing_is_no_request() {
    for ask in asks() {
        let (header, payload) = ask.encode();
        for at in 0..header.len() {
            let mut wrong = header;
            wrong[at] ^= 0x40;
            // Another number may be right; nothing panics, and what is taken is said again alike.
            if let Ok(taken) = PeerLock::decode(&wrong, &payload) {
                assert_eq!(taken.encode().0, wrong);
            }
        }
        assert!(PeerLock::decode(&header[1..], &payload).is_err());
        assert!(PeerLock::decode(&header, &[payload, vec![0]].concat()).is_err());
    }
    for request in [LockRequest::Next, LockRequest::Bell] {
        let ask = PeerLock::Ask { user: 1, process: 1, session: SESSION, request };
        assert!(PeerLock::decode(&ask.encode().0, &[]).is_err(), "a node has no bell");
    }
    let list = LockRequest::List { user: 1, from: 0, beginning: String::new() };
    let request = LockRequest::On { node: 3, request: Box::new(list) };
    let ask = PeerLock::Ask { user: 1, process: 1, session: SESSION, request };
    assert!(PeerLock::decode(&ask.encode().0, &[]).is_err(), "and asks no third one");
    let many = vec![0; (NEWS_MAX + 1) * NEWS_BYTES];
    let (header, _) = PeerLock::News(Vec::new()).encode();
    assert!(PeerLock::decode(&header, &many).is_err());
}
