//! Programs that serve and call functions, as those with memory regions in `programs`: a line is a command
//! and its words.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_client::ControlError;
use heliostat_stub_rpc::{
    multicast, Call, Function, NotDelivered, PendingCall, Rpc, RpcError, Service, Unanswered,
};

use super::payloads::{length, payload, reply_to};
use super::programs::play_with;

/// A program's part.
pub fn play() {
    play_with(|| {
        let mut actor = Actor {
            rpc: Rpc::open().unwrap(),
            functions: HashMap::new(),
            services: HashMap::new(),
            held: Arc::default(),
            begun: None,
            seen: Arc::default(),
        };
        move |words: &[&str]| actor.act(words).unwrap_or_else(|error| told(&error))
    });
}

/// An error by its kind, and what it says besides.
fn told(error: &RpcError) -> String {
    let may = if error.may_have_run() { "may have run" } else { "not run" };
    let on = error.node().map_or(String::new(), |node| format!("node {node} "));
    let kind = match error.kind() {
        RpcError::TooLong { limit, .. } => format!("too long {limit}"),
        RpcError::Busy { limit } => format!("busy {limit}"),
        RpcError::NotDelivered(NotDelivered::Gone) => "gone".into(),
        RpcError::NotDelivered(why) => format!("{why:?}"),
        RpcError::Unanswered(Unanswered::ServerEnded) => "server ended".into(),
        RpcError::Unanswered(Unanswered::ControlGone) => "control gone".into(),
        RpcError::Unanswered(why) => format!("{why:?}"),
        RpcError::Failed(text) => format!("failed {text}"),
        RpcError::Control(ControlError::Refused { code, limit, .. }) => {
            format!("refused {code:?} {limit}")
        }
        other => format!("other {other:?}"),
    };
    format!("error {on}{kind}, {may}")
}

/// What the servers of a program have seen.
#[derive(Default)]
struct Seen {
    calls: AtomicU64,
    messages: AtomicU64,
    unheard: AtomicU64,
}

struct Actor {
    rpc: Rpc,
    functions: HashMap<String, Function>,
    services: HashMap<String, Arc<Service>>,
    /// Calls that were received and are kept without an answer.
    held: Arc<std::sync::Mutex<Vec<Call>>>,
    begun: Option<PendingCall>,
    seen: Arc<Seen>,
}

impl Actor {
    fn act(&mut self, words: &[&str]) -> Result<String, RpcError> {
        let done = || Ok("done".to_owned());
        match *words {
            ["serve", name, mode, ref rest @ ..] => self.serve(name, mode, rest),
            ["stop", name] => {
                self.services.remove(name);
                done()
            }
            ["seen"] => {
                let Seen { calls, messages, unheard } = &*self.seen;
                Ok(format!(
                    "{} {} {}",
                    calls.load(SeqCst),
                    messages.load(SeqCst),
                    unheard.load(SeqCst)
                ))
            }
            ["answer_held"] => self.answer_held(),
            ["find", name] => self.keep(name, self.rpc.find(name)?),
            ["find", name, user] => self.keep(name, self.rpc.find_of(number(user) as u32, name)?),
            ["find_on", node, name] => {
                self.keep(name, self.rpc.on(number(node) as u32).find(name)?)
            }
            ["find_on", node, name, user] => {
                let there = self.rpc.on(number(node) as u32);
                self.keep(name, there.find_of(number(user) as u32, name)?)
            }
            ["find_as", node, name, kept] => {
                let found = self.rpc.on(number(node) as u32).find(name)?;
                self.functions.insert(kept.into(), found);
                done()
            }
            ["list_on", node, beginning] => {
                let listed = self.rpc.on(number(node) as u32).list(beginning)?;
                let each = listed
                    .iter()
                    .map(|it| format!("{}:{}:{}", it.name.as_str(), it.servers, it.callers));
                Ok(format!("listed {}", each.collect::<Vec<_>>().join(" ")))
            }
            ["forget", name] => {
                self.functions.remove(name);
                done()
            }
            ["list", beginning] => {
                let listed = self.rpc.list(beginning)?;
                let each = listed
                    .iter()
                    .map(|it| format!("{}:{}:{}", it.name.as_str(), it.servers, it.callers));
                Ok(format!("listed {}", each.collect::<Vec<_>>().join(" ")))
            }
            _ => self.call_out(words),
        }
    }

