//! A process's part of a joint session: its number, its ends of the rings, and how it hears of the end.

use std::os::fd::AsRawFd;
use std::sync::Arc;

use heliostat_abi::code::Code;
use heliostat_abi::file::delegated::joint::{
    completion_at, depth, life_at, MEMBERS_AT, MEMBERS_BYTES, MEMBERS_MAX,
};
use heliostat_base::alive::Life;
use heliostat_base::clock::monotonic_ns;
use heliostat_base::fd::OwnedFd;
use heliostat_base::mapping::{Access, SharedMapping};
use heliostat_base::process;
use heliostat_client::session::{self, Standing};
use heliostat_client::NodePage;
use heliostat_ring::members::{Identity, MembersPage};
use heliostat_ring::turn::Turn;
use heliostat_ring::{JointProducer, PushError, Refresh, ReserveError, RingMemory};
use heliostat_stub_link::is_kept;

use super::super::delegation::{self, Delegation};
use super::super::error::DelegatedError;
use super::arrivals::Arrivals;

/// Epochs of joint sessions have this bit, and those of others do not.
const EPOCH_BIT: u64 = 1 << 63;

/// What a process has of a joint session.
pub struct Member {
    pub window: Arc<SharedMapping>,
    pub number: u32,
    pub identity: Identity,
    /// What comes for its threads.
    pub arrivals: Arrivals,
    window_fd: OwnedFd,
    rings: OwnedFd,
    page: MembersPage,
    submissions: JointProducer<MembersPage>,
    node: Arc<NodePage>,
    /// The opener's session with the control plane, as `Standing::epoch`.
    opened_in: Option<u64>,
    pid: i32,
    /// Says to the others that this process lives.
    _life: Life<Arc<SharedMapping>>,
}

/// A joint session, as this process has it before it is a member.
struct Session {
    rings: OwnedFd,
    page: MembersPage,
    window_fd: OwnedFd,
    window: Arc<SharedMapping>,
    node: Arc<NodePage>,
    /// As in `Member`.
    opened_in: Option<u64>,
}

impl Member {
    /// Opens a session, as its first member.
    pub fn open(
        window_fd: OwnedFd,
        window: Arc<SharedMapping>,
        members: u32,
    ) -> Result<Member, DelegatedError> {
        if !(1..=MEMBERS_MAX).contains(&members) {
            return Err(DelegatedError::Refused(Code::Full, u64::from(MEMBERS_MAX)));
        }
        let delegation = Delegation::ask(&window_fd, members)?;
        let opened_in = delegation.standing.epoch;
        let begun = Member::begin(delegation, window_fd, window);
        begun.inspect_err(|_| delegation::end(opened_in))
    }

    fn begin(
        Delegation { rings, standing, .. }: Delegation,
        window_fd: OwnedFd,
        window: Arc<SharedMapping>,
    ) -> Result<Member, DelegatedError> {
        let page = map_page(&rings)?;
        let Standing { id: session, boot, epoch, node } = standing;
        page.identify(Identity { session, boot, epoch: monotonic_ns() | EPOCH_BIT });
        let opened_in = Some(epoch);
        Member::take_part(Session { rings, page, window_fd, window, node, opened_in })
    }

    /// Joins a session that another process has opened.
    pub fn join(rings: OwnedFd, window_fd: OwnedFd) -> Result<Member, DelegatedError> {
        let page = map_page(&rings)?;
        let Standing { boot, node, .. } = session::standing().map_err(DelegatedError::Control)?;
        if page.is_over() || page.identity().boot != boot {
            return Err(DelegatedError::Gone { lost: 0 });
        }
        let bytes = page.window_bytes() as usize;
        let window = SharedMapping::from_fd(window_fd.as_raw_fd(), bytes, Access::ReadWrite);
        let window = Arc::new(window.map_err(DelegatedError::Memory)?);
        let opened_in = None;
        Member::take_part(Session { rings, page, window_fd, window, node, opened_in })
    }

    fn take_part(session: Session) -> Result<Member, DelegatedError> {
        let Session { rings, page, window_fd, window, node, opened_in } = session;
        let full = DelegatedError::Refused(Code::Full, u64::from(page.count()));
        let number = page.claim().ok_or(full)?;
        let life = Life::begin(page.mapping().clone(), life_at(number));
        let life = life.map_err(DelegatedError::File)?;
        let attach = |at| RingMemory::attach(rings.as_raw_fd(), at).map_err(DelegatedError::Ring);
        let turn = Turn::new(page.clone(), number);
        let submissions = JointProducer::new(attach(0)?, turn).map_err(DelegatedError::Ring)?;
        let completions = attach(completion_at(number))?.spsc_consumer(Refresh::Lazy);
        let completions = completions.map_err(DelegatedError::Ring)?;
        Ok(Member {
            window,
            number,
            identity: page.identity(),
            arrivals: Arrivals::new(completions, depth(page.count())),
            window_fd,
            rings,
            page,
            submissions,
            node,
            opened_in,
            pid: process::pid(),
            _life: life,
        })
    }

    pub fn descriptors(&self) -> (&OwnedFd, &OwnedFd) {
        (&self.rings, &self.window_fd)
    }

    pub fn depth(&self) -> usize {
        depth(self.page.count())
    }

    /// Whether this process is the member, and not a child that was forked from it.
    pub fn is_own(&self) -> bool {
        self.pid == process::pid()
    }

    /// Whether the session goes on.
    pub fn is_kept(&self) -> bool {
        is_kept(&self.node, self.identity.session) && !self.page.is_over()
    }

    /// Puts a record into the ring, without ringing; false while there is no room, or while another
    /// process keeps the turn.
    pub fn push(&self, record: &[u8]) -> Result<bool, DelegatedError> {
        match self.submissions.push(record) {
            Ok(()) => Ok(true),
            Err(PushError::Busy | PushError::Ring(ReserveError::Full)) => Ok(false),
            Err(PushError::Ring(_)) => Err(DelegatedError::Corrupt),
        }
    }

    /// Rings the server if it sleeps.
    pub fn ring(&self) {
        self.submissions.ring();
    }
}

impl Drop for Member {
    /// The session ends with its opener. The others go on without a member that leaves.
    fn drop(&mut self) {
        if let Some(epoch) = self.opened_in.filter(|_| self.is_own()) {
            delegation::end(epoch);
        }
    }
}

fn map_page(rings: &OwnedFd) -> Result<MembersPage, DelegatedError> {
    let page = SharedMapping::map(rings.as_raw_fd(), MEMBERS_AT, MEMBERS_BYTES, Access::ReadWrite);
    MembersPage::attach(page.map_err(DelegatedError::Memory)?).ok_or(DelegatedError::Corrupt)
}
