//! Signals as readable bytes in the event loop: end, or read the configuration again.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// What was asked for since the last look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AskedBySignal {
    /// SIGTERM or SIGINT.
    pub end: bool,
    /// SIGHUP.
    pub reload: bool,
}

/// The signals' end in the event loop.
pub struct Signals {
    pipe: UnixStream,
    end: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
}

impl Signals {
    /// Catches the signals from now on.
    pub fn catch() -> io::Result<Signals> {
        let (pipe, writer) = UnixStream::pair()?;
        pipe.set_nonblocking(true)?;
        let (end, reload) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        for (signal, flag) in [(SIGTERM, &end), (SIGINT, &end), (SIGHUP, &reload)] {
            // The flag first: when the byte arrives, the flag is there.
            signal_hook::flag::register(signal, Arc::clone(flag))?;
            signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
        }
        Ok(Signals { pipe, end, reload })
    }

    /// What to wait for.
    pub fn pipe(&self) -> &UnixStream {
        &self.pipe
    }

    /// Takes what was asked.
    pub fn take(&mut self) -> AskedBySignal {
        let mut bytes = [0; 64];
        while matches!(self.pipe.read(&mut bytes), Ok(count) if count > 0) {}
        AskedBySignal {
            end: self.end.swap(false, Ordering::AcqRel),
            reload: self.reload.swap(false, Ordering::AcqRel),
        }
    }
}
