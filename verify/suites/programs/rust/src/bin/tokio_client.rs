//! A client by reqwest and by tokio itself: `tokio_client PORT RAW_PORT`.

use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    let ports: Vec<u16> = std::env::args().skip(1).map(|word| word.parse()).collect::<Result<_, _>>()?;
    let [pages, raw] = ports[..] else { return Err("two ports".into()) };
    let client = reqwest::Client::builder().timeout(Duration::from_secs(30)).build()?;
    let address = |path: &str| format!("http://127.0.0.1:{pages}/{path}");
    hold(&client, &address("hello"), raw).await?;

    let mut sum = 0;
    for _ in 0..500 {
        sum += client.get(address("hello")).send().await?.bytes().await?.len();
    }
    println!("in turn {sum}");
    println!("large {}", client.get(address("large")).send().await?.text().await?.len());
    let asked = (0..40u8).map(|number| {
        let (client, address) = (client.clone(), address("echo"));
        tokio::spawn(async move {
            let body = vec![number; usize::from(number) * 20_011];
            let answer = client.post(address).body(body.clone()).send().await?.bytes().await?;
            Ok::<bool, reqwest::Error>(answer == body)
        })
    });
    println!("at once {}", all(asked).await?);
    let echoed = (0..40u8).map(|number| tokio::spawn(echo(raw, vec![number; usize::from(number) * 50_021])));
    println!("half closed {}", all(echoed).await?);
    Ok(())
}

/// Whether every task says yes.
async fn all<E: Into<Failure>>(
    tasks: impl Iterator<Item = tokio::task::JoinHandle<Result<bool, E>>>,
) -> Result<bool, Failure> {
    let tasks: Vec<_> = tasks.collect();
    let mut every = true;
    for task in tasks {
        every &= task.await?.map_err(Into::into)?;
    }
    Ok(every)
}

/// Keeps a connection of each kind open until the case has looked at them.
async fn hold(client: &reqwest::Client, address: &str, raw: u16) -> Result<(), Failure> {
    let marks = PathBuf::from(std::env::var("MARKS")?);
    let mut held = TcpStream::connect(("127.0.0.1", raw)).await?;
    let mut answer = [0; 4];
    client.get(address).send().await?.bytes().await?;
    held.write_all(b"held").await?;
    held.read_exact(&mut answer).await?;
    std::fs::write(marks.join("connected"), "")?;
    while !marks.join("looked").exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
        client.get(address).send().await?.bytes().await?;
    }
    Ok(())
}

/// Writes everything and closes its half while the answer is read to its end.
async fn echo(port: u16, body: Vec<u8>) -> Result<bool, std::io::Error> {
    let (mut from, mut to) = TcpStream::connect(("127.0.0.1", port)).await?.into_split();
    let wanted = body.clone();
    let writer = tokio::spawn(async move {
        to.write_all(&body).await?;
        to.shutdown().await
    });
    let mut answer = Vec::new();
    from.read_to_end(&mut answer).await?;
    writer.await??;
    Ok(answer == wanted)
}
