//! The control plane killed in the middle of changes: what it had answered is there afterwards, and the
//! store is whole.

mod support;

use std::collections::BTreeMap;

use heliostat_abi::session::record::Request;
use heliostat_abi::store::{AreaRights, StoreReply, StoreRequest, WayWanted};
use heliostat_base::sys::Errno;
use support::stores::{creation, is_later, told, StoreFile, Told, GRAIN};
use support::{await_that, Client, Daemon};

/// Names that areas come and go by.
const NAMES: u64 = 6;
/// How often the control plane is killed, unless HELIOSTAT_KILLS says.
const KILLS: u64 = 25;

/// What a program knows of its areas: the size that was answered last, and the one that it has asked
/// for since, where nothing is no area.
type Known = BTreeMap<u64, (Option<u64>, Option<Option<u64>>)>;

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Asks, where the control plane may be gone.
fn ask(client: &mut Client, sequence: u32, request: &StoreRequest) -> Result<Told, Errno> {
    client.socket.send(&Request::Own(request.encode()).encode(sequence), &[])?;
    let (reply, _, fds) = client.receive()?;
    match told(reply, fds) {
        later if is_later(&later) => ask(client, sequence, &StoreRequest::Outcome),
        answer => Ok(answer),
    }
}

/// Changes areas at random until the control plane is gone.
fn change(client: &mut Client, known: &mut Known, random: &mut Random) -> Result<(), Errno> {
    let mut sequence = 100;
    loop {
        let (name, grains) = (random.below(NAMES), 1 + random.below(8));
        let (has, bytes) = (known[&name].0, grains * GRAIN);
        sequence += 2;
        if has.is_none() {
            known.insert(name, (has, Some(Some(bytes))));
            let made = ask(client, sequence, &creation(&format!("a/{name}"), bytes))?;
            assert!(matches!(made, Told::Own(StoreReply::Opened(_), _)), "{made:?}");
            known.insert(name, (Some(bytes), None));
            continue;
        }
        let open = support::stores::opening(
            u32::MAX,
            &format!("a/{name}"),
            AreaRights::ALL,
            WayWanted::Emulated,
        );
        let Told::Own(StoreReply::Opened(opened), _) = ask(client, sequence, &open)? else {
            panic!("an area that was answered is not there")
        };
        let handle = opened.handle;
        let (asked, wanted) = match random.below(3) {
            0 => (StoreRequest::Delete { handle }, None),
            _ => (StoreRequest::Resize { handle, bytes }, Some(bytes)),
        };
        known.insert(name, (has, Some(wanted)));
        let changed = ask(client, sequence + 1, &asked)?;
        assert!(matches!(changed, Told::Done | Told::Own(..)), "{changed:?}");
        known.insert(name, (wanted, None));
        ask(client, sequence, &StoreRequest::Close { handle })?;
    }
}

#[test]
fn what_was_answered_is_there_after_the_control_plane_was_killed_at_any_time() {
    let file = StoreFile::new(256 * GRAIN);
    let mut daemon = Daemon::with(&file.config(""), &[]);
    let mut random = Random(0x5eed_0001);
    let mut known: Known = (0..NAMES).map(|name| (name, (None, None))).collect();
    let kills = std::env::var("HELIOSTAT_KILLS").ok().and_then(|it| it.parse().ok());
    for round in 0..kills.unwrap_or(KILLS) {
        let (mut client, _) = daemon.session();
        let pause = std::time::Duration::from_micros(500 + random.below(40_000));
        let pid = rustix::process::Pid::from_raw(daemon.pid() as i32).unwrap();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(pause);
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        });
        let gone = change(&mut client, &mut known, &mut random).unwrap_err();
        killer.join().unwrap();
        assert!([libc::EPIPE, libc::ECONNRESET].contains(&gone.0), "round {round}: {gone}");
        daemon.restart();
        check(&daemon, &mut known, round);
    }
}

/// Compares what is there with what was answered, and takes over what was made without an answer.
fn check(daemon: &Daemon, known: &mut Known, round: u64) {
    let (mut client, _) = daemon.session();
    let found: BTreeMap<String, u64> =
        support::stores::sizes(&client.areas()).into_iter().collect();
    for (name, (answered, asked)) in known.iter_mut() {
        let there = found.get(&format!("a/{name}")).copied();
        let may_be = [Some(*answered), *asked];
        assert!(may_be.contains(&Some(there)), "round {round}, a/{name}: {there:?} not {may_be:?}");
        (*answered, *asked) = (there, None);
    }
    let data = client.store_info().data_bytes;
    let used: u64 = found.values().sum();
    await_that("what was lost is zeroed and free", || {
        client.store_info().free_bytes == data - used
    });
}
