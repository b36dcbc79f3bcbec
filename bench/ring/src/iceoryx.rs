//! The same round trip over iceoryx2: one service per direction, polled, with the settings of its
//! own latency benchmark: no history, a buffer of one sample, the next sample loaned while the
//! answer is still on its way.

use heliostat_base::affinity::pin;
use heliostat_base::clock::monotonic_ns;
use heliostat_base::spin::yield_now;
use iceoryx2::prelude::*;

use crate::roundtrip::MESSAGE_BYTES;

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Message = [u8; MESSAGE_BYTES];

struct End {
    send: iceoryx2::port::publisher::Publisher<ipc::Service, Message, ()>,
    receive: iceoryx2::port::subscriber::Subscriber<ipc::Service, Message, ()>,
}

impl End {
    fn open(send: &str, receive: &str) -> Result<End, Failure> {
        let node = NodeBuilder::new().create::<ipc::Service>()?;
        let open = |name: &str| -> Result<_, Failure> {
            let builder = node.service_builder(&name.try_into()?).publish_subscribe::<Message>();
            let builder = builder.max_publishers(1).max_subscribers(1);
            Ok(builder.history_size(0).subscriber_max_buffer_size(1).open_or_create()?)
        };
        let send = open(send)?.publisher_builder().create()?;
        let receive = open(receive)?.subscriber_builder().create()?;
        Ok(End { send, receive })
    }

    fn receive(&self, yielding: bool) -> Result<Message, Failure> {
        loop {
            if let Some(sample) = self.receive.receive()? {
                return Ok(*sample);
            }
            if yielding {
                yield_now();
            }
        }
    }
}

/// Nanoseconds of one round trip.
pub fn theirs_ns(cores: (usize, usize), turns: u64) -> Result<f64, Failure> {
    let (there, back) = ("heliostat-bench/there", "heliostat-bench/back");
    let yielding = cores.0 == cores.1;
    let ready = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        let server = scope.spawn(|| -> Result<(), Failure> {
            let _ = pin(cores.1);
            let end = End::open(back, there);
            ready.wait();
            let end = end?;
            for _ in 0..turns {
                let sample = end.send.loan_uninit()?;
                let mut bytes = end.receive(yielding)?;
                bytes[0] = bytes[0].wrapping_add(1);
                sample.write_payload(bytes).send()?;
            }
            Ok(())
        });
        let _ = pin(cores.0);
        let end = End::open(there, back);
        ready.wait();
        let end = end?;
        let (mut bytes, mut start) = ([0; MESSAGE_BYTES], monotonic_ns());
        let mut sample = end.send.loan_uninit()?;
        for turn in 0..turns {
            if turn == turns / 10 {
                start = monotonic_ns();
            }
            sample.write_payload(bytes).send()?;
            sample = end.send.loan_uninit()?;
            bytes = end.receive(yielding)?;
        }
        let passed = monotonic_ns() - start;
        server.join().map_err(|_| "the server panicked")??;
        Ok(passed as f64 / (turns - turns / 10) as f64)
    })
}
