//! The site-list file: fixed-size little-endian records behind one header.
//!
//! ```text
//! header, 96 bytes                     record, 48 bytes
//!   0  8  magic "HELIOSIT"               0  4  start of window, from the load address
//!   8  4  version (1)                    4  4  number, or ffffffff if unknown
//!  12  4  record count                   8  1  flags: 1 = save xmm
//!  16  8  check word over all the rest   9  1  length of window
//!  24  8  text start                    10  1  offset of `syscall` in it
//!  32  8  text length in memory         11  1  refusal: 0 = patchable, else Reason
//!  40  4  build-id length               12  4  two relocations (field, insn end), or 0 0
//!  44 32  build-id, zero-padded         16 32  original bytes, zero-padded
//!  76 20  zero
//! ```
//! A list comes from a cache directory and is foreign input: each field is checked, and one byte
//! changed anywhere is refused. The check word finds accidents, not attacks: each step is a
//! bijection of the state, so that a change within one 8-byte word always shows. Against other
//! users stand the file's owner and mode, see [`crate::cache`].

use crate::site::{
    number, BuildId, Reason, Relocation, Site, SiteList, BUILD_ID_BYTES_MAX, JUMP_BYTES,
    NUMBER_MAX, RELOCATIONS_MAX, SITES_MAX, SYSCALL_BYTES, WINDOW_BYTES_MAX,
};
use std::fmt;

/// The first eight bytes of every list.
pub const MAGIC: [u8; 8] = *b"HELIOSIT";
/// The version written and read. A scanner that chooses windows differently raises it.
pub const VERSION: u32 = 1;
/// Length of the header.
pub const HEADER_BYTES: usize = 96;
/// Length of a record.
pub const RECORD_BYTES: usize = 48;
/// The longest file that can be a list.
pub const FILE_BYTES_MAX: usize = HEADER_BYTES + SITES_MAX * RECORD_BYTES;

const NUMBER_UNKNOWN: u32 = u32::MAX;
const FLAG_SAVE_XMM: u8 = 1;

/// What is wrong with a site list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FormatError {
    /// The file's length is not that of a header and whole records.
    Length {
        /// Bytes that the header asks for, or the least or most possible.
        wanted: usize,
        /// Bytes there.
        found: usize,
    },
    /// The first bytes are not [`MAGIC`].
    Magic {
        /// What they are.
        found: [u8; 8],
    },
    /// Another version of the format.
    Version {
        /// Which.
        found: u32,
    },
    /// More records than [`SITES_MAX`].
    Count {
        /// How many.
        found: u32,
    },
    /// The content is not what was written.
    CheckWord {
        /// Computed from the content.
        wanted: u64,
        /// Stored.
        found: u64,
    },
    /// A field of the header has a value that no scanner writes.
    Header {
        /// Its offset in the file.
        offset: usize,
    },
    /// A field of a record has a value that no scanner writes.
    Record {
        /// Which record, from 0.
        index: usize,
        /// The field's name in [`Site`].
        field: &'static str,
    },
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FormatError::Length { wanted, found } => {
                write!(f, "site list of {found} bytes where {wanted} are wanted")
            }
            FormatError::Magic { found } => write!(f, "not a site list (starts with {found:02x?})"),
            FormatError::Version { found } => {
                write!(f, "site list version {found}, this program reads {VERSION}")
            }
            FormatError::Count { found } => {
                write!(f, "site list claims {found} records, limit {SITES_MAX}")
            }
            FormatError::CheckWord { wanted, found } => {
                write!(f, "site list is damaged (check word {found:016x}, content {wanted:016x})")
            }
            FormatError::Header { offset } => {
                write!(f, "site list header is invalid at offset {offset}")
            }
            FormatError::Record { index, field } => {
                write!(f, "site list record {index}: invalid {field}")
            }
        }
    }
}

impl std::error::Error for FormatError {}

