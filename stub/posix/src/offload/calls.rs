//! Which system calls may be made by another thread of the process, and how: the table of judgements.
//!
//! An executor shares memory, descriptors, folder, umask, signal actions and, until one of them changes
//! them, rights and filter with the thread that asks. What remains is what the kernel keeps for a single
//! thread: its signals, its number, its place in the scheduler. And no executor may wait for anybody but
//! a disk, since others wait for it, and a thread that waits has to be reached by its signals. A call
//! that is not in the table is made plainly. `docs/offload.md` has the table; a test compares both.

use heliostat_abi::offload::Group;
use heliostat_base::sys::Sysno;

mod table;

pub use table::JUDGED;

/// How an executor makes a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// As it was asked.
    AsItIs,
    /// read(2): of a regular file as asked, else as preadv2(2), which does not wait (RWF_NOWAIT).
    Read,
    /// pread64(2): of a regular file.
    ReadAt,
    /// readv(2), preadv(2) and preadv2(2), in these ways.
    ReadMany,
    /// write(2): regular files and descriptors that do not wait as asked, others without waiting.
    Write,
    /// Writes of several buffers, or at an offset: to regular files, and what does not wait.
    WriteMany,
    /// With MSG_DONTWAIT in this argument.
    Receive(u8),
    /// Likewise, and what a socket does not take at once its thread sends.
    SendTo,
    /// Likewise, where several buffers are sent: only on sockets that do not wait.
    SendMany(u8),
    /// open(2) and its kin, the path in this argument: regular files and folders.
    Open(u8),
    /// close(2): not of sockets and devices, whose end may take long.
    Close,
    /// dup2(2), dup3(2): where what is replaced is none of those.
    Replace,
    /// fcntl(2): descriptors and their flags.
    Descriptor,
    /// setsockopt(2), but for SO_RCVLOWAT, which makes reads wait for more.
    Option,
    /// Of another process than this one, whose threads the kernel would choose among.
    Other,
    /// With IPC_NOWAIT in this argument.
    Message(u8),
    /// wait4(2), waitid(2), with WNOHANG in this argument.
    Children(u8),
}

/// Why a call is its own thread's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// It waits, or may.
    Waits,
    /// It means the calling thread, or tells of it.
    Thread,
    /// It waits for a device: the executor would stand still.
    Device,
    /// It changes rights, filter or descriptors of single threads: offload ends.
    Ends,
    /// The stub answers it, or must see it made.
    Stub,
    /// It makes, replaces or ends threads and processes.
    Life,
}

/// What is judged of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Judgement {
    /// Executors make it.
    Made(How),
    /// It is made plainly.
    Plain(Why),
}

impl Judgement {
    /// As the document has it.
    pub const fn text(self) -> &'static str {
        match self {
            Judgement::Made(How::AsItIs) => "made",
            Judgement::Made(How::Read | How::ReadAt | How::ReadMany) => {
                "made on regular files, and where it does not wait"
            }
            Judgement::Made(How::Write) => {
                "made if it does not wait; what is left of it, its thread writes"
            }
            Judgement::Made(How::WriteMany) => "made on regular files and O_NONBLOCK",
            Judgement::Made(How::Receive(_)) => "made if it does not wait (MSG_DONTWAIT)",
            Judgement::Made(How::SendTo) => {
                "made if it does not wait; what is left of it, its thread sends"
            }
            Judgement::Made(How::SendMany(_)) => "made on O_NONBLOCK or with MSG_DONTWAIT",
            Judgement::Made(How::Open(_)) => "made on regular files and folders",
            Judgement::Made(How::Close) => "made but of sockets and devices",
            Judgement::Made(How::Replace) => "made unless it closes a socket or device",
            Judgement::Made(How::Descriptor) => "made for descriptors and flags, not locks",
            Judgement::Made(How::Option) => "made but for SO_RCVLOWAT",
            Judgement::Made(How::Other) => "made for other processes",
            Judgement::Made(How::Message(_)) => "made if it does not wait (IPC_NOWAIT)",
            Judgement::Made(How::Children(_)) => "made with WNOHANG",
            Judgement::Plain(Why::Waits) => "plain: it waits",
            Judgement::Plain(Why::Thread) => "plain: it means the calling thread",
            Judgement::Plain(Why::Device) => "plain: it waits for a device",
            Judgement::Plain(Why::Ends) => "plain, and offload ends: it changes a thread's rights",
            Judgement::Plain(Why::Stub) => "plain: the stub answers it or sees to it",
            Judgement::Plain(Why::Life) => "plain: it makes or ends threads",
        }
    }
}

/// A call and what is judged of it.
#[derive(Clone, Copy, Debug)]
pub struct Judged {
    /// The call.
    pub call: Sysno,
    /// Its group.
    pub group: Group,
    /// What is judged.
    pub judgement: Judgement,
    /// The arguments that are paths, as bits.
    pub paths: u8,
}

/// Numbers of calls are below.
pub const CALLS_MAX: usize = 512;
const NONE: u8 = u8::MAX;

/// Place in the table by number of the call; [`NONE`] for what is not in it.
static PLACES: [u8; CALLS_MAX] = places();

const fn places() -> [u8; CALLS_MAX] {
    let mut places = [NONE; CALLS_MAX];
    let mut at = 0;
    while at < JUDGED.len() {
        places[JUDGED[at].call as usize] = at as u8;
        at += 1;
    }
    places
}

const _: () = assert!(JUDGED.len() < NONE as usize);

/// What is judged of the call of this number.
#[inline]
pub fn judged(number: u32) -> Option<&'static Judged> {
    let place = *PLACES.get(number as usize)?;
    JUDGED.get(usize::from(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What people read.
    const DOCUMENT: &str = include_str!("../../../../docs/offload.md");

    fn rows() -> Vec<[String; 3]> {
        let cells = |line: &str| -> Option<[String; 3]> {
            let mut cells = line.strip_prefix("| `")?.split('|').map(str::trim);
            let name = cells.next()?.trim_end_matches('`').to_owned();
            Some([name, cells.next()?.to_owned(), cells.next()?.to_owned()])
        };
        let part = DOCUMENT.split("## Judgements").nth(1).expect("a part with the table");
        part.lines().filter_map(cells).collect()
    }

    #[test]
    fn the_document_has_exactly_these_judgements() {
        let row = |it: &Judged| {
            [it.call.name().to_owned(), it.group.name().to_owned(), it.judgement.text().to_owned()]
        };
        let wanted: Vec<_> = JUDGED.iter().map(row).collect();
        let lines =
            wanted.iter().map(|[name, group, text]| format!("| `{name}` | {group} | {text} |"));
        assert_eq!(
            rows(),
            wanted,
            "the table should be:\n{}",
            lines.collect::<Vec<_>>().join("\n")
        );
    }

    #[test]
    fn a_call_is_judged_once_and_found_by_its_number() {
        for (at, it) in JUDGED.iter().enumerate() {
            let found = judged(it.call as u32).expect("in the table");
            assert!(std::ptr::eq(found, &JUDGED[at]), "{} is judged twice", it.call.name());
        }
        assert!(judged(Sysno::mmap as u32).is_none() && judged(9999).is_none());
    }

    #[test]
    fn what_a_thread_has_for_itself_is_never_made_elsewhere() {
        for own in [Sysno::gettid, Sysno::rt_sigprocmask, Sysno::sigaltstack, Sysno::setpriority] {
            let found = judged(own as u32).map(|it| it.judgement);
            assert_eq!(found, Some(Judgement::Plain(Why::Thread)), "{own:?}");
        }
    }
}
