//! The network's side: clients that ask, and count what they are told.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::SmallRng;

use crate::queries::{frame, take_frame};
use crate::{corpus, image};

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    Text,
    Image,
}

/// What clients saw.
#[derive(Debug, Default)]
pub struct Seen {
    pub answers: usize,
    pub found: usize,
    pub latencies: Vec<Duration>,
}

/// Asks by `clients` connections at once for `seconds`, each one query after the other.
///
/// # Errors
/// A client's connection's.
pub fn ask(address: &str, kind: Kind, clients: usize, seconds: f64) -> io::Result<Seen> {
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    let started: Vec<_> = (0..clients)
        .map(|client| {
            let address = address.to_owned();
            std::thread::spawn(move || one_client(&address, kind, client as u64, until))
        })
        .collect();
    let mut seen = Seen::default();
    for client in started {
        let one = client.join().expect("no client panics")?;
        seen.answers += one.answers;
        seen.found += one.found;
        seen.latencies.extend(one.latencies);
    }
    seen.latencies.sort();
    Ok(seen)
}

fn one_client(address: &str, kind: Kind, client: u64, until: Instant) -> io::Result<Seen> {
    let mut connection = TcpStream::connect(address)?;
    connection.set_nodelay(true)?;
    let mut random = SmallRng::seed_from_u64(client);
    let images = corpus::features(1000, 100 + client);
    let mut seen = Seen::default();
    let mut come = Vec::new();
    while Instant::now() < until {
        let query = match kind {
            Kind::Text => format!("{} {}", word(&mut random), word(&mut random)).into_bytes(),
            Kind::Image => image::query(&images[seen.answers % images.len()]),
        };
        let asked = Instant::now();
        connection.write_all(&frame(&query))?;
        let answer = read_frame(&mut connection, &mut come)?;
        seen.latencies.push(asked.elapsed());
        seen.answers += 1;
        seen.found += usize::from(!answer.is_empty());
    }
    Ok(seen)
}

fn word(random: &mut SmallRng) -> String {
    corpus::word(corpus::rank(random))
}

fn read_frame(connection: &mut TcpStream, come: &mut Vec<u8>) -> io::Result<Vec<u8>> {
    let mut bytes = [0; 64 * 1024];
    loop {
        if let Some(frame) = take_frame(come)? {
            return Ok(frame);
        }
        match connection.read(&mut bytes)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            got => come.extend_from_slice(&bytes[..got]),
        }
    }
}
