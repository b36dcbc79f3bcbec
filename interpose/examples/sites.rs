//! Lists the sites of libc, or of another file: `cargo run --example sites --features scan -- [path]`.

use heliostat_interpose::{libc_path, scan_file, scan_library, Scanned};
use std::path::PathBuf;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let libc = libc_path().ok_or("no libc in this process")?;
    let path = std::env::args_os().nth(1).map_or_else(|| libc.clone(), PathBuf::from);
    let begin = Instant::now();
    let list = if path == libc {
        scan_file(&path)?
    } else {
        match scan_library(&path)? {
            Scanned::Sites(list) => list,
            other => {
                println!("{}: {other:?}; {:?}", path.display(), begin.elapsed());
                return Ok(());
            }
        }
    };
    let took = begin.elapsed();
    for site in &list.sites {
        let number = site.number.map_or("?".into(), |n| n.to_string());
        let shape = match (site.refusal, site.keeps_syscall()) {
            (Some(reason), _) => reason.to_string(),
            (None, true) => "before".into(),
            (None, false) => format!("around, {} after", site.length - site.syscall_at - 2),
        };
        let xmm = if site.save_xmm { " xmm" } else { "" };
        let moved = if site.relocations[0].is_some() { " relocated" } else { "" };
        println!("{:#08x} {number:>4} {shape}{xmm}{moved}", site.syscall_offset());
    }
    let count =
        |test: fn(&&heliostat_interpose::Site) -> bool| list.sites.iter().filter(test).count();
    println!("{} of build-id {}", path.display(), list.build_id);
    println!(
        "{} sites: {} patchable ({} keep their syscall, {} save xmm), {} of unknown number; {:?}",
        list.sites.len(),
        count(|s| s.refusal.is_none()),
        count(|s| s.refusal.is_none() && s.keeps_syscall()),
        count(|s| s.refusal.is_none() && s.save_xmm),
        count(|s| s.number.is_none()),
        took
    );
    Ok(())
}
