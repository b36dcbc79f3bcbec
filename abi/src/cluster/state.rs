//! What a member is to the node that tells of it.

/// A state, with its number on the wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u32)]
pub enum MemberState {
    /// The node that tells.
    Here = 0,
    /// It is sought, and was not joined since this node started, or was told to seek it.
    Away = 1,
    /// It is being joined.
    Joining = 2,
    /// It is joined: calls reach it.
    Joined = 3,
    /// It was joined, and is not reached any more; it is joined again when it can be.
    Lost = 4,
    /// It left, or was told to be left; it is not joined by itself until somebody says so.
    Left = 5,
}

impl MemberState {
    /// Every state, in order of number.
    pub const ALL: [MemberState; 6] = [
        MemberState::Here,
        MemberState::Away,
        MemberState::Joining,
        MemberState::Joined,
        MemberState::Lost,
        MemberState::Left,
    ];

    /// The state with this number.
    pub fn from_number(number: u32) -> Option<MemberState> {
        MemberState::ALL.into_iter().find(|state| *state as u32 == number)
    }

    /// For people.
    pub fn word(self) -> &'static str {
        match self {
            MemberState::Here => "here",
            MemberState::Away => "away",
            MemberState::Joining => "joining",
            MemberState::Joined => "joined",
            MemberState::Lost => "lost",
            MemberState::Left => "left",
        }
    }
}

impl std::fmt::Display for MemberState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}
