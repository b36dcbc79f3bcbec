//! How the cores are parted, and the thread that does it.
//!
//! ```text
//! order: Part, Reset, Place --> thread: journal, then threads, groups, interrupts --> Event
//! ```
//! Placing looks at every process, and a file of /proc may be slow: nobody else waits for it. The
//! thread begins when somebody parts cores, or a journal is left to be undone.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc::{channel, Receiver, Sender, TryRecvError};
use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_abi::cores::CpuMask;
use heliostat_abi::place::{EXAMINER_VARIABLE, SOCKET_VARIABLE};
use heliostat_backend_cores::{allowed_here, JournalFile, Marker, RealSystem};
use heliostat_control::config::{ProgramPlace, ProgramRules};
use heliostat_service_cores::{
    apply, extend, undo, Applied, Fault, Journal, Orders, Partition, Program, Undone,
};

/// How long the end of the control plane waits for what is undone.
const END_WAIT: Duration = Duration::from_secs(5);

/// What the thread is told.
#[expect(clippy::large_enum_variant, reason = "one for a request of a person's")]
pub enum Order {
    /// Part the cores.
    Part {
        /// So.
        partition: Partition,
        /// Which partition this is.
        generation: u32,
        /// Where programs belong.
        rules: ProgramRules,
    },
    /// Undo what was changed.
    Reset,
    /// These processes are programs as well; place them, if cores are parted.
    Place(Vec<u32>),
    /// This process was begun with a place of its own.
    Keep(u32),
}

/// What the thread tells.
#[expect(clippy::large_enum_variant, reason = "one for each order")]
pub enum Event {
    /// What a crash had left was undone, before any order.
    Recovered(Result<Undone, Fault>),
    /// Cores are parted, and how much of what was changed before could not be taken back; or why they
    /// are not.
    Parted(Result<(CpuMask, Partition, Applied, usize), Fault>),
    /// What was changed is undone.
    Reset(Result<Undone, Fault>),
    /// Programs were placed.
    Placed(Result<Applied, Fault>),
}

/// The thread, as the daemon has it.
pub struct CoresThread {
    orders: Option<Sender<Order>>,
    events: Receiver<Event>,
    /// Rings when it tells something.
    pub bell: Arc<OwnedFd>,
}

impl CoresThread {
    /// Starts it. What a journal says is undone before anything else.
    ///
    /// # Errors
    /// The kernel has no thread.
    pub fn start(
        place: &JournalPlace,
        name: String,
        bell: OwnedFd,
    ) -> std::io::Result<CoresThread> {
        let ((orders, taken), (sender, events)) = (channel(), channel());
        let bell = Arc::new(bell);
        let work =
            Work { system: place.system(), parted: None, name, events: sender, bell: bell.clone() };
        std::thread::Builder::new().name("cores".into()).spawn(move || work.run(&taken))?;
        Ok(CoresThread { orders: Some(orders), events, bell })
    }

    /// Has it do something, after all that was ordered before. False when it has ended.
    pub fn order(&self, order: Order) -> bool {
        self.orders.as_ref().is_some_and(|orders| orders.send(order).is_ok())
    }

    /// What it has told, if anything; an error when it has ended.
    pub fn told(&self) -> Result<Event, TryRecvError> {
        self.events.try_recv()
    }
}

impl Drop for CoresThread {
    /// The control plane ends: what it changed is undone before it is gone. A thread that is held up is
    /// not waited for longer; the journal stays then, for the next start.
    fn drop(&mut self) {
        self.order(Order::Reset);
        self.orders = None;
        let end = Instant::now() + END_WAIT;
        // Told until the thread is gone.
        while self.events.recv_timeout(end.saturating_duration_since(Instant::now())).is_ok() {}
    }
}

/// Where the journal lies, and by what programs of this control plane are known.
#[derive(Clone, Debug)]
pub struct JournalPlace {
    /// The socket, beside which it lies.
    pub socket: PathBuf,
}

impl JournalPlace {
    /// The journal's path.
    pub fn path(&self) -> PathBuf {
        crate::home::beside(&self.socket, "cores")
    }

    /// This machine.
    fn system(&self) -> RealSystem {
        let socket = self.socket.clone();
        let whole = std::path::absolute(&socket).unwrap_or_else(|_| socket.clone());
        let values = vec![socket.into_os_string(), whole.into_os_string()];
        let marker = Marker { name: SOCKET_VARIABLE, values, besides: EXAMINER_VARIABLE };
        RealSystem::new(JournalFile::at(self.path()), marker)
    }
}

