//! The smallest service: what it takes to add one, measured.
//!
//! One request, which comes back, one right, one number that people see. Beside this file it needs
//! two lines of `services.rs`: its module and its place in the table. Nothing else names it. Its
//! operation on kernel cores is `server/loop/tests/echo.rs`.

use std::path::PathBuf;
use std::thread::JoinHandle;

use heliostat_abi::code::Code;
use heliostat_abi::right::Right;
use heliostat_abi::session::record::{
    Asker, Own, Reply, Request, Row, FIRST_OWN, REPLY_BODY_BYTES, REPLY_BYTES, REQUEST_BODY_BYTES,
};
use heliostat_backend_lease::holder::Breaks;
use heliostat_base::packet::PacketSocket;
use heliostat_control::config::{Config, Log};
use heliostat_control::name::{Name, NamePattern};
use heliostat_control::rules::{Action, Rule, Rules};

use super::{no_such_request, TABLE};
use crate::answer::Answer;
use crate::daemon::{Asked, Daemon, Parts, Service, Told, Viewer};
use crate::refused::Refused;
use crate::signals::Signals;
use crate::{listener, logging};

/// A number that no service of the protocol has.
const NUMBER: u16 = 0x7f;
/// Its request, and the reply to it.
const ASK: u16 = NUMBER << 8;
const ANSWER: u16 = ASK + 128;
/// The name that its right is about.
const WELL: &str = "/well";

/// The service.
pub struct Echo;

impl Service for Echo {
    fn number(&self) -> u16 {
        NUMBER
    }

    fn own_requests(&self) -> &'static [(u16, Row)] {
        const ROW: Row =
            Row { name: "echo", brings: 0..=0, keeps: 0, answers: 0, asker: Asker::Unrestricted };
        const { &[(ASK, ROW)] }
    }

    fn answer(&self, daemon: &mut Daemon, asked: Asked) -> Result<Answer, Refused> {
        let Request::Own(own) = asked.request else { return no_such_request() };
        let owner = daemon.own_uid;
        daemon.check_right(asked.session, Right::Read, Name::File(WELL), owner)?;
        let mut body = [0; REPLY_BODY_BYTES];
        body[..REQUEST_BODY_BYTES].copy_from_slice(&own.body);
        Ok(Reply::Own(Box::new(Own { number: ANSWER, body })).into())
    }

    fn status(&self, _: &Daemon, _: Viewer, told: &mut Told) {
        told.insert("echo".into(), "here".into());
    }
}

/// A daemon in a thread, and a client of it.
struct Running {
    folder: PathBuf,
    client: PacketSocket,
    daemon: Option<JoinHandle<()>>,
}

impl Running {
    fn with(name: &str, rules: Vec<Rule>) -> Running {
        let name = format!("heliostatd-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("control.sock");
        let listener = listener::bind(&path, false).unwrap();
        let daemon = std::thread::spawn(move || {
            let parts = Parts {
                config: Config { rules: Rules(rules), ..Config::default() },
                config_path: None,
                idle_exit_s: None,
                home: None,
                listener,
                signals: Signals::catch().unwrap(),
                breaks: Breaks::catch().unwrap(),
                level: logging::start(Log::default(), None).unwrap(),
                table: TABLE,
            };
            Daemon::new(parts).unwrap().run().unwrap();
        });
        let client = PacketSocket::connect(path.to_str().unwrap(), 60_000).unwrap();
        Running { folder, client, daemon: Some(daemon) }
    }

    fn ask(&self, request: &Request) -> Reply {
        self.client.send(&request.encode(1), &[]).unwrap();
        let mut record = [0; REPLY_BYTES];
        let (length, _) = self.client.receive(&mut record).unwrap();
        Reply::decode(&record[..length]).unwrap().0
    }

    fn hello(&self) {
        let reply = self.ask(&Request::Hello { program: "echo".into() });
        assert!(matches!(reply, Reply::Welcome { .. }), "{reply:?}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let reply = self.ask(&Request::Stop);
        let ended = self.daemon.take().map(JoinHandle::join);
        let _ = std::fs::remove_dir_all(&self.folder);
        if !std::thread::panicking() {
            assert_eq!(reply, Reply::Done);
            ended.unwrap().unwrap();
        }
    }
}

fn own(number: u16) -> Request {
    Request::Own(Own { number, body: [9; REQUEST_BODY_BYTES] })
}

fn refused(reply: &Reply) -> Option<Code> {
    match reply {
        Reply::Refused { code, .. } => Some(*code),
        _ => None,
    }
}

#[test]
fn a_request_of_an_added_service_is_answered_by_it() {
    let running = Running::with("echo-answers", Vec::new());
    running.hello();
    let Reply::Own(reply) = running.ask(&own(ASK)) else { panic!("no reply of its own") };
    assert_eq!(reply.number, ANSWER);
    assert!(reply.body[..REQUEST_BODY_BYTES].iter().all(|byte| *byte == 9));
}

#[test]
fn its_right_is_judged_by_the_rules() {
    let names = vec![NamePattern::parse(&format!("/file{WELL}")).unwrap()];
    let (action, rights) = (Action::Deny, vec![Right::Read]);
    let rule = Rule { action, rights, users: Vec::new(), groups: Vec::new(), names };
    let running = Running::with("echo-denies", vec![rule]);
    running.hello();
    assert_eq!(refused(&running.ask(&own(ASK))), Some(Code::Denied));
}

#[test]
fn numbers_that_no_service_has_and_askers_without_a_session_are_refused() {
    let running = Running::with("echo-refuses", Vec::new());
    assert_eq!(refused(&running.ask(&own(ASK))), Some(Code::BadState));
    running.hello();
    assert_eq!(refused(&running.ask(&own(ASK + 1))), Some(Code::BadRecord));
    assert_eq!(refused(&running.ask(&own(FIRST_OWN))), Some(Code::BadRecord));
}
