//! Files of a delegated session, and operations that wait for their own end.

use std::ffi::CString;

use heliostat_abi::file::delegated::{
    Completion, Facts, OneRead, OpKind, Operation, Piece, Pieces, BUFFERED, DIRECT, FACTS_BYTES,
    READ,
};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::{Reply, Request};
use heliostat_base::call::{identity, open_direct, reopen_direct};
use heliostat_base::sys::Errno;
use heliostat_client::session;
use heliostat_stub_link::ServerConnection;

use super::{window, Delegated, DelegatedError, File};

impl Delegated {
    /// Has the server open the file `name` (an absolute path) for `READ`, `WRITE` or both, perhaps
    /// with `DIRECT` or `BUFFERED`; with `CREATE` and a `mode`, `EXCLUSIVE`, `TRUNCATE`; or `READ` and
    /// `DIRECTORY`. A file that was made stays, also when this fails for a limit. The name goes through
    /// `scratch`, a place in the window of its length or more, and of 64 bytes or more where the program
    /// is to read the file by itself (`read_directly`). In a sealed program the name is opened by the
    /// program itself, as its policy lets it, and the server gets the descriptor; so are the names of
    /// all other operations.
    ///
    /// # Errors
    /// `File` with what open(2) would say for this user, or EACCES where a rule denies it.
    pub fn open(
        &mut self,
        name: &str,
        access: u64,
        scratch: Piece,
    ) -> Result<File, DelegatedError> {
        let places = window::put_names(&self.window, [name], scratch)?;
        self.connect()?;
        if self.shows_only() {
            return self.open_and_show(name, access);
        }
        let pieces = Pieces::new(&places).unwrap_or_default();
        let opened = self.ask(OpKind::Open, ObjectId::default(), access, pieces)?;
        let file = self.file_of(opened)?;
        let has_room = scratch.bytes as usize >= FACTS_BYTES;
        if access & (READ | DIRECT) == READ | DIRECT && has_room && self.is_lent() {
            self.lend_named(file, name, Piece { bytes: FACTS_BYTES as u32, ..scratch })?;
        }
        Ok(file)
    }

    /// Whether files are lent to this program, and it wants them.
    fn is_lent(&mut self) -> bool {
        self.server.is_some() && self.terms.lends && self.own.is_wanted()
    }

