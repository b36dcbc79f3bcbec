//! What the fuzz target `plugin_record` does with an input: records of a plug-in, either way.

use heliostat_abi::listener::Handed;
use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_server_listener::plugin::{
    answer, question, Named, ANSWER, ANSWER_BYTES, QUESTION, QUESTION_HEAD_BYTES, VERSION,
};
use heliostat_service_listener::Seat;

/// Most workers of a question made here.
const SEATS_MAX: usize = 8;

/// Reads an input as an answer, and asks about a connection whose first bytes it is.
pub fn exercise(input: &[u8]) {
    if let Some(Named { serial, place }) = answer(input) {
        assert_eq!(input.len(), ANSWER_BYTES);
        let again = [&ANSWER.to_le_bytes()[..], &place.to_le_bytes(), &serial.to_le_bytes()];
        assert_eq!(again.concat(), input, "an answer has one form");
    }
    ask(input);
}

/// A question has its parts where a plug-in looks for them, whatever a client says.
fn ask(input: &[u8]) {
    let mut rest = [0; 30];
    let length = input.len().min(rest.len());
    rest[..length].copy_from_slice(&input[..length]);
    let family = [4, 6][usize::from(rest[0] & 1)];
    let serial = u64::from_le_bytes(rest[1..9].try_into().unwrap());
    let address: [u8; 16] = rest[9..25].try_into().unwrap();
    let port = u16::from_le_bytes([rest[25], rest[26]]);
    let Some(peer) = NetAddress::from_parts(family, address, port) else { return };
    let id = |index| ObjectId { index, generation: 1 };
    let count = usize::from(rest[27]) % (SEATS_MAX + 1);
    let seats: Vec<Seat> =
        (0..count).map(|at| Seat::new(id(at as u32), u32::from(rest[28]) << at)).collect();
    let first = &input[length..];
    let record = question(&Handed { peer, serial }, &seats, first);
    let word = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().unwrap());
    assert_eq!((word(0), word(4)), (QUESTION, VERSION));
    assert_eq!(u64::from(word(8)) | u64::from(word(12)) << 32, serial);
    let told: [u8; 16] = record[20..36].try_into().unwrap();
    let port = u16::from_le_bytes([record[18], record[19]]);
    assert_eq!(NetAddress::from_parts(record[16], told, port), Some(peer));
    assert_eq!((word(36) as usize, word(40) as usize, word(44)), (first.len(), count, 0));
    for (at, seat) in seats.iter().enumerate() {
        assert_eq!(word(QUESTION_HEAD_BYTES + 8 * at), seat.place);
    }
    assert_eq!(&record[QUESTION_HEAD_BYTES + 8 * count..], first);
    assert_eq!(answer(&record), None, "a question is no answer");
}
