//! What the scanner needs of an ELF file: its build-id, its code, its function starts.
//!
//! Function starts come from the sorted table in `.eh_frame_hdr`, which unwinding needs and
//! stripping keeps. Decoding begins afresh at each: x86 code has no other reliable marks, and one
//! table of data between functions would otherwise turn all that follows into nonsense.
//! Addresses are the file's own (load address zero).

use super::ScanError;
use crate::site::BuildId;
use goblin::container::Ctx;
use goblin::elf::program_header::{ProgramHeader, PF_X, PT_GNU_EH_FRAME, PT_LOAD};
use goblin::elf::section_header::{SHF_ALLOC, SHF_EXECINSTR, SHT_PROGBITS};
use goblin::elf::{header, Elf};
use std::ops::Range;

/// Everything must lie below this, so that 32-bit distances reach and sums stay in range.
const ADDRESS_MAX: u64 = i32::MAX as u64;

/// A shared library's file, as far as it concerns the scanner.
pub(super) struct Image<'a> {
    file: &'a [u8],
    loads: Vec<(Range<u64>, usize)>,
    segments: usize,
    /// The linker's fingerprint.
    pub build_id: Option<BuildId>,
    /// The executable segment, or from the first to the last of several.
    pub text: Range<u64>,
    /// Executable sections, by ascending address.
    pub code: Vec<(u64, &'a [u8])>,
    /// Where functions start, ascending. Their recorded ends are of no use: hand-written ones that
    /// make a child (clone) end theirs before the `syscall`, to hide the rest from unwinders.
    pub functions: Vec<u64>,
    /// Start addresses of exported functions, sorted.
    pub exported: Vec<u64>,
    /// Where each function's description lies, by the function's start, ascending.
    descriptions: Vec<(u64, u64)>,
    /// Places in the text that the dynamic linker writes addresses of: functions, and labels that
    /// computed gotos go to. `None` where not all are known.
    pub relocated: Option<Vec<u64>>,
}

