//! Copies that go around the caches: what large memory is copied into its pool by.

/// Copies of at least a page go around the caches, where the target as a whole is too large for
/// its lines to be in a cache still: a plain store would first fetch the line that it replaces,
/// and push out what the program works on.
const STREAMED_PAGE: usize = 4096;
/// Such a target: more than a core's own caches hold. Into a smaller one a streamed copy of
/// 256 KiB takes nearly twice as long as a plain one, and the reader fetches it from memory.
pub(super) const LARGE_TARGET: usize = 16 << 20;

pub(super) fn goes_around(len: usize, target: usize) -> bool {
    len >= STREAMED_PAGE && target >= LARGE_TARGET
}

/// Bytes of a line of the cache, and of one streamed store's register.
const LINE: usize = 64;
#[cfg(target_arch = "x86_64")]
const LANE: usize = 16;

/// Copies with non-temporal stores, two pages side by side: the memory then works on two of its
/// rows at once, and the processor's read-ahead, which ends at a page's border, on two streams.
///
/// # Safety
/// `from` is readable and `into` writable for `len` bytes.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn stream(from: *const u8, into: *mut u8, len: usize) {
    let head = into.align_offset(LINE).min(len);
    let pairs = (len - head) / (2 * STREAMED_PAGE) * (2 * STREAMED_PAGE);
    let lines = (len - head - pairs) / LINE * LINE;
    let done = head + pairs + lines;
    // SAFETY: head + pairs + lines <= len, so every byte lies in both ranges, and `head` brings
    // `into` to a line's boundary. The fence makes the streamed bytes visible before whatever is
    // published after this copy.
    unsafe {
        std::ptr::copy(from, into, head);
        for pair in (head..head + pairs).step_by(2 * STREAMED_PAGE) {
            let page = |at| (from.add(at), into.add(at));
            stream_pages(page(pair), page(pair + STREAMED_PAGE));
        }
        for at in (head + pairs..done).step_by(LINE) {
            stream_line(from.add(at), into.add(at));
        }
        std::arch::x86_64::_mm_sfence();
        std::ptr::copy(from.add(done), into.add(done), len - done);
    }
}

/// # Safety
/// A line is readable at `from` and writable at `into`, which is aligned to one.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn stream_line(from: *const u8, into: *mut u8) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    let (source, target) = (from.cast::<__m128i>(), into.cast::<__m128i>());
    // SAFETY: four registers are a line; SSE2 belongs to x86-64.
    unsafe {
        let lanes: [__m128i; LINE / LANE] = std::array::from_fn(|i| _mm_loadu_si128(source.add(i)));
        for (i, lane) in lanes.into_iter().enumerate() {
            _mm_stream_si128(target.add(i), lane);
        }
    }
}

/// Copies whose pages are taken two at a time, wherever they lie. What is left over is copied, and
/// all of it made visible, when this is dropped.
pub(super) struct Pairs {
    /// A page that waits for another one: where from, where to.
    single: Option<(*const u8, *mut u8)>,
}

impl Pairs {
    pub(super) fn new() -> Self {
        Self { single: None }
    }

    /// Copies `len` bytes, a page of them perhaps only with the next call or at the end.
    ///
    /// # Safety
    /// `from` is readable and `into` writable for `len` bytes until this value is dropped.
    pub(super) unsafe fn copy(&mut self, from: *const u8, into: *mut u8, len: usize) {
        let pages = if into.align_offset(LINE) == 0 { len / STREAMED_PAGE } else { 0 };
        let done = pages * STREAMED_PAGE;
        for at in (0..done).step_by(STREAMED_PAGE) {
            // SAFETY: at + a page <= len. The page that waited is good still, as promised.
            unsafe {
                let page = (from.add(at), into.add(at));
                match self.single.take() {
                    Some(other) => stream_pages(other, page),
                    None => self.single = Some(page),
                }
            }
        }
        // SAFETY: done <= len; the rest lies in both ranges.
        unsafe { std::ptr::copy(from.add(done), into.add(done), len - done) };
    }
}

impl Drop for Pairs {
    fn drop(&mut self) {
        // SAFETY: the page is good until now, as promised to `copy`. The fence makes all streamed
        // bytes visible before whatever is published after this.
        unsafe {
            if let Some((from, into)) = self.single {
                stream(from, into, STREAMED_PAGE);
            }
            std::arch::x86_64::_mm_sfence();
        }
    }
}

/// Copies two pages side by side.
///
/// # Safety
/// A page is readable at the first of each and writable at the second, which is aligned to a line.
#[inline(always)]
unsafe fn stream_pages(one: (*const u8, *mut u8), other: (*const u8, *mut u8)) {
    for at in (0..STREAMED_PAGE).step_by(LINE) {
        // SAFETY: at + a line <= a page.
        unsafe {
            stream_line(one.0.add(at), one.1.add(at));
            stream_line(other.0.add(at), other.1.add(at));
        }
    }
}
