//! An HTTP server by hyper and an echo server, on tokio: `tokio_server PORT RAW_PORT`.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{copy, split, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{signal, SignalKind};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    let mut ports = std::env::args().skip(1).map(|word| word.parse::<u16>());
    let (Some(pages), Some(raw)) = (ports.next(), ports.next()) else { return Err("two ports".into()) };
    let pages = TcpListener::bind(("127.0.0.1", pages?)).await?;
    let raw = TcpListener::bind(("127.0.0.1", raw?)).await?;
    let mut ending = signal(SignalKind::terminate())?;
    loop {
        tokio::select! {
            accepted = pages.accept() => { tokio::spawn(serve(accepted?.0)); }
            accepted = raw.accept() => { tokio::spawn(echo(accepted?.0)); }
            _ = ending.recv() => return Ok(()),
        }
    }
}

async fn serve(connection: TcpStream) -> Result<(), hyper::Error> {
    let service = hyper::service::service_fn(answer);
    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(connection), service).await
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let content = match request.uri().path() {
        "/large" => Bytes::from("0123456789abcdef".repeat(200_000)),
        "/echo" => request.into_body().collect().await?.to_bytes(),
        _ => Bytes::from_static(b"hello\n"),
    };
    Ok(Response::new(Full::new(content)))
}

/// Sends back what comes, and closes its half when the other end has closed its own.
async fn echo(connection: TcpStream) -> std::io::Result<()> {
    let (mut from, mut to) = split(connection);
    copy(&mut from, &mut to).await?;
    to.shutdown().await
}
