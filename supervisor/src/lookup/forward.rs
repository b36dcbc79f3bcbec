//! The forwarder: takes questions of the program's sockets, passes on what is granted.
//!
//! A thread for datagrams and one for streams wait in the kernel; a question that is passed on
//! has a thread of its own, a limited number. Whoever else finds the port is not heard.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::question::{Question, QUESTION_BYTES_MAX};
use super::{LookupState, NameEvent};

/// Questions passed on at once; more are dropped, and resolvers ask again.
const QUESTIONS_MAX: usize = 32;
/// Sockets of the program's that are heard; the oldest is forgotten.
const ADMITTED_MAX: usize = 1024;
/// How long a name server may take: resolvers wait for 5 s.
const SERVER_DEADLINE: Duration = Duration::from_secs(3);
/// How long a stream may be silent.
const STREAM_DEADLINE: Duration = Duration::from_secs(10);
/// Longest answer.
const ANSWER_BYTES_MAX: usize = 65535;

type Admitted = Arc<Mutex<VecDeque<SocketAddr>>>;

/// Both sockets, and who may talk to them.
pub struct Forwarder {
    datagrams: u16,
    streams: u16,
    admitted: Admitted,
}

impl Forwarder {
    /// Starts both threads; they end with the process.
    pub fn start(state: &Arc<LookupState>) -> io::Result<Self> {
        let own = (Ipv4Addr::LOCALHOST, 0);
        let (datagrams, streams) = (Arc::new(UdpSocket::bind(own)?), TcpListener::bind(own)?);
        let admitted = Admitted::default();
        let ports = (datagrams.local_addr()?.port(), streams.local_addr()?.port());
        let desk =
            Resolver { state: state.clone(), admitted: admitted.clone(), busy: Arc::default() };
        let other = desk.clone();
        std::thread::Builder::new().spawn(move || desk.hear_datagrams(&datagrams))?;
        std::thread::Builder::new().spawn(move || other.hear_streams(&streams))?;
        Ok(Self { datagrams: ports.0, streams: ports.1, admitted })
    }

    /// The port for one of the two.
    pub fn port(&self, stream: bool) -> u16 {
        if stream {
            self.streams
        } else {
            self.datagrams
        }
    }

    /// Hears what comes from an address.
    pub fn admit(&self, own: SocketAddr) {
        let Ok(mut admitted) = self.admitted.lock() else { return };
        if admitted.contains(&own) {
            return;
        }
        if admitted.len() >= ADMITTED_MAX {
            admitted.pop_front();
        }
        admitted.push_back(own);
    }
}

/// What a question's thread needs.
#[derive(Clone)]
struct Resolver {
    state: Arc<LookupState>,
    admitted: Admitted,
    busy: Arc<AtomicUsize>,
}

impl Resolver {
    fn hear_datagrams(&self, socket: &Arc<UdpSocket>) {
        let mut bytes = [0; QUESTION_BYTES_MAX + 1];
        loop {
            // Errors are those of earlier answers that nobody took.
            let Ok((length, from)) = socket.recv_from(&mut bytes) else { continue };
            if !self.hears(from) {
                continue;
            }
            let Some(question) = Question::read(&bytes[..length]) else { continue };
            let (desk, socket) = (self.clone(), socket.clone());
            self.aside(move || {
                if let Some(answer) = desk.answer(&question, datagram) {
                    let _ = socket.send_to(&question.cut(&answer), from);
                }
            });
        }
    }

