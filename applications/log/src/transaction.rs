//! A transaction's bytes: its slot, its entries, and a sum over both.
//!
//! ```text
//! sum u64 | slot u32 | entries u32 | (bytes u32, entry) ... | zeros up to a multiple of 8
//! ```

/// Bytes in front of the entries.
const HEAD_BYTES: usize = 16;

/// Makes the bytes of a transaction that goes into a slot.
pub fn encode(slot: u64, entries: &[&[u8]]) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    bytes.extend_from_slice(&(slot as u32).to_le_bytes());
    bytes.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    for entry in entries {
        bytes.extend_from_slice(&(entry.len() as u32).to_le_bytes());
        bytes.extend_from_slice(entry);
    }
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let sum = sum(&bytes[8..]);
    bytes[..8].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// How many bytes that are.
pub fn length(entries: &[&[u8]]) -> u64 {
    let bytes: usize = entries.iter().map(|entry| entry.len() + 4).sum();
    (HEAD_BYTES + bytes).next_multiple_of(8) as u64
}

/// Takes a slot's transaction apart; none where that is not what the bytes are.
pub fn decode(slot: u64, bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (head, mut rest) = bytes.split_at_checked(HEAD_BYTES)?;
    let number = |at: usize| head[at..at + 4].try_into().map(u32::from_le_bytes).ok();
    let is_whole = head[..8] == sum(&bytes[8..]).to_le_bytes();
    if !is_whole || number(8)? != slot as u32 {
        return None;
    }
    let mut entries = Vec::new();
    for _ in 0..number(12)? {
        let (bytes, more) = rest.split_at_checked(4)?;
        let bytes = u32::from_le_bytes(bytes.try_into().ok()?);
        let (entry, more) = more.split_at_checked(bytes as usize)?;
        entries.push(entry.to_vec());
        rest = more;
    }
    Some(entries)
}

/// Fowler, Noll and Vo's sum, by words and not by bytes. It finds what was half written, not malice.
fn sum(bytes: &[u8]) -> u64 {
    bytes.chunks_exact(8).fold(0xcbf2_9ce4_8422_2325, |sum, word| {
        let word = word.try_into().map_or(0, u64::from_le_bytes);
        let mixed = (sum ^ word).wrapping_mul(0x0100_0000_01b3);
        mixed ^ (mixed >> 29)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_the_same_afterwards() {
        for entries in [vec![], vec![&b""[..]], vec![b"one", b"", b"a third entry"]] {
            let bytes = encode(7, &entries);
            assert_eq!(bytes.len() as u64, length(&entries));
            assert_eq!(decode(7, &bytes).unwrap(), entries);
            assert_eq!(decode(8, &bytes), None, "another slot's");
        }
    }

    #[test]
    fn what_is_half_written_is_no_transaction() {
        let bytes = encode(1, &[b"some bytes", b"and more of them"]);
        for at in 0..bytes.len() {
            let mut half = bytes.clone();
            half[at..].fill(0);
            assert!(half == bytes || decode(1, &half).is_none(), "{at}");
            assert_eq!(decode(1, &bytes[..at]), None);
        }
    }
}