impl<'a> Image<'a> {
    /// Reads the tables of a library with one executable segment; nothing is decoded yet.
    pub fn parse(file: &'a [u8]) -> Result<Image<'a>, ScanError> {
        let image = Image::parse_any(file)?;
        match (image.segments, image.functions.is_empty()) {
            (1, false) => Ok(image),
            (1, true) => Err(ScanError::Unsupported { what: "no .eh_frame_hdr" }),
            _ => Err(ScanError::Unsupported { what: "more than one executable segment" }),
        }
    }

    /// As [`Image::parse`], of a library or program of any make; without an unwind table, no
    /// function's start is known.
    pub fn parse_any(file: &'a [u8]) -> Result<Image<'a>, ScanError> {
        let elf = Elf::parse(file).map_err(ScanError::Elf)?;
        if !elf.is_64 || !elf.little_endian || elf.header.e_machine != header::EM_X86_64 {
            return Err(ScanError::Unsupported { what: "not an x86-64 file" });
        }
        let (text, segments) = text_segments(&elf)?;
        let mut image = Image {
            file,
            loads: file_backed_loads(&elf, file.len()),
            build_id: build_id(&elf, file),
            text,
            segments,
            code: Vec::new(),
            functions: Vec::new(),
            exported: exported_functions(&elf),
            descriptions: Vec::new(),
            relocated: relocated(&elf),
        };
        image.code = code_sections(&elf, file, &image.text);
        let table = elf.program_headers.iter().find(|p| p.p_type == PT_GNU_EH_FRAME);
        if let Some(table) = table {
            image.descriptions = image.function_table(table.p_vaddr)?;
        }
        image.functions = image.descriptions.iter().map(|(start, _)| *start).collect();
        image.functions.dedup();
        Ok(image)
    }

    /// The function around `address` from its start to its end, if it is described as one.
    pub fn described(&self, address: u64) -> Option<Range<u64>> {
        let after = self.descriptions.partition_point(|(start, _)| *start <= address);
        let (start, at) = *self.descriptions.get(after.checked_sub(1)?)?;
        let field = |offset: u64| self.read_i32(at.checked_add(offset)?);
        // The encodings that compilers write: 32 bits, relative to the field or absolute.
        let named = i64::from(field(8)?);
        let relative = at.checked_add(8)?.wrapping_add_signed(named);
        let is_it = relative == start || named as u64 == start;
        let function = start..start.checked_add(field(12)? as u32 as u64)?;
        (is_it && function.contains(&address)).then_some(function)
    }

    /// Whether the function at `start` may be entered by the unwinder ('L' in its augmentation).
    pub fn may_have_landing_pads(&self, start: u64) -> bool {
        let found = self.descriptions.iter().find(|(known, _)| *known == start);
        found.is_none_or(|(_, at)| self.has_augmentation(*at, b'L'))
    }

    /// Four bytes at an address, if they are in the file.
    pub fn read_i32(&self, address: u64) -> Option<i32> {
        let (range, offset) = self.loads.iter().find(|(range, _)| range.contains(&address))?;
        let at = offset + (address - range.start) as usize;
        let bytes = self.file.get(at..at.checked_add(4)?)?;
        Some(i32::from_le_bytes(bytes.try_into().ok()?))
    }

    /// The code from `range.start` to its end or the end of its section.
    pub fn code_in(&self, range: &Range<u64>) -> &'a [u8] {
        let section = self
            .code
            .iter()
            .find(|(start, bytes)| (*start..*start + bytes.len() as u64).contains(&range.start));
        section.map_or(&[], |(start, bytes)| {
            let from = (range.start - start) as usize;
            let to = (range.end.saturating_sub(*start) as usize).min(bytes.len());
            bytes.get(from..to).unwrap_or(&[])
        })
    }

    /// Reads `.eh_frame_hdr` at `table`. Only the encodings that every linker writes are known.
    fn function_table(&self, table: u64) -> Result<Vec<(u64, u64)>, ScanError> {
        const VERSION_AND_ENCODINGS: i32 = 0x3b03_1b01; // version 1, pcrel, udata4, datarel sdata4
        let unknown = ScanError::Unsupported { what: "unknown .eh_frame_hdr encoding" };
        if self.read_i32(table) != Some(VERSION_AND_ENCODINGS) {
            return Err(unknown);
        }
        let count = self.read_i32(table + 8).and_then(|n| usize::try_from(n).ok());
        let count = count.filter(|n| n * 8 <= self.file.len()).ok_or(unknown)?;
        let mut functions = Vec::with_capacity(count);
        for index in 0..count as u64 {
            let entry = table + 12 + index * 8;
            let pair = self.read_i32(entry).zip(self.read_i32(entry + 4));
            let (start, fde) = pair.ok_or(ScanError::Truncated { address: entry })?;
            let start = table.wrapping_add_signed(i64::from(start));
            let fde = table.wrapping_add_signed(i64::from(fde));
            // The range of a signal trampoline ('S', LSB core, 10.6.1) begins one byte early, for
            // unwinders that look up a return address less one.
            let early = u64::from(self.has_augmentation(fde, b'S'));
            functions.push((start.wrapping_add(early), fde));
        }
        functions.retain(|(start, _)| self.text.contains(start));
        functions.sort_unstable();
        Ok(functions)
    }

    /// Whether a description's augmentation, of which four letters are looked at, has this one.
    fn has_augmentation(&self, fde: u64, letter: u8) -> bool {
        let back = fde.wrapping_add(4);
        let to_cie = self.read_i32(back).map_or(0, i64::from);
        let augmentation = back.wrapping_add_signed(9 - to_cie);
        let text = self.read_i32(augmentation).map_or([0; 4], i32::to_le_bytes);
        text.iter().take_while(|found| **found != 0).any(|found| *found == letter)
    }
}

/// Build-id and executable segments of an x86-64 file, whatever else it lacks.
pub(super) fn outline(file: &[u8]) -> Result<(Option<BuildId>, Vec<&[u8]>), ScanError> {
    let elf = Elf::parse(file).map_err(ScanError::Elf)?;
    if !elf.is_64 || !elf.little_endian || elf.header.e_machine != header::EM_X86_64 {
        return Err(ScanError::Unsupported { what: "not an x86-64 file" });
    }
    let executable =
        elf.program_headers.iter().filter(|p| p.p_type == PT_LOAD && p.p_flags & PF_X != 0);
    let bytes = |p: &ProgramHeader| {
        let end = p.p_offset.checked_add(p.p_filesz)?;
        file.get(p.p_offset as usize..end as usize)
    };
    let truncated = |p: &ProgramHeader| ScanError::Truncated { address: p.p_vaddr };
    let segments = executable.map(|p| bytes(p).ok_or_else(|| truncated(p)));
    Ok((build_id(&elf, file), segments.collect::<Result<_, _>>()?))
}

/// Only the build-id, to look into the cache: `head` is how the file begins, where linkers put
/// it. `None` if it is not there.
pub(super) fn build_id_in(head: &[u8]) -> Option<BuildId> {
    let header = Elf::parse_header(head).ok()?;
    let context = Ctx::new(header.container().ok()?, header.endianness().ok()?);
    let (at, count) = (header.e_phoff as usize, usize::from(header.e_phnum));
    let mut elf = Elf::lazy_parse(header).ok()?;
    elf.program_headers = ProgramHeader::parse(head, at, count, context).ok()?;
    // A note that lies further behind is not looked for.
    let is_there = |p: &ProgramHeader| {
        p.p_offset.checked_add(p.p_filesz).is_some_and(|end| end <= head.len() as u64)
    };
    elf.program_headers.retain(is_there);
    build_id(&elf, head)
}

fn text_segments(elf: &Elf) -> Result<(Range<u64>, usize), ScanError> {
    let is_text = |p: &&ProgramHeader| p.p_type == PT_LOAD && p.p_flags & PF_X != 0;
    let executable = || elf.program_headers.iter().filter(is_text);
    let mut whole: Option<Range<u64>> = None;
    for segment in executable() {
        if segment.p_memsz != segment.p_filesz {
            return Err(ScanError::Unsupported { what: "text that is not all in the file" });
        }
        let end = segment.p_vaddr.checked_add(segment.p_memsz).filter(|end| *end <= ADDRESS_MAX);
        let end = end.ok_or(ScanError::Unsupported { what: "text beyond 2 GiB" })?;
        whole = Some(match whole {
            Some(known) => known.start.min(segment.p_vaddr)..known.end.max(end),
            None => segment.p_vaddr..end,
        });
    }
    let whole = whole.ok_or(ScanError::Unsupported { what: "no executable segment" })?;
    Ok((whole, executable().count()))
}

/// The values of all relative relocations. Those in compact form (RELR) are not read, and a program
/// at a fixed address has none for what is in it.
fn relocated(elf: &Elf) -> Option<Vec<u64>> {
    const DT_RELR: u64 = 36;
    let dynamic = elf.dynamic.as_ref()?;
    let is_compact = dynamic.dyns.iter().any(|entry| entry.d_tag == DT_RELR);
    if is_compact || elf.header.e_type != header::ET_DYN {
        return None;
    }
    let values = elf.dynrelas.iter().filter_map(|relocation| relocation.r_addend);
    Some(values.map(|addend| addend as u64).collect())
}

fn file_backed_loads(elf: &Elf, file_bytes: usize) -> Vec<(Range<u64>, usize)> {
    let loads = elf.program_headers.iter().filter(|p| p.p_type == PT_LOAD);
    loads
        .filter(|p| p.p_filesz <= file_bytes as u64 && p.p_offset < file_bytes as u64)
        .filter(|p| p.p_vaddr <= ADDRESS_MAX - p.p_filesz.min(ADDRESS_MAX))
        .filter_map(|p| Some((p.p_vaddr..p.p_vaddr.checked_add(p.p_filesz)?, p.p_offset as usize)))
        .collect()
}

fn code_sections<'a>(elf: &Elf, file: &'a [u8], text: &Range<u64>) -> Vec<(u64, &'a [u8])> {
    let executable = u64::from(SHF_ALLOC | SHF_EXECINSTR);
    let mut code: Vec<_> = elf
        .section_headers
        .iter()
        .filter(|s| s.sh_type == SHT_PROGBITS && s.sh_flags & executable == executable)
        .filter(|s| text.contains(&s.sh_addr) && s.sh_size <= text.end - s.sh_addr)
        .filter_map(|s| {
            let end = s.sh_offset.checked_add(s.sh_size)?;
            Some((s.sh_addr, file.get(s.sh_offset as usize..end as usize)?))
        })
        .collect();
    code.sort_by_key(|(start, _)| *start);
    code
}

fn exported_functions(elf: &Elf) -> Vec<u64> {
    let functions = elf.dynsyms.iter().filter(|s| s.is_function() && s.st_value != 0);
    let mut starts: Vec<u64> = functions.map(|s| s.st_value).collect();
    starts.sort_unstable();
    starts.dedup();
    starts
}

fn build_id(elf: &Elf, file: &[u8]) -> Option<BuildId> {
    let notes = elf.iter_note_headers(file)?;
    let id = notes.flatten().find(|note| note.n_type == 3 && note.name == "GNU")?;
    BuildId::new(id.desc)
}
