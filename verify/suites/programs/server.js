// An HTTP server and an echo server in one process: `server.js PORT RAW_PORT`.
// The page /file is read from the disk for each request, so that the file system is in use too.
const fs = require('fs');
const http = require('http');
const net = require('net');

const [port, raw] = process.argv.slice(2).map(Number);
const large = Buffer.alloc(3 << 20, '0123456789abcdef');

const pages = http.createServer((request, response) => {
  if (request.url === '/file') return fs.createReadStream(__filename).pipe(response);
  if (request.url === '/echo') return request.pipe(response);
  response.end(request.url === '/large' ? large : 'hello\n');
});
const echo = net.createServer({ allowHalfOpen: true }, (socket) => socket.pipe(socket));

pages.listen(port, '127.0.0.1', () => echo.listen(raw, '127.0.0.1'));
process.on('SIGTERM', () => process.exit(0));
