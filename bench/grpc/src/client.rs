//! The clients: one call after the other, many at once, or one that stays.

use std::error::Error;
use std::time::{Duration, Instant};

use http::uri::PathAndQuery;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::Request;
use tonic_prost::ProstCodec;

use crate::service::{Payload, PATH, WINDOW_BYTES};

type Outcome = Result<(), Box<dyn Error>>;
/// Calls of one sample at most: what it costs to look at the clock is not counted in each.
const SAMPLE_MAX: usize = 256;
const SAMPLE_BYTES: usize = 64 << 10;

/// etcd's `PutRequest` and what we look at of its answer.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Put {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Done {}

/// A request, and where it goes.
#[derive(Clone)]
pub struct What<M> {
    path: &'static str,
    message: M,
}

pub fn echo(bytes: usize) -> What<Payload> {
    What { path: PATH, message: Payload { body: vec![1; bytes] } }
}

pub fn put(bytes: usize) -> What<Put> {
    What {
        path: "/etcdserverpb.KV/Put",
        message: Put { key: b"bench".to_vec(), value: vec![1; bytes] },
    }
}

async fn connect(port: &str) -> Result<Grpc<Channel>, Box<dyn Error>> {
    let endpoint = Endpoint::try_from(format!("http://127.0.0.1:{port}"))?.tcp_nodelay(true);
    let windows = endpoint
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES);
    Ok(Grpc::new(windows.connect().await?))
}

async fn ask<M>(grpc: &mut Grpc<Channel>, what: &What<M>) -> Outcome
where
    M: prost::Message + Clone + Sync + 'static,
{
    grpc.ready().await?;
    let path = PathAndQuery::from_static(what.path);
    // Of a reply's fields we read none: that is what `Done` says of both services.
    let codec = ProstCodec::<M, Done>::default();
    grpc.unary(Request::new(what.message.clone()), path, codec).await?;
    Ok(())
}

/// The median time of a call, in nanoseconds, over samples of several.
pub async fn one_by_one(port: &str, bytes: usize, seconds: f64) -> Outcome {
    let (mut grpc, what) = (connect(port).await?, echo(bytes));
    let each = (SAMPLE_BYTES / bytes.max(1)).clamp(1, SAMPLE_MAX);
    let (limit, mut samples) = (Duration::from_secs_f64(seconds), Vec::new());
    let began = Instant::now();
    while began.elapsed() < limit || samples.len() < 2 {
        let sent = Instant::now();
        for _ in 0..each {
            ask(&mut grpc, &what).await?;
        }
        samples.push(sent.elapsed().as_nanos() as f64 / each as f64);
    }
    // What is called for the first time takes longer.
    samples.remove(0);
    samples.sort_by(f64::total_cmp);
    println!("{{\"ns\": {:.1}}}", samples[samples.len() / 2]);
    Ok(())
}

/// Calls a second, each of `depth` tasks with one on its way, by one connection.
pub async fn at_once<M>(port: &str, what: What<M>, depth: usize, seconds: f64) -> Outcome
where
    M: prost::Message + Clone + Sync + 'static,
{
    let grpc = connect(port).await?;
    let (began, limit) = (Instant::now(), Duration::from_secs_f64(seconds));
    let tasks = (0..depth).map(|_| {
        let (mut grpc, what) = (grpc.clone(), what.clone());
        tokio::spawn(async move {
            let mut done = 0_u64;
            while began.elapsed() < limit {
                ask(&mut grpc, &what).await.map_err(|error| error.to_string())?;
                done += 1;
            }
            Ok::<u64, String>(done)
        })
    });
    let mut done = 0;
    for task in tasks.collect::<Vec<_>>() {
        done += task.await??;
    }
    println!("{{\"rate\": {:.1}}}", done as f64 / began.elapsed().as_secs_f64());
    Ok(())
}

/// Calls so many times, says so, and is there until it is killed.
pub async fn stay(port: &str, calls: usize) -> Outcome {
    let (mut grpc, what) = (connect(port).await?, echo(8));
    for _ in 0..calls {
        ask(&mut grpc, &what).await?;
    }
    println!("ready");
    std::future::pending().await
}
