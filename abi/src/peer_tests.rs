use super::*;
use crate::code::{Code, Side, Thing};
use crate::session::record::{Bound, OwnReply, REPLY_BODY_BYTES};

const ID: ObjectId = ObjectId { index: 7, generation: 3 };

fn replies() -> [PeerReply; 4] {
    let bound = Bound::new(Thing::MemoryBytes, Side::User);
    let reply = Box::new(OwnReply { number: 9, body: [5; REPLY_BODY_BYTES] });
    [
        PeerReply::Own { session: ID, reply },
        PeerReply::Done,
        PeerReply::Refused { code: Code::Full, limit: 9, bound },
        PeerReply::Refused { code: Code::Denied, limit: 0, bound: Bound::NONE },
    ]
}

#[test]
fn replies_of_a_control_plane_come_back_as_they_were() {
    for reply in replies() {
        let (header, payload) = reply.encode();
        assert_eq!(PeerReply::decode(&header, &payload), Ok(reply));
        assert!(PeerReply::decode(&header, &[1]).is_err());
        assert!(PeerReply::decode(&header[1..], &payload).is_err());
    }
}

/// Bits flipped in every place: what is taken is what would be sent.
#[test]
fn a_changed_reply_is_refused_or_is_another_in_its_one_form() {
    for reply in replies() {
        let (header, payload) = reply.encode();
        for bit in 0..CONTROL_REPLY_BYTES * 8 {
            let mut changed = header;
            changed[bit / 8] ^= 1 << (bit % 8);
            if let Ok(other) = PeerReply::decode(&changed, &payload) {
                assert_eq!(other.encode(), (changed, payload.clone()));
            }
        }
    }
}

#[test]
fn an_object_elsewhere_is_none_here() {
    let place = ObjectId { index: ELSEWHERE - 1, generation: 9 };
    assert_eq!(place_elsewhere(elsewhere(place)), Some(place));
    assert_eq!(place_elsewhere(place), None);
}
