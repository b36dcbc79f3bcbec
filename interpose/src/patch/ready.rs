//! Patches libc by what was made before: maps an image, or makes one ([`crate::image`]).
//!
//! An image is taken only if all in this process is as it was where it was made: libc, its text at
//! every site, this library, the layout of its routines, and free memory at the same distance.
//! Otherwise nothing has happened, and libc is patched as ever.

use super::memory::{map_whole, replace_text, FilePages, NearMemory, Patch, PAGE_BYTES};
use super::object::Object;
use super::routine::ROUTINES_BYTES_MAX;
use super::trampoline::{Builder, Hooks};
use super::{check_process, choose, find_list, hooks, note_constants, unwind};
use super::{Installed, PatchError, Request, INSTALLED};
use crate::cache::{self, CacheError, Loss};
use crate::format::bytes;
use crate::image::{Header, NEAR_AT, PAGE, WINDOW_BYTES};
use crate::site::{BuildId, Site, JUMP_BYTES, WINDOW_BYTES_MAX};
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::slice;
use std::sync::atomic::Ordering;

/// One page holds all routines.
const _: () = assert!(ROUTINES_BYTES_MAX as u64 == PAGE_BYTES && PAGE as u64 == PAGE_BYTES);

/// As [`super::install`], by the image at this path. `None` if it does not fit, and nothing is done.
pub fn install_image(request: &Request, path: &Path) -> Option<Installed> {
    if INSTALLED.swap(true, Ordering::Relaxed) {
        return None;
    }
    let done = take(request, path);
    if done.is_none() {
        INSTALLED.store(false, Ordering::Relaxed);
    }
    done
}

fn take(request: &Request, path: &Path) -> Option<Installed> {
    check_process(request).ok()?;
    let (object, stub) = (Object::libc()?, own_build_id()?);
    let (file, length) = cache::open_trusted(path).ok()?;
    let whole = map_whole(&file, length).ok()?;
    let header = Header::decode(whole, length)?;
    let is_ours = Some(header.libc) == object.build_id && header.stub == stub;
    if !is_ours || header.text != object.text {
        return None;
    }
    let mut windows = whole.get(header.windows_at())?.chunks_exact(WINDOW_BYTES);
    if !windows.all(|window| is_there(&object, window)) {
        return None;
    }
    let near = near_address(&object);
    let mut routines = NearMemory::map_exactly(near, ROUTINES_BYTES_MAX)?;
    let builder = Builder::new(near, routines.room(), 0, &image_hooks(request), None);
    let offsets = builder.routines(near);
    let (used, _) = builder.finish()?;
    if offsets != header.routines || used > ROUTINES_BYTES_MAX {
        return None;
    }
    let code = header.code_at();
    let pages = FilePages::map_exactly(near + PAGE_BYTES, code.len(), &file, code.start)?;
    map_text(&object, &header, &file, routines)?;
    pages.keep();
    note_constants(&object);
    unwind::register_image(whole.get(header.frames_at())?, object.base.wrapping_sub(header.base));
    Some(Installed { patched: header.patched, unpatchable: header.left })
}

/// A gate is a word of this process: what is mapped from a file cannot name one.
fn image_hooks(request: &Request) -> Hooks {
    Hooks { gate: None, ..hooks(request) }
}

/// From here on nothing fails that was not tried.
fn map_text(object: &Object, header: &Header, file: &File, routines: NearMemory) -> Option<()> {
    routines.seal().ok()?;
    let start = object.base + header.span.0;
    let span = start..start + header.span.1;
    // SAFETY: `take` has compared every site with its recorded bytes, of the very build of libc
    // that the image was made from, by this very library, and has mapped what its jumps lead to at
    // the distance that they have; of the threads it has made sure, or been told.
    unsafe { replace_text(&span, file, header.text_at().start) }.ok()
}

fn is_there(object: &Object, window: &[u8]) -> bool {
    let start = u32::from_le_bytes(bytes(window, 0));
    let length = u32::from_le_bytes(bytes(window, 4)) as usize;
    let original = window.get(8..8 + length.min(WINDOW_BYTES_MAX));
    original.is_some_and(|original| object.holds(start, original))
}

