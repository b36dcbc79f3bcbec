//! The bytes of a device in memory: sparse, and cheap to copy.
//!
//! Copies share their pages until one of them is written, so that thousands of crash states of one
//! recording cost little more than what differs between them.

use std::sync::Arc;

use crate::BeginError;

const PAGE_BYTES: usize = 4096;

type Page = [u8; PAGE_BYTES];

/// Bytes from 0 on, zero where nothing was written. Clones are independent of each other.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    pages: Vec<Option<Arc<Page>>>,
    bytes: u64,
}

impl Image {
    /// So many zeroes.
    pub fn new(bytes: u64) -> Image {
        let pages = usize::try_from(bytes.div_ceil(PAGE_BYTES as u64)).unwrap_or(usize::MAX);
        Image { pages: vec![None; pages], bytes }
    }

    /// Number of bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Copies bytes out.
    ///
    /// # Errors
    /// They do not all lie in the image; nothing is copied.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BeginError> {
        self.check(offset, into.len())?;
        for (at, place) in places(offset, into.len()) {
            let (start, end) = (place.start, place.start + at.len());
            match self.pages.get(place.page) {
                Some(Some(page)) => into[at].copy_from_slice(&page[start..end]),
                _ => into[at].fill(0),
            }
        }
        Ok(())
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// They do not all lie in the image; nothing is changed.
    pub fn write(&mut self, offset: u64, from: &[u8]) -> Result<(), BeginError> {
        self.check(offset, from.len())?;
        for (at, place) in places(offset, from.len()) {
            let (start, end) = (place.start, place.start + at.len());
            if let Some(page) = self.pages.get_mut(place.page) {
                let page = page.get_or_insert_with(|| Arc::new([0; PAGE_BYTES]));
                Arc::make_mut(page)[start..end].copy_from_slice(&from[at]);
            }
        }
        Ok(())
    }

    /// Sets bytes to a value; whole pages of zeroes take no memory afterwards.
    ///
    /// # Errors
    /// They do not all lie in the image; nothing is changed.
    pub fn fill(&mut self, offset: u64, bytes: u64, value: u8) -> Result<(), BeginError> {
        let len = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.check(offset, len)?;
        for (at, place) in places(offset, len) {
            let Some(page) = self.pages.get_mut(place.page) else { continue };
            if value == 0 && (page.is_none() || at.len() == PAGE_BYTES) {
                *page = None;
                continue;
            }
            let page = page.get_or_insert_with(|| Arc::new([0; PAGE_BYTES]));
            Arc::make_mut(page)[place.start..place.start + at.len()].fill(value);
        }
        Ok(())
    }

    fn check(&self, offset: u64, len: usize) -> Result<(), BeginError> {
        match offset.checked_add(len as u64) {
            Some(end) if end <= self.bytes => Ok(()),
            _ => Err(BeginError::OutOfRange { offset, bytes: len as u64, limit: self.bytes }),
        }
    }
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let written = self.pages.iter().flatten().count();
        write!(f, "Image {{ bytes: {}, pages written: {written} }}", self.bytes)
    }
}

/// Where in a page bytes lie.
struct Place {
    page: usize,
    start: usize,
}

/// The bytes of a range that was checked, page by page: which of them, and where they lie.
fn places(offset: u64, len: usize) -> impl Iterator<Item = (std::ops::Range<usize>, Place)> {
    let offset = offset as usize;
    let mut done = 0;
    std::iter::from_fn(move || {
        let (page, start) = ((offset + done) / PAGE_BYTES, (offset + done) % PAGE_BYTES);
        let next = (PAGE_BYTES - start).min(len - done);
        let from = done;
        done += next;
        (next > 0).then_some((from..done, Place { page, start }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_across_pages_come_back_and_a_copy_keeps_its_own() {
        let mut image = Image::new(3 * 4096 + 512);
        let before = image.clone();
        let bytes: Vec<u8> = (0..5000).map(|at| (at % 251) as u8 + 1).collect();
        image.write(4000, &bytes).unwrap();
        let mut found = vec![9; 5002];
        image.read(3999, &mut found).unwrap();
        assert_eq!((found[0], &found[1..5001], found[5001]), (0, &bytes[..], 0));
        assert!(image != before);
        image.fill(0, image.bytes(), 0).unwrap();
        assert!(image == before);
    }

    #[test]
    fn what_ends_beyond_the_image_changes_nothing() {
        let mut image = Image::new(512);
        let wanted = BeginError::OutOfRange { offset: 1, bytes: 512, limit: 512 };
        assert_eq!(image.write(1, &[1; 512]), Err(wanted));
        assert_eq!(image.fill(1, 512, 1), Err(wanted));
        assert_eq!(image.read(1, &mut [0; 512]), Err(wanted));
        assert!(image == Image::new(512));
    }
}
