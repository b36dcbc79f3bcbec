//! The cache's numbers for versions of files, remembered as long as they are used.
//!
//! ```text
//! number --> recent --full--> before --recent full again--> forgotten; its next number is another
//!              ^---- asked for ----'
//! ```
//!
//! Two halves instead of one table that is emptied: whoever opens thousands of files has those
//! forgotten that nobody has opened meanwhile, and not what everybody else reads.

use std::collections::HashMap;

use super::open_file::Version;

/// Versions of one half.
const HALF: usize = 2048;

/// Numbers of versions.
#[derive(Debug, Default)]
pub struct Versions {
    recent: HashMap<Version, u64>,
    before: HashMap<Version, u64>,
    last: u64,
}

impl Versions {
    /// The number of a version: the one that it had, while that is remembered, and none that any
    /// other ever had.
    pub fn number(&mut self, version: Version) -> u64 {
        if let Some(number) = self.recent.get(&version) {
            return *number;
        }
        let number = self.before.remove(&version).unwrap_or_else(|| {
            self.last += 1;
            self.last
        });
        if self.recent.len() >= HALF {
            self.before = std::mem::take(&mut self.recent);
        }
        self.recent.insert(version, number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(inode: u64) -> Version {
        Version { device: 1, inode, size: 3, changed: (4, 5), only_under: None }
    }

    #[test]
    fn a_version_has_one_number_and_another_another() {
        let mut versions = Versions::default();
        let other = Version { size: 4, ..version(2) };
        assert_eq!(versions.number(version(2)), versions.number(version(2)));
        assert_ne!(versions.number(version(2)), versions.number(other));
    }

    #[test]
    fn what_is_used_keeps_its_number_whoever_opens_thousands_of_files() {
        let mut versions = Versions::default();
        let used = versions.number(version(0));
        for inode in 1..10 * HALF as u64 {
            versions.number(version(inode));
            if inode % 1000 == 0 {
                assert_eq!(versions.number(version(0)), used);
            }
        }
        assert!(versions.recent.len() + versions.before.len() <= 2 * HALF);
        let first = versions.number(version(1));
        assert!(first > 9 * HALF as u64, "what nobody has used is forgotten, and its number too");
    }
}
