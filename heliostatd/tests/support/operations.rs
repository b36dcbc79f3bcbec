//! What programs do with many operations at once, on memory regions: in pieces, submitted, awaited.

use std::future::Future;
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::sync::mpsc::{channel, Sender, TryRecvError};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use heliostat_stub_memory::{
    Completed, Completion, Memory, MemoryError, Operations, Region, Submission, Work,
};

use super::programs::{pattern, told};
use super::WATCHDOG;

/// Does one of the things below.
pub fn on(
    memory: &Memory,
    region: &Arc<Region>,
    what: &str,
    numbers: &[u64],
) -> Result<String, MemoryError> {
    let done = |()| "done".to_owned();
    match (what, numbers) {
        ("write_pieces", [seed, count, stride, bytes]) => {
            let pieces: Vec<_> = pieces(*count, *stride).collect();
            let from: Vec<_> = pieces.iter().map(|at| pattern(*seed, *at, *bytes)).collect();
            let given: Vec<_> = pieces.iter().zip(&from).map(|(at, it)| (*at, &it[..])).collect();
            region.write_vectored(&given).map(done)
        }
        ("read_pieces", [seed, count, stride, bytes]) => {
            let pieces: Vec<_> = pieces(*count, *stride).collect();
            let mut found = vec![vec![0; *bytes as usize]; pieces.len()];
            let mut into: Vec<_> =
                pieces.iter().zip(&mut found).map(|(at, it)| (*at, &mut it[..])).collect();
            region.read_vectored(&mut into)?;
            let is_so = |(at, it): (&u64, &Vec<u8>)| *it == pattern(*seed, *at, *bytes);
            Ok(same(pieces.iter().zip(&found).all(is_so)))
        }
        ("taken", [seed, count, part]) => taken(memory, region, *seed, *count, *part),
        ("futures", [seed, count, part]) => futures(memory, region, *seed, *count, *part),
        ("polled", [times]) => polled(memory, region, *times),
        ("dropped", [times, bytes]) => dropped(memory, region, *times, *bytes),
        ("urgent", [bytes]) => urgent(memory, region, *bytes),
        ("full", []) => full(memory, region),
        ("wrong", []) => Ok(wrong(memory, region)),
        ("given_up", [count]) => given_up(memory, region, *count),
        ("flood", [count]) => flood(memory, region, *count),
        ("beside_taker", [times]) => beside_taker(memory, region, *times),
        ("woken", [times]) => woken(memory, region, *times),
        ("cancelled", [times, bytes]) => cancelled(memory, region, *times, *bytes),
        ("lost", [count]) => lost(memory, region, *count),
        _ => panic!("{what} {numbers:?}"),
    }
}

fn pieces(count: u64, stride: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |at| at * stride)
}

fn same(is_same: bool) -> String {
    if is_same { "same" } else { "different" }.into()
}

fn write(region: &Arc<Region>, seed: u64, offset: u64, bytes: u64) -> Submission {
    Submission::new(region, Work::Write { offset, from: pattern(seed, offset, bytes) })
}

fn read(region: &Arc<Region>, offset: u64, bytes: u64) -> Submission {
    Submission::new(region, Work::Read { offset, into: vec![0; bytes as usize] })
}

