//! Drives logs and queues from Rust, a command a line; `test_languages.py` tells the commands.
#![forbid(unsafe_code)]

use std::io::BufRead;
use std::time::Duration;

use heliostat::log::{Item, Kind, Log, LogError, LogReader, OpenError, Position, Queue};

const PATIENCE: Duration = Duration::from_secs(60);

/// A no, by the word that all languages have for it.
struct No(&'static str);

impl From<Kind> for No {
    fn from(kind: Kind) -> No {
        No(match kind {
            Kind::Closed => "ended",
            Kind::Full | Kind::Limit => "full",
            Kind::TooLong => "too_large",
            Kind::Trimmed => "stale",
            Kind::NoEntry | Kind::NoName => "invalid",
            Kind::Damaged => "corrupt",
            Kind::Device => "device",
            Kind::InUse => "in_use",
            Kind::Denied => "denied",
            Kind::NotFound => "not_found",
            Kind::Exists => "taken",
            Kind::Foreign => "foreign",
            Kind::Newer | Kind::IsQueue => "unsupported",
            Kind::WrongDevice => "wrong_device",
            _ => "system",
        })
    }
}

impl From<LogError> for No {
    fn from(error: LogError) -> No {
        Kind::from(&error).into()
    }
}

impl From<OpenError> for No {
    fn from(error: OpenError) -> No {
        error.kind().into()
    }
}

/// What is open.
#[derive(Default)]
struct Driver {
    log: Option<Log>,
    queue: Option<Queue>,
}

fn main() {
    heliostat::control::configure_as_usual("log-driver");
    let mut driver = Driver::default();
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a line can be read");
        let words: Vec<&str> = line.split(' ').collect();
        match driver.perform(words[0], &words[1..]) {
            Ok(answer) => println!("{}", format!("ok {answer}").trim_end()),
            Err(No(kind)) => println!("error {kind}"),
        }
    }
}

fn position(word: &str) -> Position {
    let (at, sequence) = word.split_once(':').expect("AT:SEQUENCE");
    let number = |word: &str| word.parse().expect("a number");
    Position { at: number(at), sequence: number(sequence) }
}

fn told(position: Position) -> String {
    format!("{}:{}", position.at, position.sequence)
}

fn text(payload: &[u8]) -> String {
    String::from_utf8_lossy(payload).into_owned()
}

impl Driver {
    fn perform(&mut self, command: &str, words: &[&str]) -> Result<String, No> {
        match (command, words) {
            ("create", [place, bytes]) => {
                self.log = Some(Log::create(*place, bytes.parse().expect("a number"))?);
            }
            ("open", [place]) => self.log = Some(Log::open(*place)?),
            ("create_queue", [place, bytes]) => {
                self.queue = Some(Queue::create(*place, bytes.parse().expect("a number"))?);
            }
            ("open_queue", [place]) => self.queue = Some(Queue::open(*place)?),
            ("beside", [place]) => return beside(place),
            ("close", []) => {
                if let Some(queue) = self.queue.take() {
                    queue.close()?;
                }
                if let Some(log) = self.log.take() {
                    log.close()?;
                }
            }
            (command, words) => match &self.queue {
                Some(queue) => return perform_on_queue(queue, command, words),
                None => {
                    return perform_on_log(self.log.as_ref().ok_or(No("ended"))?, command, words)
                }
            },
        }
        Ok(String::new())
    }
}

fn beside(place: &str) -> Result<String, No> {
    let mut reader = LogReader::open(place)?;
    let mut texts = Vec::new();
    while let Some(entry) = reader.read()? {
        texts.push(text(&entry.payload));
    }
    reader.check_end()?;
    Ok(texts.join(","))
}

