//! Which way a read or write takes: the cache, the device, or the kernel's page cache.
//!
//! | file | operation | way |
//! |---|---|---|
//! | opened `DIRECT` | aligned | the device |
//! | opened `DIRECT` | not aligned | refused, as O_DIRECT does |
//! | under a lease | read, begins in the cache | the cache |
//! | opened `BUFFERED`, under a lease | read | the cache, filled first |
//! | opened `BUFFERED` | everything else | the kernel |
//! | under a lease | read below the threshold, or not aligned | the cache, filled first |
//! | under a lease, another session reads behind | read of the threshold and more | the cache, filled first |
//! | any | aligned read of the threshold and more, or behind a hole in the cache | the device |
//! | any | everything else | the kernel |
//!
//! The threshold is each device's own, by what was measured there (`verdict`), and is shifted by what
//! there is to do (`threshold`). Only a lease vouches that nobody changes the file, so only a file under a lease has blocks in the
//! cache; every other read is the kernel's own, with what writers have written.

use heliostat_abi::file::delegated::DIRECT_GRAIN;

use super::reason::WayReason;

/// Aligned reads of so many bytes go to the device where nothing was measured: they fill it by
/// themselves, and would push out of the cache what others come back to.
pub const DIRECT_FROM: u64 = 256 * 1024;
/// No threshold is less: a block of the cache is read no sooner by another way.
pub const DIRECT_FROM_MIN: u64 = 64 * 1024;
/// None is more, but for `NEVER`: what is larger pushes too much out of the cache.
pub const DIRECT_FROM_MAX: u64 = 4 << 20;
/// The threshold of a device whose own way never pays.
pub const NEVER: u64 = u64::MAX;

/// Reads past the caches under way by which a device counts as full: the queue of a disk of SATA, and
/// what the loops let it have of 1 MiB each. It is full until it has half of them.
pub const FULL_FROM: u64 = 32;
/// Percent of a loop's time by which its copies hold it up. They do until they take half as much.
pub const COPYING_FROM: u64 = 50;

/// What there is to do for who would serve a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// The device has as many reads past the caches as it can do at a time.
    pub is_device_full: bool,
    /// The loop spends most of its time with copies from the cache.
    pub is_copying: bool,
    /// The device is at another memory node than the window.
    pub is_far: bool,
}

/// Returns the threshold under a load: twice as much where the device is full, since a read more only
/// waits there, and what fills the cache may serve others; half as much where the loop copies most of
/// the time, since it need not copy what the device brings into the window. Both cancel out. What is
/// never is so under any load. Four times as much where the device is at another memory node than the
/// window: what it brings there crosses the link between the nodes, at a fraction of its rate (Solros,
/// section 4.3), and what the cache has others need not have brought again.
pub fn threshold(measured: u64, load: Load) -> u64 {
    if measured == NEVER {
        return NEVER;
    }
    let doubled = u32::from(load.is_device_full) + 2 * u32::from(load.is_far);
    let shifted = measured.saturating_mul(1 << doubled) >> u32::from(load.is_copying);
    // One that the configuration sets beyond the limits stays where it is without a load.
    shifted.clamp(DIRECT_FROM_MIN.min(measured), DIRECT_FROM_MAX.max(measured))
}

/// Says whether something is busy that counts as such from `from` on, and as idle again below half:
/// what lies between changes nothing.
pub fn is_busy(was: bool, now: u64, from: u64) -> bool {
    now >= from || was && now >= from / 2
}

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
    /// Bytes from which on reads go to the device.
    pub direct_from: u64,
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

