//! Keys and values, checked once.

use std::fmt;

/// Bytes of a key, without the prefix that a cluster has in etcd.
pub const KEY_BYTES_MAX: usize = 128;
/// Bytes of a value.
pub const VALUE_BYTES_MAX: usize = 4096;

/// A key, or the beginning of some: lower-case letters, digits, `/`, `.`, `_` and `-`. An empty one is
/// the beginning of all, and no record's.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Key(String);

impl Key {
    /// A text that may be one.
    pub fn parse(text: &str) -> Option<Key> {
        let allowed = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"/._-".contains(&byte)
        };
        let fits = text.len() <= KEY_BYTES_MAX && text.bytes().all(allowed);
        fits.then(|| Key(text.to_owned()))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it begins with another.
    pub fn is_under(&self, prefix: &Key) -> bool {
        self.0.starts_with(&prefix.0)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// A value: some bytes, not too many. What they mean is for their owner to check.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct Value(Vec<u8>);

impl Value {
    /// Bytes that may be one.
    pub fn new(bytes: Vec<u8>) -> Option<Value> {
        (bytes.len() <= VALUE_BYTES_MAX).then_some(Value(bytes))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_short_and_plain() {
        assert!(Key::parse("members/7").is_some_and(|key| key.as_str() == "members/7"));
        for wrong in ["A", "a b", "a\0", "ä", &"a".repeat(KEY_BYTES_MAX + 1)] {
            assert_eq!(Key::parse(wrong), None, "{wrong:?}");
        }
        let key = Key::parse("members/7").unwrap();
        assert!(key.is_under(&Key::default()) && key.is_under(&Key::parse("members/").unwrap()));
        assert!(!key.is_under(&Key::parse("regions/").unwrap()));
    }

    #[test]
    fn values_have_a_longest() {
        assert!(Value::new(vec![0; VALUE_BYTES_MAX]).is_some());
        assert!(Value::new(vec![0; VALUE_BYTES_MAX + 1]).is_none());
    }
}
