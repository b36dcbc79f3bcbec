//! On which memory node a page lies.

use crate::sys::{check, raw, Sysno};

/// The node of the page at `address`; none where nothing lies there yet, or the kernel does not say.
pub fn of(address: *const u8) -> Option<u32> {
    let (page, mut status) = (address as usize, -1i32);
    let (page_at, status_at) = (&raw const page as usize, &raw mut status as usize);
    // SAFETY: one address, which the kernel only looks up, no nodes to move it to, and one live word
    // for the answer.
    let asked = check(unsafe { raw(Sysno::move_pages as usize, [0, 1, page_at, 0, status_at, 0]) });
    asked.ok().and_then(|_| u32::try_from(status).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_there_is_on_a_node_and_an_address_of_nothing_on_none() {
        let page = [1u8; 4096];
        if let Some(node) = of(page.as_ptr()) {
            assert!(node < 1024);
        }
        assert_eq!(of(std::ptr::without_provenance(4096)), None);
    }
}
