//! The steps of a script on one lane, each with what must hold after it.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, OnceLock};

use heliostat_abi::stream::channel::direction as at;
use heliostat_ring::stream::{Lane, MoveError, Place, ReadDone, WriteCache};

use super::memory::{Arena, Restless, Strike, DATA, WORDS};
use super::model::Model;
use super::{Step, OTHERS, POSITIONS, SIGNALS};

/// What lies in a buffer before a read.
const BLANK: u8 = 0x5a;

pub struct Player<P: Place> {
    lane: Lane<P>,
    arena: Arc<Arena>,
    cache: WriteCache,
    stagger: u64,
    /// `None` once the peer has written something.
    model: Option<Model>,
    next: u8,
    /// The same lane again where it lies in a mapping, since only such a one reads files.
    pub file_lane: Option<Lane>,
    /// Where writes of the peer wait that strike inside a call.
    pub strikes: Option<Restless>,
}

impl<P: Place> Player<P> {
    pub fn new(lane: Lane<P>, arena: &Arc<Arena>, stagger: u64) -> Self {
        lane.reset(stagger);
        let (cache, model) = (WriteCache::new(), Some(Model::default()));
        let (file_lane, strikes) = (None, None);
        Self { lane, arena: arena.clone(), cache, stagger, model, next: 0, file_lane, strikes }
    }

    pub fn step(&mut self, step: Step) {
        match step.what {
            0..=3 => self.strike(step),
            4 => self.own(step, &[at::TAIL, at::ORIGIN], Self::write),
            5 if step.word >> 32 & 1 == 0 => self.own(step, &[at::HEAD, at::TAIL], Self::read),
            5 => self.own(step, &[at::TAIL], Self::read),
            6 => self.own(step, &[at::HEAD, at::TAIL], Self::discard),
            7 => self.own(step, &[], Self::take_back),
            8 => self.own(step, &[at::TAIL, at::ORIGIN], Self::fill),
            // What the peer says that it held back is taken by a look that finds nothing else.
            9 => self.own(step, &[at::TAIL], Self::look),
            10 => {
                let words =
                    [OTHERS.as_slice(), &[at::PREFIX, at::TAKEN, at::TAIL, at::HELD]].concat();
                self.own(step, &words, Self::signal);
            }
            _ => self.reset(),
        }
    }

    fn capacity(&self) -> usize {
        self.arena.capacity as usize
    }

    /// The peer writes a word or a byte, now or inside a later call.
    fn strike(&mut self, step: Step) {
        self.model = None;
        let (pick, memory) = (usize::from(step.a & 0xff), &self.arena.memory);
        let position = POSITIONS[pick % POSITIONS.len()];
        match (step.what, &self.strikes) {
            (0, _) => memory.atomic_u64(WORDS + position).store(step.word, SeqCst),
            (1, _) => {
                let word = memory.atomic_u32(WORDS + OTHERS[pick % OTHERS.len()]);
                word.store(step.word as u32, SeqCst);
            }
            (3, Some(place)) => {
                let all = [POSITIONS.as_slice(), OTHERS.as_slice()].concat();
                let (looks, offset) = ((step.a >> 8) as u8 % 16, all[pick % all.len()]);
                let strike = Strike { looks, offset, value: step.word };
                place.strikes().lock().expect("nobody panics").push_back(strike);
            }
            _ => {
                let at = DATA + usize::from(step.a) % self.capacity();
                memory.copy_in(at, &[step.word as u8]).expect("inside");
            }
        }
    }

