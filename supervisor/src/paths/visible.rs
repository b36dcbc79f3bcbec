//! Which names exist for the program above its grants, known without looking.
//!
//! What leads to the grants is made once and never changes. So most of what does not exist for a
//! program (`/etc/ld.so.preload`, which each program looks for when it starts) is found by its
//! name alone.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Longest component (source: limits.h, NAME_MAX); a longer one is another error than ENOENT.
const NAME_MAX: usize = 255;

/// Names without symbolic links.
#[derive(Debug, Default)]
pub struct VisibleNames {
    /// Directories that hold nothing but what leads to grants.
    ways: HashSet<Vec<u8>>,
    /// What is looked at by itself: grants, links, /proc.
    ends: HashSet<Vec<u8>>,
}

impl VisibleNames {
    /// Adds what is looked at by itself, and what leads to it.
    pub fn add(&mut self, path: &Path) {
        for above in path.ancestors().skip(1) {
            self.ways.insert(above.as_os_str().as_bytes().to_vec());
        }
        self.ends.insert(path.as_os_str().as_bytes().to_vec());
    }

    /// Whether a path certainly leads to nothing. Only absolute, plain spellings are judged:
    /// without `.`, `..` and empty components.
    pub fn lacks(&self, path: &[u8]) -> bool {
        let Some(names) = path.strip_prefix(b"/") else { return false };
        let is_odd = |name: &[u8]| matches!(name, b"" | b"." | b"..") || name.len() > NAME_MAX;
        if names.split(|byte| *byte == b'/').any(is_odd) || self.ends.contains(&b"/"[..]) {
            return false;
        }
        let mut end = 0;
        for name in names.split(|byte| *byte == b'/') {
            end += 1 + name.len();
            let here = &path[..end];
            if self.ends.contains(here) {
                return false;
            }
            if !self.ways.contains(here) {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visible(paths: &[&str]) -> VisibleNames {
        let mut visible = VisibleNames::default();
        paths.iter().for_each(|path| visible.add(Path::new(path)));
        visible
    }

    #[test]
    fn names_beside_what_leads_to_a_grant_are_lacking() {
        let visible = visible(&["/usr", "/srv/data/in", "/etc/passwd"]);
        for path in ["/etc/shadow", "/srv/other", "/srv/other/file", "/home", "/usrx", "/etc/p"] {
            assert!(visible.lacks(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn grants_what_is_below_and_what_leads_to_them_are_looked_at() {
        let visible = visible(&["/usr", "/srv/data/in", "/etc/passwd"]);
        for path in ["/", "/usr", "/usr/none", "/srv", "/srv/data", "/etc/passwd", "/etc/passwd/x"]
        {
            assert!(!visible.lacks(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn other_spellings_are_walked() {
        let visible = visible(&["/srv/data"]);
        for path in ["", "no", "//no", "/no/", "/./no", "/no/../srv", "/srv/./no"] {
            assert!(!visible.lacks(path.as_bytes()), "{path}");
        }
        assert!(!visible.lacks(&[&b"/"[..], &[b'n'; 256]].concat()));
    }

    #[test]
    fn nothing_is_lacking_where_everything_is_granted() {
        assert!(!visible(&["/", "/usr"]).lacks(b"/no"));
    }
}
