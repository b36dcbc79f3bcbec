//! Payloads of calls, and the replies that they have: each byte depends on all of them.

/// The reply to a payload: as long, and another one for each.
pub fn reply_to(payload: &[u8]) -> Vec<u8> {
    let sum = payload.iter().fold(7u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(*byte));
    payload.iter().rev().map(|byte| byte ^ sum).collect()
}

/// Bytes that differ by place and by seed.
pub fn payload(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

/// Mostly short ones, now and then any length up to the longest.
pub fn length(number: u64, longest: usize) -> usize {
    let bytes = match number % 64 {
        0 => payload(8, number).iter().fold(0, |sum, byte| sum * 37 + usize::from(*byte)),
        1 => longest,
        _ => number as usize % 200,
    };
    bytes % longest + 1
}
