//! This node in the registry: registered under a lease, kept alive, and out in time.
//!
//! ```text
//! waiting --due--> Lease --> List (whom it names) --> Put (own record) --> in --+
//!    ^               |not done     |                     |                     | KeepAlive, a third
//!    +---------------+-------------+---------------------+                     | of the lease each
//!    ^                                                                          |
//!    +--out: a new incarnation---- the lease may have run out, or is gone ------+
//! ```
//! A pure state machine. The lease is counted from before each request for it was made, and a sixteenth
//! of it is given away for clocks that run differently: here it always ends before it ends there.

use heliostat_abi::cluster::limits::MEMBERS_MAX;
use heliostat_abi::cluster::RegisteredMember;

/// The first wait after something went wrong; it doubles.
const WAIT_NS_MIN: u64 = 100_000_000;
/// The longest.
const WAIT_NS_MAX: u64 = 2_000_000_000;

/// How long the lease is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// At the registry.
    pub ttl_ns: u64,
}

impl Timing {
    /// How long it is believed here.
    pub fn held_ns(self) -> u64 {
        self.ttl_ns - self.ttl_ns / 16
    }

    /// Between two keep-alives, and how long one may take.
    pub fn turn_ns(self) -> u64 {
        self.ttl_ns / 3
    }
}

/// What is to be asked of the registry; the answer comes with the same number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ask {
    /// A lease, in place of whatever there is.
    Lease,
    /// Whom it names, behind this node.
    List {
        /// The key of the last that is known.
        after: Option<String>,
    },
    /// Write the own record, under the lease.
    Put {
        /// Its revision now.
        expected: u64,
        /// It.
        record: RegisteredMember,
    },
    /// Keep the lease alive.
    KeepAlive,
}

/// What the registry said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It is done.
    Done {
        /// In this revision.
        revision: u64,
    },
    /// Whom it names, each with its record's revision.
    Listed {
        /// They; a record that is none of a member is not among them.
        named: Vec<(RegisteredMember, u64)>,
        /// The revision of the list.
        revision: u64,
        /// The key to ask on behind.
        more_after: Option<String>,
    },
    /// The lease is gone.
    NoLease,
    /// Something else is there, or nothing is known: in words.
    Failed(String),
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Ask the registry.
    Ask {
        /// Its number.
        number: u64,
        /// What.
        ask: Ask,
        /// Until when.
        deadline_ns: u64,
    },
    /// The node may act until then.
    Hold {
        /// When it has to stop by itself.
        until_ns: u64,
    },
    /// It is registered: watch behind a revision, and believe what was named until then.
    In {
        /// The revision of its own record.
        revision: u64,
        /// Where the watch begins.
        watch_after: u64,
        /// Whom the registry named then.
        named: Vec<RegisteredMember>,
    },
    /// It has to stop: every link is left, and the next life of it begins.
    Out {
        /// Which.
        incarnation: u64,
    },
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Stage {
    Waiting { at_ns: u64 },
    Asked(u64),
    In,
}

/// This node's registration.
#[derive(Clone, Debug)]
pub struct Registration {
    record: RegisteredMember,
    timing: Timing,
    stage: Stage,
    last: u64,
    failures: u32,
    /// When the lease was asked for that is being made use of.
    leased_ns: u64,
    named: Vec<(RegisteredMember, u64)>,
    listed: Option<u64>,
    revision: u64,
    until_ns: Option<u64>,
    /// A keep-alive that is under way: its number, and when it was asked.
    keep: Option<(u64, u64)>,
    keep_ns: u64,
    why: Option<String>,
}

impl Registration {
    /// A node that is to be registered at once.
    pub fn new(record: RegisteredMember, timing: Timing, now_ns: u64) -> Registration {
        Registration {
            record,
            timing,
            stage: Stage::Waiting { at_ns: now_ns },
            last: 0,
            failures: 0,
            leased_ns: 0,
            named: Vec::new(),
            listed: None,
            revision: 0,
            until_ns: None,
            keep: None,
            keep_ns: u64::MAX,
            why: None,
        }
    }

    /// How long its lease is.
    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// Which life of the node this is.
    pub fn incarnation(&self) -> u64 {
        self.record.incarnation
    }

