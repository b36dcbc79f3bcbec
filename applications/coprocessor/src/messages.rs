//! Messages between a worker and its relay: a line of text and a length of bytes that follow.

use std::io::{self, BufRead, Write};

/// The largest message that is taken: a file that is staged whole.
pub const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// Sends one message.
///
/// # Errors
/// As of the socket.
pub fn send(into: &mut impl Write, words: &str, bytes: &[u8]) -> io::Result<()> {
    into.write_all(format!("{words}\t{}\n", bytes.len()).as_bytes())?;
    into.write_all(bytes)?;
    into.flush()
}

/// Receives one message: its words, and its bytes.
///
/// # Errors
/// As of the socket; `UnexpectedEof` at its end, `InvalidData` if it is no message.
pub fn receive(from: &mut impl BufRead) -> io::Result<(Vec<String>, Vec<u8>)> {
    let mut line = String::new();
    if io::Read::take(&mut *from, 4096).read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut words: Vec<String> = line.trim_end().split('\t').map(str::to_owned).collect();
    let length = words
        .pop()
        .and_then(|word| word.parse::<usize>().ok())
        .filter(|length| *length <= MESSAGE_BYTES_MAX);
    let mut bytes = vec![0; length.ok_or(io::ErrorKind::InvalidData)?];
    from.read_exact(&mut bytes)?;
    Ok((words, bytes))
}