/// Writes a list. [`decode`] accepts the result if the list keeps its own rules.
pub fn encode(list: &SiteList) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES + list.sites.len() * RECORD_BYTES);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&(list.sites.len() as u32).to_le_bytes());
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&list.text_start.to_le_bytes());
    out.extend_from_slice(&list.text_bytes.to_le_bytes());
    let id = list.build_id.as_bytes();
    out.extend_from_slice(&(id.len() as u32).to_le_bytes());
    out.extend_from_slice(id);
    out.resize(HEADER_BYTES, 0);
    list.sites.iter().for_each(|site| encode_site(site, &mut out));
    let check = check_word(&out);
    out[16..24].copy_from_slice(&check.to_le_bytes());
    out
}

/// Reads a list, refusing whatever a scanner would not have written.
pub fn decode(file: &[u8]) -> Result<SiteList, FormatError> {
    decode_where(file, &|_| true)
}

/// As [`decode`]: all of it is checked, and the sites that `keep` wants by number are kept.
pub fn decode_where(
    file: &[u8],
    keep: &dyn Fn(Option<u32>) -> bool,
) -> Result<SiteList, FormatError> {
    if file.len() < HEADER_BYTES {
        return Err(FormatError::Length { wanted: HEADER_BYTES, found: file.len() });
    }
    if file.len() > FILE_BYTES_MAX {
        return Err(FormatError::Length { wanted: FILE_BYTES_MAX, found: file.len() });
    }
    let (header, records) = file.split_at(HEADER_BYTES);
    let magic: [u8; 8] = bytes(header, 0);
    if magic != MAGIC {
        return Err(FormatError::Magic { found: magic });
    }
    let version = u32::from_le_bytes(bytes(header, 8));
    if version != VERSION {
        return Err(FormatError::Version { found: version });
    }
    let count = u32::from_le_bytes(bytes(header, 12));
    if count as usize > SITES_MAX {
        return Err(FormatError::Count { found: count });
    }
    let wanted = HEADER_BYTES + count as usize * RECORD_BYTES;
    if wanted != file.len() {
        return Err(FormatError::Length { wanted, found: file.len() });
    }
    let (wanted, found) = (check_word(file), u64::from_le_bytes(bytes(header, 16)));
    if wanted != found {
        return Err(FormatError::CheckWord { wanted, found });
    }
    decode_checked(header, records, keep)
}

fn decode_checked(
    header: &[u8],
    records: &[u8],
    keep: &dyn Fn(Option<u32>) -> bool,
) -> Result<SiteList, FormatError> {
    let text_start = u64::from_le_bytes(bytes(header, 24));
    let text_bytes = u64::from_le_bytes(bytes(header, 32));
    let text_end = text_start.checked_add(text_bytes).ok_or(FormatError::Header { offset: 32 })?;
    // Offsets are 32 bits wide, and a displacement must reach from one end to the other.
    if text_bytes == 0 || text_end > i32::MAX as u64 {
        return Err(FormatError::Header { offset: 32 });
    }
    let id_bytes = u32::from_le_bytes(bytes(header, 40)) as usize;
    let id = header[44..44 + BUILD_ID_BYTES_MAX].get(..id_bytes).and_then(BuildId::new);
    let build_id = id.ok_or(FormatError::Header { offset: 40 })?;
    if let Some(stray) = header[44 + id_bytes..].iter().position(|byte| *byte != 0) {
        return Err(FormatError::Header { offset: 44 + id_bytes + stray });
    }
    let records = records.chunks_exact(RECORD_BYTES);
    // Counted first: growing step by step would touch twice the memory, in every program.
    let is_kept = |record: &[u8]| number_of(record).is_ok_and(keep);
    let mut sites = Vec::with_capacity(records.clone().filter(|record| is_kept(record)).count());
    let mut free_from = text_start;
    for (index, record) in records.enumerate() {
        let site = decode_site(record).map_err(|field| FormatError::Record { index, field })?;
        if u64::from(site.start) < free_from {
            return Err(FormatError::Record { index, field: "start" });
        }
        free_from = u64::from(site.start) + u64::from(site.length);
        if free_from > text_end {
            return Err(FormatError::Record { index, field: "length" });
        }
        if keep(site.number) {
            sites.push(site);
        }
    }
    Ok(SiteList { build_id, text_start, text_bytes, sites })
}

