//! The two ways to an area's bytes, and why one is not direct.

/// Which way is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum WayWanted {
    /// The direct one where it is to be had, else the other.
    #[default]
    Any = 0,
    /// By a server loop.
    Emulated = 1,
    /// The direct one, or none.
    Direct = 2,
}

impl WayWanted {
    /// The wish with this number.
    pub fn from_number(number: u32) -> Option<WayWanted> {
        [Self::Any, Self::Emulated, Self::Direct].into_iter().find(|it| *it as u32 == number)
    }
}

/// By which way a handle reads and writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Way {
    /// The session drives the device itself, within the area's pieces.
    Direct,
    /// A server loop checks bounds, adds offsets and drives the device.
    Emulated(Spill),
}

impl Way {
    /// Its number in records.
    pub fn number(self) -> u32 {
        match self {
            Way::Direct => 0,
            Way::Emulated(why) => why as u32,
        }
    }

    /// The way with this number.
    pub fn from_number(number: u32) -> Option<Way> {
        match number {
            0 => Some(Way::Direct),
            _ => Spill::from_number(number).map(Way::Emulated),
        }
    }
}

/// Why a handle is not direct.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Spill {
    /// The program asked for the other way.
    NotWanted = 1,
    /// The configuration does not trust the user with the device.
    NotTrusted = 2,
    /// The session is restricted.
    Restricted = 3,
    /// As many handles are direct as may be.
    AllTaken = 4,
    /// The area has a rate, and nobody could hold a direct program to it.
    HasRate = 5,
    /// A change of the area is under way.
    Changing = 6,
    /// The kernel does not open the device a second time.
    NotOpened = 7,
}

impl Spill {
    /// Every reason.
    pub const ALL: [Spill; 7] = [
        Spill::NotWanted,
        Spill::NotTrusted,
        Spill::Restricted,
        Spill::AllTaken,
        Spill::HasRate,
        Spill::Changing,
        Spill::NotOpened,
    ];

    /// The reason with this number.
    pub fn from_number(number: u32) -> Option<Spill> {
        Self::ALL.into_iter().find(|it| *it as u32 == number)
    }

    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Spill::NotWanted => "the program asked for the server loop",
            Spill::NotTrusted => "the configuration trusts the user not with the device",
            Spill::Restricted => "a restricted session is not trusted with the device",
            Spill::AllTaken => "as many handles are direct as may be",
            Spill::HasRate => "the area has a rate, which a direct program cannot be held to",
            Spill::Changing => "a change of the area was under way",
            Spill::NotOpened => "the kernel did not open the device a second time",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_comes_back_from_its_number() {
        for way in Spill::ALL.map(Way::Emulated).into_iter().chain([Way::Direct]) {
            assert_eq!(Way::from_number(way.number()), Some(way));
        }
        assert_eq!(Way::from_number(Spill::ALL.len() as u32 + 1), None);
        assert_eq!(WayWanted::from_number(2), Some(WayWanted::Direct));
        assert_eq!(WayWanted::from_number(3), None);
    }
}
