//! Lines of a function: who is next in each, and what ends when the function does.

use heliostat_abi::name::ObjectId;
use heliostat_server_loop::{OperationId, Sessions};

use super::ending::fail;
use super::far;
use super::function::{Function, Line};
use super::rpcs::Rpcs;

/// Takes the next operation out of a line, from the session whose turn it is. It has not ended.
pub(crate) fn next(
    sessions: &mut Sessions<Rpcs>,
    function: &mut Function,
    line: Line,
) -> Option<OperationId> {
    let name = function.info.function;
    while let Some(seat) = function.round(line).pop_front() {
        if let Some(user) = sessions.engine.service.users.get_mut(&seat) {
            let (taken, has_more) = user.waiting.take(name, line);
            if has_more {
                function.round(line).push_back(seat);
            }
            match taken.filter(|call| sessions.engine.service.far.get(*call).is_some()) {
                Some(operation) => return Some(OperationId { seat, operation }),
                None => continue,
            }
        }
        let Some((session, _)) = sessions.at(seat) else { continue };
        let (taken, has_more) = session.service.waiting.take(name, line);
        if has_more {
            function.round(line).push_back(seat);
        }
        let lives = |id: &ObjectId| session.operations.get(*id).is_some();
        if let Some(operation) = taken.filter(lives) {
            return Some(OperationId { seat, operation });
        }
    }
    None
}

/// Puts an operation back to where it was taken from: it is the next again.
pub(crate) fn put_back(
    sessions: &mut Sessions<Rpcs>,
    function: &mut Function,
    line: Line,
    id: OperationId,
) {
    if let Some(user) = sessions.engine.service.users.get_mut(&id.seat) {
        if user.waiting.join_first(function.info.function, line, id.operation) {
            function.round(line).push_front(id.seat);
        }
        return;
    }
    let Some((session, _)) = sessions.at(id.seat) else { return };
    if session.service.waiting.join_first(function.info.function, line, id.operation) {
        function.round(line).push_front(id.seat);
    }
}

/// Where an operation gets into its line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Front,
    Back,
}

/// Puts an operation that has not ended into its line, which may be gone meanwhile, or the right to it.
pub(crate) fn line_up(
    sessions: &mut Sessions<Rpcs>,
    id: OperationId,
    (function, line): (ObjectId, Line),
    end: End,
) {
    let Some((session, engine)) = sessions.at(id.seat) else { return };
    let role = session.service.role(function).unwrap_or_default();
    let may = if line == Line::Receivers { role.serves } else { role.calls };
    let Some(found) = engine.service.functions.get_mut(&function).filter(|_| may) else {
        return fail(sessions, id, libc::ESTALE);
    };
    match end {
        End::Front if session.service.waiting.join_first(function, line, id.operation) => {
            found.round(line).push_front(id.seat);
        }
        End::Back if session.service.waiting.join(function, line, id.operation) => {
            found.round(line).push_back(id.seat);
        }
        _ => {}
    }
    engine.service.note(function);
}

/// Ends what waits in some lines of a function for one session.
pub(crate) fn end_some(
    sessions: &mut Sessions<Rpcs>,
    seat: ObjectId,
    function: ObjectId,
    lines: &[Line],
) {
    if sessions.engine.service.users.contains_key(&seat) {
        return far::end_all_of(sessions, seat, function, lines);
    }
    let Some((session, engine)) = sessions.at(seat) else { return };
    for operation in session.service.waiting.take_all(function, lines) {
        session.end(engine, operation, -i64::from(libc::ESTALE));
    }
    engine.service.unrung.push(seat);
}

/// Ends everything that waits for a function, which nobody serves any more.
pub(crate) fn end_all(sessions: &mut Sessions<Rpcs>, function: ObjectId) {
    let Some(mut found) = sessions.engine.service.functions.remove(&function) else { return };
    for line in Line::ALL {
        for seat in std::mem::take(found.round(line)) {
            end_some(sessions, seat, function, &[line]);
        }
    }
    sessions.engine.service.refused.retain(|other| *other != function);
    let user = found.info.user;
    found.stored.iter().for_each(|it| sessions.engine.service.release(user, it));
}
