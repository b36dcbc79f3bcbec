//! What the producers of these tests publish, and how each version looks.

use heliostat_backend_pages::live::LiveMemory;
use heliostat_client::session;
use heliostat_stub_snapshot::{publish_as, EngineKind, NamedRegion, Region, Settings};

use super::ROLE;

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Pages of the regions, less a part of the last.
pub const PAGES: usize = 1600;
/// Bytes of the regions: neither whole pages nor whole chunks.
pub const BYTES: usize = PAGES * PAGE - 100;
/// Bytes of the region of role "array".
pub const ARRAY_BYTES: usize = 96 * 16 * 8;

/// Version `number` of role "moving": a set of pages that moves and grows, most stay zero.
pub fn moving(number: u64) -> Vec<u8> {
    let mut bytes = vec![0; BYTES];
    (1..=number).for_each(|version| move_on(&mut bytes, version));
    bytes
}

fn move_on(bytes: &mut [u8], version: u64) {
    for step in 0..20 {
        let page = (version as usize * 37 + step * 3) % (bytes.len() / PAGE);
        let at = page * PAGE + step * 100;
        let text = (version * 1_000_003 + step as u64).to_le_bytes();
        bytes[at..at + 8].copy_from_slice(&text);
    }
    // What was written before becomes zero again.
    let page = (version as usize * 37) % (bytes.len() / PAGE);
    bytes[page * PAGE..(page + 1) * PAGE].fill(0);
}

/// Version `number` of role "stamps": every page, in full, tells its version.
fn stamp(bytes: &mut [u8], number: u64) {
    let words = bytes.chunks_mut(8).enumerate();
    words.for_each(|(at, word)| {
        let text = (number + (at as u64) * 0x9e37_79b9).to_le_bytes();
        word.copy_from_slice(&text[..word.len()]);
    });
}

/// The version that all of `bytes` are of.
pub fn stamped(bytes: &[u8]) -> u64 {
    let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    let mut wanted = vec![0; bytes.len()];
    stamp(&mut wanted, number);
    assert!(bytes == wanted, "a torn version");
    number
}

/// Plays a producer if the environment says so; "publish" makes a version, "run" never ends.
pub fn play() {
    let Ok(role) = std::env::var(ROLE) else { return };
    session::configure(std::env::var("HELIOSTAT_SOCKET").unwrap(), "test".into());
    let length = if role == "array" { ARRAY_BYTES } else { BYTES };
    let bytes: &mut [u8] = Box::leak(vec![0u8; length].into_boxed_slice());
    // SAFETY: `bytes` are leaked, so they live as long as the region.
    let memory = unsafe { LiveMemory::new(bytes.as_ptr() as usize, bytes.len()) };
    let settings = Settings { engine: EngineKind::Whole, ..Settings::default() };
    let mut region = Region::new(memory, settings).unwrap();
    assert!(region.describe(br#"{"heliostat":1,"typestr":"<f8","shape":[96,16]}"#));
    let mut region = publish_as("model/a", region).unwrap();
    println!("ready");
    let mut number = 0;
    for line in std::io::stdin().lines() {
        if line.unwrap() == "run" {
            number = publish(&role, bytes, number, &mut region);
            println!("did run");
            loop {
                number = publish(&role, bytes, number, &mut region);
            }
        }
        number = publish(&role, bytes, number, &mut region);
        println!("did {number}");
    }
}

fn publish(role: &str, bytes: &mut [u8], before: u64, region: &mut NamedRegion) -> u64 {
    match role {
        "stamps" => stamp(bytes, before + 1),
        _ => move_on(&mut bytes[..], before + 1),
    }
    region.publish().unwrap().number
}
