//! Making a log, opening it after whatever happened, and removing it.
//!
//! ```text
//! header A, B --the higher counter--> end --entry by entry--> first that is none = the cut
//!                                            |
//!          an entry behind it proves that the cut had been acknowledged? --> damage, reported
//!                                            | no
//!          flush; header with generation + 1 and end = cut, durable      --> open
//! ```
//!
//! Nothing is changed before the last step, which writes one sector: a crash anywhere leaves what
//! was there, or the result. After it, whatever an earlier opening left behind the cut is of an
//! older generation than what may stand there.

use heliostat_backend_block::Device;

use crate::area::{Area, Layout};
use crate::channel::{Channel, READ_BYTES};
use crate::error::LogError;
use crate::format::{
    entry_bytes, Broken, Header, HeaderError, Position, Search, ENTRY_ALIGNMENT, ENTRY_BYTES,
    POSITION_MAX,
};
use crate::lookahead::{Lookahead, Rules};
use crate::memory::Memory;
use crate::mutant::Mutant;
use crate::options::Options;

/// Between two places where an entry may begin.
const STEP: usize = ENTRY_ALIGNMENT as usize;

/// A log as it is before its first operation.
pub(crate) struct Opened {
    pub(crate) channel: Channel,
    pub(crate) header: Header,
    pub(crate) memory: Memory,
}

/// Writes the headers of a new log into an area that has none.
pub(crate) fn create(
    device: Box<dyn Device>,
    area: Area,
    options: &Options,
) -> Result<Opened, LogError> {
    let mut channel = open_channel(device, area)?;
    match newest_header(&mut channel) {
        Err(LogError::NoLog(HeaderError::Foreign)) => {}
        Err(LogError::NoLog(_)) | Ok(_) => return Err(LogError::Exists),
        Err(error) => return Err(error),
    }
    let mut header = options.new_header(channel.layout(), new_identity()?);
    write_header(&mut channel, &header)?;
    header.counter += 1;
    write_header(&mut channel, &header)?;
    finish(channel, header)
}

/// Finds out what of a log is there, and begins a new generation of it.
pub(crate) fn open(
    device: Box<dyn Device>,
    area: Area,
    mutant: Mutant,
) -> Result<Opened, LogError> {
    let (mut channel, mut header) = open_to_read(device, area)?;
    let end = find_end(&mut channel, &header, mutant)?;
    // Who was killed may have left what was read in the device's cache only.
    channel.flush()?;
    header.end = end;
    header.counter = header.counter.checked_add(1).ok_or(LogError::WornOut)?;
    if mutant != Mutant::SameGeneration {
        header.generation = header.generation.checked_add(1).ok_or(LogError::WornOut)?;
    }
    write_header(&mut channel, &header)?;
    finish(channel, header)
}

/// Makes an area one that has no log.
pub(crate) fn erase(device: Box<dyn Device>, area: Area) -> Result<Box<dyn Device>, LogError> {
    let mut channel = open_channel(device, area)?;
    for index in 0..2 {
        let offset = channel.layout().header(index);
        channel.write_sector(offset, &[])?;
    }
    Ok(channel.into_device())
}

/// The log of an area, which is only read.
pub(crate) fn open_to_read(
    device: Box<dyn Device>,
    area: Area,
) -> Result<(Channel, Header), LogError> {
    let mut channel = open_channel(device, area)?;
    let header = newest_header(&mut channel)?;
    check_area(&header, channel.layout())?;
    Ok((channel, header))
}

fn open_channel(device: Box<dyn Device>, area: Area) -> Result<Channel, LogError> {
    let layout = Layout::of(area, device.geometry())?;
    Channel::new(device, layout)
}

/// The header block with the higher counter, of those that can be believed.
pub(crate) fn newest_header(channel: &mut Channel) -> Result<Header, LogError> {
    let mut newest: Result<Header, HeaderError> = Err(HeaderError::Foreign);
    for index in 0..2 {
        let offset = channel.layout().header(index);
        let bytes = channel.read_sector(offset)?;
        let found = Header::decode(&bytes).and_then(|header| at_its_place(header, index));
        newest = match (newest, found) {
            // A later version has written there since: what the other block says is not so any more.
            (_, Err(HeaderError::Version { found })) | (Err(HeaderError::Version { found }), _) => {
                Err(HeaderError::Version { found })
            }
            (Ok(one), Ok(other)) if one.counter > other.counter => Ok(one),
            (_, Ok(other)) => Ok(other),
            (Ok(one), Err(_)) => Ok(one),
            (Err(HeaderError::Foreign), Err(error)) => Err(error),
            (Err(error), Err(_)) => Err(error),
        };
    }
    newest.map_err(LogError::NoLog)
}

