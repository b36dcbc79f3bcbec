// Node: files by promises and by streams, children, workers, watchers.
"use strict";
const { execFileSync, spawnSync } = require("child_process");
const fs = require("fs");
const path = require("path");
const zlib = require("zlib");
const { Worker, isMainThread, parentPort } = require("worker_threads");

async function files() {
  await fs.promises.mkdir("n/a", { recursive: true });
  await Promise.all([...Array(100).keys()].map((i) => fs.promises.writeFile(`n/a/f${i}`, "x".repeat(i))));
  const names = await fs.promises.readdir("n/a");
  const sizes = await Promise.all(names.map(async (name) => (await fs.promises.stat(path.join("n/a", name))).size));
  console.log(names.length, sizes.reduce((a, b) => a + b));
  await new Promise((done) =>
    fs.createReadStream("/usr/bin/env").pipe(zlib.createGzip()).pipe(fs.createWriteStream("n/gz")).on("close", done));
  console.log(zlib.gunzipSync(fs.readFileSync("n/gz")).equals(fs.readFileSync("/usr/bin/env")));
  try { fs.readFileSync("n/none"); } catch (error) { console.log(error.code); }
  fs.symlinkSync("gz", "n/link");
  console.log(fs.realpathSync("n/link").endsWith("n/gz"), fs.existsSync("n/none"));
  fs.rmSync("n", { recursive: true });
}

function children() {
  console.log(execFileSync("tr", ["a-z", "A-Z"], { input: "upper" }).toString());
  console.log(spawnSync("sh", ["-c", "exit 6"]).status, spawnSync("sh", ["-c", "kill -9 $$"]).signal);
}

function workers() {
  return Promise.all([1, 2, 3].map((i) => new Promise((done) => {
    const worker = new Worker(__filename);
    worker.on("message", (answer) => done(answer));
    worker.postMessage(i);
  })));
}

async function main() {
  await files();
  children();
  console.log((await workers()).join());
  process.exit(24);
}

if (isMainThread) main();
else parentPort.once("message", (i) => parentPort.postMessage(i * i));
