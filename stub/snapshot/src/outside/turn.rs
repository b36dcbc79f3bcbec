//! One region's part in a stop that all regions share.

use crate::outcome::{PublishError, Published};
use crate::paused::Begun;
use crate::region::Region;

/// A region, and how far its next version has come.
pub(super) struct Turn<'a> {
    region: &'a mut Region,
    /// Where its version goes, found before the stop.
    pub(super) place: Result<usize, PublishError>,
    begun: Option<Result<Begun, PublishError>>,
}

impl<'a> Turn<'a> {
    /// Finds a place. Blocks for the region's patience at most.
    pub(super) fn new(region: &'a mut Region) -> Self {
        let place = region.prepare();
        Self { region, place, begun: None }
    }

    /// Copies what was written so far; bytes. What fails fails again when the version is begun.
    pub(super) fn copy_ahead(&mut self) -> usize {
        // A region that is copied whole anyway gains nothing by it.
        let gains = self.place.is_ok() && self.region.engine() != "whole";
        let copied = gains.then(|| self.region.copy_ahead(usize::MAX).ok()).flatten();
        copied.map_or(0, |it| it.bytes)
    }

    /// The program stands: copies what no slot has.
    pub(super) fn begin(&mut self) {
        self.begun = match &self.place {
            Ok(place) => Some(self.region.begin(*place)),
            Err(_) => None,
        };
    }

    /// Bytes that were copied while it stood.
    pub(super) fn copied_bytes(&self) -> usize {
        self.begun.iter().flatten().map(Begun::copied_bytes).sum()
    }

    /// The program runs: completes the version and publishes it.
    pub(super) fn finish(self) -> Result<Published, PublishError> {
        self.place?;
        match self.begun {
            Some(begun) => self.region.finish(begun?),
            None => Err(PublishError::Source(crate::source::SourceError::Gone)),
        }
    }
}
