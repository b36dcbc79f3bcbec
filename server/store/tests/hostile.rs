//! Sessions that write anything: nothing outside their areas is written or shown, and others are served.

mod foreign;

use foreign::support::{self, operation, piece, Loop, BOTH, WINDOW_BYTES};
use foreign::{World, DEVICE_BYTES, OTHERS, READ_ONLY};
use heliostat_abi::file::delegated::{OpKind, Operation, OPERATION_BYTES_MAX};
use heliostat_backend_block::{Image, MemoryDevice, Random, RecordingDevice};

fn record_of(operation: &Operation) -> Vec<u8> {
    let mut record = [0; OPERATION_BYTES_MAX];
    let length = operation.encode(&mut record);
    record[..length].to_vec()
}

/// Numbers at which a check turns, of sizes and offsets here.
fn borders() -> Vec<u64> {
    let points = [
        0,
        512,
        4096,
        8192,
        12_288,
        16_384,
        65_536,
        READ_ONLY.0,
        OTHERS.0,
        DEVICE_BYTES,
        WINDOW_BYTES as u64,
        16 << 20,
        1 << 31,
        1 << 32,
        1 << 62,
        i64::MAX as u64,
        u64::MAX - 511,
        u64::MAX,
    ];
    let around = |at: u64| [at.wrapping_sub(512), at.wrapping_sub(1), at, at.wrapping_add(1)];
    points.into_iter().flat_map(around).collect()
}

#[test]
fn every_field_with_every_number_at_which_a_check_turns_changes_nothing_of_others() {
    let mut world = World::new();
    let kinds: Vec<u8> = (0..=255).collect();
    let good = operation(OpKind::Write, support::id(1), 0, &[(0, 512), (4096, 1024)]);
    let read = Operation { kind: OpKind::Read, ..good };
    let mut count = 0;
    // Fields: (first byte, bytes). Kind, flags, pieces, zero, timeout, handle, offset, argument, pieces.
    let wide = [(8, 8), (16, 8), (32, 8), (40, 8), (56, 8)];
    let narrow = [(4, 4), (8, 4), (12, 4), (48, 4), (52, 4), (64, 4), (68, 4)];
    for base in [record_of(&good), record_of(&read)] {
        for kind in &kinds {
            for at in [0, 1, 2, 3] {
                let mut record = base.clone();
                record[at] = *kind;
                assert!(world.on.submit_bytes(0, &record));
                count += 1;
                world.settle_if(count);
            }
        }
        for number in borders() {
            let fields = wide.iter().map(|field| (field, number.to_le_bytes().to_vec()));
            let small = (number as u32).to_le_bytes().to_vec();
            let fields: Vec<_> =
                fields.chain(narrow.iter().map(|field| (field, small.clone()))).collect();
            for ((at, bytes), value) in fields {
                let mut record = base.clone();
                record[*at..at + bytes].copy_from_slice(&value[..*bytes]);
                assert!(world.on.submit_bytes(0, &record));
                count += 1;
                world.settle_if(count);
            }
        }
    }
    world.settle();
    world.check();
    world.other_is_served();
}

/// Operations that may be some, of all kinds.
fn any(random: &mut Random) -> Operation {
    let kinds = [
        OpKind::Read,
        OpKind::Write,
        OpKind::WriteDurable,
        OpKind::Zero,
        OpKind::Discard,
        OpKind::Fsync,
        OpKind::Cancel,
        OpKind::Append,
    ];
    let kind = kinds[random.below(8) as usize];
    let sectors = |random: &mut Random, most| random.below(most) * 512;
    let mut pieces = Vec::new();
    for _ in 0..random.below(4) {
        let odd = [0, 0, 1, 77][random.below(4) as usize];
        let at = sectors(random, (WINDOW_BYTES / 512) as u64 - 64) + odd;
        pieces.push((at, sectors(random, 30) as u32 + 512 * u32::from(random.below(2) == 0)));
    }
    pieces.retain(|(_, bytes)| *bytes > 0);
    let offset = sectors(random, 30);
    let handle = support::id(random.below(5) as u32);
    let argument = match kind {
        OpKind::Zero | OpKind::Discard => sectors(random, 20) + 512,
        OpKind::Cancel => random.below(32),
        _ => 0,
    };
    let timeout_us = [0, 0, 1, 100][random.below(4) as usize];
    let tag = random.below(32);
    Operation { tag, timeout_us, argument, ..operation(kind, handle, offset, &pieces) }
}

#[test]
fn whatever_a_session_asks_it_reaches_its_own_areas_alone() {
    for seed in 0..8 {
        let (mut world, mut random) = (World::new(), Random::new(seed));
        for round in 0..2000u32 {
            world.on.submit(0, &any(&mut random));
            if random.below(3) == 0 {
                let at = random.below(WINDOW_BYTES as u64 - 64) as usize;
                world.on.fill(0, at, 64, random.below(100) as u8);
            }
            if round % 16 == 0 {
                world.on.sweep(random.below(8) as usize);
                while world.on.poll(0).is_some() {}
            }
            if round % 128 == 0 {
                world.settle();
            }
        }
        world.settle();
        world.check();
        world.other_is_served();
    }
}

#[test]
fn after_the_end_of_a_session_nothing_is_written_that_had_not_begun() {
    let image = Image::new(DEVICE_BYTES);
    let recording = RecordingDevice::new(MemoryDevice::of(image.clone()), image);
    let recorder = recording.recorder();
    let mut on = Loop::new(recording, 1);
    on.area(1, &[piece(0, 65_536)]);
    let handle = on.open(0, 1, 1, BOTH);
    for _ in 0..100 {
        on.submit(0, &operation(OpKind::Write, handle, 0, &[(0, 4096)]));
    }
    on.sweep(2);
    on.end_session(0);
    let begun = recorder.recording().operations();
    on.sweep(200);
    assert_eq!(recorder.recording().operations(), begun);
}