/// Fills a region in parts, with a few on their way, then reads them all back at once.
fn taken(
    memory: &Memory,
    region: &Arc<Region>,
    seed: u64,
    count: u64,
    part: u64,
) -> Result<String, MemoryError> {
    let operations = memory.operations(7);
    for at in 0..count {
        let mut submission = write(region, seed, at * part, part);
        while let Err(refused) = operations.submit(submission) {
            assert_eq!(refused.error, MemoryError::Full { limit: 7 });
            assert_eq!(operations.wait(Some(WATCHDOG))?.result?, part);
            submission = refused.submissions.into_iter().next().unwrap();
        }
    }
    while operations.under_way() > 0 {
        assert_eq!(operations.wait(Some(WATCHDOG))?.result?, part);
    }
    for limit in [None, Some(Duration::MAX)] {
        assert_eq!(operations.wait(limit).err(), Some(MemoryError::Idle));
    }
    let all = memory.operations(count as usize);
    let reads = (0..count).map(|at| read(region, at * part, part)).collect();
    let first = all.submit_all(reads).map_err(|refused| refused.error)?[0];
    let mut is_same = true;
    for _ in 0..count {
        let Completed { number, result, bytes } = all.wait(Some(WATCHDOG))?;
        let at = number - first;
        is_same &= result? == part && bytes == pattern(seed, at * part, part);
    }
    Ok(same(is_same))
}

/// Writes by futures, reads by one of many, and words that add up.
fn futures(
    memory: &Memory,
    region: &Arc<Region>,
    seed: u64,
    count: u64,
    part: u64,
) -> Result<String, MemoryError> {
    let operations = memory.operations(usize::MAX);
    let writes: Vec<_> =
        (0..count).map(|at| start(&operations, write(region, seed, at * part, part))).collect();
    for future in writes {
        assert_eq!(block_on(future).result?, part);
    }
    let reads = (0..count).map(|at| read(region, at * part, part)).collect();
    let batch = operations.submit_batch(reads).map_err(|refused| refused.error)?;
    let found = block_on(batch);
    let is_so = |(at, it): (u64, &Completed)| it.bytes == pattern(seed, at * part, part);
    let is_same = (0..).zip(&found).all(is_so) && found.len() as u64 == count;
    region.swap(0, 0)?;
    let adds = (0..count).map(|_| Submission::new(region, Work::FetchAdd { offset: 0, more: 3 }));
    let adds = operations.submit_batch(adds.collect()).map_err(|refused| refused.error)?;
    let mut olds: Vec<_> = adds.wait().into_iter().map(|it| it.result.unwrap()).collect();
    olds.sort_unstable();
    assert_eq!(olds, (0..count).map(|at| at * 3).collect::<Vec<_>>());
    assert_eq!(region.fetch_add(0, 0)?, count * 3);
    assert_eq!(operations.under_way(), 0);
    Ok(same(is_same))
}

fn start(operations: &Operations, submission: Submission) -> Completion {
    let number = operations.submit(submission).unwrap();
    operations.completion(number).unwrap()
}

/// The descriptor is readable exactly while there is something to take.
fn polled(memory: &Memory, region: &Arc<Region>, times: u64) -> Result<String, MemoryError> {
    let operations = memory.operations(2);
    let fd = operations.descriptor()?.as_raw_fd();
    for at in 0..times {
        assert!(!is_readable(fd, 0));
        for _ in 0..2 {
            operations.submit(write(region, at, 8, 100)).unwrap();
        }
        let mut left = 2;
        while left > 0 {
            assert!(is_readable(fd, WATCHDOG.as_millis() as i32), "{at}");
            while let Some(completed) = operations.take() {
                assert_eq!(completed.result?, 100);
                left -= 1;
            }
        }
    }
    Ok("done".into())
}

fn is_readable(fd: i32, timeout_ms: i32) -> bool {
    let mut look = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, alive for the whole call.
    unsafe { libc::poll(&mut look, 1, timeout_ms) == 1 }
}

/// Futures that are dropped, before and while they are on their way, and others that are not.
fn dropped(
    memory: &Memory,
    region: &Arc<Region>,
    times: u64,
    bytes: u64,
) -> Result<String, MemoryError> {
    for at in 0..times {
        let operations = memory.operations(64);
        let mut kept = start(&operations, write(region, at, bytes, 100));
        for way in 0..8 {
            let mut future = Box::pin(start(&operations, read(region, 0, bytes)));
            if way % 2 == 0 {
                let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
                let _ = future.as_mut().poll(&mut Context::from_waker(&waker));
            }
        }
        kept = match at % 2 {
            0 => kept,
            _ => start(&operations, read(region, bytes, 100)),
        };
        assert_eq!(block_on(kept).result?, 100);
        // In the midst of what is still on its way.
        region.write(bytes, &pattern(at, 0, 100))?;
    }
    let last = memory.operations(1);
    let (work, expected) = (read(region, bytes, 100), pattern(times - 1, 0, 100));
    Ok(same(block_on(start(&last, work)).bytes == expected))
}

