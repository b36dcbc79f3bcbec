//! The board: a region on the master's node, where tasks are handed out and workers say that they live.
//!
//! ```text
//! 0    state, maps, reduces, workers so far, bytes of the plan      (words)
//! 64   a worker: its node, its heart beats                          WORKERS_MAX of them
//! ...  a task: state, attempt, worker, bytes of its result          in one word, changed by compare_swap
//! ...  the plan: job, input, split, splitters
//! ```
//!
//! A task goes Idle -> Taken -> Done, and back to Idle with the next attempt when its worker is dead or its
//! result cannot be read. Each step is a compare_swap of the whole word: of two who take a task one gets
//! it, and a worker that was given up changes nothing any more, since the attempt has moved on. What others
//! wrote here is checked before it is used.

use heliostat::memory::{Memory, MemoryError, Region, Rights};

use crate::job::Job;
use crate::Failure;

/// Workers that a job has at most, those that died among them.
pub const WORKERS_MAX: u64 = 256;
/// Tasks of a job at most.
pub const TASKS_MAX: u64 = 1 << 16;
/// How often a task is tried.
pub const ATTEMPTS_MAX: u64 = 64;
/// The node of a worker that is dead to the master, and of one that has ended in order.
pub const DEAD: u64 = u64::MAX;
/// See `DEAD`.
pub const LEFT: u64 = u64::MAX - 1;

const STATE: u64 = 0;
const NEXT_WORKER: u64 = 24;
const HEAD_BYTES: u64 = 64;
const WORKER_BYTES: u64 = 16;
const TASKS_AT: u64 = HEAD_BYTES + WORKERS_MAX * WORKER_BYTES;
const PLAN_BYTES_MAX: u64 = 16 << 20;

/// How far the job is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// There are tasks.
    Runs,
    /// The output is written.
    Done,
    /// It will not be.
    Failed,
}

/// How far a task is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Nobody does it.
    Idle,
    /// A worker does it.
    Taken,
    /// Its result is with the worker.
    Done,
}

/// A task's word, taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Task {
    /// How far it is.
    pub stage: Stage,
    /// Which try.
    pub attempt: u64,
    /// Whose; of an idle one nobody's.
    pub worker: u64,
    /// Of its result.
    pub bytes: u64,
}

impl Task {
    const BYTES_BITS: u32 = 34;
    const WORKER_BITS: u32 = 16;

    fn to_word(self) -> u64 {
        let Task { stage, attempt, worker, bytes } = self;
        let front = (stage as u64) << 12 | attempt & 0xfff;
        (front << Self::WORKER_BITS | worker) << Self::BYTES_BITS | bytes
    }

    fn of_word(word: u64) -> Task {
        let bytes = word & ((1 << Self::BYTES_BITS) - 1);
        let (worker, front) = (word >> Self::BYTES_BITS & 0xffff, word >> 50);
        let stage = [Stage::Idle, Stage::Taken, Stage::Done][(front >> 12).min(2) as usize];
        Task { stage, attempt: front & 0xfff, worker, bytes }
    }

    /// Idle again, one attempt later.
    pub fn again(self) -> Task {
        Task { stage: Stage::Idle, attempt: self.attempt + 1, worker: 0, bytes: 0 }
    }
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// With the text.
    pub job: Job,
    /// An absolute path, the same on all nodes.
    pub input: String,
    /// Bytes of the input.
    pub bytes: u64,
    /// Bytes of a split.
    pub split: u64,
    /// What parts the partitions: one less than there are.
    pub splitters: Vec<Vec<u8>>,
}

impl Plan {
    /// How many map tasks there are.
    pub fn maps(&self) -> u64 {
        self.bytes.div_ceil(self.split)
    }

    /// How many partitions, and so reduce tasks.
    pub fn reduces(&self) -> u64 {
        self.splitters.len() as u64 + 1
    }

