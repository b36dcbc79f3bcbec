use super::*;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_millis(50);

/// Takes jobs in turn; one may be for later.
#[derive(Default)]
struct Line {
    now: Vec<Box<dyn FnOnce() + Send>>,
    later: Option<(Instant, Box<dyn FnOnce() + Send>)>,
}

struct Any;

impl Work for Any {
    type Queue = Line;
    type Job = Box<dyn FnOnce() + Send>;
    const NAME: &'static str = "any";
    const THREADS_MAX: usize = 3;

    fn next(line: &mut Line, now: Instant) -> Option<Self::Job> {
        let later = line.later.take_if(|(due, _)| *due <= now).map(|(_, job)| job);
        later.or_else(|| (!line.now.is_empty()).then(|| line.now.remove(0)))
    }

    fn due(line: &Line) -> Option<Instant> {
        line.later.as_ref().map(|(due, _)| *due)
    }

    fn run(&self, job: Self::Job, _: &Pool<Self>) {
        job();
    }
}

fn pool() -> Pool<Any> {
    let pool = Pool::new(Any);
    pool.start().unwrap();
    pool
}

/// Puts a job in line that tells its start and hangs until the sender is dropped.
fn hang(pool: &Pool<Any>) -> (Receiver<()>, Sender<()>) {
    let (begun, begins) = channel();
    let (hold, held) = channel::<()>();
    let job = move || {
        let _ = begun.send(());
        let _ = held.recv();
    };
    pool.put(|line| line.now.push(Box::new(job)));
    (begins, hold)
}

#[test]
fn jobs_that_hang_hold_up_no_other_until_there_are_too_many() {
    let pool = pool();
    let mut held: Vec<_> = (0..Any::THREADS_MAX).map(|_| hang(&pool)).collect();
    held.iter().for_each(|(begins, _)| begins.recv_timeout(PATIENCE).unwrap());
    let (begins, last) = hang(&pool);
    assert!(begins.recv_timeout(SOON).is_err());
    held.pop();
    begins.recv_timeout(PATIENCE).unwrap();
    assert_eq!(pool.lock().threads, Any::THREADS_MAX);
    drop(last);
}

#[test]
fn what_is_due_later_is_done_although_the_thread_that_watched_went_away() {
    let pool = pool();
    // All threads are there, of which one will watch and the others sleep without a time.
    let warm: Vec<_> = (0..Any::THREADS_MAX).map(|_| hang(&pool)).collect();
    warm.iter().for_each(|(begins, _)| begins.recv_timeout(PATIENCE).unwrap());
    drop(warm);
    let (told, hears) = channel();
    let job = Box::new(move || told.send(()).unwrap());
    std::thread::sleep(SOON);
    pool.put(|line| line.later = Some((Instant::now() + 6 * SOON, job)));
    // The kernel wakes who has slept longest: those that do not watch, then the one that does.
    for _ in 1..Any::THREADS_MAX {
        std::thread::sleep(SOON);
        pool.put(|_| ());
    }
    std::thread::sleep(SOON);
    let (begins, _hold) = hang(&pool);
    begins.recv_timeout(PATIENCE).unwrap();
    hears.recv_timeout(PATIENCE).unwrap();
}

#[test]
fn threads_end_after_what_they_are_in() {
    let pool = pool();
    let (begins, hold) = hang(&pool);
    begins.recv_timeout(PATIENCE).unwrap();
    let (threads, start) = (Arc::downgrade(&pool.0), Instant::now());
    pool.end();
    drop(pool);
    assert!(threads.upgrade().is_some());
    drop(hold);
    while threads.upgrade().is_some() {
        assert!(start.elapsed() < PATIENCE, "threads go on");
        std::thread::sleep(Duration::from_millis(1));
    }
}
