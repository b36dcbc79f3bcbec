//! Replays the stored corpus of the fuzz target `site_list`, and its small mutations, without the
//! fuzzer; writes the corpus.

mod foreign;

use foreign::{exercise, mended};
use heliostat_interpose::cache::{self, CacheError};
use heliostat_interpose::format::{decode, encode, HEADER_BYTES, RECORD_BYTES};
use heliostat_interpose::site::{BuildId, Reason, Relocation, Site, SiteList, WINDOW_BYTES_MAX};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/interpose/corpus/site_list")
}

fn corpus() -> Vec<Vec<u8>> {
    let found = std::fs::read_dir(folder()).expect("the corpus is stored");
    let inputs: Vec<_> =
        found.map(|entry| std::fs::read(entry.unwrap().path()).expect("readable")).collect();
    assert!(inputs.len() >= 10, "{} inputs", inputs.len());
    inputs
}

#[test]
fn every_stored_list_and_every_change_of_a_byte_is_a_sound_list_or_none() {
    for input in corpus() {
        exercise(&input);
        (0..input.len()).for_each(|length| exercise(&input[..length]));
        for at in 0..input.len() {
            for value in [0, 1, 2, 5, 0x0f, 0x1f, 0x20, 0x21, 0x7f, 0x80, 0xff] {
                let mut changed = input.clone();
                changed[at] = value;
                exercise(&changed);
            }
        }
    }
}

#[test]
fn a_mended_list_is_what_the_writer_writes() {
    let file = encode(&list(vec![plain(0x1000)]));
    let mut damaged = file.clone();
    damaged[..24].fill(0xff);
    assert_eq!(mended(&damaged), Some(file));
}

/// What lies in the cache is believed exactly if its bytes are a list.
#[test]
fn a_cached_file_is_taken_or_refused_as_its_bytes_are() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.sites", std::process::id()));
    for input in corpus() {
        std::fs::write(&path, &input).expect("writable");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("ours");
        let wanted = decode(&input);
        let id = wanted.as_ref().map_or_else(|_| list(vec![]).build_id, |list| list.build_id);
        match (cache::load(&path, &id), wanted) {
            (Ok(found), Ok(wanted)) => assert_eq!(found, wanted),
            (Err(CacheError::Format { source, .. }), Err(wanted)) => assert_eq!(source, wanted),
            (found, wanted) => panic!("{found:?} where {wanted:?} was decoded"),
        }
    }
    std::fs::remove_file(&path).expect("there");
}

fn site(start: u32, window: &[u8], syscall_at: u8) -> Site {
    let mut original = [0; WINDOW_BYTES_MAX];
    original[..window.len()].copy_from_slice(window);
    let (length, relocations) = (window.len() as u8, [None; 2]);
    let (number, save_xmm, refusal) = (Some(1), false, None);
    Site { start, number, save_xmm, syscall_at, length, refusal, relocations, original }
}

/// mov eax,1; syscall
fn plain(start: u32) -> Site {
    site(start, &[0xb8, 1, 0, 0, 0, 0x0f, 0x05], 5)
}

/// lea rsi,[rip+..]; syscall; cmp dword [rip+..],0
fn moved(start: u32) -> Site {
    let lea = [0x48, 0x8d, 0x35, 1, 2, 3, 4];
    let compare = [0x83, 0x3d, 5, 6, 7, 8, 0];
    let mut site = site(start, &[lea.as_slice(), &[0x0f, 0x05], &compare].concat(), 7);
    site.relocations[0] = Some(Relocation { field_at: 3, insn_end: 7 });
    site.relocations[1] = Some(Relocation { field_at: 11, insn_end: 16 });
    (site.number, site.save_xmm) = (None, true);
    site
}

fn refused(start: u32, reason: Reason) -> Site {
    let mut site = site(start, &[0x0f, 0x05], 0);
    (site.refusal, site.number) = (Some(reason), Some(15));
    site
}

fn list(sites: Vec<Site>) -> SiteList {
    let build_id = BuildId::new(&[7; 20]).expect("20 bytes are a build-id");
    SiteList { build_id, text_start: 0x1000, text_bytes: 0x1000, sites }
}

