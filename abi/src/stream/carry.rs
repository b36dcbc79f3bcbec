//! What a program wants of the network service, as `heliostat run --network-cores` tells its stub.
//!
//! ```text
//! never       its connections are the kernel's
//! any         they are carried, whatever the measured rule says, by any loop
//! 2-3,7       likewise, by loops on these cores
//! ```

use std::fmt;

use crate::cores::{CpuMask, CpuRanges};

const NEVER: &str = "never";
const ANY: &str = "any";

/// What a program wants; where it says nothing the measured rule decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carry {
    /// None of its connections is carried.
    Never,
    /// All that can be are, by loops on these cores; without any by any loop.
    On(CpuRanges),
}

impl Carry {
    /// Reads it; nothing where the text says something else.
    pub fn parse(text: &str) -> Option<Carry> {
        match text {
            NEVER => Some(Carry::Never),
            ANY => CpuRanges::of(CpuMask::EMPTY).map(Carry::On),
            list => {
                let mask = CpuMask::parse(list).ok().filter(|mask| !mask.is_empty())?;
                CpuRanges::of(mask).map(Carry::On)
            }
        }
    }
}

impl fmt::Display for Carry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Carry::Never => f.write_str(NEVER),
            Carry::On(cores) if cores.mask().is_empty() => f.write_str(ANY),
            Carry::On(cores) => cores.mask().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_comes_back_as_it_was_told() {
        for text in ["never", "any", "2-3,7", "5"] {
            assert_eq!(Carry::parse(text).map(|carry| carry.to_string()).as_deref(), Some(text));
        }
        for text in ["", "all", "3-1", "1,x"] {
            assert_eq!(Carry::parse(text), None, "{text}");
        }
    }
}