    fn hear_streams(&self, listener: &TcpListener) {
        loop {
            match listener.accept() {
                Ok((stream, from)) => {
                    // Whoever else finds the port takes no place: the program's own socket is admitted
                    // before it connects.
                    if !self.hears(from) {
                        continue;
                    }
                    let desk = self.clone();
                    self.aside(move || {
                        let _ = desk.serve(stream, from);
                    });
                }
                // Out of descriptors: trying again at once would only burn the processor.
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    fn serve(&self, mut stream: TcpStream, from: SocketAddr) -> io::Result<()> {
        stream.set_read_timeout(Some(STREAM_DEADLINE))?;
        stream.set_write_timeout(Some(STREAM_DEADLINE))?;
        while let Some(bytes) = read_message(&mut stream)? {
            let question = Question::read(&bytes).filter(|_| self.hears(from));
            let Some(question) = question else { return Ok(()) };
            let Some(answer) = self.answer(&question, streamed) else { return Ok(()) };
            write_message(&mut stream, &answer)?;
        }
        Ok(())
    }

    fn hears(&self, from: SocketAddr) -> bool {
        self.admitted.lock().is_ok_and(|admitted| admitted.contains(&from))
    }

    /// The answer of the first name server that has one, or the refusal.
    fn answer(
        &self,
        question: &Question,
        ask: impl Fn(SocketAddr, &[u8]) -> io::Result<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        if !self.state.may(&question.name) {
            return question.refusal();
        }
        for server in &self.state.servers {
            // The supervisor's own question, of which nothing but name and type is the program's.
            let own = question.own(random_id()?);
            let Ok(answer) = ask(*server, &own.message()?) else { continue };
            let Some(addresses) = own.addresses(&answer) else { continue };
            let Some(answer) = question.adopt(answer) else { continue };
            for ip in addresses {
                self.state.learned.learn(&question.name, ip);
                (self.state.told)(&question.name, NameEvent::Has(ip));
            }
            return Some(answer);
        }
        None
    }

    /// Does something in a thread of its own, or not at all.
    fn aside(&self, work: impl FnOnce() + Send + 'static) {
        let busy = self.busy.clone();
        if busy.fetch_add(1, Ordering::SeqCst) >= QUESTIONS_MAX {
            busy.fetch_sub(1, Ordering::SeqCst);
            return;
        }
        let done = busy.clone();
        let started = std::thread::Builder::new().spawn(move || {
            work();
            done.fetch_sub(1, Ordering::SeqCst);
        });
        if started.is_err() {
            busy.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// A number that nobody can guess.
fn random_id() -> Option<u16> {
    let mut bytes = [0; 2];
    let flags = rustix::rand::GetRandomFlags::empty();
    let length = rustix::rand::getrandom(&mut bytes, flags).ok()?;
    (length == bytes.len()).then_some(u16::from_ne_bytes(bytes))
}

fn datagram(server: SocketAddr, message: &[u8]) -> io::Result<Vec<u8>> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0, 0, 0, 0, 0, 0, 0, 0], 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(SERVER_DEADLINE))?;
    socket.send(message)?;
    let mut answer = vec![0; ANSWER_BYTES_MAX];
    let length = socket.recv(&mut answer)?;
    answer.truncate(length);
    Ok(answer)
}

fn streamed(server: SocketAddr, message: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&server, SERVER_DEADLINE)?;
    stream.set_read_timeout(Some(SERVER_DEADLINE))?;
    write_message(&mut stream, message)?;
    read_message(&mut stream)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// A message after its length (RFC 1035, section 4.2.2); nothing at the stream's end.
fn read_message(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 2];
    match stream.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let mut bytes = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut bytes)?;
    Ok(Some(bytes))
}

fn write_message(stream: &mut TcpStream, message: &[u8]) -> io::Result<()> {
    let length = u16::try_from(message.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut whole = length.to_be_bytes().to_vec();
    whole.extend(message);
    stream.write_all(&whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::learned::Learned;
    use heliostat_control::policy::Policy;

    /// A question for `a`, which nobody has granted.
    const ASKED: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01";

    #[test]
    fn strangers_that_connect_and_say_nothing_take_no_place() {
        let (policy, learned) = (Policy::default(), Learned::default());
        let told = Box::new(|_: &str, _| ());
        let state = Arc::new(LookupState { policy, servers: Vec::new(), learned, told });
        let forwarder = Forwarder::start(&state).expect("threads and ports");
        let there = SocketAddr::from((Ipv4Addr::LOCALHOST, forwarder.port(true)));
        let strangers = (0..2 * QUESTIONS_MAX).map(|_| TcpStream::connect(there));
        let _strangers: Vec<_> = strangers.collect::<Result<_, _>>().expect("connections");
        // As the supervisor connects: its address is known before.
        let own = (Ipv4Addr::LOCALHOST, 0);
        let probe = TcpListener::bind(own).and_then(|one| one.local_addr()).expect("a free port");
        forwarder.admit(probe);
        let socket = rustix::net::socket(
            rustix::net::AddressFamily::INET,
            rustix::net::SocketType::STREAM,
            None,
        );
        let socket = socket.expect("a socket");
        rustix::net::bind(&socket, &probe).expect("its address");
        rustix::net::connect(&socket, &there).expect("a connection");
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a watchdog");
        write_message(&mut stream, ASKED).expect("a question");
        let answer = read_message(&mut stream).expect("an answer").expect("before the end");
        assert_eq!((answer[..2].to_vec(), answer[3] & 15), (vec![0x12, 0x34], 5), "refused");
    }
}
