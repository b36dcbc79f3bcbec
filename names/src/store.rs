//! `/store`: areas of durable storage. One of bytes is a file; a log or a queue is a folder.
//!
//! ```text
//! raw        the area's bytes, like a disk
//! log        records: a line of JSON for each entry     data: the payloads, one behind the other
//! ```
//! Nobody need have an area open for it to be read here: the control plane's server loops drive the
//! device. No handle is held but by open files, so that who owns an area may change and end it.

mod raw;
mod records;
mod shape;
mod view;

use std::sync::Arc;

use heliostat_stub_store::{AreaKind, ListedArea, Store};

use crate::listed::Lister;
use crate::renewed::Renewed;
use crate::{Found, NameFault};
use raw::AreaFile;
use records::LogFile;
use shape::Shape;
use view::Views;

/// The files of a log.
const PARTS: &[&str] = &["data", "records"];

/// The store of the session that stands.
type Stores = Arc<Renewed<Store>>;

#[derive(Default)]
pub(crate) struct AreaNames {
    stores: Stores,
    writers: raw::Writers,
    views: Views,
}

impl Lister for AreaNames {
    type Thing = ListedArea;

    fn ask(
        &self,
        user: u32,
        beginning: &str,
    ) -> Result<Vec<((u32, String), ListedArea)>, NameFault> {
        let areas = match self.stores.current(Store::connect)?.list_of(user, beginning) {
            Err(error) if is_no_store(&error) => Vec::new(),
            areas => areas?,
        };
        let named = |area: ListedArea| ((area.user, area.name.as_str().to_owned()), area);
        Ok(areas.into_iter().map(named).collect())
    }

    fn found(&self, own: u32, area: &ListedArea) -> Result<Found, NameFault> {
        Ok(Found::File(Arc::new(AreaFile::new(
            self.stores.clone(),
            self.writers.clone(),
            area.clone(),
            own,
        ))))
    }

    fn parts(&self, area: &ListedArea) -> &'static [&'static str] {
        match area.kind {
            AreaKind::Raw => &[],
            AreaKind::Log | AreaKind::Queue => PARTS,
        }
    }

    fn part(&self, area: &ListedArea, part: &str) -> Result<Found, NameFault> {
        let shape = if part == PARTS[0] { Shape::Data } else { Shape::Records };
        let view = self.views.of(&self.stores, area)?;
        Ok(Found::File(Arc::new(LogFile::new(self.stores.clone(), area.clone(), view, shape))))
    }
}

/// A control plane without a store has no areas.
fn is_no_store(error: &heliostat_stub_store::StoreError) -> bool {
    use heliostat_stub_store::{StoreError, Why};
    matches!(error, StoreError::NotDone(not_done) if not_done.why == Why::NoStore)
}
