//! The HTTP listener for metrics, where one is configured.
//!
//! A thread that is an ordinary client of the control socket: it asks for the metrics as the
//! command line does, so the event loop needs no lock and no second way in.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::path::Path;

use heliostat_abi::record::{Reply, Request, REPLY_BYTES};
use heliostat_base::packet::PacketSocket;
use tiny_http::{Header, Method, Response, Server};

/// How long a scrape waits for the control plane.
const DEADLINE_MS: u64 = 2000;
/// Content type of the OpenMetrics text that the registry writes.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Starts the listener, if one is wanted.
pub fn start(address: Option<SocketAddr>, socket: &Path) -> io::Result<()> {
    let Some(address) = address else { return Ok(()) };
    let server = Server::http(address).map_err(io::Error::other)?;
    let socket = socket.to_owned();
    std::thread::Builder::new().name("metrics".into()).spawn(move || answer(&server, &socket))?;
    Ok(())
}

fn answer(server: &Server, socket: &Path) {
    for request in server.incoming_requests() {
        let response = match (request.method(), request.url()) {
            (Method::Get, "/metrics") => match fetch(socket) {
                Ok(text) => Response::from_string(text),
                Err(error) => Response::from_string(format!("{error}\n")).with_status_code(503),
            },
            _ => Response::from_string("only GET /metrics is here\n").with_status_code(404),
        };
        let header = Header::from_bytes("Content-Type", CONTENT_TYPE);
        let response = match header {
            Ok(header) => response.with_header(header),
            Err(()) => response,
        };
        // The scraper may have gone; that is its own affair.
        let _ = request.respond(response);
    }
}

/// The metrics, asked for over the control socket.
fn fetch(socket: &Path) -> io::Result<String> {
    let os_error = |errno: heliostat_base::sys::Errno| io::Error::from_raw_os_error(errno.0);
    let path = socket.to_str().ok_or(io::ErrorKind::InvalidInput)?;
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