    /// What is asked of functions that were found.
    fn call_out(&mut self, words: &[&str]) -> Result<String, RpcError> {
        let done = || Ok("done".to_owned());
        match *words {
            ["call", name, bytes, limit] => {
                let sent = payload(number(bytes) as usize, 3);
                let begun = Instant::now();
                let reply = self.functions[name].call(&sent, millis(limit));
                let took = begun.elapsed();
                match reply {
                    Ok(reply) if reply == reply_to(&sent) => done(),
                    Ok(reply) => Ok(format!("wrong {} bytes", reply.len())),
                    Err(error) => Ok(format!("{} after {}", told(&error), took.as_millis())),
                }
            }
            ["ask", name, text] => {
                let reply = self.functions[name].call(text.as_bytes(), millis("20000"))?;
                Ok(String::from_utf8_lossy(&reply).into_owned())
            }
            ["many", name, count, seed, longest] => {
                self.many(name, number(count), number(seed), number(longest) as usize)
            }
            ["begin", name, bytes, limit] => {
                let sent = payload(number(bytes) as usize, 3);
                self.begun = Some(self.functions[name].begin(&sent, millis(limit))?);
                done()
            }
            ["cancel"] => self.begun.take().unwrap().cancel().map(|_| "replied".into()),
            ["look", ms] => {
                let has_ended =
                    self.begun.as_mut().unwrap().look_within(Duration::from_millis(number(ms)));
                Ok(if has_ended { "ended" } else { "under way" }.into())
            }
            ["await"] => self.begun.take().unwrap().wait().map(|_| "replied".into()),
            ["send", name, bytes, limit] => {
                self.functions[name].send(&payload(number(bytes) as usize, 3), millis(limit))?;
                done()
            }
            ["try_send", name, bytes] => {
                self.functions[name].try_send(&payload(number(bytes) as usize, 3))?;
                done()
            }
            ["multicast", bytes, limit, ref names @ ..] => {
                let functions: Vec<_> = names.iter().map(|name| &self.functions[*name]).collect();
                let sent = payload(number(bytes) as usize, 3);
                let replies = multicast(&functions, &sent, millis(limit));
                let each = replies.iter().map(|reply| match reply {
                    Ok(reply) if *reply == reply_to(&sent) => "done".into(),
                    Ok(_) => "wrong".into(),
                    Err(error) => told(error),
                });
                Ok(each.collect::<Vec<_>>().join("; "))
            }
            _ => panic!("no such order: {words:?}"),
        }
    }

    fn keep(&mut self, name: &str, function: Function) -> Result<String, RpcError> {
        let (request, reply) = function.limits();
        self.functions.insert(name.into(), function);
        Ok(format!("found {request} {reply}"))
    }

    fn serve(&mut self, name: &str, mode: &str, rest: &[&str]) -> Result<String, RpcError> {
        let (mut built, mut threads) = (self.rpc.publish(name), 1);
        for word in rest {
            built = match word.split_once('=') {
                None if *word == "others" => built.others(),
                Some(("request", bytes)) => built.request_bytes(number(bytes) as u32),
                Some(("reply", bytes)) => built.reply_bytes(number(bytes) as u32),
                Some(("queue", messages)) => built.queue(number(messages) as u32),
                Some(("threads", count)) => {
                    threads = number(count);
                    built
                }
                _ => panic!("{word}"),
            };
        }
        let service = Arc::new(built.serve()?);
        for _ in 0..threads {
            let (service, seen) = (Arc::downgrade(&service), self.seen.clone());
            let (mode, held) = (mode.to_owned(), self.held.clone());
            std::thread::spawn(move || serve_thread(&service, &mode, &seen, &held));
        }
        self.services.insert(name.into(), service);
        Ok("done".into())
    }

    fn answer_held(&mut self) -> Result<String, RpcError> {
        let held = std::mem::take(&mut *self.held.lock().unwrap());
        let each = held.into_iter().map(|call| {
            let reply = reply_to(call.payload());
            match call.reply(&reply) {
                Ok(()) => "heard".to_owned(),
                Err(RpcError::NobodyWaits) => "nobody waits".to_owned(),
                Err(error) => told(&error),
            }
        });
        Ok(format!("answered {}", each.collect::<Vec<_>>().join(" ")))
    }

    fn many(
        &mut self,
        name: &str,
        count: u64,
        seed: u64,
        longest: usize,
    ) -> Result<String, RpcError> {
        let mut reply = Vec::new();
        for round in 0..count {
            let sent = payload(length(round, longest), seed + round);
            self.functions[name].call_into(&sent, &mut reply, millis("30000"))?;
            if reply != reply_to(&sent) {
                return Ok(format!("wrong reply {round}"));
            }
        }
        Ok("done".into())
    }
}

/// Serves by a mode until the function is served no more.
fn serve_thread(
    service: &std::sync::Weak<Service>,
    mode: &str,
    seen: &Seen,
    held: &std::sync::Mutex<Vec<Call>>,
) {
    let mut last: Option<(Call, Vec<u8>)> = None;
    loop {
        // The program may stop serving between two.
        let Some(service) = service.upgrade() else { return };
        let slice = Some(Duration::from_millis(200));
        let received = match last.take() {
            None => service.receive(slice),
            Some((call, reply)) => service.reply_and_receive(call, &reply, slice).map(|next| {
                seen.unheard.fetch_add(u64::from(!next.was_heard), SeqCst);
                next.call
            }),
        };
        let call = match received {
            Ok(Some(call)) => call,
            Ok(None) => continue,
            Err(_) => return,
        };
        if call.is_one_way() {
            seen.messages.fetch_add(1, SeqCst);
            continue;
        }
        seen.calls.fetch_add(1, SeqCst);
        match mode.split_once('=') {
            None if mode == "mix" => {
                let reply = reply_to(call.payload());
                last = Some((call, reply));
            }
            None if mode == "hold" => held.lock().unwrap().push(call),
            None if mode == "drop" => drop(call),
            None if mode == "fail" => call.fail("no such key").unwrap(),
            None if mode == "who" => {
                let caller = call.caller();
                let left = call.left().map_or(0, |left| left.as_secs());
                let text = format!("{} {} {} {left}", caller.user, caller.process, caller.node);
                last = Some((call, text.into_bytes()));
            }
            Some(("slow", ms)) => {
                std::thread::sleep(Duration::from_millis(number(ms)));
                let reply = reply_to(call.payload());
                last = Some((call, reply));
            }
            _ => panic!("{mode}"),
        }
    }
}

fn millis(text: &str) -> Option<Duration> {
    let ms = number(text);
    (ms > 0).then(|| Duration::from_millis(ms))
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text} is no number"))
}
