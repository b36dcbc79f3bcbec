//! Site lists: what is written is read back, and whatever is not a list is refused.

use heliostat_interpose::format::{decode, encode, FormatError, HEADER_BYTES, RECORD_BYTES};
use heliostat_interpose::site::{BuildId, Reason, Relocation, Site, SiteList, WINDOW_BYTES_MAX};
use proptest::prelude::*;

fn site(start: u32) -> Site {
    let mut original = [0; WINDOW_BYTES_MAX];
    original[..7].copy_from_slice(&[0xb8, 1, 0, 0, 0, 0x0f, 0x05]);
    Site {
        start,
        number: Some(1),
        save_xmm: false,
        syscall_at: 5,
        length: 7,
        refusal: None,
        relocations: [None; 2],
        original,
    }
}

fn list() -> SiteList {
    let mut moved = site(0x1100);
    moved.original[..9].copy_from_slice(&[0x48, 0x8d, 0x35, 1, 2, 3, 4, 0x0f, 0x05]);
    (moved.syscall_at, moved.length, moved.save_xmm, moved.number) = (7, 9, true, None);
    moved.relocations[0] = Some(Relocation { field_at: 3, insn_end: 7 });
    let mut refused = site(0x1200);
    (refused.refusal, refused.number) = (Some(Reason::Forbidden), Some(58));
    SiteList {
        build_id: BuildId::new(&[7; 20]).expect("20 bytes are a build-id"),
        text_start: 0x1000,
        text_bytes: 0x1000,
        sites: vec![site(0x1000), moved, refused],
    }
}

/// Refused, and for which field of which record.
fn refusal_after(change: impl Fn(&mut SiteList)) -> Result<SiteList, FormatError> {
    let mut changed = list();
    change(&mut changed);
    decode(&encode(&changed))
}

#[test]
fn a_list_is_read_back_as_written() {
    assert_eq!(decode(&encode(&list())), Ok(list()));
}

#[test]
fn every_change_of_one_byte_is_refused() {
    let file = encode(&list());
    for at in 0..file.len() {
        for flip in 1..=255_u8 {
            let mut damaged = file.clone();
            damaged[at] ^= flip;
            assert!(decode(&damaged).is_err(), "byte {at} changed by {flip:#x} was accepted");
        }
    }
}

#[test]
fn every_shorter_or_longer_file_is_refused() {
    let file = encode(&list());
    for length in 0..file.len() {
        assert!(decode(&file[..length]).is_err(), "{length} bytes were accepted");
    }
    for extra in [1, 7, 8, RECORD_BYTES, HEADER_BYTES] {
        let longer = [file.as_slice(), &vec![0; extra]].concat();
        assert!(decode(&longer).is_err(), "{extra} bytes more were accepted");
    }
}

#[test]
fn each_invalid_field_is_named() {
    type Change = fn(&mut Site);
    let changes: [(&str, Change); 13] = [
        ("number", |s| s.number = Some(1024)),
        ("length", |s| (s.length, s.relocations) = (4, [None; 2])),
        ("length", |s| s.length = 33),
        ("syscall_at", |s| s.syscall_at = 4),
        ("syscall_at", |s| s.syscall_at = 6),
        ("syscall_at", |s| s.syscall_at = 255),
        ("original", |s| s.original[20] = 1),
        ("start", |s| s.start = 0x1003),
        ("start", |s| s.start = 0),
        ("refusal", |s| s.number = Some(15)),
        ("relocations", |s| s.relocations[0] = Some(Relocation { field_at: 4, insn_end: 7 })),
        ("relocations", |s| s.relocations[0] = Some(Relocation { field_at: 0, insn_end: 7 })),
        ("relocations", |s| s.relocations[0] = Some(Relocation { field_at: 200, insn_end: 204 })),
    ];
    for (field, change) in changes {
        let refused = refusal_after(|list| change(&mut list.sites[1]));
        assert_eq!(refused, Err(FormatError::Record { index: 1, field }), "{field}");
    }
}

#[test]
fn a_site_outside_the_text_is_refused() {
    let refused = refusal_after(|list| list.text_bytes = 0x203);
    assert_eq!(refused, Err(FormatError::Record { index: 2, field: "length" }));
}

#[test]
fn text_that_a_displacement_cannot_span_is_refused() {
    let refused = refusal_after(|list| list.text_bytes = 1 << 31);
    assert_eq!(refused, Err(FormatError::Header { offset: 32 }));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(file in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(decode(&file).is_err());
    }

    #[test]
    fn arbitrary_records_with_a_right_check_word_never_panic(
        start in any::<u32>(), number in any::<Option<u32>>(), length in any::<u8>(),
        syscall_at in any::<u8>(), original in any::<[u8; 32]>(), field_at in any::<u8>(),
        insn_end in any::<u8>(), text_start in any::<u64>(), text_bytes in any::<u64>(),
    ) {
        let site = Site {
            start, number, length, syscall_at, original, save_xmm: true, refusal: None,
            relocations: [Some(Relocation { field_at, insn_end }), None],
        };
        let build_id = list().build_id;
        let foreign = SiteList { build_id, text_start, text_bytes, sites: vec![site] };
        if let Ok(accepted) = decode(&encode(&foreign)) {
            prop_assert!(accepted.sites.iter().all(|s| s.window().len() == s.length as usize));
        }
    }
}
