//! Many pieces in one call.

use heliostat_abi::memory::Rights;
use heliostat_base::mapping::OutOfRange;
use heliostat_ring::Area;

use super::delegated::Bytes;
use super::direct::Direct;
use super::{MemoryError, Region};

impl Region {
    /// Reads pieces, each from its offset on; all of each. The path is looked at once for all of them, or
    /// they are on their way to the server loop at once.
    ///
    /// # Errors
    /// As `read`, about the first piece that is wrong. Others may have been read.
    pub fn read_vectored(&self, pieces: &mut [(u64, &mut [u8])]) -> Result<(), MemoryError> {
        self.wherever(|place| {
            let Some(direct) = &place.direct else {
                return self.transfer(place, Rights::READ, Bytes::Into(&mut *pieces));
            };
            let mut left = pieces.iter_mut();
            self.act_on_each(direct, Rights::READ, |area| {
                let (offset, into) = left.next()?;
                Some((area.read(*offset, into), (*offset, into.len() as u64)))
            })
        })
    }

    /// Writes pieces, each from its offset on, in their order where they overlap and the path is direct;
    /// in any on the delegated one.
    ///
    /// # Errors
    /// As `write`, about the first piece that is wrong. Others may have been written.
    pub fn write_vectored(&self, pieces: &[(u64, &[u8])]) -> Result<(), MemoryError> {
        self.wherever(|place| {
            let Some(direct) = &place.direct else {
                return self.transfer(place, Rights::WRITE, Bytes::From(pieces));
            };
            let mut left = pieces.iter();
            self.act_on_each(direct, Rights::WRITE, |area| {
                let (offset, from) = left.next()?;
                Some((area.write(*offset, from), (*offset, from.len() as u64)))
            })
        })
    }

    /// Acts on the mapped bytes until there is no piece any more, or one that is wrong.
    fn act_on_each(
        &self,
        direct: &Direct,
        wanted: Rights,
        mut act: impl FnMut(&Area) -> Option<(Result<(), OutOfRange>, (u64, u64))>,
    ) -> Result<(), MemoryError> {
        direct.with(self.shared(), |area| {
            self.check(wanted)?;
            while let Some((done, (offset, bytes))) = act(area) {
                done.map_err(|error| self.range(offset, bytes, error.limit))?;
            }
            Ok(())
        })?
    }
}
