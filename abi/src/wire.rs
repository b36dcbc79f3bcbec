//! A checked cursor over a record's bytes: the only way numbers enter and leave records.

/// Why foreign bytes are not a record; the values say where and what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WireError {
    /// The record has another length than its kind asks for.
    Length {
        /// Bytes the kind needs.
        wanted: usize,
        /// Bytes that came.
        found: usize,
    },
    /// The record does not begin with the protocol's mark.
    Magic {
        /// The four bytes found instead.
        found: u32,
    },
    /// The record is of another protocol version.
    Version {
        /// The version found.
        found: u16,
    },
    /// No record has this kind number.
    Kind {
        /// The number found.
        found: u16,
    },
    /// A field holds a value outside its range.
    Field {
        /// The field's name.
        name: &'static str,
        /// The value found.
        found: u64,
    },
    /// Bytes that must be zero are not.
    Reserved,
}

impl std::fmt::Display for WireError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Length { wanted, found } => write!(f, "record of {found} bytes, wanted {wanted}"),
            Self::Magic { found } => write!(f, "record begins with {found:#x}"),
            Self::Version { found } => write!(f, "record of version {found}"),
            Self::Kind { found } => write!(f, "unknown record kind {found}"),
            Self::Field { name, found } => write!(f, "field {name} is {found}"),
            Self::Reserved => write!(f, "reserved bytes are not zero"),
        }
    }
}

impl std::error::Error for WireError {}

/// Writes numbers one after the other into a fixed buffer.
pub struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    /// Starts at the front of `bytes`, which the caller has zeroed.
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Appends raw bytes; writing past the end is a bug of this crate and panics in tests only
    /// because every record's size is asserted there.
    pub fn put(&mut self, data: &[u8]) -> &mut Self {
        self.bytes[self.at..self.at + data.len()].copy_from_slice(data);
        self.at += data.len();
        self
    }

    /// Appends one byte.
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.put(&[value])
    }
    /// Appends two bytes.
    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.put(&value.to_le_bytes())
    }
    /// Appends four bytes.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.put(&value.to_le_bytes())
    }
    /// Appends eight bytes.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.put(&value.to_le_bytes())
    }
}

/// Reads numbers one after the other; reading past the end yields zero bytes, so that a caller
/// who checked the length first never meets an error here.
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the front of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Takes the next `N` bytes.
    pub fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        if let Some(part) = self.bytes.get(self.at..self.at + N) {
            out.copy_from_slice(part);
        }
        self.at += N;
        out
    }

    /// Takes one byte.
    pub fn u8(&mut self) -> u8 {
        self.take::<1>()[0]
    }
    /// Takes two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }
    /// Takes four bytes.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }
    /// Takes eight bytes.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    /// True when every byte not yet taken is zero (reserved bytes must be).
    pub fn rest_is_zero(&self) -> bool {
        self.bytes.get(self.at..).is_none_or(|rest| rest.iter().all(|byte| *byte == 0))
    }
}
