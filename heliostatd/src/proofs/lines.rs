//! Whose socket is examined next: a line for each holder, in turn, each of a bounded length.

use std::collections::VecDeque;

use heliostat_server_loop::pool::thread_shares;
use heliostat_server_loop::pool_lines;
use heliostat_service_grant::{Exceeded, Holder, Quota, Shares, Used};

use super::{Shown, THREADS_MAX};

/// Sockets that wait, or hang. A server with many processes listens in all of them at once.
const SHOWN: Shares = Shares { all: 2048, reserve: 512, user: 512, trusted: 1024, sealed: 32 };

/// What waits, and whose threads are away with one.
pub struct Lines {
    waiting: pool_lines::Lines<Shown>,
    /// Sockets that wait, or hang.
    shown: Quota,
}

impl Default for Lines {
    fn default() -> Self {
        let threads = thread_shares(THREADS_MAX as u64);
        Lines { waiting: pool_lines::Lines::new(threads), shown: Quota::new(SHOWN) }
    }
}

impl Lines {
    /// Puts a socket in its holder's line.
    pub fn push(&mut self, shown: Shown) -> Result<(), Exceeded> {
        self.shown.take(shown.holder, 1)?;
        self.waiting.push(shown.holder, shown);
        Ok(())
    }

    /// The next one whose holder may have a thread, which is away from now on.
    pub fn take(&mut self) -> Option<Shown> {
        self.waiting.take(VecDeque::pop_front)
    }

    /// A thread is back.
    pub fn done(&mut self, holder: Holder) {
        self.waiting.is_back(holder);
        self.shown.give_back(holder, 1);
    }

    /// How many wait, or hang.
    pub fn used(&self, holder: Holder) -> Used {
        self.shown.used(holder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closer::{Closer, ReceivedFd};
    use crate::proofs::Purpose;
    use heliostat_abi::name::ObjectId;

    fn shown(holder: Holder) -> Shown {
        let closer = Closer::start().of(holder);
        let socket = ReceivedFd::new(std::io::pipe().unwrap().1.into(), &closer);
        let session = ObjectId { index: 0, generation: 1 };
        Shown { session, sequence: 1, holder, purpose: Purpose::Listen, socket }
    }

    #[test]
    fn who_hangs_has_so_many_threads_and_a_line_of_its_own_that_ends() {
        let mut lines = Lines::default();
        let (user, other) = (Holder::user(1), Holder::user(2));
        let pushed = (0..600).take_while(|_| lines.push(shown(user)).is_ok()).count();
        assert_eq!(pushed as u64, SHOWN.user);
        lines.push(shown(other)).unwrap();
        let taken: Vec<Holder> =
            std::iter::from_fn(|| lines.take()).map(|shown| shown.holder).collect();
        let of = |holder| taken.iter().filter(|it| **it == holder).count() as u64;
        assert_eq!((of(user), of(other)), (thread_shares(THREADS_MAX as u64).user, 1));
        lines.done(user);
        assert_eq!(lines.take().map(|shown| shown.holder), Some(user));
        lines.push(shown(user)).unwrap();
        assert_eq!(lines.used(user).user, SHOWN.user);
    }
}
