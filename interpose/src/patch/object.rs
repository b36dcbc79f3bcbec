//! The mapped libc: where it is, which one it is, and what its text holds.
//!
//! The dynamic linker is asked (dl_iterate_phdr), not /proc/self/maps: it costs no system call,
//! and it is libc by content, the object that holds a function of libc, whatever the file's name.

use crate::site::BuildId;
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
    /// Start (from `base`) and length of its executable segment.
    pub text: (u64, u64),
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
        let address = libc::gnu_get_libc_version as *const () as u64;
        let mut search = Search { address, found: None };
        // SAFETY: dl_iterate_phdr calls `visit` during this call only, with the pointer given,
        // which is to a live `Search` that nothing else uses meanwhile.
        unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
        search.found.filter(|object| !object.path.as_os_str().is_empty())
    }

    /// The addresses of the executable segment.
    pub fn text_addresses(&self) -> Range<u64> {
        let start = self.base + self.text.0;
        start..start + self.text.1
    }

    /// Whether these bytes are at this offset of the text.
    pub fn holds(&self, offset: u32, bytes: &[u8]) -> bool {
        let text = self.text_addresses();
        let start = self.base + u64::from(offset);
        if start < text.start || start + bytes.len() as u64 > text.end {
            return false;
        }
        // SAFETY: the range lies in the executable segment (checked above), which the dynamic
        // linker has mapped readable and which libc, in use by this function, never unmaps.
        let mapped = unsafe { slice::from_raw_parts(start as *const u8, bytes.len()) };
        mapped == bytes
    }
}

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
    let text = headers.iter().find(|header| {
        let start = info.dlpi_addr.wrapping_add(header.p_vaddr);
        let executable = header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0;
        executable && (start..start.saturating_add(header.p_memsz)).contains(&search.address)
    });
    let Some(text) = text else { return 0 };
    // SAFETY: the name is a string that lives as long as the object is mapped; copied at once.
    let name = unsafe { CStr::from_ptr(info.dlpi_name) };
    search.found = Some(Object {
        base: info.dlpi_addr,
        path: PathBuf::from(OsStr::from_bytes(name.to_bytes())),
        build_id: headers.iter().find_map(|header| build_id(info.dlpi_addr, header)),
        text: (text.p_vaddr, text.p_memsz),
        constants: constants(info.dlpi_addr, headers, text.p_vaddr),
    });
    1
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
    const NOTE_BYTES_MAX: u64 = 4096;
    if header.p_type != libc::PT_NOTE || header.p_memsz > NOTE_BYTES_MAX {
        return None;
    }
    let start = base.wrapping_add(header.p_vaddr) as *const u8;
    // SAFETY: a note segment lies inside a loadable segment of a mapped object (ELF gABI), and
    // libc's headers were already believed by the kernel and the dynamic linker.
    let mut notes = unsafe { slice::from_raw_parts(start, header.p_memsz as usize) };
    let align = if header.p_align == 8 { 8 } else { 4 };
    while let Some((name_and_kind, desc, rest)) = split_note(notes, align) {
        if name_and_kind == (b"GNU\0".as_slice(), 3) {
            return BuildId::new(desc);
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
    let name = notes.get(12..12usize.checked_add(name_bytes)?)?;
    let desc_at = (12 + name_bytes).next_multiple_of(align);
    let desc_end = desc_at.checked_add(desc_bytes)?;
    let desc = notes.get(desc_at..desc_end)?;
    let rest = notes.get(desc_end.next_multiple_of(align)..).unwrap_or(&[]);
    Some(((name, kind), desc, rest))
}
