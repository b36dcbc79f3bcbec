//! Operations on areas: what they do, in which places, and by which errors they are refused.

mod support;

use heliostat_abi::file::delegated::{OpKind, Operation, Way};
use heliostat_abi::store::AreaRights;
use heliostat_backend_block::{Geometry, Image, MemoryDevice};
use heliostat_server_store::{NoDevice, StoreOrder};
use support::{errno, id, operation, piece, session, Loop, BOTH, SECTOR};

/// A device whose bytes are all 0x55, aligned as disks are.
fn full_device(bytes: u64) -> MemoryDevice {
    let mut image = Image::new(bytes);
    image.fill(0, bytes, 0x55).unwrap();
    MemoryDevice::of(image)
}

#[test]
fn bytes_are_written_and_read_over_extents_and_pieces_of_the_window() {
    let mut on = Loop::new(MemoryDevice::new(1 << 20), 1);
    on.area(1, &[piece(65_536, 1024), piece(4096, 512), piece(131_072, 8192)]);
    let handle = on.open(0, 9, 1, BOTH);
    on.fill(0, 0, 4096, 3);
    on.fill(0, 8192, 2048, 4);
    let write = operation(OpKind::Write, handle, 512, &[(0, 1536), (8192, 2048)]);
    assert_eq!(on.run(0, &write), 3584);
    assert_eq!(on.run(0, &operation(OpKind::Fsync, handle, 0, &[])), 0);
    on.submit(0, &operation(OpKind::Read, handle, 0, &[(16_384, 512), (32_768, 4096)]));
    let done = on.next(0);
    assert_eq!((done.result, done.way, done.tag), (4608, Way::Direct, 7));
    let found = [on.window(0, 16_384, 512), on.window(0, 32_768, 4096)].concat();
    let wanted = [vec![0; 512], vec![3; 1536], vec![4; 2048], vec![0; 512]].concat();
    assert_eq!(found, wanted);
}

#[test]
fn memory_that_the_device_cannot_use_goes_by_a_bounce_buffer_in_as_many_parts_as_it_takes() {
    let strict =
        Geometry { bytes: 0, sector_bytes: 512, memory_alignment: 512, discard_zeroes: true };
    let mut on = Loop::new(MemoryDevice::new(4 << 20).with_geometry(strict), 1);
    on.area(1, &[piece(512, 3 << 20)]);
    let handle = on.open(0, 9, 1, BOTH);
    let bytes: Vec<u8> = (0..400_384u32).map(|at| (at % 251) as u8).collect();
    on.clients[0].window.copy_in(77, &bytes).unwrap();
    let write = operation(OpKind::WriteDurable, handle, 1024, &[(77, 400_384)]);
    assert_eq!(on.run(0, &write), 400_384);
    let read = operation(OpKind::Read, handle, 1024, &[(1_000_003, 400_384)]);
    assert_eq!(on.run(0, &read), 400_384);
    assert_eq!(on.window(0, 1_000_003, 400_384), bytes);
}

#[test]
fn a_handle_allows_what_it_says_to_its_session_alone() {
    let mut on = Loop::new(MemoryDevice::new(1 << 20), 2);
    on.area(1, &[piece(0, 65_536)]);
    let (reads, writes) = (on.open(0, 1, 1, AreaRights::READ), on.open(0, 2, 1, AreaRights::WRITE));
    let write = |handle| operation(OpKind::Write, handle, 0, &[(0, 512)]);
    let read = |handle| operation(OpKind::Read, handle, 0, &[(0, 512)]);
    let flush = |handle| operation(OpKind::Fsync, handle, 0, &[]);
    assert_eq!(on.run(0, &write(reads)), errno(libc::EACCES));
    assert_eq!(on.run(0, &flush(reads)), 0, "who reads may flush");
    assert_eq!(on.run(0, &read(writes)), errno(libc::EACCES));
    assert_eq!((on.run(0, &read(reads)), on.run(0, &write(writes))), (512, 512));
    assert_eq!(on.run(1, &read(reads)), errno(libc::EBADF));
    let older = heliostat_abi::name::ObjectId { generation: 2, ..reads };
    assert_eq!(on.run(0, &read(older)), errno(libc::EBADF));
}

