//! The same asked of Redis over TCP (RESP, redis.io/docs): bytes of a long value, a counter, keys that are
//! made and deleted, a lock as its documentation has it, and a barrier.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::{sampled, Dice, Kind, Outcome, ONE_EACH};

const LENGTH: u64 = 16 << 20;

/// Bytes of an operation of a few microseconds: so many of them are one sample.
const SHORT: usize = 8;

/// The median time of an operation, one after the other.
pub fn one_by_one(port: u16, (kind, bytes): (Kind, usize), limit: Duration) -> Outcome {
    let mut redis = Redis::connect(port)?;
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
        .map(drop)
    })?;
    Ok(format!("{{\"ns\": {took:.1}}}"))
}

/// A key that is made with so many bytes, and deleted.
pub fn keys(port: u16, bytes: u64, limit: Duration) -> Outcome {
    let (mut redis, last) = (Redis::connect(port)?, bytes.saturating_sub(1).to_string());
    let took = sampled(ONE_EACH, limit, || {
        redis.ask(&[b"SETRANGE", b"made", last.as_bytes(), b"x"])?;
        redis.ask(&[b"DEL", b"made"]).map(drop)
    })?;
    Ok(format!("{{\"ns\": {took:.1}}}"))
}

/// A lock that nobody else wants: a key that is set where it is not, and deleted.
pub fn locks(port: u16, limit: Duration) -> Outcome {
    let mut redis = Redis::connect(port)?;
    let took = sampled(SHORT, limit, || {
        redis.ask(&[b"SET", b"lock", b"token", b"NX", b"PX", b"30000"])?;
        redis.ask(&[b"DEL", b"lock"]).map(drop)
    })?;
    Ok(format!("{{\"ns\": {took:.1}}}"))
}

/// So many rounds in which two processes wait for each other: the second wakes the first.
pub fn barrier(port: u16, name: &str, rounds: u32) -> Outcome {
    let (mut redis, go) = (Redis::connect(port)?, format!("{name}-go"));
    let mut pass = || {
        if redis.ask(&[b"INCR", name.as_bytes()])? % 2 == 0 {
            redis.ask(&[b"RPUSH", go.as_bytes(), b"x"])
        } else {
            redis.ask(&[b"BLPOP", go.as_bytes(), b"60"])
        }
    };
    pass()?;
    let began = Instant::now();
    for _ in 0..rounds {
        pass()?;
    }
    let took = began.elapsed().as_nanos() as f64 / f64::from(rounds.max(1));
    Ok(format!("{{\"ns\": {took:.1}}}"))
}

struct Redis {
    stream: TcpStream,
    replies: BufReader<TcpStream>,
}

impl Redis {
    fn connect(port: u16) -> Result<Redis, Box<dyn Error>> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        let replies = BufReader::with_capacity(64 << 10, stream.try_clone()?);
        Ok(Redis { replies, stream })
    }

    /// Sends a command and reads its reply: the number that it is, if it is one.
    fn ask(&mut self, words: &[&[u8]]) -> Result<i64, Box<dyn Error>> {
        let mut command = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            command.extend(format!("${}\r\n", word.len()).into_bytes());
            command.extend(*word);
            command.extend(b"\r\n");
        }
        self.stream.write_all(&command)?;
        self.reply()
    }

    fn reply(&mut self) -> Result<i64, Box<dyn Error>> {
        let mut line = String::new();
        self.replies.read_line(&mut line)?;
        match line.trim_end().split_at_checked(1) {
            Some(("$", "-1")) => Ok(0),
            Some(("$", bytes)) => {
                let bytes: usize = bytes.parse()?;
                self.replies.read_exact(&mut vec![0; bytes + 2])?;
                Ok(0)
            }
            Some((":", number)) => Ok(number.parse()?),
            Some(("+", _)) => Ok(0),
            Some(("*", count)) => (0..count.parse::<i64>()?).try_fold(0, |_, _| self.reply()),
            _ => Err(format!("Redis says {line:?}").into()),
        }
    }
}