/// Lists that are right.
fn right() -> Vec<(&'static str, SiteList)> {
    let reasons = [1, 2, 3, 4].map(|code| Reason::from_code(code).expect("known"));
    let refusals =
        reasons.iter().zip(0x1800..).map(|(why, at)| refused((at - 0x1800) * 2 + 0x1800, *why));
    let mut longest = plain(0x1fe0);
    (longest.length, longest.number) = (32, Some(1023));
    let far = SiteList { text_start: 0x7fff_f000 - 1, ..list(vec![]) };
    vec![
        ("empty", list(vec![])),
        ("plain", list(vec![plain(0x1000)])),
        ("moved", list(vec![moved(0x1100)])),
        ("refused", list(refusals.collect())),
        ("neighbours", list(vec![plain(0x1000), plain(0x1007), moved(0x100e), plain(0x101e)])),
        ("longest_at_the_end", list(vec![longest])),
        ("text_at_the_limit", far),
        ("long_build_id", SiteList { build_id: BuildId::new(&[9; 32]).unwrap(), ..list(vec![]) }),
        ("many", list((0..80).map(|n| plain(0x1000 + n * 7)).collect())),
    ]
}

/// Lists with one thing wrong, under a right check word.
fn wrong() -> Vec<(&'static str, SiteList)> {
    let with = |change: fn(&mut SiteList)| {
        let mut list = list(vec![plain(0x1000), moved(0x1100)]);
        change(&mut list);
        list
    };
    vec![
        ("wrong_order", with(|l| l.sites.swap(0, 1))),
        ("wrong_overlap", with(|l| l.sites[1].start = 0x1006)),
        ("wrong_before_text", with(|l| l.text_start = 0x1001)),
        ("wrong_behind_text", with(|l| l.text_bytes = 0x10f)),
        ("wrong_text_overflows", with(|l| l.text_bytes = u64::MAX)),
        ("wrong_start_overflows", with(|l| l.sites[1].start = u32::MAX)),
        ("wrong_length", with(|l| l.sites[0].length = 33)),
        ("wrong_no_room", with(|l| l.sites[0].length = 4)),
        ("wrong_syscall_at", with(|l| l.sites[0].syscall_at = 255)),
        ("wrong_number", with(|l| l.sites[0].number = Some(1024))),
        ("wrong_forbidden", with(|l| l.sites[0].number = Some(435))),
        ("wrong_padding", with(|l| l.sites[0].original[31] = 1)),
        ("wrong_relocation", with(|l| l.sites[1].relocations[1] = l.sites[1].relocations[0])),
        (
            "wrong_relocation_far",
            with(|l| {
                l.sites[1].relocations[1] = Some(Relocation { field_at: 255, insn_end: 255 });
            }),
        ),
    ]
}

/// Run by hand when the format changes:
/// `cargo test -p heliostat-interpose --test foreign_corpus -- --ignored`.
#[test]
#[ignore = "writes the stored corpus anew; by hand, when a format changes"]
fn write_seeds() {
    std::fs::create_dir_all(folder()).expect("writable");
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder().join(name), bytes).unwrap();
    right().iter().for_each(|(name, list)| assert!(decode(&encode(list)).is_ok(), "{name}"));
    wrong().iter().for_each(|(name, list)| assert!(decode(&encode(list)).is_err(), "{name}"));
    right().iter().chain(&wrong()).for_each(|(name, list)| write(name, &encode(list)));
    let file = encode(&list(vec![plain(0x1000), moved(0x1100)]));
    write("cut_in_header", &file[..HEADER_BYTES - 1]);
    write("cut_in_record", &file[..HEADER_BYTES + RECORD_BYTES + 47]);
    write("overlong", &[file.as_slice(), &[0; 48]].concat());
    write("count_of_billions", &[&file[..12], &[0xff; 4], &file[16..]].concat());
    write("other_version", &[&file[..8], &2u32.to_le_bytes(), &file[12..]].concat());
}
