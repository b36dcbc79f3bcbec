//! Another process of a joint session: this test binary again, told its part by the environment.

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use heliostat_base::fd::OwnedFd;
use heliostat_client::session;
use heliostat_stub_file::{File, JointSession};
use rustix::process::{kill_process, Pid, Signal};

/// Another member, which does not outlive its test.
pub struct Other {
    child: Child,
    /// Which of those that were started.
    pub place: u64,
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Other {
    /// Starts the test binary again as a part in a session.
    pub fn start(
        part: &str,
        socket: &Path,
        session: &JointSession,
        file: File,
        place: u64,
    ) -> Other {
        let (rings, window) = session.descriptors();
        // Copies are not closed when the other program begins.
        let copies = [rings, window].map(|fd| rustix::io::dup(borrowed(fd)).unwrap());
        let (index, generation, epoch) = file.to_parts();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "member_process", "--nocapture"])
            .env("JOINT_PART", part)
            .env("JOINT_SOCKET", socket)
            .env("JOINT_RINGS", copies[0].as_raw_fd().to_string())
            .env("JOINT_WINDOW", copies[1].as_raw_fd().to_string())
            .env("JOINT_INDEX", index.to_string())
            .env("JOINT_GENERATION", generation.to_string())
            .env("JOINT_EPOCH", epoch.to_string())
            .env("JOINT_PLACE", place.to_string())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Other { child, place }
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

/// What a part has to know, in the environment.
pub struct Given {
    socket: String,
    pub rings: RawFd,
    window: RawFd,
    pub file: (u32, u32, u64),
    pub place: u64,
}

impl Given {
    pub fn of_environment() -> Given {
        let text = |name: &str| std::env::var(name).expect("given");
        let number = |name: &str| text(name).parse::<u64>().expect("a number");
        Given {
            socket: text("JOINT_SOCKET"),
            rings: number("JOINT_RINGS") as RawFd,
            window: number("JOINT_WINDOW") as RawFd,
            file: (
                number("JOINT_INDEX") as u32,
                number("JOINT_GENERATION") as u32,
                number("JOINT_EPOCH"),
            ),
            place: number("JOINT_PLACE"),
        }
    }

    pub fn join(&self) -> JointSession {
        session::configure(self.socket.clone(), "member".into());
        JointSession::join(inherited(self.rings), inherited(self.window)).expect("joined")
    }
}

fn inherited(fd: RawFd) -> OwnedFd {
    // SAFETY: the parent has left it open for this process, and here it is used once.
    unsafe { OwnedFd::adopt(fd) }
}

fn borrowed(fd: &OwnedFd) -> BorrowedFd<'_> {
    // SAFETY: it is open as long as it is borrowed.
    unsafe { BorrowedFd::borrow_raw(fd.as_raw_fd()) }
}