    /// Where a map task's split begins and ends.
    pub fn split_of(&self, task: u64) -> (u64, u64) {
        (task * self.split, self.bytes.min((task + 1) * self.split))
    }

    /// A line each: neither a path of ours nor a key has a line's end in it.
    fn encode(&self) -> Vec<u8> {
        let Plan { job, input, bytes, split, splitters } = self;
        let mut text = format!("{}\n{input}\n{bytes}\n{split}", job.name()).into_bytes();
        for splitter in splitters {
            text.push(b'\n');
            text.extend_from_slice(splitter);
        }
        text
    }

    fn decode(text: &[u8]) -> Option<Plan> {
        let mut lines = text.split(|byte| *byte == b'\n');
        let mut next = || lines.next().and_then(|line| std::str::from_utf8(line).ok());
        let (job, input) = (Job::parse(next()?)?, next()?.to_owned());
        let (bytes, split): (u64, u64) = (next()?.parse().ok()?, next()?.parse().ok()?);
        let splitters = lines.map(<[u8]>::to_vec).collect();
        let plan = Plan { job, input, bytes, split, splitters };
        (split > 0 && plan.maps() + plan.reduces() <= TASKS_MAX).then_some(plan)
    }
}

/// All that changes on the board, at one look.
pub struct Look {
    /// How far the job is.
    pub state: State,
    /// Node and beats of each worker so far.
    pub workers: Vec<(u64, u64)>,
    /// The map tasks and then the reduce tasks.
    pub tasks: Vec<Task>,
}

/// A job's board, as one process has it.
pub struct Board {
    region: Region,
    /// What is to be done.
    pub plan: Plan,
}

/// The board's name.
fn name_of(job: &str) -> String {
    format!("mapreduce/{job}")
}

impl Board {
    /// Makes the board of a job on this node. It ends with this process.
    ///
    /// # Errors
    /// The plan is too long, or the control plane says no: another job has the name.
    pub fn create(memory: &Memory, name: &str, plan: Plan) -> Result<Board, Failure> {
        let (text, tasks) = (plan.encode(), plan.maps() + plan.reduces());
        if tasks > TASKS_MAX || text.len() as u64 > PLAN_BYTES_MAX {
            return Err(
                format!("{tasks} tasks, {TASKS_MAX} are possible: take longer splits").into()
            );
        }
        let plan_at = TASKS_AT + tasks * 8;
        let region = memory.allocate(plan_at + text.len() as u64).make()?;
        region.write(32, &(text.len() as u64).to_le_bytes())?;
        region.write(8, &plan.maps().to_le_bytes())?;
        region.write(16, &plan.reduces().to_le_bytes())?;
        region.write(plan_at, &text)?;
        // Only what is whole can be found.
        region.rename(Some(&name_of(name)), Rights::NONE)?;
        Ok(Board { region, plan })
    }

    /// Finds the board of a job, on its node.
    ///
    /// # Errors
    /// There is none, or it is none.
    pub fn find(memory: &Memory, name: &str) -> Result<Board, Failure> {
        let rights = Rights::READ.and(Rights::ATOMIC);
        let region = memory.map(&name_of(name), rights)?;
        let mut head = [0; HEAD_BYTES as usize];
        region.read(0, &mut head)?;
        let (maps, reduces, bytes) = (word(&head, 1), word(&head, 2), word(&head, 4));
        let tasks = maps.checked_add(reduces).filter(|tasks| *tasks <= TASKS_MAX);
        let tasks = tasks.filter(|_| bytes <= PLAN_BYTES_MAX).ok_or("the board is none")?;
        let mut text = vec![0; bytes as usize];
        region.read(TASKS_AT + tasks * 8, &mut text)?;
        let plan = Plan::decode(&text).ok_or("the board's plan is none")?;
        let is_same = (plan.maps(), plan.reduces()) == (maps, reduces);
        is_same.then_some(Board { region, plan }).ok_or_else(|| "the board is no plan's".into())
    }