/// What is urgent passes by a long one that was submitted before.
fn urgent(memory: &Memory, region: &Arc<Region>, bytes: u64) -> Result<String, MemoryError> {
    let operations = memory.operations(2);
    let long = operations.submit(write(region, 1, 0, bytes)).unwrap();
    let urgent = Submission::new(region, Work::Swap { offset: 0, new: 9 }).urgent();
    let urgent = operations.submit(urgent).unwrap();
    let order = [operations.wait(Some(WATCHDOG))?.number, operations.wait(Some(WATCHDOG))?.number];
    let is_first = order == [urgent, long];
    Ok(if is_first { "urgent first" } else { "long first" }.into())
}

/// More than there may be comes back whole.
fn full(memory: &Memory, region: &Arc<Region>) -> Result<String, MemoryError> {
    let operations = memory.operations(3);
    let three = (0..3).map(|at| write(region, 1, at * 8, 8)).collect();
    operations.submit_all(three).unwrap();
    let two = (0..2).map(|at| write(region, 1, at * 8, 8)).collect();
    let refused = operations.submit_all(two).unwrap_err();
    assert_eq!(refused.submissions.len(), 2);
    (0..3).for_each(|_| drop(operations.wait(Some(WATCHDOG)).unwrap()));
    operations.submit_all(refused.submissions).unwrap();
    Err(refused.error)
}

/// How operations end that are wrong, in order.
fn wrong(memory: &Memory, region: &Arc<Region>) -> String {
    let operations = memory.operations(16);
    let each = |work| start(&operations, Submission::new(region, work));
    let limit = u64::MAX - 7;
    let all = [
        each(Work::Read { offset: 1 << 40, into: vec![0; 8] }),
        each(Work::Read { offset: limit, into: vec![0; 8] }),
        each(Work::Write { offset: 1 << 40, from: vec![0; 20_000] }),
        each(Work::Set { offset: 0, bytes: 1 << 40, value: 1 }),
        each(Work::Copy { offset: 1 << 40, into: region.clone(), at: 0, bytes: 8 }),
        each(Work::Copy { offset: 0, into: region.clone(), at: limit, bytes: 8 }),
        each(Work::FetchAdd { offset: 4, more: 1 }),
        each(Work::CompareSwap { offset: 1 << 40, expected: 0, new: 1 }),
        each(Work::Read { offset: 0, into: Vec::new() }),
    ];
    let told_of = all.map(|future| match block_on(future).result {
        Ok(result) => result.to_string(),
        Err(error) => told(&error),
    });
    told_of.join(", ")
}

