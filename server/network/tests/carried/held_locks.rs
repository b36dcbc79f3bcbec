//! Programs that hold the kernel's lock of a socket that they have handed over.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use heliostat_abi::stream::channel::direction::SWITCHED;
use heliostat_server_network::Order;
use heliostat_service_grant::Holder;

use crate::faults::{hold_if_told, By, LockHolder};
use crate::program::*;

/// This program's second self begins here.
#[test]
fn holds_a_lock_where_it_is_told_to() {
    hold_if_told();
}

fn hold(socket: impl AsFd, by: By) -> Option<LockHolder> {
    LockHolder::of(socket, by, "held_locks::holds_a_lock_where_it_is_told_to")
}

fn close() -> Box<dyn Fn(OwnedFd) + Send> {
    Box::new(drop::<OwnedFd>)
}

/// Bytes pass both ways.
fn is_carried((carried, peer): &mut (Carried, std::net::TcpStream)) {
    carried.send(b"question");
    let mut seen = [0; 8];
    peer.read_exact(&mut seen).unwrap();
    peer.write_all(&seen).unwrap();
    assert_eq!(carried.receive(8), b"question");
}

/// A loop that waits for a lock, which no signal ends, and does so for some time.
fn kept() -> Option<std::path::PathBuf> {
    let is_kept = |task: &std::path::PathBuf| {
        let stat = std::fs::read_to_string(task.join("stat")).unwrap_or_default();
        stat.contains("(heliostat-net-") && stat.contains(") D")
    };
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let found = tasks.filter_map(|task| Some(task.ok()?.path())).find(is_kept)?;
    let goes_on = |_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        !is_kept(&found)
    };
    (!(0..10).any(goes_on)).then_some(found)
}

/// One of these tests at a time has such a loop.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Of one user, and of another whose connections were there before, or come later.
fn others_go_on(by: By) {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let loops = Program::loops(100);
    let start = |uid| Program::start_in(&loops, Holder::user(uid), RING, close());
    let (offender, other) = (start(1), start(2));
    let mut before = other.carry(0);
    is_carried(&mut before);
    let (mut carried, _peer, socket, far) = offender.carry_all(0, false);
    wait_until("it", || offender.count("connections") == 1);
    let held = match by {
        By::Option => hold(&socket, by),
        By::Receive => {
            // A bell that the holder takes, and which it never has.
            (&carried.shadow).write_all(&[0]).unwrap();
            hold(&far, by)
        }
    };
    let Some(holder) = held else { return };
    // The loop touches what is held: it has bytes to send, and a bell.
    carried.send(b"bytes");
    carried.outgoing.count_bell();
    carried.shadow.write_all(&[0]).unwrap();
    wait_until("its loop is kept", || kept().is_some());
    for _ in 0..50 {
        is_carried(&mut before);
    }
    let later = start(3);
    is_carried(&mut later.carry(0));
    assert!(kept().is_some());
    // It ends its channel and asks for more: they wait for the loop that is its own.
    let end = || Order::End { id: offender.id, revoked: true };
    (0..3).for_each(|_| loops.lock().unwrap().order(offender.name, end()));
    assert_eq!(loops.lock().unwrap().of(Holder::user(1)).unwrap(), offender.name);
    drop(holder);
    wait_until("its loop goes on", || carried.incoming.flags() & SWITCHED != 0);
    is_carried(&mut before);
}

#[test]
fn who_holds_the_lock_of_its_socket_holds_up_its_own_loop_alone() {
    others_go_on(By::Option);
}

#[test]
fn who_holds_the_lock_of_its_shadow_holds_up_its_own_loop_alone() {
    others_go_on(By::Receive);
}

#[test]
fn each_user_has_a_share_of_the_loops_and_idle_ones_make_place() {
    let loops = Program::loops(100);
    let mut programs = Vec::new();
    for uid in 1.. {
        if loops.lock().unwrap().of(Holder::user(uid)).is_err() {
            break;
        }
        programs.push(Program::start_in(&loops, Holder::user(uid), RING, close()));
    }
    // What is left is for root and the owner, and for who has no loop yet.
    assert!((48..64).contains(&programs.len()), "{}", programs.len());
    assert!(loops.lock().unwrap().of(Holder::trusted(0)).is_ok());
    let cores: Vec<usize> = (1000..1020).collect();
    assert!(loops.lock().unwrap().on_cores(Holder::user(1), &cores).is_err());
    let gone = programs.pop().unwrap();
    loops.lock().unwrap().order(gone.name, Order::End { id: gone.id, revoked: false });
    wait_until("an idle one ends", || loops.lock().unwrap().of(Holder::user(1000)).is_ok());
    is_carried(&mut programs[0].carry(0));
    assert!(loops.lock().unwrap().each().len() <= 64);
}
