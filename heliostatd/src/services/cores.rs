//! What sessions ask of the machine's cores: who has which, and that they be parted otherwise.
//!
//! ```text
//! Set, Reset -> who may (owner, root, a rule on /cores) -> plan -> order to the thread -> State, odd
//!                                       thread is done -> node page, placement -> State, even
//! Join, a session begins ------------> placed with the next order, some time later
//! ```
//! `heliostat_service_cores` plans, does and undoes; `state/cores.rs` has the thread.

mod view;

use std::io;
use std::sync::mpsc::TryRecvError;

use heliostat_abi::code::Code;
use heliostat_abi::cores::request::{number, SERVICE};
use heliostat_abi::cores::{CoresReply, CoresRequest, CpuMask};
use heliostat_abi::name::ObjectId;
use heliostat_abi::right::Right;
use heliostat_abi::session::record::{Asker, Reply, Row};
use heliostat_backend_cores::{allowed_here, probe, Root};
use heliostat_base::affinity::CpuSet;
use heliostat_base::clock::monotonic_ns;
use heliostat_base::placement;
use heliostat_control::name::Name;
use heliostat_service_cores::{plan, Applied, Partition, PlanError, Undone, Wish};
use rustix::event::{eventfd, EventfdFlags};
use tracing::{debug, error, info, warn};

use super::own_request;
use crate::answer::Answer;
use crate::daemon::{Asked, Daemon, Service, Told, Viewer};
use crate::poll::Source;
use crate::refused::Refused;
use crate::state::cores::{CoresThread, Event, JournalPlace, Order};

/// How long programs are gathered before they are placed: placing looks at every process.
const GATHER_NS: u64 = 100_000_000;
/// Programs that wait to be placed; those beyond are found by their environment, or by their session.
const WAITING_MAX: usize = 4096;

/// The cores, in the table of services.
pub struct MachineCores;

const fn row(name: &'static str) -> Row {
    Row { name, brings: 0..=0, keeps: 0, answers: 0, asker: Asker::Unrestricted }
}

const REQUESTS: &[(u16, Row)] = &[
    (number::SET, row("cores_set")),
    (number::RESET, row("cores_reset")),
    (number::STATE, row("cores_state")),
    (number::JOIN, row("cores_join")),
    (number::KEEP, row("cores_keep")),
];

impl Service for MachineCores {
    fn number(&self) -> u16 {
        SERVICE
    }

    fn own_requests(&self) -> &'static [(u16, Row)] {
        REQUESTS
    }

    fn begin(&self, daemon: &mut Daemon) -> io::Result<()> {
        if daemon.cores_journal().path().exists() {
            warn!("a partition of cores was left, by a crash or what was refused: it is undone");
            daemon.cores_thread()?;
        }
        Ok(())
    }

    fn answer(&self, daemon: &mut Daemon, asked: Asked) -> Result<Answer, Refused> {
        let request = own_request(&asked, "cores", CoresRequest::decode)?;
        daemon.answer_cores(asked.session, request)
    }

    fn pass_time(&self, daemon: &mut Daemon, now_ns: u64) {
        daemon.place_those_waiting(now_ns);
    }

    fn next_deadline_ns(&self, daemon: &mut Daemon) -> Option<u64> {
        let cores = &daemon.services.cores;
        let waits = !cores.waiting.is_empty() && !cores.is_busy();
        waits.then_some(cores.due_ns)
    }

    fn status(&self, daemon: &Daemon, _: Viewer, told: &mut Told) {
        told.insert("cores".into(), daemon.cores_json());
    }

    fn explain(&self, daemon: &Daemon, sessions: &[ObjectId], told: &mut Told) {
        if let Some(explained) = daemon.cores_of_json(sessions) {
            told.insert("cores".into(), explained);
        }
    }

    fn gauges(&self, daemon: &Daemon) -> Vec<(&'static str, &'static str, u64)> {
        daemon.cores_gauges()
    }
}

