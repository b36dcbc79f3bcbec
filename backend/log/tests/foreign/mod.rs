//! Any bytes are an area that opens and can be appended to, or an error; shared with the fuzz
//! target `area`.

use heliostat_backend_block::{Image, MemoryDevice};
use heliostat_backend_log::format::{
    EntryHeader, EntryKind, Header, Marks, PayloadChecksum, Position, Search,
};
use heliostat_backend_log::{Area, Log, Options, Queue};

/// Space for entries, in areas and in headers.
pub const DATA_BYTES: u64 = 4096;
const AREA: Area = Area { offset: 0, bytes: 8192 + DATA_BYTES };

/// A header that fits the area, with numbers that the input chooses.
pub fn header(numbers: [u16; 4]) -> Header {
    let [begin, used, generation, counter] = numbers.map(u64::from);
    let begin = Position { at: begin * 8, sequence: begin / 4 };
    let used = used % (DATA_BYTES / 8);
    let end = Position { at: begin.at + used * 8, sequence: begin.sequence + used / 4 };
    let mut marks = Marks::default();
    marks.set(counter);
    Header {
        sector_bytes: 512,
        identity: [7; 16],
        data_bytes: DATA_BYTES,
        window_bytes: DATA_BYTES,
        counter,
        generation: generation as u32,
        longest: 992,
        begin,
        end,
        marks,
    }
}

/// The bytes of an entry of that log.
pub fn entry(payload: &[u8], position: Position, generation: u32, unsettled: u32) -> Vec<u8> {
    let (length, kind) = (payload.len() as u32, EntryKind::Payload);
    let payload_checksum = PayloadChecksum::of(payload);
    let header =
        EntryHeader { kind, length, payload: payload_checksum, position, generation, unsettled };
    let mut bytes = header.encode(self::header([0; 4]).seed()).to_vec();
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

/// The first 8 bytes are numbers of a header, the rest is what lies in the space for entries; and all
/// of it is a header block, an entry, and a proof.
pub fn exercise(input: &[u8]) {
    let _ = Header::decode(input);
    let seed = header([0; 4]).seed();
    if let Ok(found) = EntryHeader::decode(input, Position::default(), 992, seed) {
        let _ = found.check(&input[32..]);
    }
    let search = Search { cut: 0, data_bytes: DATA_BYTES, generation: 0, seed };
    let _ = search.is_proof(0, input);
    open_raw(input);
    if let Some((numbers, entries)) = input.split_first_chunk::<8>() {
        let number = |at| u16::from_le_bytes([numbers[at], numbers[at + 1]]);
        open_with(header([number(0), number(2), number(4), number(6)]), entries);
    }
}

/// Both header blocks from the input.
fn open_raw(input: &[u8]) {
    let mut image = Image::new(AREA.bytes);
    let (first, second) = input.split_at(input.len() / 2);
    image.write(0, &first[..first.len().min(4096)]).expect("inside");
    image.write(4096, &second[..second.len().min(4096)]).expect("inside");
    use_if_it_opens(image);
}

fn open_with(header: Header, entries: &[u8]) {
    let mut image = Image::new(AREA.bytes);
    image.write(header.counter % 2 * 4096, &header.encode()).expect("inside");
    let from = header.end.at % DATA_BYTES;
    // Around the area's end, as entries lie there.
    for (at, byte) in entries.iter().enumerate().take(DATA_BYTES as usize) {
        let at = 8192 + (from + at as u64) % DATA_BYTES;
        image.write(at, &[*byte]).expect("inside");
    }
    use_if_it_opens(image);
}

fn use_if_it_opens(image: Image) {
    let device = Box::new(MemoryDevice::of(image));
    let Ok(log) = Log::open(device, AREA, Options::default()) else {
        return;
    };
    let before: Vec<_> = log.read().take(300).map_while(Result::ok).collect();
    let queue = Queue::new(log.clone());
    if let Ok(Some(item)) = queue.pop() {
        queue.acknowledge(item.position).expect("it was handed out");
    }
    if let Ok(position) = log.append_sync(b"appended") {
        let found = log.read_from(position).and_then(|mut reader| reader.read());
        let found = found.expect("what was acknowledged reads").expect("and is there");
        assert_eq!(found.payload, b"appended");
        assert!(before.iter().all(|entry| entry.position < position));
    }
}
