//! Connections by a kernel: the host's, for workers that it relays for, or a worker's own.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};

use rustix::event::{PollFd, PollFlags, poll};

use crate::queries::Connections;

/// Bytes that are taken at once.
const RECEIVED_BYTES: usize = 64 * 1024;

/// A listening socket and the connections that it accepted.
#[derive(Debug)]
pub struct Sockets {
    listener: TcpListener,
    connections: HashMap<u64, TcpStream>,
}

impl Sockets {
    /// Accepts from `listener`, which several may share.
    ///
    /// # Errors
    /// As fcntl(2) says.
    pub fn new(listener: TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { listener, connections: HashMap::new() })
    }

    /// Sleeps until a connection has something, or a new one is there: the connection's number.
    fn wait(&self) -> io::Result<Option<u64>> {
        let mut watched = vec![PollFd::new(&self.listener, PollFlags::IN)];
        let numbers: Vec<u64> = self.connections.keys().copied().collect();
        watched.extend(
            numbers.iter().map(|number| PollFd::new(&self.connections[number], PollFlags::IN)),
        );
        poll(&mut watched, None)?;
        let ready = watched[1..].iter().position(|one| !one.revents().is_empty());
        Ok(ready.map(|index| numbers[index]))
    }

    fn accept(&mut self) -> io::Result<()> {
        match self.listener.accept() {
            Ok((connection, _)) => {
                connection.set_nodelay(true)?;
                let number =
                    u64::try_from(connection.as_fd().as_raw_fd()).map_err(io::Error::other)?;
                self.connections.insert(number, connection);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Connections for Sockets {
    fn next(&mut self) -> io::Result<(u64, Vec<u8>)> {
        loop {
            let Some(number) = self.wait()? else {
                self.accept()?;
                continue;
            };
            let mut bytes = vec![0; RECEIVED_BYTES];
            // A connection that fails has ended.
            let got = self
                .connections
                .get_mut(&number)
                .map_or(0, |one| one.read(&mut bytes).unwrap_or(0));
            if got == 0 {
                self.connections.remove(&number);
            }
            bytes.truncate(got);
            return Ok((number, bytes));
        }
    }

    fn send(&mut self, connection: u64, bytes: &[u8]) -> io::Result<()> {
        self.connections.get_mut(&connection).ok_or(io::ErrorKind::NotConnected)?.write_all(bytes)
    }
}
