//! A loop, with the test as the program on one side and as the remote peer on the other.

#[path = "../../../../heliostatd/tests/support/faults.rs"]
mod faults;
mod held_locks;
mod program;

use std::io::{IoSlice, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

use heliostat_abi::code::Side;
use heliostat_abi::stream::channel::direction::{FIN, FULL, RESET, SWITCHED};
use heliostat_abi::stream::channel::{self as layout, slot};
use heliostat_abi::stream::delegated::Hand;
use heliostat_base::packet;
use heliostat_server_network::Order;
use heliostat_service_grant::{Holder, Shares};
use rustix::net::{socketpair, AddressFamily, SocketFlags, SocketType};

use program::*;

#[test]
fn a_socket_that_is_taken_between_two_turns_goes_on_where_the_lanes_say() {
    const BYTES: usize = 400_000;
    let program = Program::start(100);
    for moment in 0..20 {
        let (mut carried, peer, mut socket) = program.carry_kept(0);
        let sent: Vec<u8> = (0..BYTES).map(|at| (at * 7 + at / 251 + moment) as u8).collect();
        let (mut sender, theirs) = (peer.try_clone().unwrap(), sent.clone());
        let sending = std::thread::spawn(move || sender.write_all(&theirs).unwrap());
        let mut seen = carried.receive(moment * 9_000);
        carried.send(&[3; 5000]);
        carried.incoming.want_native();
        wait_until("the end of a turn", || carried.outgoing.take_turns());
        let left = carried.incoming.unread().unwrap() as usize;
        seen.extend(carried.receive(left));
        let rest = carried.outgoing.take_back().unwrap();
        // As the program puts the socket in the shadow's place: that is how the loop hears of it.
        drop(carried);
        socket.write_all(&rest).unwrap();
        let mut tail = vec![0; BYTES - seen.len()];
        socket.set_read_timeout(Some(WATCHDOG)).unwrap();
        socket.read_exact(&mut tail).unwrap();
        seen.extend(tail);
        assert!(seen == sent, "at moment {moment}");
        sending.join().unwrap();
        wait_until("the loop lets go", || program.count("connections") == 0);
        drop(socket);
        let mut got = Vec::new();
        (&peer).read_to_end(&mut got).unwrap();
        assert_eq!(got, [3; 5000]);
    }
}

#[test]
fn bytes_pass_both_ways_also_more_than_a_ring_holds() {
    let program = Program::start(8);
    let (mut carried, mut peer) = program.carry(0);
    let sent = pattern(300_000);
    let mut back = peer.try_clone().unwrap();
    let (there, expected) = (sent.clone(), sent.clone());
    let writer = std::thread::spawn(move || back.write_all(&there).unwrap());
    assert!(carried.receive(expected.len()) == expected);
    writer.join().unwrap();
    let reader = std::thread::spawn(move || {
        let mut seen = vec![0; 300_000];
        peer.read_exact(&mut seen).unwrap();
        seen
    });
    carried.send(&sent);
    assert!(reader.join().unwrap() == sent);
}

#[test]
fn a_peers_end_is_a_flag_and_the_programs_end_reaches_the_peer() {
    let program = Program::start(8);
    let (mut carried, mut peer) = program.carry(1);
    peer.write_all(b"last").unwrap();
    peer.shutdown(Shutdown::Write).unwrap();
    assert_eq!(carried.receive(4), b"last");
    wait_until("FIN", || carried.incoming.flags() & FIN != 0);
    carried.send(b"answer");
    carried.outgoing.raise(FIN);
    if carried.outgoing.take_sleeping_reader() {
        carried.outgoing.count_bell();
        carried.shadow.write_all(&[0]).unwrap();
    }
    let mut seen = Vec::new();
    peer.read_to_end(&mut seen).unwrap();
    assert_eq!(seen, b"answer");
    wait_until("the slot", || {
        program.word(1, slot::CLOSED).load(Acquire) & slot::CLOSED_SERVER != 0
    });
}

#[test]
fn what_a_program_that_is_gone_has_left_still_arrives() {
    let program = Program::start(8);
    let (mut carried, mut peer) = program.carry(0);
    let text = pattern(10_000);
    carried.send(&text);
    drop(carried.shadow);
    let mut seen = Vec::new();
    peer.read_to_end(&mut seen).unwrap();
    assert!(seen == text);
    wait_until("the end", || program.count("connections") == 0);
}

#[test]
fn a_reset_of_either_side_is_the_others() {
    let program = Program::start(8);
    let (carried, peer) = program.carry(0);
    heliostat_base::call::linger_zero(peer.as_raw_fd()).unwrap();
    drop(peer);
    wait_until("RESET", || carried.incoming.flags() & RESET != 0);
    let (carried, mut peer) = program.carry(1);
    carried.outgoing.raise(RESET);
    drop(carried.shadow);
    let error = peer.read(&mut [0; 9]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn a_connection_that_is_wanted_back_is_let_go_of_with_nothing_under_way() {
    let program = Program::start(8);
    let (mut carried, mut peer) = program.carry(2);
    peer.write_all(b"one").unwrap();
    assert_eq!(carried.receive(3), b"one");
    carried.incoming.want_native();
    carried.outgoing.count_bell();
    carried.shadow.write_all(&[0]).unwrap();
    wait_until("SWITCHED", || carried.incoming.flags() & SWITCHED != 0);
    assert_eq!(carried.shadow.read(&mut [0]).unwrap(), 0);
    assert_eq!(program.word(2, slot::CLOSED).load(Acquire) & slot::DONE_SERVER, slot::DONE_SERVER);
}

#[test]
fn hands_that_are_not_what_they_should_be_are_closed_and_others_go_on() {
    let program = Program::start(8);
    let (mut good, mut peer) = program.carry(0);
    let (near, far) = UnixStream::pair().unwrap();
    let file = std::fs::File::open("/dev/null").unwrap();
    let (tcp, _listener) = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        (TcpStream::connect(listener.local_addr().unwrap()).unwrap(), listener)
    };
    let before = program.count("refused");
    program.hand(1, near.as_raw_fd(), far.as_raw_fd()); // no TCP socket
    program.hand(1, tcp.as_raw_fd(), file.as_raw_fd()); // no shadow
    program.hand(0, tcp.as_raw_fd(), far.as_raw_fd()); // a slot that is taken
    let link = program.link.as_raw_fd();
    let hand = Hand { slot: 3, generation: 9 }; // a use that has not begun
    packet::send(link, &hand.encode(), &[tcp.as_raw_fd(), far.as_raw_fd()]).unwrap();
    packet::send(link, &[1; 3], &[]).unwrap();
    packet::send(link, &[7; 16], &[tcp.as_raw_fd()]).unwrap();
    (&near).write_all(b"x").unwrap(); // something lies in the far end
    program.hand(1, tcp.as_raw_fd(), far.as_raw_fd());
    wait_until("refusals", || program.count("refused") == before + 7);
    good.send(b"still here");
    let mut seen = [0; 10];
    peer.read_exact(&mut seen).unwrap();
    assert_eq!(&seen, b"still here");
}

#[test]
fn positions_that_contradict_the_ring_reset_their_own_connection_alone() {
    let program = Program::start(8);
    let (bad, mut bad_peer) = program.carry(0);
    let (mut good, mut peer) = program.carry(1);
    wait_until("both", || program.count("connections") == 2);
    let tail = layout::slot_offset(0) + slot::DIRECTION[0] + layout::direction::TAIL;
    program.memory.atomic_u64(tail).store(u64::MAX / 2, Release);
    bad.outgoing.count_bell();
    (&bad.shadow).write_all(&[0]).unwrap();
    let found = bad_peer.read(&mut [0; 9]);
    assert!(found.is_err(), "{found:?}");
    wait_until("the count", || program.count("corrupt") == 1);
    good.send(b"fine");
    let mut seen = [0; 4];
    peer.read_exact(&mut seen).unwrap();
    assert_eq!(&seen, b"fine");
}

#[test]
fn beyond_its_limit_a_loop_closes_what_it_is_handed() {
    let program = Program::start(1);
    let (_first, _peer) = program.carry(0);
    wait_until("the first", || program.count("connections") == 1);
    let (mut second, _other_peer) = program.carry(1);
    assert_eq!(second.shadow.read(&mut [0]).unwrap(), 0);
    wait_until("the count", || program.count("refused") == 1);
    assert_eq!(second.incoming.flags(), FULL | SWITCHED);
    let closed = program.word(second.slot, slot::CLOSED).load(Acquire);
    assert_eq!(closed & slot::DONE_SERVER, slot::DONE_SERVER);
}

#[test]
fn a_user_that_has_its_share_takes_none_of_another_and_gets_it_again() {
    let greedy = Program::start(8);
    greedy.loops.lock().unwrap().share().set(Shares { user: 2, ..Shares::whole(8) });
    let two = [greedy.carry(0), greedy.carry(1)];
    wait_until("its share", || greedy.count("connections") == 2);
    let (mut third, _peer) = greedy.carry(2);
    assert_eq!(third.shadow.read(&mut [0]).unwrap(), 0);
    let refused = greedy.loops.lock().unwrap().share().refused(1).unwrap();
    assert_eq!((refused.exceeded.side, refused.exceeded.limit), (Side::User, 2));
    let other = greedy.of_user(2);
    let (mut carried, mut peer) = other.carry(0);
    carried.send(b"mine");
    let mut seen = [0; 4];
    peer.read_exact(&mut seen).unwrap();
    assert_eq!(&seen, b"mine");
    assert!(greedy.loops.lock().unwrap().share().refused(2).is_none());
    drop(two);
    wait_until("they are counted no more", || {
        greedy.loops.lock().unwrap().share().used(Holder::user(1)).user == 0
    });
    let (mut again, mut peer) = greedy.carry(3);
    again.send(b"more");
    peer.read_exact(&mut seen).unwrap();
    assert_eq!(&seen, b"more");
}

#[test]
fn a_revoked_channel_gives_its_connections_back() {
    let program = Program::start(8);
    let (carried, _peer) = program.carry(0);
    wait_until("it", || program.count("connections") == 1);
    program.loops.lock().unwrap().order(program.name, Order::End { id: program.id, revoked: true });
    wait_until("SWITCHED", || carried.incoming.flags() & SWITCHED != 0);
}

#[test]
fn a_connection_that_its_round_had_no_room_for_is_received_from_in_the_next() {
    const LARGE: u32 = 4 << 20; // one connection's ring is what a session may move in a round
    for speaks in 0..SLOTS {
        let program = Program::start_with(10, LARGE);
        let all: Vec<_> = (0..SLOTS).map(|slot| program.carry_to(slot, slot == speaks)).collect();
        let (carried, _peer) = &all[speaks as usize];
        wait_until("the byte comes", || carried.incoming.unread() == Ok(1));
    }
}

#[test]
fn a_link_that_has_ended_and_is_not_closed_yet_leaves_the_loop_asleep() {
    let (hung, kept) = std::sync::mpsc::channel();
    let close = move |fd| hung.send(fd).unwrap();
    let mut program = Program::start_closed_by(8, RING, Box::new(close));
    let flags = SocketFlags::CLOEXEC;
    program.link = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap().0;
    let _link = kept.recv_timeout(WATCHDOG).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let before = program.count("sleeps");
    std::thread::sleep(Duration::from_millis(300));
    let slept = program.count("sleeps") - before;
    assert!(slept < 10, "woke {slept} times");
}

#[test]
fn descriptors_that_come_over_a_shadow_are_closed_beside_the_loop_and_end_their_connection() {
    let (closed, kept) = std::sync::mpsc::channel();
    let program = Program::start_closed_by(8, RING, Box::new(move |fd| closed.send(fd).unwrap()));
    let (carried, _peer, far) = program.carry_shown(0);
    // Who has the far end too may always take it back that none are let in (SO_PASSRIGHTS).
    wait_until("it", || program.count("connections") == 1);
    let _ = heliostat_base::call::set_option(far.as_raw_fd(), libc::SOL_SOCKET, 83, 1);
    let (sent, _other) = UnixStream::pair().unwrap();
    carried.outgoing.count_bell();
    packet::send(carried.shadow.as_raw_fd(), &[0], &[sent.as_raw_fd()]).unwrap();
    let inode = heliostat_base::call::inode(sent.as_raw_fd());
    let found = kept.recv_timeout(WATCHDOG).unwrap();
    assert_eq!(heliostat_base::call::inode(found.as_raw_fd()), inode);
    wait_until("the end", || program.count("connections") == 0 && program.count("corrupt") == 1);
}

#[test]
fn what_a_peer_says_before_it_resets_is_received_although_nothing_can_be_sent_any_more() {
    const WHY: &[u8] = b"that is not understood here";
    let program = Program::start(8);
    for turn in 0..300 {
        let (mut carried, peer) = program.carry(0);
        let ending = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(turn * 10));
            (&peer).write_all(WHY).unwrap();
            heliostat_base::call::linger_zero(peer.as_raw_fd()).unwrap();
        });
        while carried.incoming.flags() & RESET == 0 {
            let part = [IoSlice::new(&[7; 512])];
            let _ = carried.outgoing.write(&part, &mut carried.cache).unwrap();
            if carried.outgoing.take_sleeping_reader() {
                carried.outgoing.count_bell();
                let _ = carried.shadow.write_all(&[0]);
            }
        }
        ending.join().unwrap();
        assert_eq!(carried.incoming.unread(), Ok(WHY.len() as u64), "in turn {turn}");
        wait_until("the end", || program.count("connections") == 0);
    }
}

