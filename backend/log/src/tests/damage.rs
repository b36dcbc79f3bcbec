//! Devices that fail and devices that lie: whatever is lost is reported, with its place.

use heliostat_backend_block::{BlockError, Device, Fault, FaultDevice, Faults};

use super::{area, id_of, memory, payload};
use crate::mutant::Mutant;
use crate::{Log, LogError, Options, Position};

const DATA_BYTES: u64 = 12 << 10;
const EIO: i32 = 5;

fn options() -> Options {
    Options { window_bytes: 4096, checkpoint_bytes: 3000, ..Options::default() }
}

fn faulty() -> (Log, Faults) {
    let faults = Faults::new(1);
    let device = FaultDevice::new(memory(area(DATA_BYTES), 512), faults.clone());
    (Log::create(Box::new(device), area(DATA_BYTES), options()).unwrap(), faults)
}

/// What was appended and acknowledged, and not trimmed.
type Kept = Vec<(u64, Position)>;

/// Appends entries of many lengths, and trims, so that the area goes round.
fn append_some(log: &Log, ids: std::ops::Range<u64>, kept: &mut Kept) {
    for id in ids {
        let length = [5, 60, 700, 450, 900][id as usize % 5];
        kept.push((id, log.append_sync(&payload(id, length)).unwrap()));
        if kept.len() > 8 {
            // A position whose entry was destroyed is refused, which reports it; the next one will do.
            let trimmed = (3..kept.len()).find(|at| log.trim(kept[*at].1).is_ok());
            kept.drain(..trimmed.unwrap_or(0));
        }
    }
}

/// Opens the device again; whether all is there, or the loss is reported. A loss that is not is
/// the error.
fn judge(device: Box<dyn Device>, kept: &Kept, mutant: Mutant) -> Result<&'static str, String> {
    let log = match Log::open_as(device, area(DATA_BYTES), options(), mutant) {
        Ok(log) => log,
        Err(LogError::Damaged { .. }) => return Ok("reported by the opening"),
        Err(error) => return Err(error.to_string()),
    };
    let mut ids = Vec::new();
    for entry in log.read() {
        match entry {
            Ok(entry) => ids.push(id_of(&entry.payload)),
            Err(LogError::Damaged { .. }) => return Ok("reported by a reader"),
            Err(error) => return Err(error.to_string()),
        }
    }
    let wanted: Vec<u64> = kept.iter().map(|(id, _)| *id).collect();
    match ids.ends_with(&wanted) {
        true => Ok("all there"),
        false => Err(format!("{ids:?} instead of {wanted:?}")),
    }
}

/// One lie at each operation in turn, then two more appends, and perhaps a clean end.
fn lie_everywhere(lie: Fault, closes: bool, mutant: Mutant) -> Result<Vec<&'static str>, String> {
    let mut outcomes = Vec::new();
    for number in 0..120 {
        let (log, faults) = faulty();
        let mut kept = Kept::new();
        faults.script(faults.begun() + number, lie);
        let mut next = 0;
        while faults.injected().is_empty() && next < 100 {
            append_some(&log, next..next + 1, &mut kept);
            next += 1;
        }
        append_some(&log, next..next + 2, &mut kept);
        if closes {
            log.close().unwrap();
        }
        let told = |error| format!("{lie:?} at {number}: {error}");
        let device = log.into_device().expect("no other handle");
        outcomes.push(judge(device, &kept, mutant).map_err(told)?);
    }
    Ok(outcomes)
}

fn lies() -> Vec<Fault> {
    let mut lies = vec![Fault::Lost, Fault::Torn { sectors: 1 }, Fault::Torn { sectors: 2 }];
    lies.extend([1, 2, 7, 30, 41].map(|sectors| Fault::Misdirected { sectors }));
    lies
}

#[test]
fn a_write_that_is_lost_torn_or_misdirected_is_reported_or_does_no_harm() {
    // A clean end leaves nothing for the opening to read.
    let crashed = ["reported by the opening", "reported by a reader", "all there"];
    for (closes, wanted) in [(false, &crashed[..]), (true, &crashed[1..])] {
        let outcomes: Vec<&str> = lies()
            .into_iter()
            .flat_map(|lie| lie_everywhere(lie, closes, Mutant::None).unwrap())
            .collect();
        assert!(wanted.iter().all(|outcome| outcomes.contains(outcome)), "closes: {closes}");
    }
}