fn at_its_place(header: Header, index: u64) -> Result<Header, HeaderError> {
    match header.counter % 2 == index {
        true => Ok(header),
        false => Err(HeaderError::Field { name: "counter", found: header.counter }),
    }
}

fn check_area(header: &Header, layout: Layout) -> Result<(), LogError> {
    let (found, wanted) = (layout.sector, u64::from(header.sector_bytes));
    if found != wanted {
        return Err(LogError::Area { what: "sector", found, wanted });
    }
    let (found, wanted) = (layout.data_bytes, header.data_bytes);
    if found != wanted {
        return Err(LogError::Area { what: "space for entries", found, wanted });
    }
    Ok(())
}

/// Goes from the recorded end to the first place where there is no next entry.
fn find_end(channel: &mut Channel, header: &Header, mutant: Mutant) -> Result<Position, LogError> {
    let (longest, longest_kept) = (header.longest.into(), 0);
    let rules = Rules { seed: header.seed(), longest, longest_kept };
    let limit = channel.layout().limit(header.begin).min(POSITION_MAX);
    let (mut end, mut ahead) = (header.end, Lookahead::default());
    let mut fetch = |from, until, into: &mut Vec<u8>| channel.read(from, until, into);
    let why = loop {
        match ahead.checked(end, limit, rules, &mut fetch)? {
            // Each opening moves the recorded end, so what follows it is of one generation.
            Ok(entry) if entry.generation == header.generation => {
                end.at += entry_bytes(entry.length.into());
                end.sequence += 1;
            }
            Ok(entry) => break Broken::Generation { found: entry.generation },
            Err(broken) => break broken,
        }
    };
    match has_evidence(channel, header, end.at)? && mutant != Mutant::IgnoresEvidence {
        true => Err(LogError::Damaged { position: end, why }),
        false => Ok(end),
    }
}

/// Whether an entry behind the cut tells that what lay at the cut had been acknowledged.
pub(crate) fn has_evidence(
    channel: &mut Channel,
    header: &Header,
    cut: u64,
) -> Result<bool, LogError> {
    // The first entry that was sealed after an acknowledgement begins within the window behind it,
    // and one of a later round that covers the cut no further than the longest entry.
    let bytes = (header.window_bytes + entry_bytes(header.longest.into())).min(header.data_bytes);
    let (data_bytes, generation, seed) = (header.data_bytes, header.generation, header.seed());
    let search = Search { cut, data_bytes, generation, seed };
    let (mut behind, end) = (Vec::new(), cut + bytes);
    for start in (cut..end).step_by(READ_BYTES as usize) {
        // A header may begin at the end of one piece and reach into the next.
        let until = (start + READ_BYTES + ENTRY_BYTES).min(end);
        behind.clear();
        channel.read(start, until, &mut behind)?;
        let mut steps = (0..READ_BYTES.min(end - start) as usize).step_by(STEP);
        if steps.any(|from| search.is_proof(start + from as u64, &behind[from..])) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn write_header(channel: &mut Channel, header: &Header) -> Result<(), LogError> {
    let offset = channel.layout().header(header.counter);
    channel.write_sector(offset, &header.encode())
}

/// Loads the sector that the next entry shares with what is there.
fn finish(mut channel: Channel, header: Header) -> Result<Opened, LogError> {
    let memory = Memory::new(header.window_bytes).map_err(LogError::Memory)?;
    let (start, end) = (channel.layout().floor(header.end.at), header.end.at);
    let mut bytes = Vec::new();
    channel.read(start, end, &mut bytes)?;
    // A sector lies in a page, and the ring is whole pages.
    let _ = memory.put(start, &bytes);
    Ok(Opened { channel, header, memory })
}

fn new_identity() -> Result<[u8; 16], LogError> {
    use std::io::Read;
    let mut identity = [0; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut identity))
        .map_err(|error| LogError::System { errno: error.raw_os_error().unwrap_or(5) })?;
    Ok(identity)
}