#[test]
fn what_was_written_before_a_reset_is_sent_as_far_as_the_peer_takes_it() {
    let program = Program::start(8);
    let (mut carried, mut peer) = program.carry(0);
    wait_until("the loop sleeps", || program.count("sleeps") > 0);
    let text = pattern(10_000);
    let part = [IoSlice::new(&text)];
    assert_eq!(carried.outgoing.write(&part, &mut carried.cache).unwrap(), text.len());
    carried.outgoing.raise(RESET);
    drop(carried.shadow);
    let mut seen = vec![0; text.len()];
    peer.read_exact(&mut seen).unwrap();
    assert!(seen == text);
    let error = peer.read(&mut [0; 9]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn a_connection_whose_peer_sends_urgent_data_goes_back_in_front_of_its_mark() {
    let program = Program::start(8);
    for before in [&b""[..], b"abc"] {
        let (carried, peer, mut socket) = program.carry_kept(0);
        (&peer).write_all(before).unwrap();
        heliostat_base::call::send(peer.as_raw_fd(), b"u", libc::MSG_OOB).unwrap();
        (&peer).write_all(b"def").unwrap();
        wait_until("SWITCHED", || carried.incoming.flags() & SWITCHED != 0);
        let mut seen = carried.receive(carried.incoming.unread().unwrap() as usize);
        let mut rest = vec![0; before.len() - seen.len()];
        socket.read_exact(&mut rest).unwrap();
        seen.extend(rest);
        assert_eq!(seen, before);
        let mut urgent = [0];
        let taken = heliostat_base::call::recv(socket.as_raw_fd(), &mut urgent, libc::MSG_OOB);
        assert_eq!((taken, urgent), (Ok(1), *b"u"));
        let mut rest = [0; 3];
        socket.read_exact(&mut rest).unwrap();
        assert_eq!(&rest, b"def");
    }
}
