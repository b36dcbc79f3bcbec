//! Fields of a message, one after the other: numbers in little-endian, texts and bytes with their length
//! in front. What is taken is foreign, and `None` where it is not there or is none.

use heliostat_backend_registry::{Key, Value};

/// What is left of a message.
pub(crate) struct Take<'a>(pub(crate) &'a [u8]);

impl<'a> Take<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.bytes(1).map(|it| it[0])
    }

    pub(crate) fn is_true(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        let bytes = self.bytes(8)?.try_into().ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    fn long(&mut self) -> Option<&'a [u8]> {
        let length = u16::from_le_bytes(self.bytes(2)?.try_into().ok()?);
        self.bytes(usize::from(length))
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        let text = std::str::from_utf8(self.long()?).ok()?;
        Some(text.chars().filter(|it| !it.is_control()).collect())
    }

    pub(crate) fn key(&mut self) -> Option<Key> {
        Key::parse(std::str::from_utf8(self.long()?).ok()?)
    }

    pub(crate) fn value(&mut self) -> Option<Value> {
        Value::new(self.long()?.to_vec())
    }

    pub(crate) fn maybe<T>(
        &mut self,
        take: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Option<Option<T>> {
        if self.is_true()? {
            take(self).map(Some)
        } else {
            Some(None)
        }
    }

    /// Some of them, `most` at most.
    pub(crate) fn several<T>(
        &mut self,
        most: usize,
        take: impl Fn(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let count = usize::try_from(self.number()?).ok().filter(|count| *count <= most)?;
        (0..count).map(|_| take(self)).collect()
    }
}

/// A message that is written.
#[derive(Default)]
pub(crate) struct Put(pub(crate) Vec<u8>);

impl Put {
    pub(crate) fn byte(mut self, byte: u8) -> Put {
        self.0.push(byte);
        self
    }

    pub(crate) fn number(mut self, number: u64) -> Put {
        self.0.extend(number.to_le_bytes());
        self
    }

    pub(crate) fn long(mut self, bytes: &[u8]) -> Put {
        // Keys, values and words are all shorter.
        let length = bytes.len().min(usize::from(u16::MAX));
        self.0.extend((length as u16).to_le_bytes());
        self.0.extend(&bytes[..length]);
        self
    }

    pub(crate) fn key(self, key: &Key) -> Put {
        self.long(key.as_str().as_bytes())
    }

    pub(crate) fn maybe<T>(self, it: Option<&T>, put: impl FnOnce(Put, &T) -> Put) -> Put {
        match it {
            Some(it) => put(self.byte(1), it),
            None => self.byte(0),
        }
    }

    pub(crate) fn several<T>(self, all: &[T], put: impl Fn(Put, &T) -> Put) -> Put {
        all.iter().fold(self.number(all.len() as u64), put)
    }
}
