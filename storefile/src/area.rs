//! An area: a name, whose it is, and where its bytes lie.
//!
//! ```text
//!  0  generation u64        20  rights u32
//!  8  bytes u64             24  kind u8, zero u8
//! 16  owner u32             26  name bytes u16
//! 28  extents u32
//! 32  name, then zeroes to a multiple of 8
//!     extents: first u64, grains u64
//! ```

use std::fmt;

use crate::error::{Part, StoreError};
use crate::extents::{grains, Extent, Piece, EXTENTS_MAX};
use crate::fields::Fields;
use crate::superblock::Superblock;

/// Longest name of an area.
pub const NAME_BYTES_MAX: usize = 255;

/// What an area is for. The format of what lies in it belongs to others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Kind {
    /// Bytes.
    Raw = 1,
    /// A log.
    Log = 2,
    /// A queue.
    Queue = 3,
}

/// The name of an area: 1 to 255 bytes of UTF-8, none of them zero.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Name(String);

impl Name {
    /// The name, if it may be one.
    ///
    /// # Errors
    /// It is empty, too long, or holds a zero byte.
    pub fn new(name: &str) -> Result<Name, StoreError> {
        match name.len() {
            1..=NAME_BYTES_MAX if !name.contains('\0') => Ok(Name(name.to_owned())),
            bytes => Err(StoreError::BadName { bytes, limit: NAME_BYTES_MAX }),
        }
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An area of a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Area {
    /// Its name, which no other area of the same owner has.
    pub name: Name,
    /// Counts the areas that were ever made in this store: no two have the same.
    pub generation: u64,
    /// Its size, a multiple of the grain.
    pub bytes: u64,
    /// The user whose it is.
    pub owner: u32,
    /// Who else may do what, in the words of the service.
    pub rights: u32,
    /// What it is for.
    pub kind: Kind,
    /// Where its bytes lie, in order.
    pub extents: Vec<Extent>,
}

impl Area {
    /// Where bytes of the area lie on the device, in order.
    ///
    /// # Errors
    /// They do not all lie in the area.
    pub fn pieces(
        &self,
        superblock: &Superblock,
        offset: u64,
        bytes: u64,
    ) -> Result<Vec<Piece>, StoreError> {
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            let what = "bytes of the area";
            return Err(StoreError::Number { what, wanted: bytes, limit: self.bytes });
        }
        let (mut skip, mut left, mut pieces) = (offset, bytes, Vec::new());
        for extent in &self.extents {
            let whole = superblock.piece(*extent);
            let here = whole.bytes.saturating_sub(skip).min(left);
            if here > 0 {
                pieces.push(Piece { offset: whole.offset + skip, bytes: here });
            }
            skip = skip.saturating_sub(whole.bytes);
            left -= here;
        }
        Ok(pieces)
    }

    pub(crate) fn encode(&self, into: &mut Vec<u8>) {
        let name = self.name.as_str().as_bytes();
        into.extend(self.generation.to_le_bytes());
        into.extend(self.bytes.to_le_bytes());
        into.extend(self.owner.to_le_bytes());
        into.extend(self.rights.to_le_bytes());
        into.extend([self.kind as u8, 0]);
        into.extend((name.len() as u16).to_le_bytes());
        into.extend((self.extents.len() as u32).to_le_bytes());
        into.extend(name);
        into.resize(into.len() + padding(name.len()), 0);
        encode_extents(&self.extents, into);
    }

    /// The next area of foreign bytes. Whether it agrees with others is not looked at here.
    pub(crate) fn decode(fields: &mut Fields<'_>, grain: u64) -> Result<Area, StoreError> {
        let (generation, bytes) = (fields.u64()?, fields.u64()?);
        let (owner, rights) = (fields.u32()?, fields.u32()?);
        let kind = match fields.u16()? {
            1 => Kind::Raw,
            2 => Kind::Log,
            3 => Kind::Queue,
            _ => return Err(StoreError::Damaged(Part::Field("kind of an area"))),
        };
        let (name_bytes, count) = (usize::from(fields.u16()?), fields.u32()? as usize);
        let bad_name = StoreError::Damaged(Part::Field("name of an area"));
        let name = std::str::from_utf8(fields.take(name_bytes)?).map_err(|_| bad_name.clone())?;
        let name = Name::new(name).map_err(|_| bad_name)?;
        fields.zeroes(padding(name_bytes), "end of a name")?;
        if count > EXTENTS_MAX {
            return Err(StoreError::Damaged(Part::Field("number of extents")));
        }
        let extents = decode_extents(fields, count)?;
        let held = extents.iter().try_fold(0u64, |sum, extent| sum.checked_add(extent.grains));
        if held.and_then(|held| held.checked_mul(grain)) != Some(bytes) || bytes == 0 {
            return Err(StoreError::Damaged(Part::Field("size of an area")));
        }
        Ok(Area { name, generation, bytes, owner, rights, kind, extents })
    }

    /// Grains of all its extents.
    pub fn grains(&self) -> u64 {
        grains(&self.extents)
    }
}

/// Zeroes behind so many bytes of a name.
fn padding(bytes: usize) -> usize {
    bytes.next_multiple_of(8) - bytes
}

pub(crate) fn encode_extents(extents: &[Extent], into: &mut Vec<u8>) {
    for extent in extents {
        into.extend(extent.first.to_le_bytes());
        into.extend(extent.grains.to_le_bytes());
    }
}

pub(crate) fn decode_extents(
    fields: &mut Fields<'_>,
    count: usize,
) -> Result<Vec<Extent>, StoreError> {
    let mut extents = Vec::new();
    for _ in 0..count {
        extents.push(Extent { first: fields.u64()?, grains: fields.u64()? });
    }
    Ok(extents)
}
