//! Files that are text, made when they are looked at.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use serde_json::Value;

use crate::file::within;
use crate::{Access, Bytes, Facts, File, Found, NameFault};

/// Counts texts: each is a file of its own, whose bytes never change.
static COUNT: Mutex<u64> = Mutex::new(0);

/// A text of a moment.
struct Text {
    number: u64,
    user: Option<u32>,
    made: SystemTime,
    text: Arc<[u8]>,
}

/// A file of this text, which belongs to a user, or to whoever asks.
pub(crate) fn text(user: Option<u32>, text: String) -> Found {
    let number = counted();
    let (made, text) = (SystemTime::now(), text.into_bytes().into());
    Found::File(Arc::new(Text { number, user, made, text }))
}

/// The next number.
fn counted() -> u64 {
    let mut count = COUNT.lock().unwrap_or_else(PoisonError::into_inner);
    *count += 1;
    *count
}

/// One line for each field: its name and its value.
pub(crate) fn lines(fields: &[(&str, String)]) -> String {
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    fields.iter().map(|(name, value)| format!("{name:<width$}  {value}\n")).collect()
}

/// A value of JSON as a field's value: without quotes where it is a text.
pub(crate) fn plain(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    // A program chose some of them.
    text.replace(char::is_control, "?")
}

impl File for Text {
    fn facts(&self) -> Facts {
        Facts {
            key: format!("text {}", self.number),
            bytes: self.text.len() as u64,
            user: self.user,
            is_readable: true,
            is_writable: false,
            changed: Some(self.made),
            is_constant: true,
        }
    }

    fn open(&self, access: Access) -> Result<Box<dyn Bytes>, NameFault> {
        match access.writes() {
            true => Err(NameFault::ReadOnly),
            false => Ok(Box::new(Open(self.text.clone()))),
        }
    }
}

struct Open(Arc<[u8]>);

impl Bytes for Open {
    fn size(&self) -> Result<u64, NameFault> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, NameFault> {
        let count = within(offset, into.len(), self.0.len() as u64);
        if count > 0 {
            let from = offset as usize;
            into[..count].copy_from_slice(&self.0[from..from + count]);
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_from_any_offset_to_its_end_and_not_written() {
        let Found::File(file) = text(None, "abc".into()) else { panic!("no file") };
        let open = file.open(Access::Read).unwrap();
        let mut bytes = [0; 8];
        assert_eq!(open.read_at(1, &mut bytes), Ok(2));
        assert_eq!(&bytes[..2], b"bc");
        assert_eq!(open.read_at(3, &mut bytes), Ok(0));
        assert_eq!(open.read_at(u64::MAX, &mut bytes), Ok(0));
        assert!(matches!(file.open(Access::Both), Err(NameFault::ReadOnly)));
    }

    #[test]
    fn fields_stand_below_one_another() {
        let fields = [("kind", "lock".to_owned()), ("waiting", "0".to_owned())];
        assert_eq!(lines(&fields), "kind     lock\nwaiting  0\n");
    }
}
