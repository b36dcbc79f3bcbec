//! One end of a connection: `rust-programs echo-server|echo-client|http-server|http-client PORT`.
//!
//! Servers end when their last client has ended; what an end prints depends on nothing but its
//! arguments. With a third one, the path of a mark, it makes the file `MARK-ROLE` when it is done
//! and stays until the mark is there.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Reply = Response<Full<Bytes>>;

const CLIENTS: usize = 20;
const TURNS: usize = 200;
const MESSAGE: usize = 1000;
/// More than a stream holds, so that writers have to wait for room.
const LARGE: usize = 3 << 20;

fn pattern(count: usize, seed: usize) -> Vec<u8> {
    (0..count).map(|at| (at * 31 + seed * 17 + at / 251) as u8).collect()
}

async fn echo(mut stream: TcpStream) -> Result<usize, Failure> {
    let (mut part, mut total) = (vec![0; 65536], 0);
    loop {
        let count = stream.read(&mut part).await?;
        if count == 0 {
            return Ok(total);
        }
        stream.write_all(&part[..count]).await?;
        total += count;
    }
}

async fn echo_server(at: SocketAddr) -> Result<(), Failure> {
    let listener = TcpListener::bind(at).await?;
    let mut tasks = JoinSet::new();
    for _ in 0..CLIENTS {
        tasks.spawn(echo(listener.accept().await?.0));
    }
    let mut total = 0;
    while let Some(count) = tasks.join_next().await {
        total += count??;
    }
    println!("echoed {total} bytes of {CLIENTS} clients");
    Ok(())
}

/// Short messages one by one, then a large one that both directions carry at once.
async fn converse(at: SocketAddr, number: usize) -> Result<bool, Failure> {
    let mut stream = TcpStream::connect(at).await?;
    let mut back = vec![0; MESSAGE];
    for turn in 0..TURNS {
        let message = pattern(MESSAGE, number * TURNS + turn);
        stream.write_all(&message).await?;
        stream.read_exact(&mut back).await?;
        if back != message {
            return Ok(false);
        }
    }
    let large = pattern(LARGE, number);
    let (mut reader, mut writer) = stream.into_split();
    let sent = large.clone();
    let writing = tokio::spawn(async move {
        writer.write_all(&sent).await?;
        writer.shutdown().await
    });
    let mut back = Vec::new();
    reader.read_to_end(&mut back).await?;
    writing.await??;
    Ok(back == large)
}

async fn echo_client(at: SocketAddr) -> Result<(), Failure> {
    let mut tasks: JoinSet<_> = (0..CLIENTS).map(|number| converse(at, number)).collect();
    let mut right = 0;
    while let Some(answer) = tasks.join_next().await {
        right += usize::from(answer??);
    }
    println!("{right} of {CLIENTS} clients got back what they sent");
    Ok(())
}

/// Gives back the path and the body that it was given; `answered` counts.
async fn answer(request: Request<Incoming>, answered: Arc<Semaphore>) -> Result<Reply, hyper::Error> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await?.to_bytes();
    answered.add_permits(1);
    Ok(Response::new(Full::new(Bytes::from([path.as_bytes(), &body[..]].concat()))))
}

/// Serves until every request is answered and every connection has ended: a client may open more
/// connections than it uses.
async fn http_server(at: SocketAddr) -> Result<(), Failure> {
    let listener = TcpListener::bind(at).await?;
    let answered = Arc::new(Semaphore::new(0));
    let all = u32::try_from(CLIENTS * TURNS)?;
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, answered) = (TokioIo::new(accepted?.0), answered.clone());
                let service = hyper::service::service_fn(move |it| answer(it, answered.clone()));
                let builder = hyper::server::conn::http1::Builder::new();
                tasks.spawn(builder.serve_connection(stream, service));
            }
            done = answered.acquire_many(all) => break done?.forget(),
        }
    }
    while tasks.join_next().await.is_some() {}
    println!("answered {all} requests");
    Ok(())
}

/// One connection, kept alive over its requests.
async fn ask(at: SocketAddr, number: usize) -> Result<usize, Failure> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let mut right = 0;
    for turn in 0..TURNS {
        let body = pattern(if turn % 50 == 0 { LARGE / 4 } else { MESSAGE }, turn);
        let path = format!("/{number}/{turn}");
        let asked = client.post(format!("http://{at}{path}")).body(body.clone());
        let answer = asked.send().await?.bytes().await?;
        right += usize::from(answer[..] == [path.as_bytes(), &body].concat());
    }
    Ok(right)
}

async fn http_client(at: SocketAddr) -> Result<(), Failure> {
    let mut tasks: JoinSet<_> = (0..CLIENTS).map(|number| ask(at, number)).collect();
    let mut right = 0;
    while let Some(answer) = tasks.join_next().await {
        right += answer??;
    }
    println!("{right} right answers");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().collect();
    let at = SocketAddr::from(([127, 0, 0, 1], words[2].parse()?));
    match words[1].as_str() {
        "echo-server" => echo_server(at).await?,
        "echo-client" => echo_client(at).await?,
        "http-server" => http_server(at).await?,
        "http-client" => http_client(at).await?,
        other => return Err(format!("no such role: {other}").into()),
    }
    if let Some(mark) = words.get(3) {
        std::fs::write(format!("{mark}-{}", words[1]), "")?;
        while !std::path::Path::new(mark).exists() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
    Ok(())
}
