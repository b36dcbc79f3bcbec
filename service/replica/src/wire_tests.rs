use super::*;

fn placement() -> Placement {
    let member = |node| Member { node, life: node << 40 };
    Placement {
        identity: Identity { maker: member(3), number: 7 },
        owner: 1000,
        appointed: vec![(4242, 3), (7, 1)],
        others: 3,
        bytes: 4096,
        wanted: 3,
        epoch: 5,
        primary: member(1),
        backups: vec![member(2), member(3)],
    }
}

fn append() -> Append {
    let id = Some(RequestId { asker: Member { node: 1, life: 2 }, number: 3 });
    let stored = Change::Store { offset: 8, bytes: Arc::from([1, 2, 3]) };
    let set = Change::Set { offset: 16, bytes: 32, value: 9 };
    let entries = vec![
        Entry { term: 4, id, word: 6, change: stored },
        Entry { term: 5, id: None, word: 0, change: set },
        Entry { term: 5, id: None, word: 0, change: Change::Nothing },
    ];
    let invitation = Some(Invitation { epoch: 5, base: 9, instance: Some(11) });
    Append {
        placement: placement(),
        term: 5,
        start: 8,
        committed: 9,
        invitation,
        first: 10,
        entries,
    }
}

#[test]
fn what_is_written_is_read_back() {
    assert_eq!(Placement::decode(&placement().encode()), Some(placement()));
    assert_eq!(Append::decode(&append().encode()), Some(append()));
    let id = RequestId { asker: Member { node: 1, life: 2 }, number: 3 };
    let actions = [
        Action::Read { offset: 1, bytes: 2 },
        Action::Write { offset: 1, bytes: Arc::from([7, 8]) },
        Action::Set { offset: 1, bytes: 2, value: 3 },
        Action::Copy { from: 1, to: 2, bytes: 3 },
        Action::FetchAdd { offset: 8, more: 2 },
        Action::CompareSwap { offset: 8, expected: 2, new: 3 },
        Action::Swap { offset: 8, new: 2 },
    ];
    for action in actions {
        let asked = Operate { region: placement().identity, epoch: 2, id, floor: 4, action };
        assert_eq!(Operate::decode(&asked.encode()), Some(asked));
    }
    let answers = [
        Answer::Done(Answered { entry: 1, word: 2, read: vec![3] }),
        Answer::NotPrimary { may_be_done: true },
        Answer::Busy,
        Answer::TooOld { floor: 1 },
        Answer::Range,
        Answer::Denied,
    ];
    for answer in answers {
        assert_eq!(Answer::decode(&answer.encode()), Some(answer));
    }
    let have = Received::Have { entry: 1, instance: 2, is_confirmed: true };
    for received in [have, Received::Stale, Received::Unknown, Received::Full] {
        assert_eq!(Received::decode(&received.encode()), Some(received));
    }
}

#[test]
fn what_is_cut_off_or_too_long_is_nothing() {
    let whole = append().encode();
    for length in 0..whole.len() {
        assert_eq!(Append::decode(&whole[..length]), None, "{length} bytes");
    }
    assert_eq!(Append::decode(&[whole, vec![0]].concat()), None);
    let whole = placement().encode();
    for length in 0..whole.len() {
        assert_eq!(Placement::decode(&whole[..length]), None, "{length} bytes");
    }
    assert_eq!(Operate::decode(&[]), None);
    assert_eq!(Answer::decode(&[9]), None);
    assert_eq!(Received::decode(&[1]), None);
}

#[test]
fn a_placement_has_no_more_backups_than_may_be() {
    let mut many = placement();
    many.backups = vec![many.primary; REPLICAS_MAX];
    assert_eq!(Placement::decode(&many.encode()), None);
}