impl Daemon {
    fn answer_cores(&mut self, id: ObjectId, request: CoresRequest) -> Result<Answer, Refused> {
        match request {
            CoresRequest::Set { layout, kernel, interrupt } => {
                self.check_may_part(id)?;
                self.part_cores(Wish { layout, kernel, interrupt })?;
            }
            CoresRequest::Reset => {
                self.check_may_part(id)?;
                self.order_cores(Order::Reset)?;
            }
            CoresRequest::State => {}
            CoresRequest::Join => {
                let pid = self.session(id)?.peer.pid;
                self.place_soon(pid);
            }
            CoresRequest::Keep => {
                let pid = self.session(id)?.peer.pid;
                if self.services.cores.is_parted() {
                    self.tell_cores(Order::Keep(pid));
                    // Looked at before it has said so, its threads are not in the journal.
                    self.place_soon(pid);
                }
            }
        }
        let state = CoresReply::State(self.cores_state());
        Ok(Reply::Own(Box::new(state.encode())).into())
    }

    /// The owner and root may, and whoever a rule names for it.
    fn check_may_part(&mut self, id: ObjectId) -> Result<(), Refused> {
        if self.is_owner(id) {
            return Ok(());
        }
        let owner = self.own_uid;
        self.check_right(id, Right::Manage, Name::Cores, owner)
    }

    fn part_cores(&mut self, wish: Wish) -> Result<(), Refused> {
        let machine = probe(&Root::default());
        let partition = plan(&machine.topology(&self.cores_all()), &wish).map_err(|error| {
            debug!(%error, "no such partition of cores");
            match error {
                PlanError::NoApplication { .. } => Code::BadState,
                PlanError::NotThere(_) => Code::NotFound,
            }
        })?;
        if partition.is_none() {
            return self.order_cores(Order::Reset);
        }
        let generation = self.services.cores.generation.wrapping_add(2);
        let rules = self.parts.config.cores.clone();
        self.order_cores(Order::Part { partition, generation, rules })?;
        // Those that wait are found with all others.
        let waiting = std::mem::take(&mut self.services.cores.waiting);
        self.tell_cores(Order::Place(waiting));
        Ok(())
    }

    /// Gives the thread an order that changes the partition: one at a time.
    fn order_cores(&mut self, order: Order) -> Result<(), Refused> {
        if self.services.cores.is_busy() {
            return Err(Code::BadState.into());
        }
        self.cores_thread().map_err(|error| {
            error!(%error, "no thread for cores");
            Code::Internal
        })?;
        // Every session's process is a program.
        let sessions: Vec<u32> = self.session_pids();
        self.tell_cores(Order::Place(sessions));
        if !self.tell_cores(order) {
            return Err(Code::Internal.into());
        }
        self.services.cores.generation = self.services.cores.generation.wrapping_add(1);
        self.services.cores.failed = None;
        self.node.set_partition(self.services.cores.generation);
        Ok(())
    }

    fn tell_cores(&self, order: Order) -> bool {
        self.services.cores.thread.as_ref().is_some_and(|thread| thread.order(order))
    }

    /// Starts the thread, unless there is one.
    fn cores_thread(&mut self) -> io::Result<()> {
        if self.services.cores.thread.is_some() {
            return Ok(());
        }
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let name = format!("heliostat-{:016x}", self.boot);
        let thread = CoresThread::start(&self.cores_journal(), name, bell)?;
        self.poll.watch(&thread.bell, Source::Cores)?;
        self.services.cores.thread = Some(thread);
        Ok(())
    }

    fn cores_journal(&self) -> JournalPlace {
        let socket = self.parts.home.as_ref().map(|home| home.socket().to_owned());
        JournalPlace { socket: socket.unwrap_or_else(crate::home::default_socket) }
    }

    fn session_pids(&self) -> Vec<u32> {
        let sessions =
            self.connections.iter().filter(|(_, connection)| connection.session.is_some());
        sessions.map(|(_, connection)| connection.peer.pid).filter(|pid| *pid != 0).collect()
    }

    /// A process has a session, or says that it is a program: it is placed soon, if cores are parted.
    pub(crate) fn place_soon(&mut self, pid: u32) {
        let cores = &mut self.services.cores;
        if pid == 0 || !cores.is_parted() || cores.waiting.len() >= WAITING_MAX {
            return;
        }
        if cores.waiting.is_empty() {
            cores.due_ns = monotonic_ns() + GATHER_NS;
        }
        if !cores.waiting.contains(&pid) {
            cores.waiting.push(pid);
        }
    }