fn near_address(object: &Object) -> u64 {
    object.base.wrapping_add_signed(NEAR_AT)
}

fn own_build_id() -> Option<BuildId> {
    Object::own()?.build_id
}

/// Makes the image of this process's libc for this library, and nothing else: no text changes.
///
/// # Errors
/// Those of [`super::install`], and of writing the file.
pub fn write_image(request: &Request, path: &Path) -> Result<(), PatchError> {
    check_process(request)?;
    let object = Object::libc().ok_or(PatchError::NoLibc)?;
    let no_build_id = || PatchError::NoBuildId { path: object.path.clone() };
    let libc = object.build_id.ok_or_else(no_build_id)?;
    let stub = own_build_id().ok_or_else(no_build_id)?;
    let list = find_list(request, &libc)?;
    let mut installed = Installed::default();
    let chosen = choose(request, &list, &mut installed);
    if let Some(site) = chosen.iter().find(|site| !object.holds(site.start, site.window())) {
        return Err(PatchError::TextChanged { offset: site.start });
    }
    let near = near_address(&object);
    let mut room = vec![0; Builder::bytes_max(chosen.len())];
    let wanted = room.len();
    let no_room = || PatchError::NoRoomNear { wanted };
    let mut builder = Builder::new(near, &mut room, chosen.len(), &image_hooks(request), None);
    let routines = builder.routines(near);
    builder.end_routines();
    let patches: Vec<Patch> = chosen.iter().map(|site| builder.add(site, object.base)).collect();
    let (used, frames) =
        builder.finish().filter(|(used, _)| *used <= wanted).ok_or_else(no_room)?;
    let span = span_of(&object, &patches).ok_or_else(no_room)?;
    let header = Header {
        libc,
        stub,
        text: object.text,
        span: (span.start - object.base, span.end - span.start),
        base: object.base,
        windows: chosen.len(),
        frames: frames.len(),
        code: used.next_multiple_of(PAGE) - PAGE,
        patched: installed.patched,
        routines,
        left: installed.unpatchable,
    };
    let page = header.encode().ok_or_else(no_room)?;
    let mut whole = page;
    chosen.iter().for_each(|site| whole.extend(window_of(site)));
    whole.extend(frames);
    whole.resize(header.code_at().start, 0);
    whole.extend(room.get(PAGE..PAGE + header.code).ok_or_else(no_room)?);
    whole.extend(text_with(&span, &patches));
    let directory = path.parent().unwrap_or(path);
    let written = cache::write_whole(directory, path.to_owned(), &whole, Loss::IsFatal);
    written.map(drop).map_err(|source: CacheError| PatchError::NoList { build_id: libc, source })
}

fn window_of(site: &Site) -> [u8; WINDOW_BYTES] {
    let mut record = [0; WINDOW_BYTES];
    record[..4].copy_from_slice(&site.start.to_le_bytes());
    record[4..8].copy_from_slice(&u32::from(site.length).to_le_bytes());
    record[8..8 + site.window().len()].copy_from_slice(site.window());
    record
}

/// The pages that patches lie in, from the first to the last.
fn span_of(object: &Object, patches: &[Patch]) -> Option<Range<u64>> {
    let first = patches.iter().map(|patch| patch.address).min()?;
    let last = patches.iter().map(|patch| patch.address + JUMP_BYTES as u64).max()?;
    let span = first & !(PAGE_BYTES - 1)..last.next_multiple_of(PAGE_BYTES);
    let whole = object.text_addresses();
    let is_within = span.start >= whole.start & !(PAGE_BYTES - 1)
        && span.end <= whole.end.next_multiple_of(PAGE_BYTES);
    is_within.then_some(span)
}

/// This process's text there, with the jumps in it.
fn text_with(span: &Range<u64>, patches: &[Patch]) -> Vec<u8> {
    // SAFETY: pages of libc's text, which the dynamic linker has mapped readable and whole.
    let text =
        unsafe { slice::from_raw_parts(span.start as *const u8, (span.end - span.start) as usize) };
    let mut text = text.to_vec();
    for patch in patches {
        let at = (patch.address - span.start) as usize;
        text[at..at + JUMP_BYTES].copy_from_slice(&patch.bytes);
    }
    text
}
