//! A slot's state machine: every order in which both sides may take their steps.
//!
//! Each step is one compare-and-swap, so that running the steps of two threads in every order is
//! every run there is. Whatever the order, both sides agree on what became of the offer.

mod support;

use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_abi::stream::channel::{slot, slot_offset, SlotState};
use heliostat_base::call;
use heliostat_client::session;
use heliostat_stub_posix::net::channel::{Channel, Side, Slot};
use heliostat_stub_posix::net::socket;
use heliostat_stub_posix::table;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::Arc;
use support::pair::{direct, End, Listener};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Act {
    /// The client's connection has its address.
    Offer,
    /// The client closes, or has to be the kernel's.
    Withdraw,
    /// The client writes.
    Start,
    /// The client has to be the kernel's after the claim.
    Retreat,
    /// The acceptor has seen the secret.
    Prove,
    /// The acceptor has seen something else.
    Refuse,
    Claim,
    Decline,
    /// The acceptor has to be the kernel's.
    Revoke,
}

const CLIENT: [&[Act]; 7] = [
    &[Act::Offer],
    &[Act::Offer, Act::Withdraw],
    &[Act::Offer, Act::Withdraw, Act::Withdraw],
    &[Act::Offer, Act::Start, Act::Start],
    &[Act::Offer, Act::Start, Act::Withdraw],
    &[Act::Offer, Act::Retreat, Act::Start],
    &[Act::Offer, Act::Start, Act::Retreat],
];
const ACCEPTOR: [&[Act]; 7] = [
    &[Act::Claim],
    &[Act::Decline],
    &[Act::Decline, Act::Claim],
    &[Act::Claim, Act::Revoke],
    &[Act::Claim, Act::Prove, Act::Revoke],
    &[Act::Claim, Act::Refuse],
    &[Act::Revoke, Act::Claim, Act::Revoke],
];

/// What the sides were told.
#[derive(Default)]
struct Told {
    offered: bool,
    withdrawn: Vec<bool>,
    started: bool,
    claimed: bool,
    retreated: bool,
    /// The acceptor gave its claim up, or found the offer false.
    revoked: bool,
}

fn channel() -> Arc<Channel> {
    let listener = Listener::new();
    let end = listener.connect();
    let stream = socket::at(end.index()).stream().expect("direct");
    stream.slot.channel.clone()
}

fn address(port: u16) -> NetAddress {
    NetAddress::new(([127, 0, 0, 1], port).into())
}

fn play(client: &Slot, acceptor: &Slot, acts: &[Act]) -> Told {
    let mut told = Told::default();
    for act in acts {
        match act {
            Act::Offer => told.offered = client.offer(address(1), address(2), 3),
            // A connection whose offer was declined is native and withdraws nothing.
            Act::Withdraw if !told.offered => {}
            Act::Withdraw => told.withdrawn.push(client.withdraw()),
            // Once begun, a ring stays begun.
            Act::Start => told.started = client.start() || told.started,
            Act::Claim => {
                told.claimed = acceptor.claim(ObjectId { index: 0, generation: 1 }, &[7; 16])
            }
            Act::Retreat => told.retreated = client.retreat() || told.retreated,
            Act::Prove => _ = acceptor.prove(),
            Act::Refuse => told.revoked = acceptor.refuse() || told.revoked,
            Act::Decline => _ = acceptor.decline(),
            Act::Revoke => told.revoked = acceptor.revoke() || told.revoked,
        }
    }
    told
}

/// All merges of two sequences that keep the order of each.
fn merges(one: &[Act], other: &[Act]) -> Vec<Vec<Act>> {
    let (Some(first), Some(second)) = (one.first(), other.first()) else {
        return vec![[one, other].concat()];
    };
    let with = |head: &Act, tails: Vec<Vec<Act>>| -> Vec<Vec<Act>> {
        tails.into_iter().map(|tail| [&[*head], tail.as_slice()].concat()).collect()
    };
    let mut all = with(first, merges(&one[1..], other));
    all.extend(with(second, merges(one, &other[1..])));
    all
}

