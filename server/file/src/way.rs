//! Which way a read or write takes: the cache, the device, or the kernel's page cache.
//!
//! | file | operation | way |
//! |---|---|---|
//! | opened `DIRECT` | aligned | the device |
//! | opened `DIRECT` | not aligned | refused, as O_DIRECT does |
//! | under a lease | read, begins in the cache | the cache |
//! | opened `BUFFERED`, under a lease | read | the cache, filled first |
//! | opened `BUFFERED` | everything else | the kernel |
//! | under a lease | read below `DIRECT_FROM`, or not aligned | the cache, filled first |
//! | under a lease, another session reads behind | read of `DIRECT_FROM` and more | the cache, filled first |
//! | any | aligned read of `DIRECT_FROM` and more, or behind a hole in the cache | the device |
//! | any | everything else | the kernel |
//!
//! Only a lease vouches that nobody changes the file, so only a file under a lease has blocks in the
//! cache; every other read is the kernel's own, with what writers have written.

use heliostat_abi::file::delegated::DIRECT_GRAIN;

/// Aligned reads of so many bytes go to the device: they fill it by themselves, and would push out
/// of the cache what others come back to.
pub const DIRECT_FROM: u64 = 256 * 1024;

/// What there is to know about an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Question {
    /// It reads.
    pub is_read: bool,
    /// It writes to wherever the file ends.
    pub is_append: bool,
    /// First byte in the file.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// All pieces begin and end at multiples of the grain, in the window.
    pub is_aligned: bool,
    /// The file was opened for it (`DIRECT`).
    pub wants_direct: bool,
    /// The file was opened never to be read past the caches (`BUFFERED`).
    pub wants_buffered: bool,
    /// The file can be opened for it.
    pub has_direct: bool,
    /// A lease says that nobody writes.
    pub is_leased: bool,
    /// Its first byte lies in the cache.
    pub is_hit: bool,
    /// Another session reads the same version behind this one, and comes to these bytes.
    pub is_followed: bool,
}

/// Where the bytes go by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// The cache, which is filled where it is not yet.
    Cached,
    /// The device itself.
    Direct,
    /// The kernel's page cache.
    Kernel,
    /// None: the asker opened the file for the device and is not aligned (EINVAL).
    Misaligned,
}

/// Which way an operation takes.
pub fn choose(q: Question) -> Choice {
    let fits = q.is_aligned && !q.is_append && q.offset % DIRECT_GRAIN == 0;
    match q {
        Question { wants_direct: true, .. } if !fits => Choice::Misaligned,
        Question { wants_direct: true, .. } => Choice::Direct,
        Question { is_read: false, .. } => Choice::Kernel,
        Question { is_leased: true, is_hit: true, .. } => Choice::Cached,
        Question { is_leased: true, is_followed: true, .. } => Choice::Cached,
        Question { wants_buffered: false, has_direct: true, .. }
            if fits && q.bytes >= DIRECT_FROM =>
        {
            Choice::Direct
        }
        Question { is_leased: true, .. } => Choice::Cached,
        _ => Choice::Kernel,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: Question = Question {
        is_read: true,
        is_append: false,
        offset: 0,
        bytes: DIRECT_FROM,
        is_aligned: true,
        wants_direct: false,
        wants_buffered: false,
        has_direct: true,
        is_leased: true,
        is_hit: false,
        is_followed: false,
    };

    #[test]
    fn large_aligned_reads_go_to_the_device_unless_they_are_in_the_cache() {
        assert_eq!(choose(LARGE), Choice::Direct);
        assert_eq!(choose(Question { is_hit: true, ..LARGE }), Choice::Cached);
        assert_eq!(choose(Question { bytes: DIRECT_FROM - 1, ..LARGE }), Choice::Cached);
        assert_eq!(choose(Question { offset: 512, ..LARGE }), Choice::Cached);
        assert_eq!(choose(Question { is_aligned: false, ..LARGE }), Choice::Cached);
        assert_eq!(choose(Question { has_direct: false, ..LARGE }), Choice::Cached);
    }

    #[test]
    fn what_another_session_comes_to_next_is_filled_for_both() {
        assert_eq!(choose(Question { is_followed: true, ..LARGE }), Choice::Cached);
        let changing = Question { is_followed: true, is_leased: false, ..LARGE };
        assert_eq!(choose(changing), Choice::Direct, "nothing of it may be kept");
        let direct = Question { is_followed: true, wants_direct: true, ..LARGE };
        assert_eq!(choose(direct), Choice::Direct);
    }

    #[test]
    fn without_a_lease_nothing_is_cached() {
        for is_hit in [false, true] {
            let q = Question { is_leased: false, is_hit, ..LARGE };
            assert_eq!(choose(Question { bytes: 4096, ..q }), Choice::Kernel);
            assert_eq!(choose(q), Choice::Direct);
            assert_eq!(choose(Question { is_read: false, ..q }), Choice::Kernel);
        }
    }

    #[test]
    fn who_wants_the_buffered_way_never_gets_the_device() {
        for (is_leased, chosen) in [(true, Choice::Cached), (false, Choice::Kernel)] {
            for is_hit in [false, true] {
                let q = Question { wants_buffered: true, is_leased, is_hit, ..LARGE };
                assert_eq!(choose(q), chosen);
                assert_eq!(choose(Question { bytes: 16 << 20, ..q }), chosen);
                assert_eq!(choose(Question { is_read: false, ..q }), Choice::Kernel);
            }
        }
    }

    #[test]
    fn who_wants_the_device_gets_it_or_a_no() {
        let q = Question { wants_direct: true, is_hit: true, bytes: 4096, ..LARGE };
        assert_eq!(choose(q), Choice::Direct);
        assert_eq!(choose(Question { is_read: false, ..q }), Choice::Direct);
        let wrong = [
            Question { is_aligned: false, ..q },
            Question { offset: 1, ..q },
            Question { is_read: false, is_append: true, ..q },
        ];
        assert!(wrong.into_iter().all(|q| choose(q) == Choice::Misaligned));
    }
}
