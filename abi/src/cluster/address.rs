//! Where a member listens, as text: `tcp:127.0.0.1:7700`.

use crate::wire::{Reader, WireError, Writer};

/// Bytes of an address: the longest is an IPv6 address with a scope, in brackets, with its port.
pub const ADDRESS_BYTES: usize = 64;

/// An address as it travels: printable ASCII, perhaps empty. Whether a transport can connect there is
/// for whoever connects to say.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct MemberAddress(String);

impl MemberAddress {
    /// Nowhere: the node joined by itself, and can only come back by itself.
    pub const NONE: MemberAddress = MemberAddress(String::new());

    /// A text that may be one.
    pub fn parse(text: &str) -> Option<MemberAddress> {
        let fits = text.len() <= ADDRESS_BYTES && text.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| MemberAddress(text.to_owned()))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is nowhere.
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn encode<'w, 'a>(&self, w: &'w mut Writer<'a>) -> &'w mut Writer<'a> {
        let mut bytes = [0; ADDRESS_BYTES];
        bytes[..self.0.len()].copy_from_slice(self.0.as_bytes());
        w.u32(self.0.len() as u32).put(&bytes)
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<MemberAddress, WireError> {
        let length = r.u32() as usize;
        let bytes: [u8; ADDRESS_BYTES] = r.take();
        let wrong = WireError::Field { name: "address length", found: length as u64 };
        let (text, rest) = bytes.split_at_checked(length).ok_or(wrong)?;
        if rest.iter().any(|byte| *byte != 0) {
            return Err(WireError::Reserved);
        }
        let text = std::str::from_utf8(text).ok().and_then(MemberAddress::parse);
        text.ok_or(WireError::Field { name: "address", found: 0 })
    }
}

impl std::fmt::Display for MemberAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
