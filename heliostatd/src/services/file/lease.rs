//! What sessions ask of the file service: a lease on a file, and its end; and what writers do to it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use heliostat_abi::code::Unmapped;
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::node::State;
use heliostat_abi::session::record::Reply;
use heliostat_backend_lease::holder;
use heliostat_base::clock::monotonic_ns;
use heliostat_base::sys::Errno;
use heliostat_control::name::Name;
use heliostat_control::rights::Right;
use heliostat_control::rules::Decision;
use heliostat_service_file::{Effect, LeaseView, Reason, Refusal};
use serde_json::{json, Value};
use tracing::{debug, trace};

use crate::answer::Answer;
use crate::closer::ReceivedFd;
use crate::daemon::Daemon;
use crate::refused::{refuse, Refused};
use crate::services::listed;
use crate::shown_file::{self, ShownFile};

/// Breaks heard of before others are served.
const HEARD_AT_ONCE: usize = 256;

/// Why no lease is given: the file's fault, or the asker's.
pub(crate) enum NotGiven {
    Unmapped(Unmapped),
    Refused(Refused),
}

impl NotGiven {
    /// Whether what was shown is known to be a regular file of a local file system all the same.
    fn is_of_local_file(&self) -> bool {
        use Unmapped::{Broken, Denied, Full, Owner, Written};
        matches!(self, Self::Unmapped(Broken | Denied | Full | Owner | Written))
    }
}

impl From<Unmapped> for NotGiven {
    fn from(reason: Unmapped) -> Self {
        Self::Unmapped(reason)
    }
}

impl From<Refused> for NotGiven {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl From<Refusal> for NotGiven {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Reason(Reason::Pause { .. } | Reason::Taking { .. }) => {
                Unmapped::Broken.into()
            }
            Refusal::Full(_) => Unmapped::Full.into(),
            refused => Self::Refused(refused.into()),
        }
    }
}

impl Daemon {
    /// Leases a file: shown is [the file], the answer brings [the file, opened anew].
    pub(crate) fn lease(&mut self, id: ObjectId, shown: ReceivedFd) -> Result<Answer, Refused> {
        let answer = self.lease_shown(id, &shown);
        let is_of_local_file = answer.as_ref().map_or_else(NotGiven::is_of_local_file, |_| true);
        let local = shown.into_fd_if(is_of_local_file);
        let closer = self.closer.of(self.holder(id)?);
        local.into_iter().for_each(|fd| closer.close(shown_file::let_go(fd)));
        match answer {
            Ok((reply, fd)) => Ok(Answer { reply, fds: vec![Rc::new(fd)] }),
            Err(NotGiven::Unmapped(reason)) => {
                trace!(session = %id, ?reason, "no lease");
                self.counts.note_not_leased(reason);
                Ok(Reply::NotLeased { reason }.into())
            }
            Err(NotGiven::Refused(refused)) => Err(refused),
        }
    }

    fn lease_shown(
        &mut self,
        id: ObjectId,
        shown: &ReceivedFd,
    ) -> Result<(Reply, OwnedFd), NotGiven> {
        self.session(id)?;
        let file = shown_file::examine(shown.as_fd(), &mut self.services.file.mounts)?;
        self.check_read(id, &file)?;
        let fd = shown_file::reopen(shown)?;
        let lease = self.ask_lease(id, shown, &file)?;
        match rustix::fs::fstat(&fd) {
            Ok(status) if status.st_size > 0 => {
                debug!(session = %id, %lease, path = file.path, "leases");
                Ok((Reply::Leased { lease, bytes: status.st_size as u64 }, fd))
            }
            // It was truncated before the lease began.
            _ => {
                let _ = self.end_lease(id, lease);
                Err(Unmapped::NotRegular.into())
            }
        }
    }

    /// A lease on an examined file, for a session that may read it.
    pub(crate) fn ask_lease(
        &mut self,
        id: ObjectId,
        shown: &impl AsFd,
        file: &ShownFile,
    ) -> Result<ObjectId, NotGiven> {
        let (holder, mut effects) = (self.holder(id)?, Vec::new());
        let lease = self
            .services
            .file
            .grants
            .ask(id, holder, file.key, monotonic_ns(), &mut effects)
            .inspect_err(|refusal| debug!(session = %id, path = file.path, %refusal, "no lease"))?;
        for effect in effects {
            self.begin_lease(effect, shown, file)?;
        }
        Ok(lease)
    }

