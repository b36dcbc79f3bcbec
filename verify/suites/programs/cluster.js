// Two workers to which the first process hands accepted connections: `cluster.js PORT`.
const cluster = require('cluster');
const http = require('http');

const large = Buffer.alloc(3 << 20, '0123456789abcdef');

if (cluster.isPrimary) {
  const workers = [cluster.fork(), cluster.fork()];
  process.on('SIGTERM', () => {
    for (const worker of workers) worker.process.kill('SIGKILL');
    process.exit(0);
  });
} else {
  const server = http.createServer((request, response) => response.end(request.url === '/large' ? large : 'hello\n'));
  server.listen(Number(process.argv[2]), '127.0.0.1');
}
