//! How a path is walked: what the caller of openat2(2) forbids on the way, and what is done at its end.

/// What a path of openat2(2) must not lead through; nothing is forbidden to all others.
#[derive(Clone, Copy, Default, Debug)]
pub struct Rules {
    /// Symbolic links, of /proc's own kind too.
    pub no_links: bool,
    /// Links of /proc that lead to an object and not to a name.
    pub no_magic: bool,
    /// Another file system than that of the directory where the path begins.
    pub one_device: bool,
}

impl Rules {
    /// Whether everything is allowed.
    pub fn are_none(self) -> bool {
        !(self.no_links || self.no_magic || self.one_device)
    }
}

/// How the last component of a path is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Last {
    /// A symbolic link there is followed.
    Follow,
    /// It is taken as it is, unless a slash comes after it.
    Keep,
    /// It is taken as it is: the calls that make and remove names.
    Name,
}

impl Last {
    /// `Keep` if the flag is among `flags`, else `Follow`.
    pub fn unless(flags: i32, nofollow: i32) -> Self {
        if flags & nofollow != 0 {
            Self::Keep
        } else {
            Self::Follow
        }
    }
}