    /// An own call, and then a look at what it has written: words of `may_change` at most, and
    /// bytes of the ring only where it may write positions of the writer.
    fn own(&mut self, step: Step, may_change: &[usize], call: fn(&mut Self, Step)) {
        let is_struck = |place: &Restless| !place.strikes().lock().expect("whole").is_empty();
        if self.strikes.as_ref().is_some_and(is_struck) {
            return call(self, step);
        }
        let (words, ring) = (self.arena.words(), self.arena.ring());
        call(self, step);
        for (word, (before, after)) in words.iter().zip(self.arena.words()).enumerate() {
            let is_own = may_change.iter().any(|at| *at == word * 4)
                || POSITIONS.iter().any(|at| at + 4 == word * 4 && may_change.contains(at));
            assert!(*before == after || is_own, "call {} wrote word {}", step.what, word * 4);
        }
        let writes = may_change.contains(&at::ORIGIN);
        assert!(writes || ring == self.arena.ring(), "call {} wrote into the ring", step.what);
    }

    /// What an answer is worth: a refusal only of what contradicts the ring, and never unasked.
    fn checked<T>(&self, answer: Result<T, impl Into<MoveError>>) -> Option<T> {
        let answer = answer.map_err(Into::into);
        if let Err(error) = &answer {
            let MoveError::Corrupt(corrupt) = error else { panic!("our own buffers are there") };
            assert!(self.model.is_none(), "an honest peer is refused: {corrupt}");
            assert_eq!(corrupt.capacity, self.capacity() as u64);
            assert!(corrupt.unread > corrupt.capacity, "{corrupt}");
        }
        answer.ok()
    }

    fn write(&mut self, step: Step) {
        let lengths = [usize::from(step.a), step.word as usize & 0xffff];
        let [first, second] = lengths.map(|length| length % (2 * self.capacity()));
        let bytes: Vec<u8> =
            (0..first + second).map(|at| self.next.wrapping_add(at as u8)).collect();
        let (one, two) = bytes.split_at(first);
        let answer = self.lane.write(&[IoSlice::new(one), IoSlice::new(two)], &mut self.cache);
        let Some(done) = self.checked(answer) else { return };
        assert!(done <= bytes.len().min(self.capacity()), "{done} bytes written");
        self.next = self.next.wrapping_add(done as u8);
        let capacity = self.capacity();
        let Some(model) = &mut self.model else { return };
        assert_eq!(done, bytes.len().min(model.room(capacity)));
        model.bytes.extend(&bytes[..done]);
    }

    fn read(&mut self, step: Step) {
        let lengths = [usize::from(step.a), step.word as usize & 0xffff];
        let [first, second] = lengths.map(|length| length % (2 * self.capacity()));
        let is_peek = step.word >> 32 & 1 == 1;
        let mut bytes = vec![BLANK; first + second];
        let (one, two) = bytes.split_at_mut(first);
        let buffers = &mut [IoSliceMut::new(one), IoSliceMut::new(two)];
        let Some(done) = self.checked(self.lane.read(buffers, is_peek)) else { return };
        assert!(done.bytes <= bytes.len().min(self.capacity()), "{} bytes read", done.bytes);
        assert!(bytes[done.bytes..].iter().all(|byte| *byte == BLANK), "more than was said");
        let Some(model) = &self.model else { return };
        assert_eq!(bytes[..done.bytes], model.front(bytes.len()));
        match is_peek {
            true => assert!(!done.made_room),
            false => self.taken(done),
        }
    }

    /// Bytes have left the queue; the lane must say rightly whether that made room.
    fn taken(&mut self, done: ReadDone) {
        let capacity = self.capacity();
        let Some(model) = &mut self.model else { return };
        assert_eq!(done.made_room, model.take(done.bytes, capacity));
    }

    fn discard(&mut self, step: Step) {
        let limit = usize::from(step.a);
        let Some(done) = self.checked(self.lane.discard(limit)) else { return };
        assert!(done.bytes <= limit.min(self.capacity()), "{} bytes discarded", done.bytes);
        if let Some(model) = &self.model {
            assert_eq!(done.bytes, limit.min(model.bytes.len()));
        }
        self.taken(done);
    }

    fn take_back(&mut self, _: Step) {
        let Some(bytes) = self.checked(self.lane.take_back()) else { return };
        assert!(bytes.len() <= self.capacity(), "{} bytes taken back", bytes.len());
        if let Some(model) = &self.model {
            assert_eq!(bytes, model.front(usize::MAX));
        }
    }