    fn place_those_waiting(&mut self, now_ns: u64) {
        let cores = &mut self.services.cores;
        if cores.waiting.is_empty() || cores.is_busy() || now_ns < cores.due_ns {
            return;
        }
        let waiting = std::mem::take(&mut cores.waiting);
        if cores.parted.is_some() {
            self.tell_cores(Order::Place(waiting));
        }
    }

    /// Takes what the thread has told.
    pub(crate) fn attend_cores(&mut self) {
        let Some(thread) = &self.services.cores.thread else { return };
        let _ = rustix::io::read(&thread.bell, &mut [0; 8]);
        loop {
            let Some(thread) = &self.services.cores.thread else { return };
            match thread.told() {
                Ok(event) => self.take_cores_event(event),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    error!("the thread of cores has ended");
                    self.services.cores.thread = None;
                    self.settle_cores(None);
                    return;
                }
            }
        }
    }

    fn take_cores_event(&mut self, event: Event) {
        match event {
            Event::Parted(Ok((all, partition, applied, refused))) => {
                info!(%partition, placed = applied.placed, left = applied.left, "cores are parted");
                self.note_not_undone(refused);
                self.settle_cores(Some((all, partition, applied)));
            }
            Event::Parted(Err(fault)) => {
                error!(?fault, "cores are not parted: the journal cannot be read or written");
                self.services.cores.failed = Some(format!("the journal: {fault:?}"));
                self.settle_cores(None);
            }
            Event::Recovered(Ok(undone)) => {
                self.took_back(undone);
                self.services.cores.recovered = Some(undone);
            }
            // An order that waits already tries once more, and says how that went.
            Event::Recovered(Err(fault)) => {
                error!(?fault, "what was left is not undone: the journal cannot be read or ended");
                self.services.cores.failed = Some(format!("the journal: {fault:?}"));
            }
            Event::Reset(Ok(undone)) => {
                self.took_back(undone);
                self.settle_cores(None);
            }
            Event::Reset(Err(fault)) => {
                error!(?fault, "the journal of cores cannot be read or ended");
                self.services.cores.failed = Some(format!("the journal: {fault:?}"));
                self.settle_cores(None);
            }
            Event::Placed(Ok(applied)) => {
                if let Some((_, _, known)) = &mut self.services.cores.parted {
                    *known = applied;
                }
            }
            Event::Placed(Err(fault)) => {
                warn!(?fault, "programs are not placed: the journal cannot be written");
            }
        }
    }

    fn took_back(&mut self, undone: Undone) {
        if let Some(unreadable) = undone.unreadable {
            error!(%unreadable, "what cores were parted like cannot be told: it was forgotten");
        }
        info!(?undone, "cores are not parted any more");
        self.note_not_undone(undone.refused);
    }

    /// Undoing went well, but for so much that the system refused.
    fn note_not_undone(&mut self, refused: usize) {
        if refused > 0 {
            warn!(refused, "what the system refused to take back is tried again later");
        }
        self.services.cores.refused = refused;
        self.services.cores.failed = None;
    }

    /// An order has ended: everybody is told how cores are parted now.
    fn settle_cores(&mut self, parted: Option<(CpuMask, Partition, Applied)>) {
        let cores = &mut self.services.cores;
        cores.parted = parted;
        if cores.is_busy() {
            cores.generation = cores.generation.wrapping_add(1);
        }
        let generation = cores.generation;
        placement::publish(parted.map(|(_, partition, _)| published(generation, &partition)));
        self.node.set_partition(generation);
    }

    /// Every core that may be used.
    fn cores_all(&self) -> CpuMask {
        // While cores are parted, this process is on some of them only.
        let known = self.services.cores.parted.as_ref().map(|(all, _, _)| *all);
        known.unwrap_or_else(allowed_here)
    }
}

fn published(generation: u32, partition: &Partition) -> placement::Partition {
    let set = |mask: &CpuMask| mask.iter().collect::<CpuSet>();
    placement::Partition {
        generation,
        application: set(&partition.application),
        kernel: set(&partition.kernel),
        interrupt: set(&partition.interrupt),
    }
}
