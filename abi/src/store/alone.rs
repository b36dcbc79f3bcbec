//! Whether a handle shuts other writers out.

/// Whether no other session may write or manage an area as long as the handle is there. Readers stay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum Alone {
    /// Others may.
    #[default]
    No = 0,
    /// None may, and no other handle is alone either.
    Yes = 1,
    /// None may; handles of this session that are alone stay beside it. For a program that goes from one
    /// handle to another and lets nobody in between.
    Beside = 2,
}

impl Alone {
    /// The wish with this number.
    pub fn from_number(number: u32) -> Option<Alone> {
        [Self::No, Self::Yes, Self::Beside].into_iter().find(|it| *it as u32 == number)
    }

    /// Whether others are shut out.
    pub fn shuts_out(self) -> bool {
        self != Self::No
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wish_comes_back_from_its_number() {
        for alone in [Alone::No, Alone::Yes, Alone::Beside] {
            assert_eq!(Alone::from_number(alone as u32), Some(alone));
        }
        assert_eq!(Alone::from_number(3), None);
    }
}
