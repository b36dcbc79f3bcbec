//! Connections by the host's network service: one address for all workers, shared out by the host.

use std::collections::HashMap;
use std::io;

use super::foreign::{self, Object, POLLED_MAX};
use super::{BUFFER_BYTES, Memory, attach};
use crate::queries::Connections;

/// A listener and its connections.
#[derive(Debug)]
pub struct LeanSockets {
    memory: &'static Memory,
    listener: Object,
    connections: HashMap<u64, Object>,
    accepted: u64,
}

impl LeanSockets {
    /// Listens at an address, which `heliostat coprocessor run --listen` has granted.
    ///
    /// # Errors
    /// As listen(2) says; `InvalidInput` if it is no address of IPv4.
    pub fn listen(address: &str) -> io::Result<Self> {
        let memory = attach()?;
        let address = address.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
        Ok(Self {
            memory,
            listener: foreign::listen(address)?,
            connections: HashMap::new(),
            accepted: 0,
        })
    }

    fn accept(&mut self) -> io::Result<()> {
        let connection = foreign::accept(self.listener)?;
        self.connections.insert(self.accepted, connection);
        self.accepted += 1;
        Ok(())
    }

    /// Sleeps until a connection has something, or a new one is there.
    fn wait(&self) -> io::Result<Option<u64>> {
        let open = self.connections.iter().take(POLLED_MAX - 1);
        let numbers: HashMap<Object, u64> =
            open.map(|(number, object)| (*object, *number)).collect();
        let watched: Vec<Object> = numbers.keys().copied().chain([self.listener]).collect();
        let ready = self.memory.with_buffer(|buffer| buffer.poll(&watched))?;
        Ok(ready.first().and_then(|object| numbers.get(object).copied()))
    }
}

impl Connections for LeanSockets {
    fn next(&mut self) -> io::Result<(u64, Vec<u8>)> {
        loop {
            let Some(number) = self.wait()? else {
                self.accept()?;
                continue;
            };
            let object = self.connections[&number];
            let mut bytes = vec![0; BUFFER_BYTES / 4];
            // A connection that fails has ended.
            let got =
                self.memory.with_buffer(|buffer| buffer.receive(object, &mut bytes)).unwrap_or(0);
            if got == 0 {
                self.connections.remove(&number);
                let _ = foreign::close_socket(object);
            }
            bytes.truncate(got);
            return Ok((number, bytes));
        }
    }

    fn send(&mut self, connection: u64, bytes: &[u8]) -> io::Result<()> {
        let object = *self.connections.get(&connection).ok_or(io::ErrorKind::NotConnected)?;
        let mut sent = 0;
        while sent < bytes.len() {
            sent += self.memory.with_buffer(|buffer| buffer.send(object, &bytes[sent..]))?;
        }
        Ok(())
    }
}