    /// Without a rule a user's own files only, and for root all: a lease makes the writers of its
    /// file wait for a moment, which is not for everybody to do to others.
    fn check_read(&self, id: ObjectId, file: &ShownFile) -> Result<(), NotGiven> {
        let subject = &self.session(id)?.peer.subject;
        let owner = if subject.uid == 0 { 0 } else { file.owner };
        let name = Name::File(&file.path);
        match self.decide(id, Right::Read, name, owner)? {
            decision if decision.is_allowed() => Ok(()),
            Decision::Foreign => Err(Unmapped::Owner.into()),
            decision => {
                debug!(uid = subject.uid, path = file.path, ?decision, "reading is denied");
                Err(Unmapped::Denied.into())
            }
        }
    }

    /// Asks the kernel for the lease that the service wants.
    fn begin_lease(
        &mut self,
        effect: Effect,
        shown: &impl AsFd,
        file: &ShownFile,
    ) -> Result<(), Unmapped> {
        let Effect::TakeLease(id) = effect else { return Ok(()) };
        // A description of its own: whoever has another descriptor of it could give the lease back.
        let taken = shown_file::reopen(shown).and_then(|fd| take(fd.as_fd()).map(|()| fd));
        match taken {
            Ok(fd) => {
                self.services.file.leases.insert(
                    id,
                    fd,
                    self.node.lease_word(id),
                    file.path.clone(),
                );
                let mut effects = Vec::new();
                self.services.file.grants.taken(id, &mut effects);
                self.carry_out_files(effects);
                Ok(())
            }
            Err(reason) => {
                self.services.file.grants.not_taken(id);
                Err(reason)
            }
        }
    }

    /// A session gives a lease back.
    pub(crate) fn end_lease(&mut self, id: ObjectId, lease: ObjectId) -> Result<Answer, Refused> {
        self.session(id)?;
        let mut effects = Vec::new();
        let answer = self.services.file.grants.end_lease(id, lease, &mut effects);
        self.carry_out_files(effects);
        answer.map_err(refuse(id))?;
        Ok(Reply::Done.into())
    }

    /// Lets the writers go on that wait in the kernel.
    pub(crate) fn attend_breaks(&mut self) {
        for _ in 0..HEARD_AT_ONCE {
            let Some(heard) = self.parts.breaks.next() else { return };
            for lease in self.services.file.leases.broken(heard) {
                let mut effects = Vec::new();
                self.services.file.grants.broken(lease, monotonic_ns(), &mut effects);
                let path = self.services.file.leases.get(lease).map(|lease| lease.path.as_str());
                debug!(%lease, path, "a writer came");
                self.counts.leases_broken += 1;
                self.carry_out_files(effects);
            }
        }
    }

    /// Leases as people see them; who is neither owner nor root sees those of the same user.
    pub(crate) fn leases_json(&self, sees_all: bool, uid: Option<u32>) -> Vec<Value> {
        let peer = |id: &ObjectId| self.connections.get(*id).map(|it| &it.peer);
        let is_visible = |view: &LeaseView| {
            let mut holders = view.holders.iter().filter_map(peer);
            sees_all || holders.any(|peer| Some(peer.subject.uid) == uid)
        };
        let each = self.services.file.grants.leases().filter(is_visible).map(|view| {
            json!({
                "id": view.id.to_string(),
                "path": self.services.file.leases.get(view.id).map(|lease| lease.path.as_str()),
                "device": view.key.device,
                "inode": view.key.inode,
                "pids": listed(view.holders.iter().filter_map(peer).map(|it| it.pid)),
            })
        });
        each.collect()
    }

    /// Paths of the files that a session reads under a lease.
    pub(crate) fn leased_paths(&self, session: ObjectId) -> Vec<&str> {
        let ids = self.services.file.grants.leases_of(session);
        ids.filter_map(|id| self.services.file.leases.get(id))
            .map(|lease| lease.path.as_str())
            .collect()
    }

    /// Carries out what the file service decided.
    pub(crate) fn carry_out_files(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                // Needs the file that was shown: begin_lease.
                Effect::TakeLease(_) => {}
                Effect::Active(id) => self.node.lease_word(id).set(State::Active),
                Effect::Revoked(id) => self.node.lease_word(id).set(State::Revoked),
                Effect::Freed(id) => self.node.lease_word(id).set(State::Free),
                Effect::GiveBack(id) => {
                    // Opened here, on a local file system.
                    let closer = self.closer.of(self.holder_of(self.own_uid));
                    self.services.file.leases.end(id).into_iter().for_each(|fd| closer.close(fd));
                }
            }
        }
    }
}

fn take(fd: BorrowedFd<'_>) -> Result<(), Unmapped> {
    holder::take(fd).map_err(|errno| match errno {
        Errno(libc::EAGAIN) => Unmapped::Written,
        Errno(libc::EACCES) => Unmapped::Owner,
        Errno(libc::ENOLCK | libc::ENOMEM) => Unmapped::Full,
        // EINVAL: it has none, or they are switched off.
        _ => Unmapped::FileSystem,
    })
}