/// Which way an operation takes, and why.
pub fn choose(q: Question) -> (Choice, WayReason) {
    let fits = q.is_aligned && !q.is_append && q.offset % DIRECT_GRAIN == 0;
    match q {
        Question { wants_direct: true, .. } if !fits => (Choice::Misaligned, WayReason::Misaligned),
        Question { wants_direct: true, .. } => (Choice::Direct, WayReason::Asked),
        Question { is_read: false, .. } => (Choice::Kernel, WayReason::Write),
        Question { is_leased: true, is_hit: true, .. } => (Choice::Cached, WayReason::Hit),
        Question { is_leased: true, is_followed: true, .. } => {
            (Choice::Cached, WayReason::Followed)
        }
        _ => match past_device(q, fits) {
            None => (Choice::Direct, WayReason::Large),
            Some(reason) if q.is_leased => (Choice::Cached, reason),
            Some(_) => (Choice::Kernel, WayReason::Unleased),
        },
    }
}

/// Why a read does not go to the device; none where it does.
fn past_device(q: Question, fits: bool) -> Option<WayReason> {
    match q {
        Question { wants_buffered: true, .. } => Some(WayReason::Buffered),
        _ if q.bytes < q.direct_from => Some(WayReason::Small),
        Question { has_direct: false, .. } => Some(WayReason::NoDevice),
        _ if !fits => Some(WayReason::Unaligned),
        _ => None,
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
        direct_from: DIRECT_FROM,
    };

    fn choose(q: Question) -> Choice {
        super::choose(q).0
    }

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

    #[test]
    fn each_choice_says_what_decided() {
        let why = |q| super::choose(q).1;
        assert_eq!(why(LARGE), WayReason::Large);
        let others = [
            (Question { is_hit: true, ..LARGE }, WayReason::Hit),
            (Question { is_followed: true, ..LARGE }, WayReason::Followed),
            (Question { direct_from: NEVER, ..LARGE }, WayReason::Small),
            (Question { has_direct: false, ..LARGE }, WayReason::NoDevice),
            (Question { offset: 1, ..LARGE }, WayReason::Unaligned),
            (Question { wants_buffered: true, ..LARGE }, WayReason::Buffered),
            (Question { bytes: 1, is_leased: false, ..LARGE }, WayReason::Unleased),
            (Question { is_read: false, ..LARGE }, WayReason::Write),
            (Question { wants_direct: true, ..LARGE }, WayReason::Asked),
            (Question { wants_direct: true, offset: 1, ..LARGE }, WayReason::Misaligned),
        ];
        assert!(others.iter().all(|(q, reason)| why(*q) == *reason));
    }

    #[test]
    fn a_load_moves_the_threshold_by_one_step_within_its_limits() {
        let full = Load { is_device_full: true, ..Load::default() };
        let copying = Load { is_copying: true, ..Load::default() };
        let both = Load { is_device_full: true, is_copying: true, is_far: false };
        let of =
            |measured| [Load::default(), full, copying, both].map(|it| threshold(measured, it));
        const K: u64 = 1024;
        assert_eq!(of(256 * K), [256 * K, 512 * K, 128 * K, 256 * K]);
        assert_eq!(of(DIRECT_FROM_MIN), [64 * K, 128 * K, 64 * K, 64 * K]);
        assert_eq!(of(DIRECT_FROM_MAX), [4096 * K, 4096 * K, 2048 * K, 4096 * K]);
        assert_eq!(of(NEVER), [NEVER; 4]);
        assert_eq!(of(4 * K), [4 * K, 8 * K, 4 * K, 4 * K], "as configured");
    }

    #[test]
    fn a_far_device_has_four_times_the_threshold() {
        let far = Load { is_far: true, ..Load::default() };
        let found = [DIRECT_FROM, DIRECT_FROM_MAX, NEVER].map(|measured| threshold(measured, far));
        assert_eq!(found, [4 * DIRECT_FROM, DIRECT_FROM_MAX, NEVER]);
        assert_eq!(threshold(DIRECT_FROM, Load { is_copying: true, ..far }), 2 * DIRECT_FROM);
    }

    #[test]
    fn what_is_busy_stays_so_until_it_has_half_as_much_to_do() {
        let loads = [31, 32, 31, 16, 15, 16, 31, 40];
        let mut was = false;
        let found = loads.map(|load| {
            was = is_busy(was, load, 32);
            was
        });
        assert_eq!(found, [false, true, true, true, false, false, false, true]);
    }
}
