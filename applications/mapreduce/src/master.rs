//! The master: makes the board, sees who dies, gives their tasks to others, and writes the output.

use std::time::{Duration, Instant};

use heliostat::cluster::{self, MemberState};
use heliostat::file::File;
use heliostat::memory::Memory;

use crate::board::{Board, Look, Plan, Stage, State, ATTEMPTS_MAX, DEAD, LEFT};
use crate::files::Files;
use crate::job::Job;
use crate::report::Report;
use crate::results::Results;
use crate::Failure;

/// How often the board is looked at, and how often the list of nodes.
const PAUSE: Duration = Duration::from_millis(1);
const NODES: Duration = Duration::from_millis(50);
/// Pieces of the input that keys are sampled from, and the bytes of each.
const SAMPLES: u64 = 16;
const SAMPLE_BYTES: u64 = 64 << 10;
/// How long workers may take to hear that the job has ended.
const GOODBYE: Duration = Duration::from_secs(1);

/// What a master is told.
pub struct Settings {
    /// What is done.
    pub job: Job,
    /// The job's name, by which workers find it.
    pub name: String,
    /// Absolute paths; the input's is the same on all nodes.
    pub input: String,
    /// See `input`.
    pub output: String,
    /// Bytes of a split.
    pub split: u64,
    /// Partitions of the result.
    pub partitions: usize,
    /// How long a worker may be silent, and the job without a worker.
    pub patience: Duration,
}

struct Master {
    settings: Settings,
    memory: Memory,
    board: Board,
    files: Files,
    results: Results,
    /// When each worker was heard last, and what it had said.
    heard: Vec<(Instant, u64)>,
    /// When somebody was there last.
    attended: Instant,
    nodes_seen: Instant,
    /// Reduce tasks whose results are in the output, from the first on.
    written: u64,
    report: Report,
}

/// Does a job; returns what is to be told of it.
///
/// # Errors
/// Input or output are none, nobody works, or a task fails again and again.
pub fn run(settings: Settings) -> Result<Report, Failure> {
    let mut report = Report::start();
    let (memory, mut files) = (Memory::open()?, Files::start()?);
    let plan = plan(&mut files, &settings)?;
    let board = Board::create(&memory, &settings.name, plan)?;
    report.planned(board.plan.maps(), board.plan.reduces());
    let (results, heard, now) = (Results::default(), Vec::new(), Instant::now());
    let (attended, nodes_seen, written) = (now, now, 0);
    let mut master = Master {
        settings,
        memory,
        board,
        files,
        results,
        heard,
        attended,
        nodes_seen,
        written,
        report,
    };
    let done = master.finish();
    let state = if done.is_ok() { State::Done } else { State::Failed };
    master.board.say(state)?;
    done?;
    master.dismiss()?;
    Ok(master.report)
}

/// Samples keys over all of the input.
fn plan(files: &mut Files, settings: &Settings) -> Result<Plan, Failure> {
    let (file, bytes) = files.open(&settings.input)?;
    let (mut sample, mut piece) = (Vec::new(), Vec::new());
    let stride = bytes.div_ceil(SAMPLES).max(SAMPLE_BYTES);
    for start in (0..bytes).step_by(stride as usize) {
        piece.resize(SAMPLE_BYTES.min(bytes - start) as usize, 0);
        files.read(file, start, &mut piece)?;
        // What begins or ends within a key is a key of its own here: none of that parts wrongly.
        sample.extend_from_slice(&piece);
        sample.push(b'\n');
    }
    let splitters = settings.job.splitters(&sample, settings.partitions);
    let Settings { job, ref input, split, .. } = *settings;
    Ok(Plan { job, input: input.clone(), bytes, split, splitters })
}

impl Master {
    /// Has everything done and writes the output.
    fn finish(&mut self) -> Result<(), Failure> {
        let part = format!("{}.part", self.settings.output);
        let file = self.files.create(&part)?;
        let mut offset = 0;
        while self.written < self.board.plan.reduces() {
            let look = self.await_reduce(self.written)?;
            if let Some(bytes) = self.write_one(self.written, &look, (file, offset))? {
                (self.written, offset) = (self.written + 1, offset + bytes);
            }
        }
        self.report.written(offset);
        let output = self.settings.output.clone();
        self.files.finish(file, &part, &output)
    }

