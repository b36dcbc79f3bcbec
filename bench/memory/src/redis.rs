//! The same asked of Redis over TCP: bytes of a long value, or a counter (RESP, redis.io/docs).

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::{sampled, Dice, Kind};

const LENGTH: u64 = 16 << 20;

/// The median time of an operation, one after the other.
pub fn one_by_one(
    port: u16,
    (kind, bytes): (Kind, usize),
    limit: Duration,
) -> Result<String, Box<dyn Error>> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    let mut redis =
        Redis { replies: BufReader::with_capacity(64 << 10, stream.try_clone()?), stream };
    redis.ask(&[b"SETRANGE", b"bench", LENGTH.to_string().as_bytes(), b"x"])?;
    let (payload, mut dice) = (vec![1u8; bytes], Dice(88_172_645_463_325_252));
    let took = sampled(bytes, limit, || {
        let at = dice.place(bytes, LENGTH);
        let (from, to) = (at.to_string(), (at + bytes as u64 - 1).to_string());
        match kind {
            Kind::Read => redis.ask(&[b"GETRANGE", b"bench", from.as_bytes(), to.as_bytes()]),
            Kind::Write => redis.ask(&[b"SETRANGE", b"bench", from.as_bytes(), &payload]),
            Kind::Add => redis.ask(&[b"INCR", b"count"]),
        }
    })?;
    Ok(format!("{{\"ns\": {took:.1}}}"))
}

struct Redis {
    stream: TcpStream,
    replies: BufReader<TcpStream>,
}

impl Redis {
    /// Sends a command and reads its reply, which is dropped.
    fn ask(&mut self, words: &[&[u8]]) -> Result<(), Box<dyn Error>> {
        let mut command = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            command.extend(format!("${}\r\n", word.len()).into_bytes());
            command.extend(*word);
            command.extend(b"\r\n");
        }
        self.stream.write_all(&command)?;
        let mut line = String::new();
        self.replies.read_line(&mut line)?;
        match line.split_at_checked(1) {
            Some(("$", bytes)) => {
                let bytes: usize = bytes.trim_end().parse()?;
                self.replies.read_exact(&mut vec![0; bytes + 2])?;
                Ok(())
            }
            Some((":", _)) => Ok(()),
            _ => Err(format!("Redis says {line:?}").into()),
        }
    }
}