    /// The revision of its record, while it holds a lease: the guard of everything that it writes.
    pub fn guard(&self, now_ns: u64) -> Option<u64> {
        self.until_ns.filter(|until| now_ns < *until).map(|_| self.revision)
    }

    /// Until when it may act; `None` where it may not.
    pub fn until_ns(&self) -> Option<u64> {
        self.until_ns
    }

    /// Why it is not registered, or was not kept so last; in words.
    pub fn why(&self) -> Option<&str> {
        self.why.as_deref()
    }

    /// When [`Registration::pass_time`] is due.
    pub fn next_ns(&self) -> Option<u64> {
        let waiting = match self.stage {
            Stage::Waiting { at_ns } => Some(at_ns),
            _ => None,
        };
        let keep = self.until_ns.filter(|_| self.keep.is_none()).map(|_| self.keep_ns);
        [waiting, keep, self.until_ns].into_iter().flatten().min()
    }

    /// Does what is due. `fresh` is a number for the next life: the time will do.
    pub fn pass_time(&mut self, now_ns: u64, fresh: u64, steps: &mut Vec<Step>) {
        if self.until_ns.is_some_and(|until| until <= now_ns) {
            let why = "the lease may have run out: the registry did not answer in time";
            let why = self.why.clone().map_or(why.to_owned(), |it| format!("{why} ({it})"));
            self.go_out(why, now_ns, fresh, steps);
        }
        if self.until_ns.is_some() && self.keep.is_none() && self.keep_ns <= now_ns {
            let number = self.ask(Ask::KeepAlive, now_ns, steps);
            self.keep = Some((number, now_ns));
        }
        if matches!(self.stage, Stage::Waiting { at_ns } if at_ns <= now_ns) {
            // A node that holds its lease and missed changes only looks again, and says so.
            let holds = self.until_ns.is_some();
            let ask = if holds { Ask::List { after: None } } else { Ask::Lease };
            if !holds {
                self.leased_ns = now_ns;
            }
            self.go_on(ask, now_ns, steps);
        }
    }

    /// The registry answered.
    pub fn answered(
        &mut self,
        number: u64,
        answer: Answer,
        now_ns: u64,
        fresh: u64,
        steps: &mut Vec<Step>,
    ) {
        if let Some((_, asked_ns)) = self.keep.filter(|(keep, _)| *keep == number) {
            self.keep = None;
            return self.kept(answer, asked_ns, now_ns, fresh, steps);
        }
        if self.stage != Stage::Asked(number) {
            return;
        }
        match answer {
            Answer::Done { revision } => match self.listed {
                None => self.go_on(Ask::List { after: None }, now_ns, steps),
                Some(listed) => self.come_in(revision, listed, now_ns, fresh, steps),
            },
            Answer::Listed { named, revision, more_after } => {
                self.named.extend(named);
                self.listed.get_or_insert(revision);
                match more_after.filter(|_| self.named.len() <= MEMBERS_MAX) {
                    after @ Some(_) => self.go_on(Ask::List { after }, now_ns, steps),
                    None => self.put(now_ns, steps),
                }
            }
            Answer::NoLease if self.until_ns.is_some() => {
                self.go_out("the lease is gone".to_owned(), now_ns, fresh, steps);
            }
            Answer::NoLease => self.wait("the lease is gone".to_owned(), now_ns),
            Answer::Failed(why) => self.wait(why, now_ns),
        }
    }

    /// The registry's record of this node was changed, or is gone (`None`), in this revision.
    pub fn own_changed(
        &mut self,
        found: Option<&RegisteredMember>,
        revision: u64,
        now_ns: u64,
        fresh: u64,
        steps: &mut Vec<Step>,
    ) {
        let is_own = found.is_some_and(|it| it.incarnation == self.record.incarnation);
        if self.until_ns.is_none() || revision <= self.revision || is_own {
            return;
        }
        let why = match found {
            Some(it) => format!("another life of this node, at {}, took its place", it.address),
            None => "the registry declared it dead".to_owned(),
        };
        self.go_out(why, now_ns, fresh, steps);
    }

    /// Changes may have been missed: it looks again, and writes its record again, so that all nodes
    /// come to the same epoch.
    pub fn missed(&mut self, now_ns: u64) {
        if self.stage == Stage::In {
            self.stage = Stage::Waiting { at_ns: now_ns };
        }
    }

