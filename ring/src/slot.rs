//! A channel's slots: who may take one, and the steps by which two processes agree on its use.
//!
//! The state word moves by compare-and-swap, and carries the generation of the slot: who kept an old
//! one steps no later one. It may still *store* into it, since a process can sleep between a look and
//! what follows; so nothing that a late store changes may be believed. Steps and their order are
//! drawn in `abi::channel` and `docs/streams.md`; what an offer says of its connection, and what lies
//! in the lanes, is the callers'.
//!
//! Orders (labels stand beside each release and its acquire; `models` shows them under loom):
//! - `S1` what its side wrote before a step: addresses before Offered, the claim before Claimed, the
//!   client's prefix before Started, the acceptor's before Proven, and all reads before Declined and
//!   Withdrawn;
//! - `S2` an end's last use of the slot before its bit of `closed`, and a process's before the count
//!   of holders: the client acquires the server's before it begins the slot anew;
//! - `S3` the new generation before the offer's bit, against the bit cleared before another look at
//!   the generation: who clears the bit of an old offer sees the new one, and sets it again;
//! - `S4` PASSED_ON before its process ends, which the session's word tells: who sees the end sees
//!   the bit. So the session is looked at first, and `closed` last.

use heliostat_abi::name::ObjectId;
use heliostat_abi::stream::channel::slot::{self as at, SECRET_BYTES};
use heliostat_abi::stream::channel::SlotState;

use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::{AtomicU32, AtomicU64};

/// What proves an offer.
pub type Secret = [u8; SECRET_BYTES];

const GENERATION_ONE: u32 = 0x100;

/// The words of one slot, foreign to both of its ends.
pub trait Words {
    /// The 32-bit word at one of `abi::channel::slot`'s offsets.
    fn u32(&self, offset: usize) -> &AtomicU32;
    /// The 64-bit word at one of those offsets.
    fn u64(&self, offset: usize) -> &AtomicU64;
    /// The channel's word of offers.
    fn offers(&self) -> &AtomicU64;
    /// This slot's bit in it.
    fn offer(&self) -> u64;
}

/// What an acceptor writes before its claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Its session.
    pub acceptor: ObjectId,
    /// What it wants to be told on the shadow.
    pub secret: Secret,
}

/// Client: begins the slot's next use, which is left or was never used; its generation. The lanes
/// have been reset.
pub fn begin(words: &impl Words) -> u32 {
    let next = words.u32(at::STATE).load(Relaxed).wrapping_add(GENERATION_ONE);
    words.u32(at::HOLDERS).store(1, Relaxed);
    words.u32(at::HOLDERS + 4).store(1, Relaxed);
    words.u32(at::CLOSED).store(0, Relaxed);
    words.u32(at::HAS_WRITTEN).store(0, Relaxed);
    words.u32(at::STATE).store(SlotState::Connecting.in_word(next), Release); // S1, S3
    set_offer(words, true);
    next >> 8
}

/// Sets or clears the slot's bit among the offers.
pub fn set_offer(words: &impl Words, on: bool) {
    match on {
        true => words.offers().fetch_or(words.offer(), AcqRel), // S3
        false => words.offers().fetch_and(!words.offer(), AcqRel), // S3
    };
}

/// Generation of the slot now.
pub fn generation(words: &impl Words) -> u32 {
    words.u32(at::STATE).load(Acquire) >> 8 // S1
}

/// State of the use of that generation; nonsense, and another generation, count as Free.
pub fn state(words: &impl Words, generation: u32) -> SlotState {
    let word = words.u32(at::STATE).load(Acquire); // S1
    match word >> 8 == generation {
        true => SlotState::from_word(word).unwrap_or(SlotState::Free),
        false => SlotState::Free,
    }
}

/// One step of that generation; false where the state is another.
pub fn step(words: &impl Words, generation: u32, from: SlotState, to: SlotState) -> bool {
    let state = words.u32(at::STATE);
    let word = state.load(Acquire);
    word >> 8 == generation
        && SlotState::from_word(word) == Some(from)
        && state.compare_exchange(word, to.in_word(word), AcqRel, Acquire).is_ok()
    // S1
}

/// Acceptor: takes the offer; false when the client was faster in withdrawing it.
///
/// The claim is written before it is known to be this acceptor's to make: one that has slept since it
/// saw the offer may write into a later use, beside the claim of whoever has that. Its check word
/// tells the client which of them is whole and of this generation.
pub fn claim(words: &impl Words, generation: u32, claim: &Claim) -> bool {
    let (secret, acceptor) = (secret_words(&claim.secret), claim.acceptor);
    words.u64(at::SECRET).store(secret[0], Relaxed);
    words.u64(at::SECRET + 8).store(secret[1], Relaxed);
    words.u32(at::ACCEPTOR).store(acceptor.index, Relaxed);
    words.u32(at::ACCEPTOR + 4).store(acceptor.generation, Relaxed);
    words.u64(at::CLAIM_CHECK).store(check(generation, secret, acceptor), Relaxed);
    let is_claimed = step(words, generation, SlotState::Offered, SlotState::Claimed);
    if is_claimed {
        set_offer(words, false);
    }
    is_claimed
}

