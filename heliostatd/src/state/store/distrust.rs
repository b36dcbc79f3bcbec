//! Areas whose logs may be another one's word than their owner's.

use heliostat_abi::store::AreaRights;
use heliostat_backend_block::FileDevice;
use heliostat_backend_store::{StoreFailed, StoreOnDevice};

/// In the word of an area's rights: others than its owner may have written it since it was made.
pub const DISTRUSTED: u32 = 1 << 31;

/// Whether what a log in an area says may be another user's word, or a sealed program's.
pub fn is_distrusted(rights: u32) -> bool {
    let others = AreaRights::from_bits(rights & !DISTRUSTED);
    rights & DISTRUSTED != 0 || others.is_none_or(|others| others.have(AreaRights::WRITE))
}

/// Writes it down in the store.
pub(super) fn note(
    store: &mut StoreOnDevice<FileDevice>,
    generation: u64,
) -> Result<(), StoreFailed> {
    match store.store().area(generation).map(|area| (area.owner, area.rights)) {
        Some((owner, rights)) => store.appoint(generation, owner, rights | DISTRUSTED),
        // It was deleted meanwhile.
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_that_others_may_write_or_may_have_written_is_distrusted() {
        let read = AreaRights::READ.bits();
        assert!(!is_distrusted(0) && !is_distrusted(read));
        assert!(is_distrusted(AreaRights::WRITE.bits()) && is_distrusted(read | DISTRUSTED));
        assert!(is_distrusted(1 << 30), "a word that is not understood");
    }
}
