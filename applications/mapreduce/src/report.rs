//! What a master tells of a job: how long each phase took, which worker did what when, and who died.

use std::time::Instant;

use crate::board::{Look, Stage, Task};

/// A try of a task, from when it was seen to be taken to when it was seen to be over.
struct Span {
    task: u64,
    of: Task,
    node: u64,
    from: f64,
    to: f64,
    is_done: bool,
}

/// A job's story, in seconds since its start.
pub struct Report {
    begun: Instant,
    maps: u64,
    reduces: u64,
    now: Vec<Option<Span>>,
    /// Those that have taken a task.
    nodes: Vec<u64>,
    spans: Vec<Span>,
    deaths: Vec<String>,
    planned: f64,
    first_taken: f64,
    mapped: f64,
    reduced: f64,
    ended: f64,
    bytes: u64,
    announced: usize,
}

impl Report {
    /// Begins now.
    pub fn start() -> Report {
        let (now, nodes, spans, deaths) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (maps, reduces, bytes, announced) = (0, 0, 0, usize::MAX);
        let (planned, first_taken, mapped, reduced, ended) = (0.0, 0.0, 0.0, 0.0, 0.0);
        let begun = Instant::now();
        Report {
            begun,
            maps,
            reduces,
            now,
            nodes,
            spans,
            deaths,
            planned,
            first_taken,
            mapped,
            reduced,
            ended,
            bytes,
            announced,
        }
    }

    fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// The board is there.
    pub fn planned(&mut self, maps: u64, reduces: u64) {
        (self.maps, self.reduces, self.planned) = (maps, reduces, self.seconds());
        self.now.resize_with((maps + reduces) as usize, || None);
    }

    /// Notes what has changed on the board, and says how far it is on standard error.
    pub fn see(&mut self, look: &Look) {
        let now = self.seconds();
        for (number, task) in look.tasks.iter().enumerate() {
            let is_same = self.now[number].as_ref().is_some_and(|span| {
                (span.of.attempt, span.of.worker) == (task.attempt, task.worker)
            });
            if !is_same || task.stage == Stage::Idle {
                self.close(number, now, false);
            }
            if task.stage != Stage::Idle && self.now[number].is_none() {
                let node = look.workers.get(task.worker as usize).map_or(0, |worker| worker.0);
                if !self.nodes.contains(&node) {
                    self.nodes.push(node);
                    eprintln!("node {node} works");
                }
                let (task, of) = (number as u64, *task);
                self.now[number] =
                    Some(Span { task, of, node, from: now, to: now, is_done: false });
            }
            if let Some(span) = &mut self.now[number] {
                if task.stage == Stage::Done && !span.is_done {
                    (span.is_done, span.to) = (true, now);
                }
            }
        }
        self.note_phases(look, now);
    }

    fn close(&mut self, number: usize, now: f64, is_done: bool) {
        if let Some(mut span) = self.now[number].take() {
            if !span.is_done {
                span.to = now;
            }
            // What was done and is done again was for nothing.
            span.is_done = is_done;
            self.spans.push(span);
        }
    }

    fn note_phases(&mut self, look: &Look, now: f64) {
        let is_over = |tasks: &[Task]| tasks.iter().all(|task| task.stage == Stage::Done);
        if self.first_taken == 0.0 && look.tasks.iter().any(|task| task.stage != Stage::Idle) {
            self.first_taken = now;
        }
        let are_mapped = is_over(&look.tasks[..self.maps as usize]);
        if self.mapped == 0.0 && are_mapped {
            self.mapped = now;
        }
        if self.mapped > 0.0 && !are_mapped && self.reduced == 0.0 {
            // A death has set it back: the phase ends when all are done again.
            self.mapped = 0.0;
        }
        if self.reduced == 0.0 && is_over(&look.tasks) {
            self.reduced = now;
        }
        let done = look.tasks.iter().filter(|task| task.stage == Stage::Done).count();
        if self.announced != done {
            self.announced = done;
            eprintln!("{done} of {} tasks are done", look.tasks.len());
        }
    }

    /// A worker is dead.
    pub fn died(&mut self, worker: u64, node: u64, why: &str) {
        let at = self.seconds();
        eprintln!("worker {worker} on node {node} is dead: {why}");
        self.deaths
            .push(format!(r#"{{"worker":{worker},"node":{node},"at":{at:.4},"why":"{why}"}}"#));
    }

    /// The output has so many bytes.
    pub fn written(&mut self, bytes: u64) {
        self.bytes = bytes;
    }

    /// The output is there.
    pub fn end(&mut self) {
        self.ended = self.seconds();
        if self.reduced == 0.0 {
            self.reduced = self.ended;
        }
        (0..self.now.len()).for_each(|number| self.close(number, self.ended, true));
    }

    /// All of it as one line of JSON.
    pub fn to_json(&self) -> String {
        let spans: Vec<String> = self.spans.iter().map(|span| self.span_json(span)).collect();
        let again = self.spans.iter().filter(|span| !span.is_done).count();
        format!(
            concat!(
                r#"{{"seconds":{:.4},"phases":{{"plan":{:.4},"start":{:.4},"map":{:.4},"#,
                r#""reduce":{:.4},"output":{:.4}}},"maps":{},"reduces":{},"again":{},"#,
                r#""output_bytes":{},"deaths":[{}],"tasks":[{}]}}"#
            ),
            self.ended,
            self.planned,
            (self.first_taken - self.planned).max(0.0),
            (self.mapped - self.first_taken).max(0.0),
            (self.reduced - self.mapped).max(0.0),
            (self.ended - self.reduced).max(0.0),
            self.maps,
            self.reduces,
            again,
            self.bytes,
            self.deaths.join(","),
            spans.join(",")
        )
    }

    fn span_json(&self, span: &Span) -> String {
        let kind = if span.task < self.maps { "map" } else { "reduce" };
        let Span { task, of, node, from, to, is_done } = span;
        let Task { worker, attempt, .. } = of;
        format!(
            r#"{{"task":{task},"kind":"{kind}","worker":{worker},"node":{node},"attempt":{attempt},"from":{from:.4},"to":{to:.4},"done":{is_done}}}"#
        )
    }
}