/// Ends the delegation with so many on their way: each is done, or says so.
fn given_up(memory: &Memory, region: &Arc<Region>, count: u64) -> Result<String, MemoryError> {
    let operations = memory.operations(count as usize);
    let reads = (0..count).map(|at| read(region, at * 8, 40_000)).collect();
    operations.submit_all(reads).unwrap();
    memory.end_delegation();
    for _ in 0..count {
        match operations.wait(Some(WATCHDOG))?.result {
            Ok(40_000) | Err(MemoryError::Gone { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    Ok("done".into())
}

/// Has so many words added to on their way, for ever.
fn flood(memory: &Memory, region: &Arc<Region>, count: u64) -> Result<String, MemoryError> {
    let operations = memory.operations(count as usize);
    loop {
        while operations.under_way() < count as usize {
            let work = Work::FetchAdd { offset: 0, more: 1 };
            operations.submit(Submission::new(region, work)).unwrap();
        }
        operations.wait(None)?.result?;
    }
}

/// Whoever takes what has completed gets nothing of a batch.
fn beside_taker(memory: &Memory, region: &Arc<Region>, times: u64) -> Result<String, MemoryError> {
    let operations = memory.operations(usize::MAX);
    let (over, is_over) = channel::<()>();
    std::thread::scope(|scope| {
        let all = &operations;
        let taker = scope.spawn(move || {
            let mut taken = 0;
            while is_over.try_recv() == Err(TryRecvError::Empty) {
                taken += u64::from(all.take().is_some());
            }
            taken
        });
        for _ in 0..times {
            let reads = (0..4).map(|at| read(region, at * 100, 100)).collect();
            let batch = operations.submit_batch(reads).map_err(|refused| refused.error)?;
            assert_eq!(batch.wait().len(), 4);
        }
        drop(over);
        assert_eq!(taker.join().unwrap(), 0);
        Ok("done".into())
    })
}

/// Woken, it gives another operation up and asks the same session, on the thread that wakes it.
struct Acts {
    region: Arc<Region>,
    other: Mutex<Option<Completion>>,
    done: Sender<u64>,
}

impl Wake for Acts {
    fn wake(self: Arc<Self>) {
        drop(self.other.lock().unwrap().take());
        self.done.send(self.region.fetch_add(0, 0).unwrap()).unwrap();
    }
}

/// Whoever is woken may do anything at once.
fn woken(memory: &Memory, region: &Arc<Region>, times: u64) -> Result<String, MemoryError> {
    let operations = memory.operations(64);
    for _ in 0..times {
        let mut future = Box::pin(start(&operations, write(region, 1, 8, 100)));
        let other = Mutex::new(Some(start(&operations, read(region, 0, 1_000_000))));
        let (done, is_done) = channel();
        let acts = Acts { region: region.clone(), other, done };
        let waker = Waker::from(Arc::new(acts));
        if future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            drop(waker);
            is_done.recv_timeout(WATCHDOG).unwrap();
            assert_eq!(block_on(future).result?, 100);
        }
    }
    Ok("done".into())
}

/// An operation that is cancelled over and over ends once, and the session goes on.
fn cancelled(
    memory: &Memory,
    region: &Arc<Region>,
    times: u64,
    bytes: u64,
) -> Result<String, MemoryError> {
    let operations = memory.operations(2);
    let long = operations.submit(write(region, 1, 0, bytes)).unwrap();
    let other = operations.submit(write(region, 2, 0, bytes)).unwrap();
    for _ in 0..times {
        operations.cancel(long);
    }
    for _ in 0..2 {
        match operations.wait(Some(WATCHDOG))? {
            Completed { number, result: Err(MemoryError::Cancelled { .. }), .. } => {
                assert_eq!(number, long);
            }
            Completed { number, result, .. } => {
                assert_eq!((number == other || number == long, result?), (true, bytes));
            }
        }
    }
    Ok("done".into())
}

/// Submits until the control plane has ended, and takes what is left.
fn lost(memory: &Memory, region: &Arc<Region>, count: u64) -> Result<String, MemoryError> {
    let operations = memory.operations(count as usize);
    println!("> begun");
    let mut ends = Vec::new();
    while ends.is_empty() {
        let reads = (0..count).map(|at| read(region, at * 8, 40_000)).collect();
        operations.submit_all(reads).unwrap();
        for _ in 0..count {
            ends.extend(operations.wait(Some(WATCHDOG))?.result.err());
        }
    }
    ends.dedup();
    Ok(ends.iter().map(told).collect::<Vec<_>>().join(", "))
}

/// Wakes a thread that polls a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// An executor of one future: nothing of the library's own.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(found) => return found,
            Poll::Pending => std::thread::park_timeout(WATCHDOG),
        }
    }
}
