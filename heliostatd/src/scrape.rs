//! The HTTP listener for metrics, where one is configured.
//!
//! A thread that is an ordinary client of the control socket: it asks for the metrics as the
//! command line does, so the event loop needs no lock and no second way in. Anybody who reaches
//! the address may connect, so it keeps few visitors, each for a short time, and asks the control
//! plane a few times a second at most, however many come.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use heliostat_abi::session::record::{Reply, Request, REPLY_BYTES};
use heliostat_base::packet::PacketSocket;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use tracing::warn;

/// How long a scrape waits for the control plane.
const DEADLINE_MS: u64 = 2000;
/// How long a visitor may take for its question and for reading the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Visitors at once; for one more, the one that has been there for longest goes.
const VISITORS_MAX: usize = 32;
/// Bytes of a question: a line and a few headers.
const QUESTION_BYTES_MAX: usize = 8192;
/// For so long a text is good for all who ask.
const FRESH: Duration = Duration::from_millis(200);
/// How long the listener rests when nothing can be accepted.
const PAUSE: Duration = Duration::from_millis(100);
/// Content type of the OpenMetrics text that the registry writes.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Starts the listener, if one is wanted.
pub fn start(address: Option<SocketAddr>, socket: &Path) -> io::Result<()> {
    let Some(address) = address else { return Ok(()) };
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let exporter =
        Exporter { listener, visitors: Vec::new(), text: None, socket: socket.to_owned() };
    std::thread::Builder::new().name("metrics".into()).spawn(move || exporter.serve())?;
    Ok(())
}

/// The listener, and who is there.
struct Exporter {
    listener: TcpListener,
    /// In the order in which they came.
    visitors: Vec<Visitor>,
    /// The last text, and when it was fetched.
    text: Option<(Instant, String)>,
    socket: PathBuf,
}

/// One connection.
struct Visitor {
    stream: TcpStream,
    since: Instant,
    question: Vec<u8>,
    /// What it is sent, once it has asked.
    answer: Option<Vec<u8>>,
    sent: usize,
}

/// Whether a visitor stays.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stay {
    Stays,
    Goes,
}

impl Exporter {
    fn serve(mut self) {
        loop {
            self.sleep();
            let now = Instant::now();
            if let Err(error) = self.accept_all(now) {
                warn!(%error, "no visitor for the metrics can be accepted");
                std::thread::sleep(PAUSE);
            }
            let mut visitors = std::mem::take(&mut self.visitors);
            visitors.retain_mut(|visitor| self.attend(visitor, now) == Stay::Stays);
            self.visitors = visitors;
        }
    }

    /// Until somebody comes, has something, or has been there for too long.
    fn sleep(&self) {
        let wanted = |visitor: &Visitor| match visitor.answer {
            Some(_) => PollFlags::OUT,
            None => PollFlags::IN,
        };
        let mut all = vec![PollFd::new(&self.listener, PollFlags::IN)];
        all.extend(self.visitors.iter().map(|it| PollFd::new(&it.stream, wanted(it))));
        let first = self.visitors.first().map(|first| first.since + PATIENCE);
        let left = first.map(|first| first.saturating_duration_since(Instant::now()));
        let left = left.map(|left| Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        });
        // Interrupted or not: what is ready is looked at.
        let _ = poll(&mut all, left.as_ref());
    }

    fn accept_all(&mut self, now: Instant) -> io::Result<()> {
        for _ in 0..VISITORS_MAX {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error),
            };
            stream.set_nonblocking(true)?;
            if self.visitors.len() >= VISITORS_MAX {
                self.visitors.remove(0);
            }
            let (question, answer, sent) = (Vec::new(), None, 0);
            self.visitors.push(Visitor { stream, since: now, question, answer, sent });
        }
        Ok(())
    }

    /// Takes what a visitor asks, and sends what it takes, without waiting.
    fn attend(&mut self, visitor: &mut Visitor, now: Instant) -> Stay {
        if now.saturating_duration_since(visitor.since) >= PATIENCE {
            return Stay::Goes;
        }
        if visitor.answer.is_none() {
            match visitor.listen() {
                Ok(true) => visitor.answer = Some(self.answer(&visitor.question, now)),
                Ok(false) => return Stay::Stays,
                Err(_) => return Stay::Goes,
            }
        }
        match visitor.send() {
            Ok(false) => Stay::Stays,
            // All of it is sent, or the visitor has gone, which is its own affair.
            Ok(true) | Err(_) => Stay::Goes,
        }
    }

    fn answer(&mut self, question: &[u8], now: Instant) -> Vec<u8> {
        if !question.starts_with(b"GET /metrics ") {
            return response("404 Not Found", "only GET /metrics is here\n");
        }
        let is_fresh = |fetched: &Instant| now.saturating_duration_since(*fetched) < FRESH;
        if !self.text.as_ref().is_some_and(|(fetched, _)| is_fresh(fetched)) {
            match fetch(&self.socket) {
                Ok(text) => self.text = Some((now, text)),
                Err(error) => return response("503 Service Unavailable", &format!("{error}\n")),
            }
        }
        response("200 OK", self.text.as_ref().map_or("", |(_, text)| text))
    }
}

impl Visitor {
    /// Whether the question is complete; an error when none will come.
    fn listen(&mut self) -> io::Result<bool> {
        let mut some = [0; 1024];
        loop {
            match self.stream.read(&mut some) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.question.extend_from_slice(&some[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
            if self.question.windows(4).any(|end| end == b"\r\n\r\n") {
                return Ok(true);
            }
            if self.question.len() > QUESTION_BYTES_MAX {
                return Err(ErrorKind::InvalidData.into());
            }
        }
    }

    /// Whether the whole answer is sent.
    fn send(&mut self) -> io::Result<bool> {
        let answer = self.answer.as_deref().unwrap_or_default();
        while self.sent < answer.len() {
            match self.stream.write(&answer[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

fn response(status: &str, text: &str) -> Vec<u8> {
    let length = text.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    [head.as_bytes(), text.as_bytes()].concat()
}

/// The metrics, asked for over the control socket.
fn fetch(socket: &Path) -> io::Result<String> {
    let os_error = |errno: heliostat_base::sys::Errno| io::Error::from_raw_os_error(errno.0);
    let path = socket.to_str().ok_or(ErrorKind::InvalidInput)?;
    let connection = PacketSocket::connect(path, DEADLINE_MS).map_err(os_error)?;
    connection.send(&Request::Metrics.encode(1), &[]).map_err(os_error)?;
    let mut record = [0; REPLY_BYTES];
    let (length, fds) = connection.receive(&mut record).map_err(os_error)?;
    match (Reply::decode(&record[..length]), fds.first()) {
        (Ok((Reply::Text { .. }, _)), Some(fd)) => {
            std::fs::read_to_string(format!("/proc/self/fd/{}", fd.as_raw_fd()))
        }
        _ => Err(io::Error::other("the control plane refused")),
    }
}