/// A partition in force.
struct Parted {
    journal: Journal,
    applied: Applied,
    rules: ProgramRules,
}

/// What the thread has.
struct Work {
    system: RealSystem,
    parted: Option<Parted>,
    name: String,
    events: Sender<Event>,
    bell: Arc<OwnedFd>,
}

impl Work {
    fn run(mut self, orders: &Receiver<Order>) {
        match undo(&mut self.system) {
            Ok(undone) if undone.is_nothing() => {}
            undone => self.tell(Event::Recovered(undone)),
        }
        while let Ok(order) = orders.recv() {
            let event = match order {
                Order::Part { partition, generation, rules } => {
                    Event::Parted(self.part(partition, generation, rules))
                }
                Order::Reset => {
                    self.parted = None;
                    Event::Reset(undo(&mut self.system))
                }
                Order::Place(pids) => {
                    pids.into_iter().for_each(|pid| self.system.know(pid));
                    Event::Placed(self.place())
                }
                Order::Keep(pid) => {
                    self.system.keep(pid);
                    continue;
                }
            };
            self.tell(event);
        }
    }

    fn part(
        &mut self,
        partition: Partition,
        generation: u32,
        rules: ProgramRules,
    ) -> Result<(CpuMask, Partition, Applied, usize), Fault> {
        self.parted = None;
        let refused = undo(&mut self.system)?.refused;
        let all = allowed_here();
        let place = |program: &Program| place_of(&rules, program, &all, &partition);
        let group_name = self.name.clone();
        let orders = Orders { generation, all, partition, group_name, place: &place };
        let (journal, applied) = apply(&mut self.system, &orders)?;
        self.parted = Some(Parted { journal, applied, rules });
        Ok((all, partition, applied, refused))
    }

    fn place(&mut self) -> Result<Applied, Fault> {
        let Some(parted) = &mut self.parted else { return Ok(Applied::default()) };
        let Journal { generation, all, partition, .. } = parted.journal;
        let rules = &parted.rules;
        let place = |program: &Program| place_of(rules, program, &all, &partition);
        let group_name = self.name.clone();
        let orders = Orders { generation, all, partition, group_name, place: &place };
        extend(&mut self.system, &orders, &mut parted.journal, &mut parted.applied)?;
        Ok(parted.applied)
    }

    fn tell(&self, event: Event) {
        // Nobody listens any more when the daemon ends.
        let _ = self.events.send(event);
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

/// Where a program belongs. A rule that leaves it no core that is there leaves it where it is.
fn place_of(
    rules: &ProgramRules,
    program: &Program,
    all: &CpuMask,
    partition: &Partition,
) -> Option<CpuMask> {
    let mask = match rules.place_of(&program.names) {
        ProgramPlace::Application => partition.application,
        ProgramPlace::Kernel if partition.kernel.is_empty() => partition.application,
        ProgramPlace::Kernel => partition.kernel,
        ProgramPlace::Left => return None,
        ProgramPlace::List(mask) => mask.intersection(all),
    };
    (!mask.is_empty()).then_some(mask)
}

/// What the daemon keeps of it.
pub struct PartedCores {
    /// The thread, once there is one.
    pub thread: Option<CoresThread>,
    /// Counts orders and their ends: odd while something is changed.
    pub generation: u32,
    /// The cores, the partition and what was done for it, while there is one.
    pub parted: Option<(CpuMask, Partition, Applied)>,
    /// Why the last order was not carried out.
    pub failed: Option<String>,
    /// What a crash had left, if something had been left.
    pub recovered: Option<Undone>,
    /// What could not be taken back, which the journal names still.
    pub refused: usize,
    /// Processes to be placed, and when.
    pub waiting: Vec<u32>,
    /// When those are placed.
    pub due_ns: u64,
}

impl PartedCores {
    /// Nothing is parted.
    pub fn new() -> PartedCores {
        PartedCores {
            thread: None,
            generation: 0,
            parted: None,
            failed: None,
            recovered: None,
            refused: 0,
            waiting: Vec::new(),
            due_ns: 0,
        }
    }

    /// Whether something is being changed.
    pub fn is_busy(&self) -> bool {
        self.generation % 2 == 1
    }

    /// Whether cores are parted, or about to be.
    pub fn is_parted(&self) -> bool {
        self.parted.is_some() || self.is_busy()
    }
}
