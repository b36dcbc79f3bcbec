use super::super::limits::TEXT_BYTES_MAX;
use super::super::not_done::Why;
use super::super::way::Spill;
use super::super::AreaName;
use super::*;

const ID: ObjectId = ObjectId { index: 1, generation: 2 };

fn opened(way: Way) -> StoreReply {
    StoreReply::Opened(OpenedArea {
        handle: ID,
        area: ID,
        generation: 3,
        bytes: 1 << 30,
        kind: AreaKind::Queue,
        rights: AreaRights::ALL,
        way,
        durable_by: DurableBy::Flush,
        grain_bytes: 65_536,
        sector_bytes: 512,
        memory_alignment: 4,
        pieces: 64,
    })
}

fn listed(index: u32) -> ListedArea {
    ListedArea {
        area: ObjectId { index, generation: 2 },
        generation: 4,
        bytes: 5,
        bytes_per_second: 6,
        user: 7,
        kind: AreaKind::Raw,
        others: AreaRights::NONE,
        handles: 8,
        direct: 1,
        pieces: 2,
        is_changing: true,
        alone: Some(77),
        name: AreaName::parse(&"n".repeat(64)).unwrap(),
    }
}

fn all() -> Vec<StoreReply> {
    let piece = Piece { offset: 4096, bytes: u64::MAX };
    let info = StoreInfo {
        text: "/srv/store".into(),
        is_forced: true,
        does_discard: true,
        discarded_bytes: 9,
        ..StoreInfo::default()
    };
    vec![
        opened(Way::Direct),
        opened(Way::Emulated(Spill::AllTaken)),
        StoreReply::Changed { bytes: 9 },
        StoreReply::Pieces { bytes: 1, pieces: vec![piece; PIECES_PER_REPLY_MAX], next: 32 },
        StoreReply::Session { depth: 256, handles: 9 },
        StoreReply::Listed {
            areas: (0..LISTED_PER_REPLY_MAX as u32).map(listed).collect(),
            next: NO_MORE,
        },
        StoreReply::Store(info),
        NotDone { pid: 77, ..NotDone::of(Why::Held, 0, 2) }.into(),
        NotDone::told(Why::NoStore, "in use").into(),
    ]
}

#[test]
fn every_reply_comes_back_as_it_was() {
    for reply in all() {
        assert_eq!(StoreReply::decode(&reply.encode()), Ok(reply));
    }
}

#[test]
fn a_long_text_is_cut_at_a_character() {
    let long = NotDone::told(Why::NotOpened, "ä".repeat(TEXT_BYTES_MAX));
    let StoreReply::NotDone(cut) = StoreReply::decode(&StoreReply::from(long).encode()).unwrap()
    else {
        panic!("another reply")
    };
    assert_eq!(cut.text, "ä".repeat(TEXT_BYTES_MAX / 2));
}

#[test]
fn a_control_plane_that_lies_is_not_believed() {
    let mut many = all().remove(3).encode();
    many.body[8] = 200;
    let wrong = StoreReply::decode(&many);
    assert!(matches!(wrong, Err(WireError::Field { name: "pieces", .. })), "{wrong:?}");
    let mut zero = opened(Way::Direct).encode();
    zero.body[52..56].fill(0);
    let wrong = StoreReply::decode(&zero);
    assert!(matches!(wrong, Err(WireError::Field { name: "sector", .. })), "{wrong:?}");
}

/// Any one byte changed: what is taken is what would be sent.
#[test]
fn a_changed_reply_is_refused_or_is_another_in_its_one_form() {
    for reply in all() {
        let own = reply.encode();
        for at in 0..REPLY_BODY_BYTES {
            for bits in [1, 0x80, 0xff] {
                let mut changed = own;
                changed.body[at] ^= bits;
                if let Ok(other) = StoreReply::decode(&changed) {
                    assert_eq!(other.encode(), changed);
                }
            }
        }
    }
}
