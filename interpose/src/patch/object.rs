//! The mapped libc: where it is, which one it is, and what its text holds.
//!
//! The dynamic linker is asked (dl_iterate_phdr), not /proc/self/maps: it costs no system call,
//! and it is libc by content, the object that holds a function of libc, whatever the file's name.

use crate::site::BuildId;
use heliostat_base::exempt;
use std::ffi::{c_int, c_void, CStr, OsStr};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::slice;

/// A library mapped into this process.
pub(super) struct Object {
    /// The address at which its file's address 0 is mapped.
    pub base: u64,
    /// As the dynamic linker names it.
    pub path: PathBuf,
    /// The linker's fingerprint, if it has one.
    pub build_id: Option<BuildId>,
    /// Start (from `base`) and length of its executable segment, or from the first to the last.
    pub text: (u64, u64),
    /// The addresses of all executable segments.
    pub segments: Vec<Range<u64>>,
    /// Whether it says that it wants none of its calls caught.
    pub is_exempt: bool,
    /// Whether all of these may be read and not written.
    pub is_plain: bool,
    /// The addresses of its constants: the segment after its text that is only ever read.
    pub constants: Range<u64>,
}

/// What the search for an object looks for and finds.
struct Search {
    address: u64,
    found: Option<Object>,
}

impl Object {
    /// The object that holds libc's functions; none in a static program.
    pub fn libc() -> Option<Object> {
        Object::at(libc::gnu_get_libc_version as *const () as u64)
            .filter(|object| !object.path.as_os_str().is_empty())
    }

    /// The object that this code is in.
    pub fn own() -> Option<Object> {
        Object::at(Object::own as *const () as u64)
    }

    /// The object whose text holds this address.
    fn at(address: u64) -> Option<Object> {
        let mut search = Search { address, found: None };
        // SAFETY: dl_iterate_phdr calls `visit` during this call only, with the pointer given,
        // which is to a live `Search` that nothing else uses meanwhile.
        unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
        search.found
    }

    /// All that the dynamic linker has loaded, the program itself first (dl_iterate_phdr(3)).
    pub fn all() -> Vec<Object> {
        let mut objects: Vec<Object> = Vec::new();
        // SAFETY: as above; `visit_each` takes a live vector.
        unsafe { libc::dl_iterate_phdr(Some(visit_each), (&raw mut objects).cast()) };
        objects
    }

    /// Whether this address is in its text.
    pub fn executes(&self, address: u64) -> bool {
        self.segments.iter().any(|segment| segment.contains(&address))
    }

    /// The addresses of the executable segment.
    pub fn text_addresses(&self) -> Range<u64> {
        let start = self.base + self.text.0;
        start..start + self.text.1
    }

    /// Whether these bytes are at this offset of the text.
    pub fn holds(&self, offset: u32, bytes: &[u8]) -> bool {
        let start = self.base + u64::from(offset);
        let end = start + bytes.len() as u64;
        let is_within = |segment: &Range<u64>| segment.start <= start && end <= segment.end;
        if !self.segments.iter().any(is_within) {
            return false;
        }
        // SAFETY: the range lies in an executable segment (checked above), which the dynamic
        // linker has mapped readable. libc is in use by this function and never unmapped; of other
        // objects the caller knows that they stay until it is done.
        let mapped = unsafe { slice::from_raw_parts(start as *const u8, bytes.len()) };
        mapped == bytes
    }
}

/// Whether this process's program is one of Go, as its linker notes it: the runtime makes system
/// calls by instructions of its own, on stacks that are too small for a hook.
pub fn is_go_program() -> bool {
    let mut found = false;
    // SAFETY: as in `Object::libc`; `visit_first` takes a live bool.
    unsafe { libc::dl_iterate_phdr(Some(visit_first), (&raw mut found).cast()) };
    found
}

