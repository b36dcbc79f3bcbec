// A client of server.js: `client.js PORT RAW_PORT`. Kept connections, in turn and at once.
const crypto = require('crypto');
const fs = require('fs');
const http = require('http');
const net = require('net');
const path = require('path');

const [port, raw] = process.argv.slice(2).map(Number);
const mark = (name) => path.join(process.env.MARKS, name);
const digest = (content) => `${content.length} ${crypto.createHash('sha256').update(content).digest('hex').slice(0, 16)}`;

function ask(agent, url, body = '') {
  return new Promise((resolve, reject) => {
    const request = http.request({ port, agent, path: url, host: '127.0.0.1', method: 'POST' }, (response) => {
      const parts = [];
      response.on('data', (part) => parts.push(part));
      response.on('end', () => resolve(Buffer.concat(parts)));
    });
    request.on('error', reject);
    request.end(body);
  });
}

// Writes everything, closes its half, and reads to the end.
function echo(body) {
  return new Promise((resolve, reject) => {
    const parts = [];
    const socket = net.connect({ port: raw, host: '127.0.0.1', allowHalfOpen: true });
    socket.on('data', (part) => parts.push(part));
    socket.on('end', () => resolve(Buffer.concat(parts)));
    socket.on('error', reject);
    socket.end(body);
  });
}

async function untilLooked() {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  await ask(agent, '/hello');
  const socket = net.connect({ port: raw, host: '127.0.0.1' });
  await new Promise((resolve) => socket.once('connect', resolve));
  socket.write('held');
  await new Promise((resolve) => socket.once('data', resolve));
  fs.writeFileSync(mark('connected'), '');
  while (!fs.existsSync(mark('looked'))) {
    await new Promise((resolve) => setTimeout(resolve, 10));
    await ask(agent, '/hello');
  }
  socket.destroy();
  agent.destroy();
}

async function main() {
  await untilLooked();
  const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
  let sum = 0;
  for (let i = 0; i < 300; i++) sum += (await ask(agent, '/hello')).length;
  console.log('in turn', sum);
  const bodies = Array.from({ length: 40 }, (_, i) => Buffer.alloc(i * 20011, `body ${i}`));
  const echoed = await Promise.all(bodies.map((body) => ask(agent, '/echo', body)));
  console.log('at once', echoed.every((body, i) => body.equals(bodies[i])));
  console.log('large', digest(await ask(agent, '/large')), 'file', digest(await ask(agent, '/file')));
  const halves = await Promise.all(bodies.map(echo));
  console.log('half closed', halves.every((body, i) => body.equals(bodies[i])));
  const read = await Promise.all(bodies.map(() => fs.promises.readFile(__filename)));
  console.log('files', digest(Buffer.concat(read)));
  agent.destroy();
}

main();