    /// Writes the result of a reduce task; none where it cannot be read, and is to be done again.
    fn write_one(
        &mut self,
        reduce: u64,
        look: &Look,
        (file, offset): (File, u64),
    ) -> Result<Option<u64>, Failure> {
        let number = self.board.plan.maps() + reduce;
        let of = look.tasks[number as usize];
        let what = (&*self.settings.name, number, of);
        match self.results.whole(&self.memory, what, &look.workers) {
            Ok(text) => {
                self.files.write(file, offset, &text)?;
                Ok(Some(text.len() as u64))
            }
            Err(error) => {
                eprintln!("task {number} has to be done again: {error}");
                self.board.change(number, of, of.again())?;
                Ok(None)
            }
        }
    }

    /// Waits until a reduce task is done, and looks after the workers meanwhile.
    fn await_reduce(&mut self, reduce: u64) -> Result<Look, Failure> {
        let number = (self.board.plan.maps() + reduce) as usize;
        loop {
            let look = self.board.look()?;
            self.report.see(&look);
            if look.tasks[number].stage == Stage::Done {
                return Ok(look);
            }
            if let Some(task) = look.tasks.iter().find(|task| task.attempt > ATTEMPTS_MAX) {
                return Err(format!("a task was tried {} times", task.attempt).into());
            }
            self.bury(&look)?;
            std::thread::sleep(PAUSE);
        }
    }

    /// Finds workers that are dead, and has done again what they had, or had done.
    fn bury(&mut self, look: &Look) -> Result<(), Failure> {
        let now = Instant::now();
        self.heard.resize(look.workers.len(), (now, u64::MAX));
        let living = self.living_nodes(now);
        for (worker, (node, beats)) in look.workers.iter().enumerate() {
            let heard = &mut self.heard[worker];
            if *node == LEFT || *node == DEAD {
                self.take_back(worker as u64, look)?;
                continue;
            }
            if heard.1 != *beats {
                *heard = (now, *beats);
                self.attended = now;
            }
            let is_silent = now.duration_since(heard.0) > self.settings.patience;
            // A node of zero is a worker that is about to enter: it has its time as others.
            let is_lost = living.as_ref().is_some_and(|all| *node != 0 && !all.contains(node));
            if is_silent || is_lost {
                self.report.died(
                    worker as u64,
                    *node,
                    if is_silent { "silent" } else { "node lost" },
                );
                self.board.mark(worker as u64, DEAD)?;
                self.take_back(worker as u64, look)?;
            }
        }
        if now.duration_since(self.attended) > self.settings.patience * 4 {
            return Err("nobody works on it".into());
        }
        Ok(())
    }

    /// What a dead worker has taken is idle again, and what it has done, as far as somebody still needs it:
    /// its results went with it.
    fn take_back(&mut self, worker: u64, look: &Look) -> Result<(), Failure> {
        let maps = self.board.plan.maps() as usize;
        let are_maps_needed = look.tasks[maps..].iter().any(|task| task.stage != Stage::Done);
        for (number, task) in look.tasks.iter().enumerate() {
            let is_its = task.stage != Stage::Idle && task.worker == worker;
            let is_written = number >= maps && ((number - maps) as u64) < self.written;
            if is_its && !is_written && (number >= maps || are_maps_needed) {
                self.board.change(number as u64, *task, task.again())?;
            }
        }
        Ok(())
    }

    /// The nodes that the control plane knows and has not lost; none where it was asked a moment ago.
    fn living_nodes(&mut self, now: Instant) -> Option<Vec<u64>> {
        if now.duration_since(self.nodes_seen) < NODES {
            return None;
        }
        self.nodes_seen = now;
        let nodes = cluster::nodes().ok()?.nodes;
        let living =
            nodes.iter().filter(|it| !matches!(it.state, MemberState::Lost | MemberState::Left));
        Some(living.map(|it| it.node).collect())
    }

    /// Waits until all who live have heard that the job has ended: the board ends with the master.
    fn dismiss(&mut self) -> Result<(), Failure> {
        self.report.end();
        let begun = Instant::now();
        while begun.elapsed() < GOODBYE {
            let look = self.board.look()?;
            if look.workers.iter().all(|(node, _)| matches!(*node, LEFT | DEAD)) {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}
