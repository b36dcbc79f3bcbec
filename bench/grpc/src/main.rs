//! Calls by gRPC on this machine's loopback, and puts to etcd, as `bench/suite/cluster.py` compares them with ours.
//!
//! ```text
//! serve PORT                         a service that answers with 8 bytes
//! call PORT BYTES SECONDS            calls of it, one after the other
//! calls PORT BYTES DEPTH SECONDS     the same, so many on the way; calls a second
//! stay PORT CALLS                    so many calls, and then nothing
//! put PORT BYTES DEPTH SECONDS       puts to etcd, so many on the way; puts a second
//! ```
//! Each prints one line of JSON. One thread each, which is what answers soonest on two cores, and windows of HTTP/2
//! into which a request of 1 MiB fits. Messages are written by hand: no compiler of protocols is needed.
#![forbid(unsafe_code)]

mod client;
mod service;

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match *words.as_slice() {
            ["serve", port] => Ok(service::serve(port.parse()?).await?),
            ["call", port, bytes, seconds] => {
                client::one_by_one(port, bytes.parse()?, seconds.parse()?).await
            }
            ["calls", port, bytes, depth, seconds] => {
                client::at_once(
                    port,
                    client::echo(bytes.parse()?),
                    depth.parse()?,
                    seconds.parse()?,
                )
                .await
            }
            ["stay", port, calls] => client::stay(port, calls.parse()?).await,
            ["put", port, bytes, depth, seconds] => {
                client::at_once(port, client::put(bytes.parse()?), depth.parse()?, seconds.parse()?)
                    .await
            }
            _ => Err("what is measured? see the head of bench/grpc/src/main.rs".into()),
        }
    })
}
