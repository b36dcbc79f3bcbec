//! `heliostat snapshot list`, with a producer in another process.

mod support;

use heliostat_backend_pages::live::LiveMemory;
use heliostat_client::session;
use heliostat_stub_snapshot::{publish_as, EngineKind, Region, Settings};
use support::*;

/// Not a test: the producer's part. Does nothing when run by itself.
#[test]
fn produce() {
    if std::env::var(ROLE).is_err() {
        return;
    }
    session::configure(std::env::var("HELIOSTAT_SOCKET").unwrap(), "test".into());
    let bytes: &[u8] = Box::leak(vec![7u8; 10_000].into_boxed_slice());
    // SAFETY: `bytes` are leaked, so they live as long as the region.
    let memory = unsafe { LiveMemory::new(bytes.as_ptr() as usize, bytes.len()) };
    let settings = Settings { engine: EngineKind::Whole, ..Settings::default() };
    let mut region = Region::new(memory, settings).unwrap();
    assert!(region.describe(b"{\"heliostat\":1}"));
    let mut region = publish_as("model/a", region).unwrap();
    println!("ready");
    for _ in std::io::stdin().lines() {
        println!("did {}", region.publish().unwrap().number);
    }
}

#[test]
fn a_region_is_listed_with_its_newest_version() {
    let Some(daemon) = TestDaemon::new() else { return };
    assert_eq!(daemon.said(&["list"]), "no region has a name now\n");
    let mut producer = daemon.producer("x");
    let row = || serde_json::from_str::<serde_json::Value>(&daemon.said(&["list", "--json"]));
    assert_eq!(row().unwrap()[0]["newest"], 0);
    producer.tell("publish");
    producer.tell("publish");
    let rows = row().unwrap();
    assert_eq!(rows[0]["name"], "model/a");
    assert_eq!(rows[0]["pid"], producer.pid());
    assert_eq!((&rows[0]["bytes"], &rows[0]["newest"]), (&10_000.into(), &2.into()));
    assert_eq!(rows[0]["description"], "{\"heliostat\":1}");
    assert!(rows[0]["age_ns"].as_u64().is_some());
    let table = daemon.said(&["list"]);
    assert!(table.contains("model/a") && table.contains("9.8 KiB"), "{table}");
    producer.kill();
    await_that("the name is gone", || daemon.said(&["list"]) == "no region has a name now\n");
}
