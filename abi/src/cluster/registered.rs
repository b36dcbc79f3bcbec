//! What a node writes of itself into the registry, as text that people can read there.
//!
//! ```text
//! members/NODE = "1 INCARNATION ADDRESS"     1: the form; ADDRESS may be empty
//! ```

use super::address::MemberAddress;
use super::limits::NODE_MAX;
use crate::wire::WireError;

/// What the keys of members begin with.
pub const MEMBERS_PREFIX: &str = "members/";
/// Bytes of a record at most.
const RECORD_BYTES_MAX: usize = 128;

/// A node, as it is registered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegisteredMember {
    /// Its number.
    pub node: u64,
    /// Which life of it.
    pub incarnation: u64,
    /// Where it listens.
    pub address: MemberAddress,
}

impl RegisteredMember {
    /// The key of a node's record.
    pub fn key(node: u64) -> String {
        format!("{MEMBERS_PREFIX}{node}")
    }

    /// Whose record a key is; `None` for a key that is no member's.
    pub fn node_of(key: &str) -> Option<u64> {
        let digits = key.strip_prefix(MEMBERS_PREFIX)?;
        let node = digits.parse().ok().filter(|node| (1..=NODE_MAX).contains(node))?;
        // One spelling of each number: no other key is the same node's.
        (RegisteredMember::key(node) == key).then_some(node)
    }

    /// The record.
    pub fn encode(&self) -> Vec<u8> {
        format!("1 {} {}", self.incarnation, self.address).into_bytes()
    }

    /// The record in a foreign value.
    ///
    /// # Errors
    /// It is none; the value says which field.
    pub fn decode(node: u64, value: &[u8]) -> Result<RegisteredMember, WireError> {
        let wrong = |name| WireError::Field { name, found: 0 };
        let text = std::str::from_utf8(value).map_err(|_| wrong("text"))?;
        let mut fields = text.splitn(3, ' ');
        let form = fields.next().unwrap_or_default();
        if form != "1" || value.len() > RECORD_BYTES_MAX {
            return Err(wrong("form"));
        }
        let number = fields.next().and_then(|it| it.parse::<u64>().ok());
        let incarnation = number.filter(|it| *it > 0).ok_or(wrong("incarnation"))?;
        let address = fields.next().and_then(MemberAddress::parse);
        let address = address.ok_or(wrong("address"))?;
        Ok(RegisteredMember { node, incarnation, address })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_as_it_was_written() {
        let address = MemberAddress::parse("tcp:127.0.0.1:7700").unwrap();
        for address in [address, MemberAddress::NONE] {
            let it = RegisteredMember { node: 7, incarnation: 9, address };
            assert_eq!(RegisteredMember::decode(7, &it.encode()), Ok(it));
        }
    }

    #[test]
    fn foreign_keys_and_values_are_none() {
        assert_eq!(RegisteredMember::node_of("members/7"), Some(7));
        for key in
            ["members/0", "members/65536", "members/07", "members/", "member/7", "members/+7"]
        {
            assert_eq!(RegisteredMember::node_of(key), None, "{key}");
        }
        let long = format!("1 5 {}", "a".repeat(200));
        for value in ["", "1", "1 5", "2 5 a", "1 0 a", "1 -5 a", "1 5 a b", "1 5 \x1b", &long] {
            assert!(RegisteredMember::decode(7, value.as_bytes()).is_err(), "{value:?}");
        }
        assert!(RegisteredMember::decode(7, b"1 5 \xff").is_err());
    }
}