    fn ask(&mut self, ask: Ask, now_ns: u64, steps: &mut Vec<Step>) -> u64 {
        self.last += 1;
        let deadline_ns = now_ns.saturating_add(self.timing.turn_ns());
        steps.push(Step::Ask { number: self.last, ask, deadline_ns });
        self.last
    }

    fn go_on(&mut self, ask: Ask, now_ns: u64, steps: &mut Vec<Step>) {
        if matches!(ask, Ask::Lease | Ask::List { after: None }) {
            self.named.clear();
            self.listed = None;
        }
        let number = self.ask(ask, now_ns, steps);
        self.stage = Stage::Asked(number);
    }

    fn put(&mut self, now_ns: u64, steps: &mut Vec<Step>) {
        let own = self.named.iter().find(|(it, _)| it.node == self.record.node);
        let later = own.filter(|(it, _)| it.incarnation > self.record.incarnation);
        if let Some((later, _)) = later {
            let (node, at) = (later.node, &later.address);
            let why = format!("a later life of node {node} is registered, at {at}");
            return self.wait(why, now_ns);
        }
        let (expected, record) = (own.map_or(0, |(_, revision)| *revision), self.record.clone());
        self.go_on(Ask::Put { expected, record }, now_ns, steps);
    }

    fn come_in(
        &mut self,
        revision: u64,
        watch_after: u64,
        now_ns: u64,
        fresh: u64,
        steps: &mut Vec<Step>,
    ) {
        self.revision = revision;
        if self.until_ns.is_none() {
            self.hold(self.leased_ns, steps);
        }
        self.stage = Stage::In;
        (self.failures, self.why) = (0, None);
        let named = std::mem::take(&mut self.named).into_iter().map(|(it, _)| it);
        let named = named.filter(|it| it.node != self.record.node).collect();
        steps.push(Step::In { revision, watch_after, named });
        // The answer may have come so late that all is over.
        if self.until_ns.is_some_and(|until| until <= now_ns) {
            self.go_out("it was registered too late".to_owned(), now_ns, fresh, steps);
        }
    }

    fn hold(&mut self, asked_ns: u64, steps: &mut Vec<Step>) {
        let until_ns = asked_ns.saturating_add(self.timing.held_ns());
        self.until_ns = Some(until_ns.max(self.until_ns.unwrap_or(0)));
        self.keep_ns = asked_ns.saturating_add(self.timing.turn_ns());
        steps.push(Step::Hold { until_ns });
    }

    fn kept(
        &mut self,
        answer: Answer,
        asked_ns: u64,
        now_ns: u64,
        fresh: u64,
        steps: &mut Vec<Step>,
    ) {
        if self.until_ns.is_none() {
            return;
        }
        // The answer counts only while the lease is held: what was over stays over.
        if self.until_ns.is_some_and(|until| until <= now_ns) {
            return self.pass_time(now_ns, fresh, steps);
        }
        match answer {
            Answer::Done { .. } => {
                self.hold(asked_ns, steps);
                if self.stage == Stage::In {
                    self.why = None;
                }
            }
            Answer::NoLease => {
                self.go_out("the registry declared it dead".to_owned(), now_ns, fresh, steps);
            }
            Answer::Listed { .. } => {}
            Answer::Failed(why) => {
                self.why = Some(why);
                self.keep_ns = now_ns.saturating_add(WAIT_NS_MIN);
            }
        }
    }

    fn wait(&mut self, why: String, now_ns: u64) {
        self.why = Some(why);
        let wait_ns = (WAIT_NS_MIN << self.failures.min(8)).min(WAIT_NS_MAX);
        self.failures = self.failures.saturating_add(1);
        self.stage = Stage::Waiting { at_ns: now_ns.saturating_add(wait_ns) };
    }

    fn go_out(&mut self, why: String, now_ns: u64, fresh: u64, steps: &mut Vec<Step>) {
        self.why = Some(why);
        self.until_ns = None;
        self.keep = None;
        self.record.incarnation = fresh.max(self.record.incarnation + 1);
        self.stage = Stage::Waiting { at_ns: now_ns };
        steps.push(Step::Out { incarnation: self.record.incarnation });
    }
}
