//! Text and image search by workers that have no kernel of their own, after what Solros was evaluated by.
//!
//! A worker indexes its share of a corpus, or answers queries, with files and connections that come by the
//! lean interface; the same by messages (`relay`) and by its own kernel, to compare. Prints one line of
//! `name value` for each figure.

mod client;
mod corpus;
mod directory;
mod files;
mod image;
mod lean;
mod messages;
mod queries;
mod relay;
mod sockets;
mod text;

use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::{Parser, Subcommand, ValueEnum};

use client::Kind;
use files::relayed::{Relay, Relayed, Staging};
use files::{Files, plain::Plain};
use lean::files::LeanFiles;
use lean::sockets::LeanSockets;
use queries::Connections;

/// Where a worker's files and connections come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Way {
    /// The lean interface, as `heliostat coprocessor run` gives it.
    Lean,
    /// Blocks by messages, and a cache of the worker's own.
    Blocks,
    /// Whole files by messages, read ahead by the host.
    Staged,
    /// The worker's own kernel.
    Plain,
}

#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Write a corpus: texts, and features of images.
    Generate {
        into: PathBuf,
        #[arg(long, default_value_t = 20_000)]
        texts: usize,
        #[arg(long, default_value_t = 500)]
        words: usize,
        #[arg(long, default_value_t = 20_000)]
        images: usize,
    },
    /// Index a worker's share of the texts.
    Index(Worker),
    /// Answer queries of a worker's index.
    SearchText(Worker),
    /// Answer queries of the images.
    SearchImages(Worker),
    /// Serve workers by messages.
    Relay {
        at: PathBuf,
        root: PathBuf,
        #[arg(long)]
        listen: Option<String>,
    },
    /// Ask by many connections at once.
    Ask {
        address: String,
        #[arg(long, value_enum)]
        kind: Kind,
        #[arg(long, default_value_t = 8)]
        clients: usize,
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
    },
}

#[derive(clap::Args)]
struct Worker {
    #[arg(long, value_enum)]
    way: Way,
    /// The corpus; by messages, the relay's socket.
    #[arg(long)]
    at: Option<PathBuf>,
    /// Which worker this is (by the lean interface it is told).
    #[arg(long, default_value_t = 0)]
    worker: usize,
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// Where queries come in.
    #[arg(long)]
    listen: Option<String>,
}

fn main() -> io::Result<()> {
    match Arguments::parse().what {
        What::Generate { into, texts, words, images } => generate(&into, texts, words, images),
        What::Index(worker) => worker.index(),
        What::SearchText(worker) => worker.search_text(),
        What::SearchImages(worker) => worker.search_images(),
        What::Relay { at, root, listen } => {
            relay::serve(&at, &root, listen.map(TcpListener::bind).transpose()?)
        }
        What::Ask { address, kind, clients, seconds } => ask(&address, kind, clients, seconds),
    }
}

fn generate(into: &std::path::Path, texts: usize, words: usize, images: usize) -> io::Result<()> {
    corpus::write_texts(&into.join("texts"), texts, words, 1)?;
    std::fs::write(into.join("features"), corpus::to_bytes(&corpus::features(images, 100)))
}

fn ask(address: &str, kind: Kind, clients: usize, seconds: f64) -> io::Result<()> {
    let seen = client::ask(address, kind, clients, seconds)?;
    let at = |share: f64| {
        let last = seen.latencies.len().saturating_sub(1);
        seen.latencies
            .get((last as f64 * share) as usize)
            .map_or(0.0, |one| one.as_secs_f64() * 1e6)
    };
    println!(
        "answers {}\nfound {}\nrate {:.1}",
        seen.answers,
        seen.found,
        seen.answers as f64 / seconds
    );
    println!("p50_us {:.1}\np99_us {:.1}", at(0.5), at(0.99));
    Ok(())
}

impl Worker {
    /// The worker's files, and which of how many workers it is.
    fn files(&self) -> io::Result<(Arc<dyn Files>, usize, usize)> {
        let at = || {
            self.at
                .clone()
                .ok_or_else(|| io::Error::other("--at says where the corpus, or its relay, is"))
        };
        let files: Arc<dyn Files> = match self.way {
            Way::Lean => {
                let memory = lean::attach()?;
                let files = LeanFiles::new(&at()?.to_string_lossy())?;
                return Ok((Arc::new(files), memory.worker, memory.workers));
            }
            Way::Plain => Arc::new(Plain::new(at()?)),
            Way::Blocks => Arc::new(Relayed::new(Relay::connect(&at()?)?, Staging::Blocks)),
            Way::Staged => Arc::new(Relayed::new(Relay::connect(&at()?)?, Staging::Whole)),
        };
        Ok((files, self.worker, self.workers))
    }

    fn connections(&self) -> io::Result<Box<dyn Connections>> {
        let listen = || {
            self.listen
                .clone()
                .ok_or_else(|| io::Error::other("--listen says where queries come in"))
        };
        match self.way {
            Way::Lean => Ok(Box::new(LeanSockets::listen(&listen()?)?)),
            Way::Blocks | Way::Staged => {
                Ok(Box::new(Relay::connect(self.at.as_ref().ok_or(io::ErrorKind::InvalidInput)?)?))
            }
            Way::Plain => Ok(Box::new(sockets::Sockets::new(TcpListener::bind(listen()?)?)?)),
        }
    }

    fn index(&self) -> io::Result<()> {
        let (files, worker, workers) = self.files()?;
        let started = Instant::now();
        let done = text::index(&files, "texts", &format!("index{worker}"), (worker, workers))?;
        println!(
            "files {}\nbytes {}\nseconds {:.4}",
            done.files,
            done.bytes,
            started.elapsed().as_secs_f64()
        );
        Ok(())
    }

    fn search_text(&self) -> io::Result<()> {
        let (files, worker, _) = self.files()?;
        let searched = text::Searched::open(&files, &format!("index{worker}"))?;
        println!("ready");
        queries::serve(&mut *self.connections()?, &|query| searched.answer(query))
    }

    fn search_images(&self) -> io::Result<()> {
        let (files, ..) = self.files()?;
        let searched = image::Searched::open(&files, "features")?;
        println!("ready");
        queries::serve(&mut *self.connections()?, &|query| searched.answer(query))
    }
}
