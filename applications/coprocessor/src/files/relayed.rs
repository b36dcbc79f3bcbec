//! Files by messages to the host (`relay.rs`): what a co-processor has without the lean interface.
//!
//! Two ways. *By blocks* the worker has its own small stack: a cache of blocks, each fetched by a message
//! (co-processor-centric, as a file system on a virtual disk). *Staged*, the host reads the whole file and
//! hands it over (host-centric). Either way the bytes are copied into a message and out of it.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufReader};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::{Each, File, Files, Opening, read_in_turn};
use crate::messages::{receive, send};
use crate::queries::Connections;

/// Bytes of a block, and how many of them the worker's cache holds.
const BLOCK_BYTES: usize = 4096;
const BLOCKS_CACHED: usize = 4096;
/// Bytes of one message that writes.
const WRITE_BYTES: usize = 64 * 1024;

/// How files come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Staging {
    Blocks,
    Whole,
}

/// The worker's end of its connection with the relay.
pub struct Relay {
    from: BufReader<UnixStream>,
    into: UnixStream,
}

impl Relay {
    /// Connects.
    ///
    /// # Errors
    /// As connect(2) says.
    pub fn connect(at: &Path) -> io::Result<Self> {
        let socket = UnixStream::connect(at)?;
        Ok(Self { into: socket.try_clone()?, from: BufReader::new(socket) })
    }

    /// Asks for one operation: what is answered, and its bytes.
    ///
    /// # Errors
    /// The operation's, or the connection's.
    pub fn ask(&mut self, words: &str, bytes: &[u8]) -> io::Result<(String, Vec<u8>)> {
        send(&mut self.into, words, bytes)?;
        let (mut words, bytes) = receive(&mut self.from)?;
        match words[0].parse() {
            Ok(0) => Ok((words.pop().unwrap_or_default(), bytes)),
            Ok(number) => Err(io::Error::from_raw_os_error(number)),
            Err(_) => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

impl Connections for Relay {
    fn next(&mut self) -> io::Result<(u64, Vec<u8>)> {
        let (connection, bytes) = self.ask("next", &[])?;
        Ok((connection.parse().map_err(|_| io::ErrorKind::InvalidData)?, bytes))
    }

    fn send(&mut self, connection: u64, bytes: &[u8]) -> io::Result<()> {
        self.ask(&format!("answer\t{connection}"), bytes).map(|_| ())
    }
}

/// Blocks that were read, by file and number.
#[derive(Default)]
struct Cache {
    blocks: HashMap<(String, u64), Vec<u8>>,
}

impl Cache {
    fn keep(&mut self, key: (String, u64), block: Vec<u8>) {
        // One block makes room: which one does not matter to a corpus that is read once.
        if self.blocks.len() == BLOCKS_CACHED
            && let Some(other) = self.blocks.keys().next().cloned()
        {
            self.blocks.remove(&other);
        }
        self.blocks.insert(key, block);
    }
}

/// A host's files, by messages.
#[derive(Clone)]
pub struct Relayed {
    relay: Arc<Mutex<Relay>>,
    cache: Arc<Mutex<Cache>>,
    staging: Staging,
}

impl Relayed {
    pub fn new(relay: Relay, staging: Staging) -> Self {
        Self { relay: Arc::new(Mutex::new(relay)), cache: Arc::default(), staging }
    }

    fn ask(&self, words: &str, bytes: &[u8]) -> io::Result<(String, Vec<u8>)> {
        self.relay.lock().expect("no thread panicked").ask(words, bytes)
    }
}

impl fmt::Debug for Relayed {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(into, "files by messages, {:?}", self.staging)
    }
}

impl Files for Relayed {
    fn open(&self, name: &str, opening: Opening) -> io::Result<Arc<dyn File>> {
        let (bytes, length) = match (opening, self.staging) {
            (Opening::Read, Staging::Whole) => {
                let bytes = self.ask(&format!("whole\t{name}"), &[])?.1;
                let length = bytes.len() as u64;
                (Some(bytes), length)
            }
            (Opening::Read, Staging::Blocks) => {
                // Whoever has a file system of his own looks a file up before he reads it.
                let length = self.ask(&format!("length\t{name}"), &[])?.0;
                (None, length.parse().map_err(|_| io::ErrorKind::InvalidData)?)
            }
            (Opening::Create, _) => self.ask(&format!("create\t{name}"), &[]).map(|_| (None, 0))?,
            (Opening::Replace, _) => {
                self.ask(&format!("replace\t{name}"), &[]).map(|_| (None, 0))?
            }
        };
        Ok(Arc::new(Open {
            files: self.clone(),
            name: name.to_owned(),
            bytes,
            length: Mutex::new(length),
        }))
    }

    fn list(&self, name: &str) -> io::Result<Vec<String>> {
        let (_, bytes) = self.ask(&format!("list\t{name}"), &[])?;
        Ok(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())
    }

    fn read_each(&self, names: &[String], each: &mut Each<'_>) -> io::Result<()> {
        read_in_turn(self, names, each)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.ask(&format!("remove\t{name}"), &[]).map(|_| ())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.cache
            .lock()
            .expect("no thread panicked")
            .blocks
            .retain(|(name, _), _| name != to && name != from);
        self.ask(&format!("rename\t{from}\t{to}"), &[]).map(|_| ())
    }
}

/// An open file; `bytes` if it was staged whole.
#[derive(Debug)]
struct Open {
    files: Relayed,
    name: String,
    bytes: Option<Vec<u8>>,
    length: Mutex<u64>,
}

impl Open {
    /// Copies what one block has of `bytes` at `offset`: how many bytes that were.
    fn read_block(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let number = offset / BLOCK_BYTES as u64;
        let key = (self.name.clone(), number);
        let mut cache = self.files.cache.lock().expect("no thread panicked");
        if !cache.blocks.contains_key(&key) {
            let start = number * BLOCK_BYTES as u64;
            let block =
                self.files.ask(&format!("read\t{}\t{start}\t{BLOCK_BYTES}", self.name), &[])?.1;
            cache.keep(key.clone(), block);
        }
        let block = &cache.blocks[&key];
        let within = (offset % BLOCK_BYTES as u64) as usize;
        let have = block.len().saturating_sub(within).min(bytes.len());
        bytes[..have].copy_from_slice(&block[within..within + have]);
        Ok(have)
    }
}

impl File for Open {
    fn len(&self) -> io::Result<u64> {
        Ok(*self.length.lock().expect("no thread panicked"))
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        if let Some(all) = &self.bytes {
            let from = all.len().min(offset as usize);
            let have = (all.len() - from).min(bytes.len());
            bytes[..have].copy_from_slice(&all[from..from + have]);
            return Ok(have);
        }
        let end = self.len()?.min(offset + bytes.len() as u64);
        let mut read = 0;
        while offset + (read as u64) < end {
            match self.read_block(&mut bytes[read..], offset + read as u64)? {
                0 => break,
                more => read += more,
            }
        }
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        for (number, piece) in bytes.chunks(WRITE_BYTES).enumerate() {
            let at = offset + (number * WRITE_BYTES) as u64;
            self.files.ask(&format!("write\t{}\t{at}", self.name), piece)?;
        }
        let mut length = self.length.lock().expect("no thread panicked");
        *length = (*length).max(offset + bytes.len() as u64);
        self.files
            .cache
            .lock()
            .expect("no thread panicked")
            .blocks
            .retain(|(name, _), _| *name != self.name);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.files.ask(&format!("sync\t{}", self.name), &[]).map(|_| ())
    }
}
