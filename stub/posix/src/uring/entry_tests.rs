use super::*;

/// No memory at all.
struct Nothing;

impl Program for Nothing {
    fn fetch(&self, _: u64, _: &mut [u8]) -> bool {
        false
    }
    fn store(&self, _: u64, _: &[u8]) -> bool {
        false
    }
}

fn entry(what: u8, fd: i32) -> [u8; ENTRY_BYTES] {
    let mut bytes = [0; ENTRY_BYTES];
    bytes[0] = what;
    bytes[AT_FD..AT_FD + 4].copy_from_slice(&fd.to_le_bytes());
    bytes
}

#[test]
fn an_answered_entry_does_nothing_and_gives_the_answer() {
    let mut bytes = entry(kind::EPOLL_CTL, 9);
    bytes[AT_FLAGS] = 1 << 6;
    bytes[32..40].copy_from_slice(&77u64.to_le_bytes());
    assert!(rewrite(&mut bytes, Fate::Answered(Err(Errno(libc::EEXIST)))));
    assert_eq!((bytes[0], bytes[AT_FLAGS], long(&bytes, 32)), (kind::NOP, 1 << 6, 77));
    assert_eq!(word(&bytes, AT_LENGTH) as i32, -libc::EEXIST);
    assert_eq!(word(&bytes, AT_OWN_FLAGS), NOP_INJECT_RESULT);
    assert!(rewrite(&mut bytes, Fate::Answered(Ok(0))));
    assert_eq!((word(&bytes, AT_LENGTH), word(&bytes, AT_OWN_FLAGS)), (0, 0));
}

#[test]
fn an_entry_for_the_kernel_is_left_as_it_is() {
    let mut bytes = entry(kind::READ, 5);
    let before = bytes;
    assert_eq!(judge(&bytes, true, &Nothing), Fate::Kernels);
    assert!(!rewrite(&mut bytes, Fate::Kernels));
    assert_eq!(bytes, before);
}

#[test]
fn a_change_of_a_set_whose_event_is_not_there_is_the_kernels_to_refuse() {
    let mut bytes = entry(kind::EPOLL_CTL, 9);
    bytes[AT_LENGTH] = libc::EPOLL_CTL_ADD as u8;
    assert_eq!(judge(&bytes, true, &Nothing), Fate::Kernels);
}

#[test]
fn what_is_polled_before_it_is_connected_is_known_for_it() {
    table::set(4001, DescriptorKind::Unknown);
    judge(&entry(kind::POLL_ADD, 4001), true, &Nothing);
    assert_eq!(table::take(4001), DescriptorKind::Polled);
    let mut fixed = entry(kind::POLL_ADD, 4001);
    fixed[AT_FLAGS] = FLAG_FIXED_FILE;
    judge(&fixed, true, &Nothing);
    assert_eq!(table::kind(4001), DescriptorKind::Unknown);
}

#[test]
fn closing_by_an_entry_forgets_the_descriptor_unless_the_kernel_refuses_it() {
    process::adopt();
    table::set(4002, DescriptorKind::Polled);
    let mut refused = entry(kind::CLOSE, 4002);
    refused[AT_OFFSET] = 1;
    judge(&refused, true, &Nothing);
    assert_eq!(table::kind(4002), DescriptorKind::Polled);
    assert_eq!(judge(&entry(kind::CLOSE, 4002), true, &Nothing), Fate::Kernels);
    assert_eq!(table::kind(4002), DescriptorKind::Unknown);
}
