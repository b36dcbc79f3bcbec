//! What the fuzz target and the replay test do with one input: any bytes in the place of a list.
//!
//! An input is judged twice: as it is, and with what hides the rest of the checks put right, that
//! is mark, version, count and check word. A list that is accepted must keep every rule that the
//! patcher relies on; the rules are written down here a second time, from the format's description.

use heliostat_interpose::format::{decode, encode, HEADER_BYTES, MAGIC, RECORD_BYTES, VERSION};
use heliostat_interpose::site::{
    number, Relocation, Site, SiteList, JUMP_BYTES, NUMBER_MAX, SITES_MAX, SYSCALL_BYTES,
    WINDOW_BYTES_MAX,
};

pub fn exercise(input: &[u8]) {
    judge(input);
    if let Some(mended) = mended(input) {
        judge(&mended);
    }
}

/// The input with a header that leads to its records; `None` when it is shorter than a header.
pub fn mended(input: &[u8]) -> Option<Vec<u8>> {
    let count = input.len().checked_sub(HEADER_BYTES)? / RECORD_BYTES;
    let count = count.min(SITES_MAX);
    let mut file = input[..HEADER_BYTES + count * RECORD_BYTES].to_vec();
    file[..8].copy_from_slice(&MAGIC);
    file[8..12].copy_from_slice(&VERSION.to_le_bytes());
    file[12..16].copy_from_slice(&(count as u32).to_le_bytes());
    let check = check_word(&file);
    file[16..24].copy_from_slice(&check.to_le_bytes());
    Some(file)
}

/// As interpose/README.md has it.
fn check_word(file: &[u8]) -> u64 {
    let step =
        |state: u64, word: u64| (state ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let words = file.chunks_exact(8).enumerate().map(|(index, chunk)| match index {
        2 => 0,
        _ => u64::from_le_bytes(chunk.try_into().expect("eight bytes")),
    });
    step(words.fold(0x4845_4c49_4f53_4954, step), file.len() as u64)
}

fn judge(file: &[u8]) {
    match decode(file) {
        Ok(list) => {
            assert_eq!(encode(&list), file, "a list has one form");
            check_order(&list);
            list.sites.iter().for_each(check_site);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn check_order(list: &SiteList) {
    let text_end = list.text_start + list.text_bytes;
    assert!(list.text_bytes > 0 && text_end < 1 << 31, "text ends at {text_end:#x}");
    assert!(list.sites.len() <= SITES_MAX && !list.build_id.as_bytes().is_empty());
    let mut free_from = list.text_start;
    for site in &list.sites {
        assert!(u64::from(site.start) >= free_from, "{site:?} before {free_from:#x}");
        free_from = u64::from(site.start) + u64::from(site.length);
        assert!(free_from <= text_end, "{site:?} ends behind {text_end:#x}");
    }
}

fn check_site(site: &Site) {
    let (length, at) = (usize::from(site.length), usize::from(site.syscall_at));
    assert!(length <= WINDOW_BYTES_MAX && site.window().len() == length, "{site:?}");
    assert_eq!(site.window()[at..at + SYSCALL_BYTES], [0x0f, 0x05], "{site:?}");
    assert!(site.original[length..].iter().all(|byte| *byte == 0), "{site:?}");
    assert!(site.number.is_none_or(|known| known <= NUMBER_MAX), "{site:?}");
    assert_eq!(site.syscall_offset() - site.start, u32::from(site.syscall_at));
    if site.refusal.is_none() {
        let never = [number::RT_SIGRETURN, number::VFORK, number::CLONE3];
        assert!(length >= JUMP_BYTES, "no room for a jump in {site:?}");
        assert!(site.number.is_none_or(|known| !never.contains(&known)), "{site:?}");
    }
    check_relocations(site);
}

/// Displacements lie inside instructions of the window, one behind the other, beside `syscall`.
fn check_relocations(site: &Site) {
    let mut free_from = 0;
    for Relocation { field_at, insn_end } in site.relocations.into_iter().flatten() {
        assert!(field_at > free_from && insn_end >= field_at + 4, "{site:?}");
        assert!(insn_end <= site.length, "{site:?}");
        let is_before = insn_end <= site.syscall_at;
        assert!(is_before || usize::from(field_at) >= usize::from(site.syscall_at) + 2, "{site:?}");
        free_from = insn_end;
    }
}