fn perform_on_log(log: &Log, command: &str, words: &[&str]) -> Result<String, No> {
    match (command, words) {
        ("append", [payload]) => return Ok(told(log.append(payload.as_bytes())?.position())),
        ("append_sync", [payload]) => return Ok(told(log.append_sync(payload.as_bytes())?)),
        ("append_long", [bytes]) => {
            let payload = vec![b'x'; bytes.parse().expect("a number")];
            return Ok(told(log.append_sync(&payload)?));
        }
        ("append_then", [payload]) => {
            let (send, outcome) = std::sync::mpsc::channel();
            // Who waits is there until it is sent.
            log.append_then(payload.as_bytes(), move |it| {
                let _ = send.send(it);
            })?;
            return Ok(told(outcome.recv_timeout(PATIENCE).map_err(|_| No("timed_out"))??));
        }
        ("append_heard", [payload]) => {
            let event = log.event()?;
            let at = log.append(payload.as_bytes())?.position();
            while !log.is_durable(at) {
                event.wait(Some(60_000)).map_err(|_| No("system"))?;
                event.drain().map_err(|_| No("system"))?;
            }
            return Ok(told(at));
        }
        ("wait", [at]) => drop(log.wait_durable(position(at), Some(PATIENCE))?),
        ("sync", []) => log.sync()?,
        ("checkpoint", []) => log.checkpoint()?,
        ("trim", [at]) => log.trim(position(at))?,
        ("range", []) => return Ok(format!("{} {}", told(log.begin()), told(log.end()))),
        ("read", from) => {
            let reader = match from {
                [] => log.read(),
                from => log.read_from(position(from[0]))?,
            };
            let texts: Result<Vec<String>, LogError> =
                reader.map(|entry| entry.map(|entry| text(&entry.payload))).collect();
            return Ok(texts?.join(","));
        }
        ("flood", [prefix]) => flood(prefix, |payload| log.append_sync(payload))?,
        _ => return Err(No("command")),
    }
    Ok(String::new())
}

fn perform_on_queue(queue: &Queue, command: &str, words: &[&str]) -> Result<String, No> {
    match (command, words) {
        ("push", [payload]) => {
            let pushed = queue.push(payload.as_bytes())?;
            pushed.wait()?;
            return Ok(told(pushed.position()));
        }
        ("push_then", [payload]) => {
            let (send, outcome) = std::sync::mpsc::channel();
            // Who waits is there until it is sent.
            queue.push(payload.as_bytes())?.then(move |it| {
                let _ = send.send(it);
            });
            return Ok(told(outcome.recv_timeout(PATIENCE).map_err(|_| No("timed_out"))??));
        }
        ("wait", [at]) => {
            queue.log().wait_durable(position(at), Some(PATIENCE))?;
        }
        ("churn", [prefix]) => churn(queue, prefix)?,
        ("pop", []) => {
            let item = queue.pop()?;
            let shown = item.map(|it| format!("{} {}", told(it.position), text(&it.payload)));
            return Ok(shown.unwrap_or_else(|| "none".into()));
        }
        ("acknowledge", [at]) => queue.acknowledge(position(at))?,
        ("acknowledge_sync", [at]) => queue.acknowledge_sync(position(at))?,
        ("trim", [at]) => queue.log().trim(position(at))?,
        ("give_back", [at]) => queue.give_back(position(at))?,
        _ => return Err(No("command")),
    }
    Ok(String::new())
}

/// Pushes, takes and acknowledges for ever, out of order, and says what is durable: what is killed.
fn churn(queue: &Queue, prefix: &str) -> Result<(), LogError> {
    let mut held: Option<Item> = None;
    for number in 0u64.. {
        queue.push(format!("{prefix}{number}").as_bytes())?.wait()?;
        println!("pushed {prefix}{number}");
        let taken = queue.pop()?;
        let Some(first) = held.take() else {
            held = taken;
            continue;
        };
        for item in [taken, queue.pop()?, Some(first)].into_iter().flatten() {
            queue.acknowledge_sync(item.position)?;
            println!("done {}", text(&item.payload));
        }
    }
    Ok(())
}

/// Appends for ever, and says each entry that is durable: what is killed.
fn flood(
    prefix: &str,
    append: impl Fn(&[u8]) -> Result<Position, LogError>,
) -> Result<(), LogError> {
    for number in 0u64.. {
        append(format!("{prefix}{number}").as_bytes())?;
        println!("{number}");
    }
    Ok(())
}