    /// Zeros from a file, or the refusal of a file that is none.
    fn fill(&mut self, step: Step) {
        static ZEROS: OnceLock<File> = OnceLock::new();
        let Some(lane) = &self.file_lane else { return };
        let zeros = ZEROS.get_or_init(|| File::open("/dev/zero").expect("every system has it"));
        let file = if step.word & 1 == 0 { zeros.as_raw_fd() } else { -1 };
        let (limit, offset) = (u64::from(step.a), (step.word & 2 != 0).then_some(step.word >> 2));
        let answer = lane.fill_from(file, offset, limit, &mut self.cache);
        let Some(Ok(done)) = self.checked(answer) else { return };
        assert!(done as u64 <= limit && done <= self.capacity(), "{done} bytes filled");
        let capacity = self.capacity();
        let Some(model) = &mut self.model else { return };
        let possible = model.room(capacity).min(usize::from(step.a));
        assert!(done <= possible && (done > 0) == (possible > 0), "{done} of {possible}");
        model.bytes.extend(std::iter::repeat_n(0, done));
    }

    fn look(&mut self, step: Step) {
        let (unread, room) = (self.checked(self.lane.unread()), self.checked(self.lane.room()));
        let capacity = self.capacity() as u64;
        let since = [self.lane.head(), step.word].map(|head| self.lane.room_since(head));
        for bytes in [unread, room, since[0], since[1]].into_iter().flatten() {
            assert!(bytes <= capacity, "{bytes} bytes of {capacity}");
        }
        self.lane.prefetch();
        self.lane.prefetch_bytes();
        let (flags, wanted) = (self.lane.flags(), self.lane.is_native_wanted());
        let (bells, passed) = (self.lane.bells_pending(), self.lane.tail());
        let Some(model) = &self.model else { return };
        let free = model.room(self.capacity()) as u64;
        assert_eq!((unread, room), (Some(capacity - free), Some(free)));
        assert_eq!((since[0], passed.wrapping_sub(self.lane.head())), (room, capacity - free));
        assert_eq!(self.lane.is_roomy(free), free >= capacity / 3);
        assert_eq!((flags, wanted, bells), (model.flags, model.wish == 1, model.bells));
    }

    fn signal(&mut self, step: Step) {
        let (lane, mut unused) = (&self.lane, Model::default());
        let is_honest = self.model.is_some();
        let model = self.model.as_mut().unwrap_or(&mut unused);
        let told = model.signal(step);
        let mut said = None;
        match step.a % SIGNALS {
            0 => lane.raise(step.word as u32),
            1 => lane.reader_sleeps(),
            2 => lane.reader_awake(),
            3 => said = Some(lane.take_sleeping_reader()),
            4 => lane.writer_sleeps(),
            5 => lane.writer_awake(),
            6 => said = Some(lane.take_sleeping_writer()),
            7 => lane.want_native(),
            8 => said = Some(lane.retract_want()),
            9 => said = Some(lane.accept_want().is_some()),
            10 => lane.count_bell(),
            11 => lane.uncount_bell(),
            12 => lane.bells_drained(step.word as u32),
            13 => {
                lane.extend_prefix(step.word & 0xffff);
                model.before += step.word & 0xffff;
            }
            _ => {
                let count = step.word & 0xffff;
                lane.note_taken(count);
                let (left, expected) = (lane.prefix_left(), model.note_taken(count));
                assert!(!is_honest || left == expected, "{left:?} is left");
            }
        }
        assert!(!is_honest || said == told, "signal {} said {said:?}", step.a % SIGNALS);
    }

    fn reset(&mut self) {
        if let Some(place) = &self.strikes {
            place.strikes().lock().expect("nobody panics").clear();
        }
        self.lane.reset(self.stagger);
        (self.cache, self.model) = (WriteCache::new(), Some(Model::default()));
    }
}
