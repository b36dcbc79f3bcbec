//! Begins operations on regions and goes on with them, a turn at a time.

use heliostat_abi::file::delegated::{OneRead, OpKind, Operation};
use heliostat_abi::memory::operation::set_of;
use heliostat_abi::memory::peer::place_elsewhere;
use heliostat_abi::memory::Rights;
use heliostat_abi::name::ObjectId;
use heliostat_server_loop::{Area, Engine, RegionPage, Session, Step, Turn, COST_MIN};

use super::elsewhere;
use super::handles::Handles;
use super::held::Refusal;
use super::memories::Memories;
use super::work::{Find, Way, WindowPieces, Work};

/// How far an operation has come in this turn.
enum Progress {
    /// So many bytes more, of so many.
    Moved(u64, u64),
    /// It is over, with a result.
    Ended(u64),
    /// So many bytes of it are on their way to another node, whose answers end it.
    Left(u64),
}

/// Begins an operation or goes on with it.
pub fn serve(turn: &mut Turn<'_, Memories>) -> Step {
    let Some(entry) = turn.entry() else { return Step::Over };
    let (asked, done) = (entry.operation, entry.done);
    match go_on(turn, &asked, done) {
        Ok(Progress::Ended(result)) => {
            *turn.left -= COST_MIN;
            turn.end(result as i64)
        }
        Ok(Progress::Moved(bytes, whole)) => {
            *turn.left -= cost(bytes);
            if done + bytes >= whole {
                return turn.end(whole as i64);
            }
            if let Some(entry) = turn.entry_mut() {
                entry.done = done + bytes;
            }
            Step::GoesOn
        }
        Ok(Progress::Left(bytes)) => {
            *turn.left -= cost(bytes);
            Step::Over
        }
        Err(Refusal::Errno(errno)) => {
            *turn.left -= COST_MIN;
            turn.fail(errno)
        }
        Err(Refusal::Unknown) => {
            *turn.left -= COST_MIN;
            let looks = turn.engine.looks_for_orders;
            match turn.session.service.is_none(turn.id.operation, looks) {
                true => turn.fail(libc::EBADF),
                // Rings are looked at more often than orders, and a handle may be used as soon as the
                // control plane has answered.
                false => Step::GoesOn,
            }
        }
        Err(Refusal::Moves(region)) => {
            *turn.left -= COST_MIN;
            turn.session.service.wait(region, turn.id.operation);
            Step::Over
        }
    }
}

/// Copies a read of one piece that needs no further turn; its bytes.
pub fn read_at_once(
    engine: &Engine<Memories>,
    session: &Session<Memories>,
    read: &OneRead,
    left: &mut i64,
) -> Option<u64> {
    let bytes = u64::from(read.piece.bytes);
    if i64::from(read.piece.bytes) > *left {
        return None;
    }
    let page = &engine.service.page;
    let area = session.service.find(page, read.object, Rights::READ).ok()?;
    let place = (&*session.window, read.piece.offset);
    area.read_to(read.offset, place, bytes, bytes).ok()?;
    *left -= cost(bytes);
    Some(bytes)
}

fn go_on(turn: &mut Turn<'_, Memories>, asked: &Operation, done: u64) -> Result<Progress, Refusal> {
    if place_elsewhere(asked.object).is_some() {
        return elsewhere::begin(turn, asked).map(Progress::Left);
    }
    let handles = OfSession { handles: &turn.session.service, page: &turn.engine.service.page };
    let work = Work { handles: &handles };
    let most = (*turn.left).max(COST_MIN) as u64;
    let mut pieces = WindowPieces { window: &turn.session.window, pieces: asked.pieces };
    let place = (asked.object, asked.offset);
    match asked.kind {
        OpKind::Read | OpKind::Write => {
            let way = if asked.kind == OpKind::Read { Way::Read } else { Way::Write };
            let whole = asked.pieces.bytes();
            let part = (done..whole.min(done + most), whole);
            Ok(Progress::Moved(work.transfer(way, place, part, &mut pieces)?, whole))
        }
        OpKind::Set => {
            let (value, whole) = set_of(asked.argument).ok_or(Refusal::Errno(libc::EINVAL))?;
            let part = (done..whole.min(done + most), whole);
            Ok(Progress::Moved(work.set(place, part, value)?, whole))
        }
        OpKind::Copy => copy(turn, asked, done, most),
        OpKind::FetchAdd | OpKind::CompareSwap | OpKind::Swap => {
            let change = pieces.change_of(asked)?;
            let old = work.change_word(place, change)?;
            Ok(Progress::Ended(pieces.answer_word(change, old)?))
        }
        _ => Err(Refusal::Errno(libc::EINVAL)),
    }
}

fn copy(
    turn: &mut Turn<'_, Memories>,
    asked: &Operation,
    done: u64,
    most: u64,
) -> Result<Progress, Refusal> {
    let id = turn.id.operation;
    let handles = OfSession { handles: &turn.session.service, page: &turn.engine.service.page };
    let pieces = WindowPieces { window: &turn.session.window, pieces: asked.pieces };
    let known = turn.session.service.copy_source(id);
    let source = known.map_or_else(|| pieces.copy_source(), Ok)?;
    if turn.session.service.elsewhere.has(source.handle) {
        return Err(Refusal::Errno(libc::EXDEV));
    }
    let from = (source.handle, source.offset);
    let into = (asked.object, asked.offset);
    let copied = Work { handles: &handles }.copy(from, into, (source.bytes, done), most);
    let is_over = matches!(copied, Ok(now) if done + now >= source.bytes);
    if !is_over && known.is_none() {
        // Also for one that waits: its words in the window may be others by then.
        turn.session.service.keep_copy_source(id, source);
    }
    Ok(Progress::Moved(copied?, source.bytes))
}

/// How many bytes an operation is about. Where a copy comes from is read for that, and kept: what is
/// paid for is what is done.
pub fn bytes(session: &mut Session<Memories>, id: ObjectId, asked: &Operation) -> u64 {
    match asked.kind {
        OpKind::Set => set_of(asked.argument).map_or(0, |(_, bytes)| bytes),
        OpKind::Copy => {
            let pieces = WindowPieces { window: &session.window, pieces: asked.pieces };
            let known = session.service.copy_source(id);
            // One that is wrong is told so in its turn.
            let Some(source) = known.or_else(|| pieces.copy_source().ok()) else { return 0 };
            session.service.keep_copy_source(id, source);
            source.bytes
        }
        _ => asked.pieces.bytes(),
    }
}

/// What a part costs of a turn: its bytes, and at least what its handling takes.
fn cost(bytes: u64) -> i64 {
    COST_MIN.max(bytes as i64)
}

/// The handles of a session on this node.
struct OfSession<'a> {
    handles: &'a Handles,
    page: &'a RegionPage,
}

impl Find for OfSession<'_> {
    type Handle = ObjectId;

    fn find(&self, handle: ObjectId, wanted: Rights) -> Result<&Area, Refusal> {
        self.handles.find(self.page, handle, wanted)
    }
}
