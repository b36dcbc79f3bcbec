//! What the fuzz target `load_page` does with an input: a worker's page, whose words change as they
//! please between what really happens to its connections.

use heliostat_abi::listener::page::WEIGHT_MAX;
use heliostat_service_listener::Load;

/// Bytes of one step: what happens, and the words of the page.
pub const STEP_BYTES: usize = 13;

/// Goes through a worker's life, a step for each 13 bytes. `open` is what is true.
pub fn exercise(input: &[u8]) {
    let mut load = Load::default();
    let (mut given, mut open) = (0u64, 0u64);
    for step in input.chunks_exact(STEP_BYTES) {
        let closed = u64::from_le_bytes(step[1..9].try_into().unwrap());
        let weight = u32::from_le_bytes(step[9..13].try_into().unwrap());
        match step[0] % 5 {
            0 => {
                load.give();
                (given, open) = (given + 1, open + 1);
            }
            1 if open > 0 => {
                load.take_back();
                (given, open) = (given - 1, open - 1);
            }
            2 => open = open.saturating_sub(1),
            3 => {
                let lies = load.lies();
                let has_closed = load.hear(closed, weight, u64::from(step[1] & 7));
                assert!(!has_closed || closed <= given, "more than it was given");
                assert!(load.lies() == lies || !load.is_believed(), "who lies is not believed");
            }
            _ => {
                load.audit(open, 0);
                assert!(load.is_believed() || load.connections() == open, "the kernel counts");
            }
        }
        assert_eq!(load.given(), given);
        assert!(load.connections() <= given, "{load:?}");
        assert!(load.value() <= given + u64::from(WEIGHT_MAX), "{load:?}");
    }
    honest_at_last(&mut load, open);
}

/// Whatever it said, one audit without a word in between has the true count.
fn honest_at_last(load: &mut Load, open: u64) {
    load.audit(open, 0);
    assert_eq!(load.connections(), open);
}