    /// Takes a place among the workers; returns its number.
    ///
    /// # Errors
    /// There were too many.
    pub fn enter(&self, node: u64) -> Result<u64, Failure> {
        let number = self.region.fetch_add(NEXT_WORKER, 1)?;
        if number >= WORKERS_MAX {
            return Err(format!("{WORKERS_MAX} workers have been here already").into());
        }
        self.region.swap(worker_at(number), node)?;
        Ok(number)
    }

    /// Says that a worker lives.
    ///
    /// # Errors
    /// The board is gone.
    pub fn beat(&self, worker: u64) -> Result<(), MemoryError> {
        self.region.fetch_add(worker_at(worker) + 8, 1).map(drop)
    }

    /// Says that a worker is `DEAD`, or has `LEFT`.
    ///
    /// # Errors
    /// The board is gone.
    pub fn mark(&self, worker: u64, mark: u64) -> Result<(), MemoryError> {
        self.region.swap(worker_at(worker), mark).map(drop)
    }

    /// Says how far the job is.
    ///
    /// # Errors
    /// The board is gone.
    pub fn say(&self, state: State) -> Result<(), MemoryError> {
        self.region.swap(STATE, state as u64).map(drop)
    }

    /// Looks at everything, in one read.
    ///
    /// # Errors
    /// The board is gone.
    pub fn look(&self) -> Result<Look, MemoryError> {
        let tasks = self.plan.maps() + self.plan.reduces();
        let mut bytes = vec![0; (TASKS_AT + tasks * 8) as usize];
        self.region.read(0, &mut bytes)?;
        let state = [State::Runs, State::Done, State::Failed][word(&bytes, 0).min(2) as usize];
        let workers = word(&bytes, (NEXT_WORKER / 8) as usize).min(WORKERS_MAX);
        let place = |worker: u64| (worker_at(worker) / 8) as usize;
        let workers = (0..workers).map(|n| (word(&bytes, place(n)), word(&bytes, place(n) + 1)));
        let first = (TASKS_AT / 8) as usize;
        let tasks = (0..tasks as usize).map(|n| Task::of_word(word(&bytes, first + n)));
        Ok(Look { state, workers: workers.collect(), tasks: tasks.collect() })
    }

    /// Changes a task if it is still so; says whether it was.
    ///
    /// # Errors
    /// The board is gone.
    pub fn change(&self, task: u64, from: Task, to: Task) -> Result<bool, MemoryError> {
        let (expected, new) = (from.to_word(), to.to_word());
        Ok(self.region.compare_swap(TASKS_AT + task * 8, expected, new)? == expected)
    }
}

fn worker_at(worker: u64) -> u64 {
    HEAD_BYTES + worker * WORKER_BYTES
}

fn word(bytes: &[u8], index: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[index * 8..index * 8 + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_the_same_out_of_its_word() {
        for stage in [Stage::Idle, Stage::Taken, Stage::Done] {
            let task = Task { stage, attempt: 63, worker: 255, bytes: (1 << 34) - 1 };
            assert_eq!(Task::of_word(task.to_word()), task);
        }
        let zero = Task { stage: Stage::Idle, attempt: 0, worker: 0, bytes: 0 };
        assert_eq!(Task::of_word(0), zero, "a board begins with zeros");
    }

    #[test]
    fn a_plan_is_the_same_out_of_its_text_and_nonsense_is_none() {
        let splitters = vec![b"k".to_vec(), b"q\0".to_vec()];
        let plan = Plan { job: Job::Sort, input: "/a b".into(), bytes: 10, split: 4, splitters };
        assert_eq!(Plan::decode(&plan.encode()), Some(plan.clone()));
        assert_eq!((plan.maps(), plan.reduces(), plan.split_of(2)), (3, 3, (8, 10)));
        for text in ["", "count", "count\n/a\n1\n0", "else\n/a\n1\n1", "count\n/a\n99999999\n1"] {
            assert_eq!(Plan::decode(text.as_bytes()), None, "{text:?}");
        }
    }
}
