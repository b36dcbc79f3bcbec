//! Programs of each kind, made or found on every Linux machine.

use super::*;
use std::os::unix::fs::PermissionsExt;

fn file(name: &str, content: &[u8], mode: u32) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("heliostat-program-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

/// An ELF header with one program header, and the loader's name after it.
fn elf(machine: u16, loader: Option<&str>) -> Vec<u8> {
    let mut head = vec![0; 64 + 56];
    head[..6].copy_from_slice(b"\x7fELF\x02\x01");
    head[18..20].copy_from_slice(&machine.to_le_bytes());
    head[32] = 64;
    head[54] = 56;
    head[56] = 1;
    if let Some(loader) = loader {
        head[64] = PT_INTERP as u8;
        head[72] = 120;
        head[96] = loader.len() as u8 + 1;
        head.extend_from_slice(loader.as_bytes());
        head.push(0);
    }
    head
}

#[test]
fn an_ordinary_program_is_covered() {
    assert_eq!(judge(Path::new("/bin/sh")), Ok(()));
}

#[test]
fn each_kind_that_cannot_be_covered_says_which_it_is() {
    let loader = "/lib64/ld-linux-x86-64.so.2";
    let musl = "/lib/ld-musl-x86_64.so.1";
    assert_eq!(judge_elf(&elf(EM_X86_64, Some(loader))), Ok(()));
    assert_eq!(judge_elf(&elf(EM_X86_64, None)), Err(Uncovered::Static));
    assert_eq!(judge_elf(&elf(183, Some(loader))), Err(Uncovered::Machine));
    assert_eq!(judge_elf(&elf(EM_X86_64, Some(musl))), Err(Uncovered::Loader(musl.into())));
}

#[test]
fn a_go_program_is_known_by_its_note_also_behind_a_loader() {
    let mut head = elf(EM_X86_64, Some("/lib64/ld-linux-x86-64.so.2"));
    head.resize(4096, 0);
    head[56] = 2;
    let name = b"/lib64/ld-linux-x86-64.so.2\0";
    head[72..74].copy_from_slice(&400u16.to_le_bytes());
    head[400..400 + name.len()].copy_from_slice(name);
    let note = b"\x04\0\0\0\x04\0\0\0\x04\0\0\0Go\0\0abcd";
    head[120..176].fill(0);
    head[120] = PT_NOTE as u8;
    head[128..130].copy_from_slice(&600u16.to_le_bytes());
    head[152] = note.len() as u8;
    assert_eq!(judge_elf(&head), Ok(()));
    head[600..600 + note.len()].copy_from_slice(note);
    assert_eq!(judge_elf(&head), Err(Uncovered::OwnCalls));
}

#[test]
fn a_script_is_judged_by_its_interpreter() {
    let script = file("script", b"#! /bin/sh -e\nexit\n", 0o755);
    assert_eq!(judge(&script), Ok(()));
    let fixed = file("fixed", &elf(EM_X86_64, None), 0o755);
    let script = file("script2", format!("#!{}\n", fixed.display()).as_bytes(), 0o755);
    assert_eq!(judge(&script), Err(Uncovered::Static));
}

#[test]
fn a_damaged_header_is_no_reason_to_panic() {
    let whole = elf(EM_X86_64, Some("/lib64/ld-linux-x86-64.so.2"));
    for length in 0..whole.len() {
        let _ = judge_elf(&whole[..length]);
    }
    for at in 0..whole.len() {
        let mut broken = whole.clone();
        broken[at] = 0xff;
        let _ = judge_elf(&broken);
    }
}

#[test]
fn names_are_found_as_shells_find_them() {
    let path = OsStr::new("/nonexistent:/bin:/usr/bin");
    assert!(find(OsStr::new("sh"), path).is_ok());
    assert_eq!(find(OsStr::new("no-such-program"), path).unwrap_err().status(), 127);
    let plain = file("plain", b"x", 0o644);
    assert_eq!(find(plain.as_os_str(), path).unwrap_err().status(), 126);
    assert_eq!(find(OsStr::new("/no/such/file"), path).unwrap_err().status(), 127);
    let below_a_file = plain.join("program");
    assert_eq!(find(below_a_file.as_os_str(), path).unwrap_err().status(), 126);
}
