//! Queries from the network, as a worker gets them: frames on connections, whichever way their bytes came.
//!
//! A frame is a length (four bytes, little-endian) and so many bytes; its answer is another.

use std::collections::HashMap;
use std::io;

/// The longest frame that is taken.
const FRAME_BYTES_MAX: usize = 64 * 1024;

/// Where bytes of clients come from and answers go to.
pub trait Connections {
    /// Waits for bytes of any connection: its number, and the bytes (none: its end).
    ///
    /// # Errors
    /// As of the way that they come.
    fn next(&mut self) -> io::Result<(u64, Vec<u8>)>;

    /// Sends bytes.
    ///
    /// # Errors
    /// The connection's.
    fn send(&mut self, connection: u64, bytes: &[u8]) -> io::Result<()>;
}

/// A frame's bytes.
pub fn frame(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("a frame");
    [&length.to_le_bytes(), bytes].concat()
}

/// Takes the first whole frame out of what has come.
///
/// # Errors
/// `InvalidData`: the frame says that it is too long.
pub fn take_frame(come: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    let Some((length, _)) = come.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    if come.len() < 4 + length {
        return Ok(None);
    }
    let rest = come.split_off(4 + length);
    let frame = std::mem::replace(come, rest).split_off(4);
    Ok(Some(frame))
}

/// Answers queries until the way that they come by ends.
///
/// # Errors
/// That way's.
pub fn serve(
    connections: &mut dyn Connections,
    answer: &dyn Fn(&[u8]) -> Vec<u8>,
) -> io::Result<()> {
    let mut come: HashMap<u64, Vec<u8>> = HashMap::new();
    loop {
        let (connection, bytes) = connections.next()?;
        if bytes.is_empty() {
            come.remove(&connection);
            continue;
        }
        let so_far = come.entry(connection).or_default();
        so_far.extend_from_slice(&bytes);
        // A client that sends nonsense, or is gone, costs its own connection.
        while let Ok(Some(query)) = take_frame(so_far) {
            if connections.send(connection, &frame(&answer(&query))).is_err() {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_whole_however_their_bytes_come() {
        let mut come = Vec::new();
        let sent = [frame(b"one"), frame(b""), frame(b"three")].concat();
        let mut taken = Vec::new();
        for byte in sent {
            come.push(byte);
            while let Some(frame) = take_frame(&mut come).unwrap() {
                taken.push(frame);
            }
        }
        assert_eq!(taken, [b"one".to_vec(), Vec::new(), b"three".to_vec()]);
        assert!(come.is_empty());
    }

    #[test]
    fn a_frame_that_is_too_long_is_an_error() {
        assert!(take_frame(&mut vec![255; 8]).is_err());
    }
}
