//! A consumer that tries to write what it may only read, by every means that Linux offers.
//!
//! It speaks the control protocol itself, so that it holds the descriptors that a consumer gets.
//! Each means must be refused; that the bytes are unchanged is looked at after each, through a
//! mapping of the intruder's own, and at the end by the producer's other consumers.

use std::ffi::{c_void, CString};
use std::os::fd::AsRawFd;

use heliostat_abi::session::record::{Reply, Request, REPLY_BYTES};
use heliostat_abi::snapshot::memory::{PINS_BYTES, PINS_MAGIC};
use heliostat_abi::snapshot::region::RegionName;
use heliostat_base::fd::OwnedFd;
use heliostat_base::mapping::SharedMapping;
use heliostat_base::packet::PacketSocket;

use crate::child::Child;
use crate::orders::Orders;

mod means;
mod victim;

use means::{Target, MEANS};

/// What a consumer is given: table and pool.
fn given(orders: &Orders) -> Result<Vec<OwnedFd>, String> {
    let fail = |error: heliostat_base::sys::Errno| format!("the control socket: {error}");
    let socket = PacketSocket::connect(&orders.socket, 5_000).map_err(fail)?;
    let ask = |request: &Request, number, fds: &[i32]| {
        socket.send(&request.encode(number), fds).map_err(fail)?;
        let mut record = [0; REPLY_BYTES];
        let (length, fds) = socket.receive(&mut record).map_err(fail)?;
        let (reply, _) = Reply::decode(&record[..length]).map_err(|error| error.to_string())?;
        Ok::<_, String>((reply, fds))
    };
    ask(&Request::Hello { program: "intruder".into() }, 1, &[])?;
    let (page, pins) = SharedMapping::create(c"pins", PINS_BYTES).map_err(|e| e.to_string())?;
    pins.atomic_u32(0).store(PINS_MAGIC, std::sync::atomic::Ordering::Relaxed);
    let name = RegionName::parse(&orders.name).map_err(|error| error.to_string())?;
    let request = Request::AttachRegion { name, owner: orders.owner };
    match ask(&request, 2, &[page.as_raw_fd()])? {
        // The session stays open for as long as the process lives.
        (Reply::Region { .. }, fds) if fds.len() == 2 => {
            std::mem::forget((socket, page));
            Ok(fds)
        }
        (reply, _) => Err(format!("the control plane answered {reply:?}")),
    }
}

/// Tries everything on both descriptors and on the producer.
pub fn run(orders: &Orders) -> Result<(), String> {
    let fds = given(orders)?;
    let mut won = Vec::new();
    for (what, fd) in ["table", "pool"].into_iter().zip(&fds) {
        let target = Target::new(fd.as_raw_fd())?;
        for (name, means) in MEANS {
            // In a child, so that a signal ends the attempt and not the tests.
            let attempt = || if means(&target) { Ok(()) } else { Err(String::new()) };
            let wrote = Child::quiet(attempt).wait() == 0;
            if wrote || target.has_changed() {
                won.push(format!("{what}: {name}"));
            }
            println!("{what}: {name}: {}", if wrote { "NOT REFUSED" } else { "refused" });
        }
        by_exec(fd, what, &mut won)?;
    }
    won.extend(victim::attack(orders.pid));
    match won.is_empty() {
        true => println!("refused by all means"),
        false => return Err(format!("not refused: {}", won.join("; "))),
    }
    Ok(())
}

/// Another program that inherits the descriptor, by execveat(2), tries again.
fn by_exec(fd: &OwnedFd, what: &str, won: &mut Vec<String>) -> Result<(), String> {
    let program = CString::new("/proc/self/exe").map_err(|error| error.to_string())?;
    let heir = fd.as_raw_fd();
    let words = ["intruder", "heir", &format!("pid={heir}")].map(CString::new);
    let [Ok(a), Ok(b), Ok(c)] = words else { return Err("a zero in a word".into()) };
    let child = Child::quiet(|| {
        let (arguments, none) =
            ([a.as_ptr(), b.as_ptr(), c.as_ptr(), std::ptr::null()], [std::ptr::null::<i8>()]);
        // SAFETY: live strings and lists with their ends; the program image is left behind.
        unsafe {
            libc::fcntl(heir, libc::F_SETFD, 0);
            let (at, how) = (libc::AT_FDCWD, 0);
            libc::syscall(
                libc::SYS_execveat,
                at,
                program.as_ptr(),
                arguments.as_ptr(),
                none.as_ptr(),
                how,
            );
        }
        // SAFETY: ends this child without dropping what is its parent's.
        unsafe { libc::_exit(2) }
    });
    let status = child.wait();
    // 1: everything was refused; another program could not be started: 2.
    println!("{what}: execveat: {}", if status == 1 << 8 { "refused" } else { "NOT REFUSED" });
    if status != 1 << 8 {
        won.push(format!("{what}: execveat (status {status:#x})"));
    }
    Ok(())
}

/// The other program: everything again, with a descriptor by number. Fails when all was refused.
pub fn heir(orders: &Orders) -> Result<(), String> {
    let target = Target::new(orders.pid)?;
    let wrote = MEANS.iter().any(|(_, means)| {
        let attempt = || if means(&target) { Ok(()) } else { Err(String::new()) };
        Child::quiet(attempt).wait() == 0
    });
    match wrote || target.has_changed() {
        true => Ok(()),
        false => Err("refused".into()),
    }
}

fn address(at: *mut c_void) -> Option<*mut u8> {
    (at != libc::MAP_FAILED).then_some(at.cast())
}