    /// Opens by name what the server has opened, unless the name means another file by now. What
    /// cannot be opened here stays the server's.
    fn lend_named(&mut self, file: File, name: &str, scratch: Piece) -> Result<(), DelegatedError> {
        let Ok(name) = CString::new(name) else { return Ok(()) };
        let Ok(fd) = open_direct(&name) else { return Ok(()) };
        match self.facts(file, scratch) {
            Ok(facts) => self.own.lend(file.object, fd, Some((facts.device, facts.inode))),
            // It cannot be told which file it is.
            Err(DelegatedError::File(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Has the server work with a file that this process has open. The server opens it anew, with
    /// the rights that the descriptor has. `way` is 0, `DIRECT` or `BUFFERED`, each as for `open`.
    ///
    /// # Errors
    /// As `open`, `Gone` among them: the next control plane knows nothing of this session.
    /// EOPNOTSUPP for a file system whose answers another machine or program gives, EINVAL for another
    /// `way`.
    pub fn show(&mut self, fd: i32, way: u64) -> Result<File, DelegatedError> {
        if !matches!(way, 0 | DIRECT | BUFFERED) {
            return Err(DelegatedError::File(Errno(libc::EINVAL)));
        }
        self.connect()?;
        let (direct, buffered) = (way == DIRECT, way == BUFFERED);
        let tag = self.kept.next_tag();
        let epoch = self.server.as_ref().map_or(0, ServerConnection::epoch);
        let asked = session::ask_in(epoch, &Request::ShowFile { tag, direct, buffered }, &[fd]);
        match asked.map_err(|_| self.lose())?.0 {
            Reply::Done => {}
            Reply::Refused { code, limit, .. } => return Err(DelegatedError::Refused(code, limit)),
            _ => return Err(DelegatedError::Corrupt),
        }
        self.under_way += 1;
        let opened = self.await_tag(tag)?;
        let file = self.file_of(opened)?;
        if direct && self.is_lent() {
            // What cannot be opened once more here stays the server's.
            let again = reopen_direct(fd).ok();
            again.into_iter().for_each(|again| self.own.lend(file.object, again, identity(fd)));
        }
        Ok(file)
    }

    fn file_of(&self, opened: Completion) -> Result<File, DelegatedError> {
        let index = result_of(opened)? as u32;
        let epoch = self.server.as_ref().map_or(0, ServerConnection::epoch);
        Ok(File { object: ObjectId { index, generation: opened.generation }, epoch })
    }

    /// Reads at `offset` into a place in the window and waits; answers how many bytes there were,
    /// fewer only at the file's end.
    ///
    /// # Errors
    /// `File` with what pread(2) would say; those of `wait`.
    pub fn read_at(
        &mut self,
        file: File,
        offset: u64,
        into: Piece,
    ) -> Result<usize, DelegatedError> {
        match self.call(file, offset, into)? {
            Some(result) => Ok(result),
            None => self.one(OpKind::Read, file, offset, &[into]),
        }
    }

    /// The shortest way, for a read of what the server has in its cache while nothing else is under
    /// way; `None` where it does not lead there.
    fn call(
        &mut self,
        file: File,
        offset: u64,
        piece: Piece,
    ) -> Result<Option<usize>, DelegatedError> {
        let is_idle = self.under_way == 0 && !self.own.has(file.object);
        let Some(server) = self.server.as_mut().filter(|server| is_idle && server.may_call())
        else {
            return Ok(None);
        };
        if server.epoch() != file.epoch {
            return Err(DelegatedError::Stale);
        }
        let read = OneRead { object: file.object, offset, tag: 0, piece };
        match server.call(&read) {
            Ok(None) => Ok(None),
            Ok(Some(result)) => bytes_of(result).map(Some),
            Err(_) => Err(self.lose()),
        }
    }

    /// Writes a place in the window at `offset` and waits.
    ///
    /// # Errors
    /// `File` with what pwrite(2) would say; those of `wait`.
    pub fn write_at(
        &mut self,
        file: File,
        offset: u64,
        from: Piece,
    ) -> Result<usize, DelegatedError> {
        self.one(OpKind::Write, file, offset, &[from])
    }

    /// Writes a place in the window to the end of the file, in one step, and waits.
    ///
    /// # Errors
    /// As `write_at`.
    pub fn append(&mut self, file: File, from: Piece) -> Result<usize, DelegatedError> {
        self.one(OpKind::Append, file, 0, &[from])
    }

    /// Waits until everything that was written to the file before is on the disk.
    ///
    /// # Errors
    /// `File` with what fsync(2) would say.
    pub fn fsync(&mut self, file: File) -> Result<(), DelegatedError> {
        self.one(OpKind::Fsync, file, 0, &[]).map(|_| ())
    }

    /// What is known of the file; `scratch` has 64 bytes or more.
    ///
    /// # Errors
    /// `File` with what fstat(2) would say.
    pub fn facts(&mut self, file: File, scratch: Piece) -> Result<Facts, DelegatedError> {
        self.one(OpKind::Stat, file, 0, &[scratch])?;
        window::facts(&self.window, scratch)
    }

    /// The server needs the file no more.
    ///
    /// # Errors
    /// `File` with EBADF when it was closed already.
    pub fn close(&mut self, file: File) -> Result<(), DelegatedError> {
        self.one(OpKind::Close, file, 0, &[]).map(|_| ())
    }

    fn one(
        &mut self,
        kind: OpKind,
        file: File,
        offset: u64,
        pieces: &[Piece],
    ) -> Result<usize, DelegatedError> {
        self.connect()?;
        if self.server.as_ref().is_none_or(|server| server.epoch() != file.epoch) {
            return Err(DelegatedError::Stale);
        }
        let pieces = Pieces::new(pieces).unwrap_or_default();
        let (object, tag, timeout_us, argument) = (file.object, 0, 0, 0);
        let asked = Operation { kind, object, offset, tag, timeout_us, argument, pieces };
        match self.call_alone(&asked)? {
            Some(result) => Ok(result),
            None => result_of(self.perform(asked)?),
        }
    }

    /// The shortest way, for what the server knows at once, while nothing else is under way; `None`
    /// where it does not lead there.
    fn call_alone(&mut self, asked: &Operation) -> Result<Option<usize>, DelegatedError> {
        let is_alone = asked.kind == OpKind::Stat && self.under_way == 0;
        let Some(server) = self.server.as_mut().filter(|server| is_alone && server.may_call())
        else {
            return Ok(None);
        };
        match server.call_operation(asked) {
            Ok(None) => Ok(None),
            Ok(Some(result)) => bytes_of(result).map(Some),
            Err(_) => Err(self.lose()),
        }
    }
}

pub(super) fn result_of(completion: Completion) -> Result<usize, DelegatedError> {
    bytes_of(completion.result)
}

fn bytes_of(result: i64) -> Result<usize, DelegatedError> {
    usize::try_from(result).map_err(|_| DelegatedError::File(Errno(result.unsigned_abs() as i32)))
}
