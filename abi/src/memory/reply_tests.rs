use super::*;

const ID: ObjectId = ObjectId { index: 7, generation: 3 };

fn granted() -> Granted {
    let piece = |at: u64| Piece { arena: ID, offset: at * 4096, bytes: 64 };
    Granted {
        handle: ID,
        region: ID,
        bytes: 1000,
        epoch: 5,
        rights: Rights::ALL,
        direct: true,
        lasting: true,
        node: None,
        from: 20,
        pieces_all: 40,
        pieces: (0..20).map(piece).collect(),
    }
}

fn listed(name: Option<&str>) -> Listed {
    let name = name.map(|text| MemoryName::parse(text).unwrap());
    Listed { region: ID, bytes: 9, user: 1000, handles: 2, lasting: true, age_s: 77, name }
}

#[test]
fn every_reply_comes_back_as_it_was() {
    let state =
        MoveState { stage: MoveStage::Held, process: 7, done: 1, bytes: 2, node: 3, region: ID };
    let all = [
        MemoryReply::Moving(state),
        MemoryReply::Granted(granted()),
        MemoryReply::Granted(Granted {
            direct: false,
            lasting: false,
            from: 0,
            pieces_all: 0,
            pieces: vec![],
            ..granted()
        }),
        MemoryReply::Granted(Granted {
            direct: false,
            node: Some(u64::MAX),
            from: 0,
            pieces_all: 0,
            pieces: vec![],
            ..granted()
        }),
        MemoryReply::Arena { bytes: 1 << 40 },
        MemoryReply::Page { places: 1 << 20 },
        MemoryReply::Presence(false),
        MemoryReply::Presence(true),
        MemoryReply::Listed { regions: vec![listed(None); 5], next: NO_MORE },
        MemoryReply::Listed { regions: vec![listed(Some("a/b")), listed(None)], next: 9 },
        MemoryReply::Session { depth: 256, handles: 9 },
        MemoryReply::Asked(Question {
            question: 1,
            region: ID,
            user: 2,
            process: 3,
            rights: Rights::READ,
        }),
    ];
    for reply in all {
        assert_eq!(MemoryReply::decode(&reply.encode()), Ok(reply));
    }
}

#[test]
fn what_no_control_plane_says_is_refused() {
    let changed = |reply: &MemoryReply, at: usize, value: u8| {
        let mut own = reply.encode();
        own.body[at] = value;
        MemoryReply::decode(&own)
    };
    let granted = MemoryReply::Granted(granted());
    for (at, value) in [(10, 0xff), (28, 32), (32, 4), (36, 21), (40, 65), (44, 21), (56, 1)] {
        assert!(changed(&granted, at, value).is_err(), "byte {at}");
    }
    let listed = MemoryReply::Listed { regions: vec![listed(None)], next: 0 };
    for (at, value) in [(0, 6), (8, 1), (40, 1), (REPLY_BODY_BYTES - 1, 1)] {
        assert!(changed(&listed, at, value).is_err(), "byte {at}");
    }
}