#[test]
fn both_sides_agree_on_an_offer_whatever_the_order_of_their_steps() {
    let channel = channel();
    for (client_acts, acceptor_acts) in
        CLIENT.iter().flat_map(|client| ACCEPTOR.map(|acceptor| (client, acceptor)))
    {
        for acts in merges(client_acts, acceptor_acts) {
            let client = channel.take_slot().expect("every slot was given back");
            let index = channel.offers().trailing_zeros();
            let acceptor = channel.slot(index).expect("it is on offer");
            let told = play(&client, &acceptor, &acts);
            let is_direct = client.state().is_stream();
            assert_eq!(told.claimed && !told.revoked && !told.retreated, is_direct, "{acts:?}");
            let is_begun = matches!(client.state(), SlotState::Started | SlotState::Proven);
            assert_eq!(told.started && !told.revoked, is_begun, "{acts:?}");
            assert!(!is_direct || told.offered, "{acts:?}");
            let is_left = |withdrawn: &bool| !is_direct || !*withdrawn;
            assert!(told.withdrawn.iter().all(is_left), "{acts:?}");
            client.abandon();
            acceptor.leave(Side::Server);
            assert_eq!(channel.offers() & 1 << index, 0, "{acts:?}");
        }
    }
}

#[test]
fn a_slot_given_out_again_is_another_stream_for_who_still_holds_the_old_one() {
    let channel = channel();
    let old = channel.take_slot().unwrap();
    assert!(old.offer(address(1), address(2), 3) && old.withdraw());
    let stale = old.clone();
    old.abandon();
    let new = channel.take_slot().unwrap();
    assert!(new.offer(address(4), address(2), 5));
    assert_eq!(stale.state(), SlotState::Free);
    assert!(!stale.withdraw() && !stale.claim(ObjectId { index: 0, generation: 1 }, &[7; 16]));
    assert_eq!(new.state(), SlotState::Offered);
    new.abandon();
}

#[test]
fn a_word_that_is_no_state_is_nobodys() {
    let channel = channel();
    let slot = channel.take_slot().unwrap();
    let memory = support::control().channel(channel.entry.id.index);
    let index = channel.offers().trailing_zeros();
    let at = heliostat_abi::stream::channel::slot_offset(index);
    for word in [7u32, 0xff, u32::MAX, 0] {
        memory.atomic_u32(at).store(word, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(slot.state(), SlotState::Free);
        assert!(!slot.claim(session::standing().unwrap().id, &[7; 16]) && !slot.withdraw());
    }
    slot.abandon();
}

/// What a late acceptor leaves of the claims of all slots: none is whole.
fn spoil_claims(end: &End) {
    let stream = socket::at(end.index()).stream().expect("direct");
    let memory = support::control().channel(stream.slot.channel.entry.id.index);
    for index in 0..stream.slot.channel.entry.slots {
        let check = memory.atomic_u64(slot_offset(index) + slot::CLAIM_CHECK);
        check.fetch_xor(1, SeqCst);
    }
}

#[test]
fn a_killed_acceptors_slot_comes_back_where_its_claim_was_written_over() {
    for (is_killed, free) in [(true, 4), (false, 3)] {
        let (client, server) = direct();
        let channel = socket::at(client.index()).stream().expect("direct").slot.channel;
        spoil_claims(&client);
        let mut server = Some(server);
        match server.take_if(|_| is_killed) {
            Some(killed) => {
                table::take(killed.fd);
                call::close(killed.fd).unwrap();
                std::mem::forget(killed);
            }
            // It may read on.
            None => server.iter().for_each(|server| server.shutdown(libc::SHUT_RDWR)),
        }
        drop(client);
        assert_eq!(std::iter::from_fn(|| channel.take_slot()).count(), free);
    }
}
