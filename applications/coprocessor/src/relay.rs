//! The host's end of the two ways that a co-processor has without the lean interface: every file and
//! socket operation is a message, and its bytes are copied into it and out of it.
//!
//! Messages and answers are those of `messages.rs`. One thread serves one worker, and makes the operation
//! with the host's kernel.

use std::io::{self, BufReader};
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use crate::files::plain::Plain;
use crate::files::{Files, Opening, read_all};
use crate::messages::{MESSAGE_BYTES_MAX, receive, send};
use crate::queries::Connections;
use crate::sockets::Sockets;

/// Serves workers below `root`, and their queries from `listener`, for ever.
///
/// # Errors
/// As of the socket at `at`.
pub fn serve(at: &Path, root: &Path, listener: Option<TcpListener>) -> io::Result<()> {
    let _ = std::fs::remove_file(at);
    let workers = UnixListener::bind(at)?;
    let files = Arc::new(Plain::new(root.to_owned()));
    println!("ready");
    for worker in workers.incoming() {
        let worker = worker?;
        let files = Arc::clone(&files);
        let listener = listener.as_ref().map(TcpListener::try_clone).transpose()?;
        let worker = Worker::new(worker, files, listener)?;
        std::thread::spawn(move || worker.serve());
    }
    Ok(())
}

/// One worker's end.
struct Worker {
    from: BufReader<UnixStream>,
    into: UnixStream,
    files: Arc<Plain>,
    sockets: Option<Sockets>,
}

impl Worker {
    fn new(
        socket: UnixStream,
        files: Arc<Plain>,
        listener: Option<TcpListener>,
    ) -> io::Result<Self> {
        let sockets = listener.map(Sockets::new).transpose()?;
        Ok(Self { into: socket.try_clone()?, from: BufReader::new(socket), files, sockets })
    }

    fn serve(mut self) {
        while let Ok((words, bytes)) = receive(&mut self.from) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let answered = match self.answer(&words, &bytes) {
                Ok((said, bytes)) => send(&mut self.into, &format!("0\t{said}"), &bytes),
                Err(error) => {
                    let number = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
                    send(&mut self.into, &format!("{number}\t"), &[])
                }
            };
            if answered.is_err() {
                return;
            }
        }
    }

    /// Makes one operation: what it says, and its bytes.
    fn answer(&mut self, words: &[&str], bytes: &[u8]) -> io::Result<(String, Vec<u8>)> {
        let files = &*self.files;
        match *words {
            ["length", name] => {
                Ok((files.open(name, Opening::Read)?.len()?.to_string(), Vec::new()))
            }
            ["read", name, offset, length] => {
                let mut read = vec![0; number(length)?.min(MESSAGE_BYTES_MAX)];
                let got =
                    files.open(name, Opening::Read)?.read_at(&mut read, number(offset)? as u64)?;
                read.truncate(got);
                Ok((String::new(), read))
            }
            ["whole", name] => Ok((String::new(), read_all(files, name)?)),
            ["create", name] => files.open(name, Opening::Create).map(|_| Default::default()),
            ["replace", name] => files.open(name, Opening::Replace).map(|_| Default::default()),
            ["write", name, offset] => self.write(name, number(offset)?, bytes),
            ["sync", name] => {
                std::fs::File::open(files.path(name))?.sync_all().map(|()| Default::default())
            }
            ["list", name] => Ok((String::new(), files.list(name)?.join("\n").into_bytes())),
            ["remove", name] => files.remove(name).map(|()| Default::default()),
            ["rename", from, to] => files.rename(from, to).map(|()| Default::default()),
            ["next"] => {
                let (connection, bytes) =
                    self.sockets.as_mut().ok_or(io::ErrorKind::NotConnected)?.next()?;
                Ok((connection.to_string(), bytes))
            }
            ["answer", connection] => {
                let sockets = self.sockets.as_mut().ok_or(io::ErrorKind::NotConnected)?;
                sockets.send(number(connection)? as u64, bytes).map(|()| Default::default())
            }
            _ => Err(Errno::NOSYS.into()),
        }
    }

    fn write(&self, name: &str, offset: usize, bytes: &[u8]) -> io::Result<(String, Vec<u8>)> {
        use std::os::unix::fs::FileExt;
        let file = std::fs::OpenOptions::new().write(true).open(self.files.path(name))?;
        file.write_all_at(bytes, offset as u64)?;
        Ok(Default::default())
    }
}

fn number(word: &str) -> io::Result<usize> {
    word.parse().map_err(|_| io::ErrorKind::InvalidInput.into())
}
