//! How urgent calls between nodes are: their class, which decides what of a way they may have.

use crate::wire::{Reader, WireError};

/// A class of calls, from the least urgent on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Class {
    /// What may wait for all others.
    Low,
    /// What no rule is about.
    #[default]
    Normal,
    /// What waits for nobody else.
    High,
}

impl Class {
    /// Every class, the most urgent first.
    pub const ALL: [Class; 3] = [Class::High, Class::Normal, Class::Low];

    /// Its number in a message: one that says nothing is normal.
    pub const fn number(self) -> u8 {
        match self {
            Class::Normal => 0,
            Class::High => 1,
            Class::Low => 2,
        }
    }

    /// The class with a foreign number, if there is one.
    pub const fn from_number(number: u8) -> Option<Class> {
        match number {
            0 => Some(Class::Normal),
            1 => Some(Class::High),
            2 => Some(Class::Low),
            _ => None,
        }
    }

    /// The class in a foreign record.
    ///
    /// # Errors
    /// There is none with this number.
    pub fn decode(r: &mut Reader<'_>) -> Result<Class, WireError> {
        let found = r.u32();
        let class = u8::try_from(found).ok().and_then(Class::from_number);
        class.ok_or(WireError::Field { name: "class", found: u64::from(found) })
    }

    /// Its place in lists that have one of each.
    pub const fn place(self) -> usize {
        match self {
            Class::High => 0,
            Class::Normal => 1,
            Class::Low => 2,
        }
    }

    /// In a word, for people and configurations.
    pub const fn word(self) -> &'static str {
        match self {
            Class::High => "high",
            Class::Normal => "normal",
            Class::Low => "low",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_places_are_each_ones_own_and_classes_have_an_order() {
        for (place, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!(Class::from_number(class.number()), Some(class));
            assert_eq!(class.place(), place);
        }
        assert_eq!((Class::from_number(3), Class::default().number()), (None, 0));
        assert!(Class::High > Class::Normal && Class::Normal > Class::Low);
    }
}