/// The first object is the program itself (source: dl_iterate_phdr(3)).
///
/// # Safety
/// Only for dl_iterate_phdr: `info` describes a mapped object, `found` is a bool.
unsafe extern "C" fn visit_first(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    found: *mut c_void,
) -> c_int {
    // SAFETY: as in `visit`.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<bool>()) };
    // SAFETY: as in `visit`.
    let headers = unsafe { slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    *found = headers.iter().any(|header| note(info.dlpi_addr, header, GO_BUILD_ID).is_some());
    1
}

/// Name and kind of the notes that linkers write (source: ELF gABI; cmd/internal/buildid of Go).
const GNU_BUILD_ID: (&[u8], u32) = (b"GNU\0", 3);
const GO_BUILD_ID: (&[u8], u32) = (b"Go\0\0", 4);
/// The note of libraries that are Heliostat's own.
const EXEMPT: (&[u8], u32) = (exempt::NAME, exempt::KIND);

/// One loaded object, as the dynamic linker describes it.
///
/// # Safety
/// Only for dl_iterate_phdr: `info` describes a mapped object, `search` is a [`Search`].
unsafe extern "C" fn visit(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    search: *mut c_void,
) -> c_int {
    // SAFETY: dl_iterate_phdr passes a valid description and the pointer that `Object::libc`
    // gave it (see there), for the length of this call.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
    // SAFETY: the dynamic linker keeps the program headers of a mapped object readable.
    let headers = unsafe { slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let holds = |header: &libc::Elf64_Phdr| {
        let start = info.dlpi_addr.wrapping_add(header.p_vaddr);
        is_text(header) && (start..start.saturating_add(header.p_memsz)).contains(&search.address)
    };
    if !headers.iter().any(holds) {
        return 0;
    }
    // SAFETY: as above.
    search.found = Some(unsafe { describe(info, headers) });
    1
}

/// # Safety
/// Only for dl_iterate_phdr: `info` describes a mapped object, `objects` is a vector of those.
unsafe extern "C" fn visit_each(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    objects: *mut c_void,
) -> c_int {
    // SAFETY: as in `visit`.
    let (info, objects) = unsafe { (&*info, &mut *objects.cast::<Vec<Object>>()) };
    // SAFETY: as in `visit`.
    let headers = unsafe { slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    // SAFETY: as in `visit`.
    objects.push(unsafe { describe(info, headers) });
    0
}

fn is_text(header: &libc::Elf64_Phdr) -> bool {
    header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0
}

/// # Safety
/// `info` and its headers are what dl_iterate_phdr says of a mapped object.
unsafe fn describe(info: &libc::dl_phdr_info, headers: &[libc::Elf64_Phdr]) -> Object {
    let base = info.dlpi_addr;
    // SAFETY: the name is a string that lives as long as the object is mapped; copied at once.
    let name = unsafe { CStr::from_ptr(info.dlpi_name) };
    let text = || headers.iter().filter(|header| is_text(header));
    let start = text().map(|header| header.p_vaddr).min().unwrap_or(0);
    let end = text().map(|header| header.p_vaddr.saturating_add(header.p_memsz)).max();
    let address = |header: &libc::Elf64_Phdr| {
        let start = base.wrapping_add(header.p_vaddr);
        start..start.saturating_add(header.p_memsz)
    };
    Object {
        base,
        path: PathBuf::from(OsStr::from_bytes(name.to_bytes())),
        build_id: headers.iter().find_map(|header| build_id(base, header)),
        text: (start, end.unwrap_or(start) - start),
        segments: text().map(address).collect(),
        is_exempt: headers.iter().any(|header| note(base, header, EXEMPT).is_some()),
        is_plain: text().all(|header| header.p_flags == libc::PF_R | libc::PF_X),
        constants: constants(base, headers, start),
    }
}

/// The addresses of the readable segment behind the text; empty if there is none.
fn constants(base: u64, headers: &[libc::Elf64_Phdr], text: u64) -> Range<u64> {
    let is_it = |header: &&libc::Elf64_Phdr| {
        let is_read_only = header.p_type == libc::PT_LOAD && header.p_flags == libc::PF_R;
        is_read_only && header.p_vaddr > text
    };
    let found = headers.iter().find(is_it);
    found.map_or(0..0, |header| {
        let start = base.wrapping_add(header.p_vaddr);
        start..start.saturating_add(header.p_filesz)
    })
}

/// Looks for the build-id in a mapped note segment.
fn build_id(base: u64, header: &libc::Elf64_Phdr) -> Option<BuildId> {
    note(base, header, GNU_BUILD_ID).and_then(BuildId::new)
}

/// Looks for a note in a mapped note segment.
fn note(base: u64, header: &libc::Elf64_Phdr, wanted: (&[u8], u32)) -> Option<&'static [u8]> {
    const NOTE_BYTES_MAX: u64 = 4096;
    if header.p_type != libc::PT_NOTE || header.p_memsz > NOTE_BYTES_MAX {
        return None;
    }
    let start = base.wrapping_add(header.p_vaddr) as *const u8;
    // SAFETY: a note segment lies inside a loadable segment of a mapped object (ELF gABI), whose
    // headers were already believed by the kernel and the dynamic linker; libc and the program
    // itself stay mapped.
    let mut notes: &'static [u8] = unsafe { slice::from_raw_parts(start, header.p_memsz as usize) };
    let align = if header.p_align == 8 { 8 } else { 4 };
    while let Some((name_and_kind, desc, rest)) = split_note(notes, align) {
        if name_and_kind == wanted {
            return Some(desc);
        }
        notes = rest;
    }
    None
}

/// Name and kind, content, and what follows. None at the end or where lengths lead outside.
#[allow(clippy::type_complexity)]
fn split_note(notes: &[u8], align: usize) -> Option<((&[u8], u32), &[u8], &[u8])> {
    let word = |at: usize| Some(u32::from_le_bytes(notes.get(at..at + 4)?.try_into().ok()?));
    let (name_bytes, desc_bytes, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
    let name_end = 12usize.checked_add(name_bytes.checked_next_multiple_of(4)?)?;
    let name = notes.get(12..name_end)?;
    let desc_at = (12 + name_bytes).next_multiple_of(align);
    let desc_end = desc_at.checked_add(desc_bytes)?;
    let desc = notes.get(desc_at..desc_end)?;
    let rest = notes.get(desc_end.next_multiple_of(align)..).unwrap_or(&[]);
    Some(((name, kind), desc, rest))
}
