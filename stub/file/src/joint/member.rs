//! A process's part of a joint session: its number, its ends of the rings, and how it hears of the end.

use std::os::fd::AsRawFd;
use std::sync::Arc;

use heliostat_abi::code::Code;
use heliostat_abi::file::delegated::joint::{
    completion_at, depth, MEMBERS_AT, MEMBERS_BYTES, MEMBERS_MAX,
};
use heliostat_base::clock::monotonic_ns;
use heliostat_base::fd::OwnedFd;
use heliostat_base::mapping::{Access, SharedMapping};
use heliostat_base::process;
use heliostat_client::session::{self, Standing};
use heliostat_client::NodePage;
use heliostat_ring::members::{Identity, MemberLife, MembersPage};
use heliostat_ring::turn::{MemberId, Turn};
use heliostat_ring::{JointProducer, PushError, Refresh, ReserveError, RingMemory, SpscConsumer};
use heliostat_stub_link::is_kept;

use super::super::delegation::{self, Delegation};
use super::super::error::DelegatedError;
use super::arrivals::Arrivals;
use super::succession::Succession;

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
    _life: MemberLife,
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
        // The session ends with its opener, whose number nobody gets after it.
        let mut numbers = u32::from(opened_in.is_none())..page.count();
        let place = loop {
            let claimed = page.claim(numbers.clone()).map_err(DelegatedError::File)?;
            let full = DelegatedError::Refused(Code::Full, u64::from(page.count()));
            let (id, life) = claimed.ok_or(full)?;
            numbers.start = id.number + 1;
            if let Some(place) = Place::take((id, life), &rings, &page, &node)? {
                break place;
            }
        };
        let Place { number, submissions, completions, life } = place;
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
        goes_on(&self.node, self.identity, &self.page)
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

fn goes_on(node: &NodePage, identity: Identity, page: &MembersPage) -> bool {
    is_kept(node, identity.session) && !page.is_over()
}

/// A number that is this process's, and its ends of the rings.
struct Place {
    number: u32,
    submissions: JointProducer<MembersPage>,
    completions: SpscConsumer,
    life: MemberLife,
}

impl Place {
    /// A number that was claimed, once nothing of who had it before is left; `None` when that does not
    /// end.
    fn take(
        (id, life): (MemberId, MemberLife),
        rings: &OwnedFd,
        page: &MembersPage,
        node: &NodePage,
    ) -> Result<Option<Place>, DelegatedError> {
        let attach = |at| RingMemory::attach(rings.as_raw_fd(), at).map_err(DelegatedError::Ring);
        let turn = Turn::new(page.clone(), id);
        let submissions = JointProducer::new(attach(0)?, turn).map_err(DelegatedError::Ring)?;
        let completions = attach(completion_at(id.number))?.spsc_consumer(Refresh::Lazy);
        let mut completions = completions.map_err(DelegatedError::Ring)?;
        let identity = page.identity();
        let lives = || goes_on(node, identity, page);
        let number = id.number;
        let succession = Succession {
            id,
            submissions: &submissions,
            completions: &mut completions,
            lives: &lives,
        };
        let is_complete = succession.complete()?;
        Ok(is_complete.then_some(Place { number, submissions, completions, life }))
    }
}

fn map_page(rings: &OwnedFd) -> Result<MembersPage, DelegatedError> {
    let page = SharedMapping::map(rings.as_raw_fd(), MEMBERS_AT, MEMBERS_BYTES, Access::ReadWrite);
    MembersPage::attach(page.map_err(DelegatedError::Memory)?).ok_or(DelegatedError::Corrupt)
}