/// The claim that holds, once the slot was seen Claimed; `None` where a late acceptor has written
/// into it, or its own was not honest.
pub fn claimed(words: &impl Words, generation: u32) -> Option<Claim> {
    let secret = [at::SECRET, at::SECRET + 8].map(|at| words.u64(at).load(Relaxed));
    let acceptor = acceptor(words);
    let is_whole = words.u64(at::CLAIM_CHECK).load(Relaxed) == check(generation, secret, acceptor);
    is_whole.then(|| Claim { acceptor, secret: secret_bytes(secret) })
}

/// Whose session has claimed the slot, as its words say: a hint.
#[inline]
pub fn acceptor(words: &impl Words) -> ObjectId {
    let word = |offset| words.u32(offset).load(Relaxed);
    ObjectId { index: word(at::ACCEPTOR), generation: word(at::ACCEPTOR + 4) }
}

/// Acceptor: refuses the offer, so that the client knows.
pub fn decline(words: &impl Words, generation: u32) -> bool {
    let is_declined = step(words, generation, SlotState::Offered, SlotState::Declined);
    if is_declined {
        // From the step on the slot is the client's, which may have it on offer again.
        set_offer(words, false);
        if self::generation(words) != generation {
            set_offer(words, true); // S3: at worst of no offer, which costs a look
        }
    }
    is_declined
}

/// Client: takes the offer back; false when it was claimed already.
pub fn withdraw(words: &impl Words, generation: u32) -> bool {
    step(words, generation, SlotState::Offered, SlotState::Withdrawn)
        || step(words, generation, SlotState::Connecting, SlotState::Withdrawn)
        || matches!(state(words, generation), SlotState::Declined | SlotState::Withdrawn)
}

/// An end is closed for good, or done: `bit` of `closed`.
pub fn close(words: &impl Words, bit: u32) {
    words.u32(at::CLOSED).fetch_or(bit, AcqRel); // S2
}

/// Client: closes its end for good. From then on another thread may take the slot, whose offer would be
/// hidden by who cleared the bit later.
pub fn leave(words: &impl Words) {
    set_offer(words, false); // S2, before the bit
    close(words, at::CLOSED_CLIENT);
}

/// This process holds the end with that word of holders no more; true when it was the last, as far as
/// the count knows. From one that `has_claimed` others may go on holding it, of which its session
/// does not tell.
pub fn let_go(words: &impl Words, holders: usize, has_claimed: bool) -> bool {
    if has_claimed && words.u32(holders).load(Relaxed) > 1 {
        close(words, at::PASSED_ON); // S4
    }
    words.u32(holders).fetch_sub(1, AcqRel) <= 1 // S2
}

/// Client: true when a slot given out earlier is nobody's any more. `is_active` looks at a session's
/// word, with an acquire.
pub fn is_left(words: &impl Words, is_active: impl Fn(ObjectId) -> bool) -> bool {
    const BY_CLIENT: u32 = at::CLOSED_CLIENT | at::DONE_CLIENT;
    const BY_SERVER: u32 = at::CLOSED_SERVER | at::DONE_SERVER;
    if words.u32(at::CLOSED).load(Relaxed) & BY_CLIENT == 0 {
        return false;
    }
    // Killed, with no child that holds the stream, unless `closed` says otherwise now (S4). Who has
    // claimed may be told wrongly, by one that was late: then its end is waited for.
    let is_killed = claimed(words, generation(words))
        .is_some_and(|claim| !is_active(claim.acceptor))
        && words.u32(at::HOLDERS + 4).load(Acquire) <= 1; // S2
    let closed = words.u32(at::CLOSED).load(Acquire); // S2, S4
    let state = SlotState::from_word(words.u32(at::STATE).load(Acquire)); // S1
    !state.is_some_and(SlotState::is_acceptors)
        || closed & BY_SERVER != 0
        || is_killed && closed & at::PASSED_ON == 0
}

fn secret_words(secret: &Secret) -> [u64; 2] {
    let bytes = u128::from_le_bytes(*secret);
    [bytes as u64, (bytes >> 64) as u64]
}

fn secret_bytes([low, high]: [u64; 2]) -> Secret {
    (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
}

/// Tells one claim from a mixture of two, or from an earlier use's; against accidents only.
fn check(generation: u32, [low, high]: [u64; 2], acceptor: ObjectId) -> u64 {
    let id = u64::from(acceptor.generation) << 32 | u64::from(acceptor.index);
    let mix =
        |mixed: u64, word: u64| (mixed ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    [low, high, id].into_iter().fold(!u64::from(generation), mix)
}

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_check_tells_generations_secrets_and_acceptors_apart_and_zeros_from_all() {
        let id = |index| ObjectId { index, generation: 7 };
        let claims = [
            check(1, [5, 6], id(3)),
            check(2, [5, 6], id(3)),
            check(1, [6, 5], id(3)),
            check(1, [5, 7], id(3)),
            check(1, [5, 6], id(4)),
            check(1, [0, 0], ObjectId { index: 0, generation: 0 }),
        ];
        let differ = |at: usize| claims[at] != 0 && !claims[..at].contains(&claims[at]);
        assert!((0..claims.len()).all(differ));
    }

    #[test]
    fn a_secret_comes_back_as_it_went() {
        let secret: Secret = std::array::from_fn(|at| at as u8 * 17);
        assert_eq!(secret_bytes(secret_words(&secret)), secret);
    }
}
