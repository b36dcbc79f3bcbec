//! A session that writes anything beside one that does not, and what must hold whatever it writes.

#![allow(dead_code)] // each test has its own part

#[path = "../support/mod.rs"]
pub mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use heliostat_abi::file::delegated::{OpKind, OPERATION_BYTES_MAX};
use heliostat_abi::store::AreaRights;
use heliostat_backend_block::{
    BeginError, BlockError, Completion, Device, Geometry, Image, MemoryDevice, Request,
};
use heliostat_server_store::StoreOrder;
use support::{id, operation, piece, Loop, BOTH, WINDOW_BYTES};

/// Reads bytes as what a hostile session does: records, and what happens between them.
///
/// ```text
/// 0 what u8: below 200 so many bytes of a record follow, of which 200 are at most taken
///   200.. sweeps, a handle given back, an area smaller, whole again, opened again
/// ```
pub fn exercise(input: &[u8]) {
    let (mut world, mut rest, mut records) = (World::new(), input, 0);
    while let Some((what, behind)) = rest.split_first() {
        rest = behind;
        match what {
            0..200 => {
                let length = usize::from(*what).min(rest.len());
                let (record, behind) = rest.split_at(length);
                rest = behind;
                world.on.submit_bytes(0, &record[..length.min(OPERATION_BYTES_MAX)]);
                records += 1;
                world.settle_if(records);
            }
            200..230 => world.on.sweep(1),
            230..240 => world.on.close(0, id(1)),
            240..248 => {
                let (area, bytes) = (id(1), u64::from(what - 240) * 2048);
                world.on.order(StoreOrder::Bytes { area, bytes, is_asked: true });
            }
            _ => world.grant(),
        }
        while world.on.event().is_some() {}
    }
    world.settle();
    world.check();
    world.other_is_served();
}

pub const DEVICE_BYTES: u64 = 1 << 20;
/// What others have on the device, and what the hostile session has in its areas at first.
pub const SECRET: u8 = 0xa7;
pub const OWN: u8 = 0x11;
/// Where the hostile session's areas lie: it writes the first, and only reads the second.
pub const WRITTEN: [(u64, u64); 2] = [(65_536, 8192), (16_384, 4096)];
pub const READ_ONLY: (u64, u64) = (262_144, 4096);
/// Where the area of somebody else lies.
pub const OTHERS: (u64, u64) = (524_288, 8192);

/// A memory device that lets others see what it has become.
struct Seen(MemoryDevice, Arc<Mutex<Image>>);

impl Device for Seen {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn depth(&self) -> usize {
        self.0.depth()
    }

    fn begin(&mut self, token: u64, request: Request) -> Result<(), BeginError> {
        self.0.begin(token, request)
    }

    fn reap(
        &mut self,
        wait: Option<Duration>,
        completions: &mut Vec<Completion>,
    ) -> Result<(), BlockError> {
        self.0.reap(wait, completions)?;
        *self.1.lock().unwrap() = self.0.image().clone();
        Ok(())
    }
}

/// A loop with a hostile session and another one.
pub struct World {
    pub on: Loop,
    image: Arc<Mutex<Image>>,
}

impl World {
    pub fn new() -> World {
        let mut image = Image::new(DEVICE_BYTES);
        image.fill(0, DEVICE_BYTES, SECRET).unwrap();
        for (offset, bytes) in WRITTEN.into_iter().chain([READ_ONLY]) {
            image.fill(offset, bytes, OWN).unwrap();
        }
        let seen = Arc::new(Mutex::new(image.clone()));
        let strict =
            Geometry { bytes: 0, sector_bytes: 512, memory_alignment: 512, discard_zeroes: false };
        let device = MemoryDevice::of(image).with_geometry(strict).in_random_order(9);
        let mut on = Loop::new(Seen(device, seen.clone()), 2);
        on.area(2, &[piece(READ_ONLY.0, READ_ONLY.1)]);
        on.area(3, &[piece(OTHERS.0, OTHERS.1)]);
        on.open(0, 2, 2, AreaRights::READ);
        on.open(1, 3, 3, BOTH);
        let mut world = World { on, image: seen };
        world.grant();
        world
    }

    /// The hostile session may write its area, which is whole.
    pub fn grant(&mut self) {
        self.on.area(1, &WRITTEN.map(|(offset, bytes)| piece(offset, bytes)));
        self.on.open(0, 1, 1, BOTH);
    }

    /// Nothing of the device has changed but what the hostile session may write, and it has seen no byte
    /// of anybody else.
    pub fn check(&self) {
        let mut bytes = vec![0; DEVICE_BYTES as usize];
        self.image.lock().unwrap().read(0, &mut bytes).unwrap();
        let lies_in = |at: u64, (offset, len): (u64, u64)| (offset..offset + len).contains(&at);
        for (at, byte) in bytes.iter().enumerate() {
            let at = at as u64;
            if WRITTEN.iter().any(|place| lies_in(at, *place)) {
                continue;
            }
            let wanted = if lies_in(at, READ_ONLY) { OWN } else { SECRET };
            assert_eq!(*byte, wanted, "byte {at} of the device");
        }
        assert!(!self.on.window(0, 0, WINDOW_BYTES).contains(&SECRET), "another's byte is seen");
    }

    /// Takes what completes until nothing does for a while.
    pub fn settle(&mut self) {
        for _ in 0..200 {
            self.on.sweep(1);
            while self.on.poll(0).is_some() {}
        }
    }

    /// The other session's operations are done as ever.
    pub fn other_is_served(&mut self) {
        let read = operation(OpKind::Read, id(3), 512, &[(0, 1024)]);
        assert_eq!(self.on.run(1, &read), 1024);
        assert_eq!(self.on.window(1, 0, 1024), vec![SECRET; 1024]);
    }

    /// Now and then: a ring takes no more than it has room for.
    pub fn settle_if(&mut self, count: usize) {
        if count % 32 == 0 {
            (0..40).for_each(|_| {
                self.on.sweep(1);
                while self.on.poll(0).is_some() {}
            });
        }
    }
}