fn encode_site(site: &Site, out: &mut Vec<u8>) {
    out.extend_from_slice(&site.start.to_le_bytes());
    out.extend_from_slice(&site.number.unwrap_or(NUMBER_UNKNOWN).to_le_bytes());
    out.push(if site.save_xmm { FLAG_SAVE_XMM } else { 0 });
    out.push(site.length);
    out.push(site.syscall_at);
    out.push(site.refusal.map_or(0, |reason| reason as u8));
    for relocation in site.relocations {
        out.extend(relocation.map_or([0, 0], |r| [r.field_at, r.insn_end]));
    }
    out.extend_from_slice(&site.original);
}

/// Checks one record by itself; the name of the first bad field is the error.
fn decode_site(record: &[u8]) -> Result<Site, &'static str> {
    let number = number_of(record)?;
    if record[8] & !FLAG_SAVE_XMM != 0 {
        return Err("flags");
    }
    let refusal = match record[11] {
        0 => None,
        code => Some(Reason::from_code(code).ok_or("refusal")?),
    };
    let site = Site {
        start: u32::from_le_bytes(bytes(record, 0)),
        number,
        save_xmm: record[8] & FLAG_SAVE_XMM != 0,
        length: record[9],
        syscall_at: record[10],
        refusal,
        relocations: decode_relocations(bytes(record, 12), record[9])?,
        original: bytes(record, 16),
    };
    check_window(&site)?;
    Ok(site)
}

/// The number of the call that a record's site makes, if it is known.
fn number_of(record: &[u8]) -> Result<Option<u32>, &'static str> {
    match u32::from_le_bytes(bytes(record, 4)) {
        NUMBER_UNKNOWN => Ok(None),
        known if known <= NUMBER_MAX => Ok(Some(known)),
        _ => Err("number"),
    }
}

fn decode_relocations(
    raw: [u8; 2 * RELOCATIONS_MAX],
    length: u8,
) -> Result<[Option<Relocation>; RELOCATIONS_MAX], &'static str> {
    let mut relocations = [None; RELOCATIONS_MAX];
    let mut free_from = 0;
    for (slot, pair) in relocations.iter_mut().zip(raw.chunks_exact(2)) {
        let (field_at, insn_end) = (pair[0], pair[1]);
        if (field_at, insn_end) == (0, 0) {
            continue;
        }
        // A displacement is never the instruction's first byte, and an immediate may follow it.
        let field_end = usize::from(field_at) + 4;
        if field_at <= free_from || field_end > usize::from(insn_end) || insn_end > length {
            return Err("relocations");
        }
        free_from = insn_end;
        *slot = Some(Relocation { field_at, insn_end });
    }
    Ok(relocations)
}

fn check_window(site: &Site) -> Result<(), &'static str> {
    let (length, at) = (site.length as usize, site.syscall_at as usize);
    let least = if site.refusal.is_some() { SYSCALL_BYTES } else { JUMP_BYTES };
    if length < least || length > WINDOW_BYTES_MAX {
        return Err("length");
    }
    if at + SYSCALL_BYTES > length || site.original[at..at + SYSCALL_BYTES] != [0x0f, 0x05] {
        return Err("syscall_at");
    }
    if site.original[length..].iter().any(|byte| *byte != 0) {
        return Err("original");
    }
    let inside_syscall =
        |r: &Relocation| (r.field_at as usize) < at + 2 && r.insn_end as usize > at;
    if site.relocations.iter().flatten().any(inside_syscall) {
        return Err("relocations");
    }
    let forbidden = [number::RT_SIGRETURN, number::VFORK, number::CLONE3].map(Some);
    if forbidden.contains(&site.number) && site.refusal.is_none() {
        return Err("refusal");
    }
    Ok(())
}

/// The check word over a whole file, its own place counted as zero.
pub(crate) fn check_word(file: &[u8]) -> u64 {
    let step =
        |state: u64, word: u64| (state ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let mut state = 0x4845_4c49_4f53_4954;
    let words = file.chunks_exact(8);
    let rest = words.remainder();
    for (index, word) in words.enumerate() {
        state = step(state, if index == 2 { 0 } else { u64::from_le_bytes(bytes(word, 0)) });
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        state = step(state, u64::from_le_bytes(word));
    }
    step(state, file.len() as u64)
}

/// `N` bytes at `offset`; the callers have checked the length before.
pub(crate) fn bytes<const N: usize>(from: &[u8], offset: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&from[offset..offset + N]);
    out
}
