//! Mappings against the real kernel: seals, foreign sizes, double views.

use std::sync::atomic::Ordering::Relaxed;

use super::*;

#[test]
fn two_mappings_of_one_descriptor_see_the_same_bytes() {
    let (fd, first) = SharedMapping::create(c"test", 8192).expect("created");
    let second = SharedMapping::from_fd(fd.as_raw_fd(), 8192, Access::ReadWrite).expect("mapped");
    first.copy_in(5000, b"heliostat").expect("in range");
    let mut back = [0; 9];
    second.copy_out(5000, &mut back).expect("in range");
    assert_eq!(&back, b"heliostat");
    second.atomic_u64(4096).store(7, Relaxed);
    assert_eq!(first.atomic_u64(4096).load(Relaxed), 7);
    first.zero(5000, 9).expect("in range");
    second.copy_out(5000, &mut back).expect("in range");
    assert_eq!(back, [0; 9]);
}

#[test]
fn a_double_mapping_continues_at_its_own_start() {
    let fd = SharedMapping::create_fd(c"test", 3 * 4096).expect("created");
    let twice = SharedMapping::double_mapped(fd.as_raw_fd(), 4096, 8192, Access::ReadWrite)
        .expect("mapped twice");
    assert_eq!(twice.len(), 2 * 8192);
    twice.copy_in(8190, b"wrap").expect("in range");
    let mut start = [0; 2];
    twice.copy_out(0, &mut start).expect("in range");
    assert_eq!(&start, b"ap");
}

#[test]
fn a_sealed_region_cannot_be_resized_by_anybody() {
    let (fd, _mapping) = SharedMapping::create(c"test", 4096).expect("created");
    for len in [0, 100, 8192] {
        let args = [fd.as_raw_fd() as usize, len, 0, 0, 0, 0];
        // SAFETY: ftruncate takes no pointer.
        let answer = check(unsafe { raw(Sysno::ftruncate as usize, args) });
        assert_eq!(answer, Err(Errno(libc::EPERM)));
    }
}

#[test]
fn an_unsealed_descriptor_is_refused() {
    let fd = sized_memfd(c"test", 4096).expect("created");
    let answer = SharedMapping::from_fd(fd.as_raw_fd(), 4096, Access::Read);
    assert!(matches!(answer, Err(MappingError::Unsealed { .. })), "{answer:?}");
}

#[test]
fn a_descriptor_without_seals_is_refused() {
    let null = std::fs::File::open("/proc/self/exe").expect("opens");
    let answer = SharedMapping::from_fd(null.as_raw_fd(), 4096, Access::Read);
    assert_eq!(answer.err(), Some(MappingError::Unsealed { found: -1 }));
}

/// Memory of huge pages, sealed as all memory is that may be mapped; `None` where there is no such.
fn huge(len: i64) -> Option<OwnedFd> {
    let fd = memfd(c"huge", libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | libc::MFD_HUGETLB);
    let fd = fd.inspect_err(|errno| println!("skipped: no huge pages here: {errno}")).ok()?;
    // SAFETY: ftruncate takes no pointer.
    assert_eq!(unsafe { libc::ftruncate(fd.as_raw_fd(), len) }, 0);
    seal(fd.as_raw_fd(), SEALS_SIZE).expect("sealed");
    Some(fd)
}

/// Mapped, it would be memory that is there or not as the machine has it: ENOMEM, or SIGBUS.
#[test]
fn memory_of_huge_pages_is_refused_for_what_it_is() {
    let Some(fd) = huge(2 << 20) else { return };
    assert_eq!(has_huge_pages(&fd), Ok(true));
    for access in [Access::Read, Access::ReadWrite] {
        let answer = SharedMapping::from_fd(fd.as_raw_fd(), 4096, access);
        assert_eq!(answer.err(), Some(MappingError::HugePages));
    }
    let (small, _mapping) = SharedMapping::create(c"test", 4096).expect("created");
    assert_eq!(has_huge_pages(&small), Ok(false));
}

#[test]
fn a_region_shorter_than_claimed_is_refused() {
    let (fd, _mapping) = SharedMapping::create(c"test", 4096).expect("created");
    let answer = SharedMapping::from_fd(fd.as_raw_fd(), 4097, Access::Read);
    assert_eq!(answer.err(), Some(MappingError::Short { wanted: 4097, found: 4096 }));
}

#[test]
fn only_the_creator_writes_where_future_writes_are_sealed() {
    let made = SharedMapping::create_for(c"test", 4096, Writers::CreatorOnly).expect("created");
    let (fd, creator) = made;
    let answer = SharedMapping::from_fd(fd.as_raw_fd(), 4096, Access::ReadWrite);
    assert!(matches!(answer, Err(MappingError::System { call: "mmap", errno: Errno(1) })));
    let reader = SharedMapping::from_fd(fd.as_raw_fd(), 4096, Access::Read).expect("readable");
    creator.atomic_u32(0).store(3, Relaxed);
    assert_eq!(reader.atomic_u32(0).load(Relaxed), 3);
    assert!(reader.copy_in(0, b"x").is_err());
}

#[test]
fn ranges_outside_the_mapping_are_refused() {
    let (_fd, mapping) = SharedMapping::create(c"test", 4096).expect("created");
    let mut one = [0; 1];
    assert!(mapping.copy_out(4096, &mut one).is_err());
    assert!(mapping.copy_out(usize::MAX, &mut one).is_err());
    assert!(mapping.zero(1, 4096).is_err());
    assert!(mapping.zero(0, 4096).is_ok());
}

#[test]
fn bytes_are_copied_from_place_to_place_and_never_outside() {
    let (_fd, mapping) = SharedMapping::create(c"test", 4096).expect("created");
    mapping.copy_in(10, b"abcd").expect("inside");
    mapping.copy_within(10, 12, 4).expect("inside");
    let mut found = [0; 6];
    mapping.copy_out(10, &mut found).expect("inside");
    assert_eq!(&found, b"ababcd");
    assert!(mapping.copy_within(0, 4095, 2).is_err());
    assert!(mapping.copy_within(4095, 0, 2).is_err());
}

#[test]
fn lengths_of_zero_and_beyond_the_limit_are_refused() {
    for len in [0, REGION_BYTES_MAX + 1] {
        let answer = SharedMapping::create(c"test", len);
        let limit = REGION_BYTES_MAX;
        assert_eq!(answer.err(), Some(MappingError::Length { wanted: len, limit }));
    }
}
