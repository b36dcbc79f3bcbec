//! What regions are compared with: memory of the process itself, and a socket to another thread.

use std::hint::black_box;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::{sampled, Dice, Kind, Outcome};

/// Copies between a buffer and so many bytes of this process, or adds to one of its words.
pub fn copy((kind, bytes): (Kind, usize), length: usize, limit: Duration) -> Outcome {
    let mut dice = Dice(88_172_645_463_325_252);
    let took = if kind == Kind::Add {
        let words: Vec<AtomicU64> = (0..length / 8).map(|_| AtomicU64::new(0)).collect();
        sampled(bytes, limit, || {
            let at = dice.place(bytes, length as u64) as usize / 8;
            black_box(words[at.min(words.len() - 1)].fetch_add(1, Ordering::SeqCst));
            Ok(())
        })?
    } else {
        let (mut memory, mut buffer) = (vec![1u8; length], vec![2u8; bytes]);
        sampled(bytes, limit, || {
            let at = dice.place(bytes, length as u64) as usize;
            let place = &mut memory[at..at + bytes];
            match kind {
                Kind::Read => buffer.copy_from_slice(place),
                _ => place.copy_from_slice(&buffer),
            }
            black_box((&mut buffer, place));
            Ok(())
        })?
    };
    Ok(format!("{{\"ns\": {took:.1}}}"))
}

/// Has a thread at the other end of a unix socket do it: a request of 16 bytes, and the bytes.
pub fn socket((kind, bytes): (Kind, usize), limit: Duration) -> Outcome {
    let (mut near, far) = UnixStream::pair()?;
    let server = std::thread::spawn(move || serve(far, kind, bytes));
    let mut buffer = vec![1u8; bytes];
    let took = sampled(bytes, limit, || {
        near.write_all(&[0; 16])?;
        if kind == Kind::Write {
            near.write_all(&buffer)?;
            near.read_exact(&mut [0; 8])?;
        } else {
            near.read_exact(&mut buffer)?;
        }
        Ok(())
    })?;
    drop(near);
    server.join().map_err(|_| "the other end has failed")?;
    Ok(format!("{{\"ns\": {took:.1}}}"))
}

/// Answers until the other end is closed.
fn serve(mut socket: UnixStream, kind: Kind, bytes: usize) {
    let (mut request, mut memory) = ([0; 16], vec![1u8; bytes]);
    while socket.read_exact(&mut request).is_ok() {
        let done = match kind {
            Kind::Write => {
                socket.read_exact(&mut memory).and_then(|()| socket.write_all(&request[..8]))
            }
            Kind::Read | Kind::Add => socket.write_all(&memory),
        };
        if done.is_err() {
            return;
        }
    }
}