#[test]
fn what_is_beyond_the_area_or_no_whole_sector_is_refused_and_changes_nothing() {
    let mut on = Loop::new(full_device(1 << 20), 1);
    on.area(1, &[piece(4096, 4096)]);
    let handle = on.open(0, 9, 1, BOTH);
    let ask = |kind, offset, bytes| operation(kind, handle, offset, &[(0, bytes)]);
    let beyond = errno(libc::ERANGE);
    for (offset, bytes) in [(4096, 512), (3584, 1024), (0, 8192), (1 << 62, 512)] {
        assert_eq!(on.run(0, &ask(OpKind::Read, offset, bytes)), beyond);
        assert_eq!(on.run(0, &ask(OpKind::Write, offset, bytes)), beyond);
        let argument = u64::from(bytes);
        for kind in [OpKind::Zero, OpKind::Discard] {
            let asked = Operation { argument, ..operation(kind, handle, offset, &[]) };
            assert_eq!(on.run(0, &asked), beyond);
        }
    }
    let most = i64::MAX as u64;
    let asked = Operation { argument: most, ..operation(OpKind::Zero, handle, 1 << 60, &[]) };
    assert_eq!(on.run(0, &asked), errno(libc::EINVAL));
    for (offset, bytes) in [(1, 512), (0, 511), (511, 1)] {
        assert_eq!(on.run(0, &ask(OpKind::Write, offset, bytes)), errno(libc::EINVAL));
    }
    let torn = operation(OpKind::Write, handle, 0, &[(0, 256), (512, 256)]);
    assert_eq!(on.run(0, &torn), errno(libc::EINVAL));
    assert_eq!(on.run(0, &ask(OpKind::Append, 0, 512)), errno(libc::EINVAL));
    let read = operation(OpKind::Read, handle, 0, &[(65_536, 4096)]);
    assert_eq!(on.run(0, &read), 4096);
    assert_eq!(on.window(0, 65_536, 4096), vec![0x55; 4096]);
}

#[test]
fn zeroed_and_discarded_bytes_read_as_zero_whatever_the_device_shows_of_discarded_ones() {
    let shows =
        Geometry { bytes: 0, sector_bytes: 512, memory_alignment: 1, discard_zeroes: false };
    let mut on = Loop::new(full_device(1 << 20).with_geometry(shows), 1);
    on.area(1, &[piece(8192, 1024), piece(0, 1024)]);
    let handle = on.open(0, 9, 1, BOTH);
    let change =
        |kind, offset, argument| Operation { argument, ..operation(kind, handle, offset, &[]) };
    assert_eq!(on.run(0, &change(OpKind::Zero, 512, 512)), 512);
    assert_eq!(on.run(0, &change(OpKind::Discard, 1024, 512)), 512);
    assert_eq!(on.run(0, &operation(OpKind::Read, handle, 0, &[(0, 2048)])), 2048);
    let wanted = [vec![0x55; 512], vec![0; 1024], vec![0x55; 512]].concat();
    assert_eq!(on.window(0, 0, 2048), wanted);
}

#[test]
fn an_area_that_grows_is_used_as_it_is_then() {
    let mut on = Loop::new(MemoryDevice::new(1 << 20), 1);
    on.area(1, &[piece(0, 4096)]);
    let handle = on.open(0, 9, 1, BOTH);
    let write = operation(OpKind::Write, handle, 4096, &[(0, 512)]);
    assert_eq!(on.run(0, &write), errno(libc::ERANGE));
    on.area(1, &[piece(0, 4096), piece(65_536, 4096)]);
    assert_eq!(on.run(0, &write), 512);
    on.order(StoreOrder::Bytes { area: id(1), bytes: 4096, is_asked: false });
    assert_eq!(on.run(0, &write), errno(libc::ERANGE));
}

#[test]
fn there_may_be_no_device_and_one_later() {
    let mut on = Loop::new(NoDevice, 1);
    on.area(1, &[piece(0, 4096)]);
    let handle = on.open(0, 9, 1, BOTH);
    let read = operation(OpKind::Read, handle, 0, &[(0, SECTOR as u32)]);
    assert_eq!(on.run(0, &read), errno(libc::ENODEV));
    on.order(StoreOrder::Device(Box::new(full_device(8192))));
    assert_eq!(on.run(0, &read), 512);
    assert_eq!(on.window(0, 0, 512), vec![0x55; 512]);
}

#[test]
fn a_handle_may_come_before_its_session() {
    let mut on = Loop::new(full_device(8192), 0);
    on.area(1, &[piece(0, 4096)]);
    let handle = id(5);
    let (session, area, rights) = (session(0), id(1), BOTH);
    on.order(StoreOrder::Open { session, handle, area, rights });
    on.begin_session();
    assert_eq!(on.run(0, &operation(OpKind::Read, handle, 0, &[(0, 512)])), 512);
}
