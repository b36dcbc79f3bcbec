//! Ends an operation of any session, whose bell rings with the others'.

use heliostat_server_loop::{OperationId, Sessions};

use super::rpcs::Rpcs;

/// Ends an operation with an errno.
pub(crate) fn fail(sessions: &mut Sessions<Rpcs>, id: OperationId, errno: i32) {
    let Some((session, engine)) = sessions.at(id.seat) else { return };
    session.end(engine, id.operation, -i64::from(errno));
    engine.service.unrung.push(id.seat);
}