#[test]
fn without_the_proof_behind_a_cut_the_same_test_finds_a_silent_loss() {
    let outcomes = lie_everywhere(Fault::Lost, false, Mutant::IgnoresEvidence);
    assert!(outcomes.is_err(), "{outcomes:?}");
}

#[test]
fn a_read_that_fails_or_lies_is_reported_and_the_next_one_reads_on() {
    let (log, faults) = faulty();
    let first = log.append_sync(&payload(1, 300)).unwrap();
    log.append_sync(&payload(2, 300)).unwrap();
    let mut reader = log.read();
    faults.script_next(Fault::Error { errno: EIO });
    let unreadable =
        LogError::Unreadable { offset: 16 << 10, error: BlockError::Device { errno: EIO } };
    assert_eq!(reader.read(), Err(unreadable));
    faults.script_next(Fault::Flipped { bit: 8 * 100 });
    let Err(LogError::Damaged { position, .. }) = reader.read() else {
        panic!("a flipped bit is damage");
    };
    assert_eq!(position, first);
    assert_eq!(reader.read().unwrap().unwrap().payload, payload(1, 300));
    log.append_sync(&payload(3, 10)).expect("reads do not stop a log");
    assert_eq!(log.read().count(), 3);
}

#[test]
fn an_opening_that_cannot_read_changes_nothing() {
    let (log, faults) = faulty();
    let mut kept = Kept::new();
    append_some(&log, 0..30, &mut kept);
    let mut device = log.into_device().expect("no other handle");
    for number in 0..4 {
        faults.script(faults.begun() + number, Fault::Error { errno: EIO });
        let shared = super::threads::Lent::new(device);
        let opened = Log::open(Box::new(shared.clone()), area(DATA_BYTES), options());
        assert!(matches!(opened.err(), Some(LogError::Unreadable { .. })), "{number}");
        device = shared.take();
    }
    assert_eq!(judge(device, &kept, Mutant::None), Ok("all there"));
}

#[test]
fn a_write_that_fails_stops_the_log_and_nothing_acknowledged_is_lost() {
    let faults =
        [Fault::Error { errno: EIO }, Fault::DoneError { errno: EIO }, Fault::Short { sectors: 1 }];
    for fault in faults {
        let mut failures = 0;
        for number in 0..40 {
            let (log, faults) = faulty();
            let mut kept = Kept::new();
            faults.script(faults.begun() + number, fault);
            let failed = (0..100).find_map(|id| match log.append_sync(&payload(id, 700)) {
                Ok(position) => {
                    kept.push((id, position));
                    let _ = log.trim(kept[kept.len().saturating_sub(4)].1);
                    None
                }
                Err(error) => Some(error),
            });
            // It may have met a read of a trim, which does not stop the log.
            if failed.is_none() {
                continue;
            }
            failures += 1;
            assert!(matches!(failed, Some(LogError::Failed(_))), "{failed:?}");
            assert_eq!(log.append_sync(b"again").err(), failed);
            assert_eq!(log.close().err(), failed);
            let device = log.into_device().expect("no other handle");
            let log = Log::open(device, area(DATA_BYTES), options()).unwrap();
            let ids: Vec<u64> = log.read().map(|it| id_of(&it.unwrap().payload)).collect();
            let newest = kept.last().map_or(0, |(id, _)| *id);
            let has_all = ids.is_empty() == kept.is_empty() || kept.is_empty();
            assert!(
                has_all && ids.iter().all(|id| *id <= newest + 1),
                "{fault:?} {number} {ids:?}"
            );
            assert!(kept.iter().rev().take(4).all(|(id, _)| ids.contains(id)), "{ids:?}");
        }
        assert!(failures > 10);
    }
}

#[test]
fn a_device_that_says_full_is_asked_again() {
    let (log, faults) = faulty();
    let mut kept = Kept::new();
    faults.set_odds(heliostat_backend_block::Odds { queue_full: 300_000, ..Default::default() });
    append_some(&log, 0..300, &mut kept);
    faults.set_odds(Default::default());
    let device = log.into_device().expect("no other handle");
    assert_eq!(judge(device, &kept, Mutant::None), Ok("all there"));
}
