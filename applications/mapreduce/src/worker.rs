//! A worker: takes tasks from the board and does them, until the job has ended.

use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use heliostat::cluster;
use heliostat::file::File;
use heliostat::memory::Memory;

use crate::board::{Board, Look, Stage, State, Task, DEAD, LEFT};
use crate::entry::{decode, encode, merge};
use crate::files::Files;
use crate::results::Results;
use crate::table::Table;
use crate::Failure;

/// How often a worker says that it lives.
const BEAT: Duration = Duration::from_millis(100);
/// How long it sleeps where there is nothing to do.
const PAUSE: Duration = Duration::from_millis(1);

/// What a worker is told.
pub struct Settings {
    /// The node that the master is on.
    pub master: u64,
    /// The job's name.
    pub job: String,
    /// How long the job may take to begin.
    pub patience: Duration,
    /// Each task takes at least so long: for whoever wants to kill something in the middle.
    pub slowness: Duration,
}

struct Worker {
    settings: Settings,
    memory: Memory,
    board: Arc<Board>,
    number: u64,
    node: u64,
    files: Files,
    input: (File, u64),
    results: Results,
    table: Table,
    text: Vec<u8>,
}

/// Works until the job has ended.
///
/// # Errors
/// No job of the name, or its master is gone.
pub fn work(settings: Settings) -> Result<(), Failure> {
    let memory = Memory::open()?;
    let node = cluster::nodes()?.own;
    let board = Arc::new(find(&memory.on(settings.master), &settings)?);
    let mut files = Files::start()?;
    let input = files.open(&board.plan.input)?;
    let number = board.enter(node)?;
    let (over, is_over) = channel();
    let beats = beat_beside(board.clone(), number, is_over);
    let (results, table, text) = (Results::default(), Table::default(), Vec::new());
    let mut worker =
        Worker { settings, memory, board, number, node, files, input, results, table, text };
    let worked = worker.run();
    drop(over);
    let _ = beats.join();
    worked
}

/// Waits for the job to begin.
fn find(memory: &Memory, settings: &Settings) -> Result<Board, Failure> {
    let begun = Instant::now();
    loop {
        match Board::find(memory, &settings.job) {
            Ok(board) => return Ok(board),
            Err(error) if begun.elapsed() > settings.patience => return Err(error),
            Err(_) => thread::sleep(10 * PAUSE),
        }
    }
}

/// Says that the worker lives, in a thread beside it, which long tasks do not hold up.
fn beat_beside(board: Arc<Board>, number: u64, is_over: Receiver<()>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        while board.beat(number).is_ok() {
            if is_over.recv_timeout(BEAT) != Err(RecvTimeoutError::Timeout) {
                break;
            }
        }
    })
}

impl Worker {
    fn run(&mut self) -> Result<(), Failure> {
        loop {
            let look = self.board.look()?;
            match look.state {
                State::Done => return Ok(self.board.mark(self.number, LEFT)?),
                State::Failed => return Err("the job has failed".into()),
                State::Runs => {}
            }
            if look.workers.get(self.number as usize).is_none_or(|own| own.0 == DEAD) {
                return Err(
                    "the master has given this worker up: it was silent for too long".into()
                );
            }
            if !self.take(&look)? {
                thread::sleep(PAUSE);
            }
        }
    }

    /// Takes a task and does it; says whether there was one.
    fn take(&mut self, look: &Look) -> Result<bool, Failure> {
        let maps = self.board.plan.maps() as usize;
        let are_mapped = look.tasks[..maps].iter().all(|task| task.stage == Stage::Done);
        let ready = if are_mapped { maps..look.tasks.len() } else { 0..maps };
        let mut idle = ready.filter(|task| look.tasks[*task].stage == Stage::Idle);
        // The place in line that is the worker's own: so that not all try the first.
        let count = idle.clone().count();
        let Some(chosen) = idle.nth(self.number as usize % count.max(1)) else { return Ok(false) };
        let (number, before) = (chosen as u64, look.tasks[chosen]);
        let taken = Task { stage: Stage::Taken, worker: self.number, ..before };
        if !self.board.change(number, before, taken)? {
            return Ok(true);
        }
        let begun = Instant::now();
        let done =
            if chosen < maps { self.map(number, taken) } else { self.reduce(number, taken, look) };
        thread::sleep(self.settings.slowness.saturating_sub(begun.elapsed()));
        let after = match done? {
            Some(bytes) => Task { stage: Stage::Done, bytes, ..taken },
            None => taken.again(),
        };
        // Where that says no, the master has given the task to another one.
        self.board.change(number, taken, after)?;
        Ok(true)
    }

    fn map(&mut self, number: u64, taken: Task) -> Result<Option<u64>, Failure> {
        let plan = &self.board.plan;
        let split = plan.split_of(number);
        let text = self.files.read_split(self.input, split, plan.job, &mut self.text)?;
        let entries = plan.job.entries(text, &mut self.table);
        let (ends, bytes) = encode(&entries, &plan.splitters);
        let (memory, what) = (self.memory.on(self.node), (&*self.settings.job, number, taken));
        self.results.put(&memory, what, (&ends, &bytes)).map(Some)
    }

    /// None where a result of a map task could not be read: that task is to be done again, and then this.
    fn reduce(&mut self, number: u64, taken: Task, look: &Look) -> Result<Option<u64>, Failure> {
        let plan = &self.board.plan;
        let (maps, reduces, job) = (plan.maps(), plan.reduces(), &*self.settings.job);
        let partition = ((number - maps) as usize, reduces as usize);
        let tasks = &look.tasks[..maps as usize];
        let found = self.results.partition(&self.memory, job, tasks, &look.workers, partition);
        let runs = match found {
            Ok(runs) => runs,
            Err((task, error)) => {
                eprintln!("task {task} has to be done again: {error}");
                let of = tasks[task as usize];
                self.board.change(task, of, of.again())?;
                return Ok(None);
            }
        };
        let mut entries = Vec::new();
        runs.iter().try_for_each(|run| decode(run, &mut entries))?;
        let mut text = Vec::new();
        plan.job.format(&merge(entries), &mut text);
        let (memory, what) = (self.memory.on(self.node), (job, number, taken));
        self.results.put(&memory, what, (&[], &text)).map(Some)
    }
}
