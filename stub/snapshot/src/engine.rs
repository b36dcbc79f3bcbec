//! How a producer learns what was written since the last version.
//!
//! Every engine names at least the bytes that changed; naming more costs copying and nothing else.
//!
//! | engine | knows | costs the writer | misses |
//! |---|---|---|---|
//! | tracked | pages, from the kernel | one short fault per page and version | DMA pinned before it began |
//! | declared | what the program says | nothing | what the program does not say |
//! | whole | nothing | nothing; each version copies everything | nothing |

use std::ops::Range;

use heliostat_backend_pages::track::TrackError;

/// Where writes are noted: bytes counted from the page in which the region begins.
pub type Note<'a> = &'a mut dyn FnMut(Range<usize>);

/// One way of knowing what was written.
pub trait Engine: Send {
    /// Its name, as people see it.
    fn name(&self) -> &'static str;

    /// Notes all that may have been written since the last call, and begins anew.
    fn collect(&mut self, note: Note<'_>) -> Result<(), TrackError>;

    /// The same ahead of a version: whatever is written from now on, the next call must name, so
    /// nothing may stay unwatched because it is copied whole anyway.
    fn collect_ahead(&mut self, note: Note<'_>) -> Result<(), TrackError> {
        self.collect(note)
    }

    /// False where the next call names everything whatever was copied ahead of it.
    fn gains_ahead(&self) -> bool {
        true
    }

    /// The program says that it, or a device, wrote these bytes of the region.
    fn declare(&mut self, bytes: Range<usize>);

    /// True when something was written since `collect`: a writer raced with the publishing. `None`
    /// when this engine cannot know, as of memory that it does not watch at the moment.
    fn has_raced(&mut self) -> Option<bool>;
}

/// Copies everything, always.
pub struct Whole {
    span: Range<usize>,
}

impl Whole {
    /// For a region that lies at `span`.
    pub fn new(span: Range<usize>) -> Self {
        Self { span }
    }
}

impl Engine for Whole {
    fn name(&self) -> &'static str {
        "whole"
    }

    fn collect(&mut self, note: Note<'_>) -> Result<(), TrackError> {
        note(self.span.clone());
        Ok(())
    }

    fn gains_ahead(&self) -> bool {
        false
    }

    fn declare(&mut self, _bytes: Range<usize>) {}

    fn has_raced(&mut self) -> Option<bool> {
        None
    }
}

/// Believes the program.
#[derive(Default)]
pub struct Declared {
    bytes: Vec<Range<usize>>,
}

/// Ranges kept apart; further ones are joined to the last, which then names too much.
const DECLARED_MAX: usize = 65_536;

impl Engine for Declared {
    fn name(&self) -> &'static str {
        "declared"
    }

    fn collect(&mut self, note: Note<'_>) -> Result<(), TrackError> {
        self.bytes.drain(..).for_each(note);
        Ok(())
    }

    fn declare(&mut self, bytes: Range<usize>) {
        let is_full = self.bytes.len() >= DECLARED_MAX;
        match self.bytes.last_mut() {
            Some(last) if is_full || last.end == bytes.start => {
                *last = last.start.min(bytes.start)..last.end.max(bytes.end);
            }
            _ => self.bytes.push(bytes),
        }
    }

    fn has_raced(&mut self) -> Option<bool> {
        None
    }
}
