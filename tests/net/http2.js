// SPDX-License-Identifier: Apache-2.0
// http2.js RIG ADDRESS...: a server that speaks HTTP/2, and HTTP/1.1 to who does not. Says "serving".
'use strict';
const fs = require('fs');
const http2 = require('http2');

const [rig, ...addresses] = process.argv.slice(2);
const options = {
	allowHTTP1: true,
	ecdhCurve: 'P-384', // which clients offer and do not begin with: so each is asked for another hello
	key: fs.readFileSync(rig + '/server.key'),
	cert: fs.readFileSync(rig + '/server.pem'),
};
let left = addresses.length;

function answer(request, response) {
	const at = request.socket.localAddress;
	const host = request.headers[':authority'] || request.headers.host;

	fs.appendFileSync(rig + '/log/internet', JSON.stringify({
		what: 'http', method: request.method, path: request.url, host, tls: true, at, version: request.httpVersion,
	}) + '\n');
	response.setHeader('content-type', 'text/plain');
	response.end(`hello from ${host} by HTTP/${request.httpVersion}\n`);
}

for (const address of addresses) {
	http2.createSecureServer(options, answer).listen(443, address, () => {
		if (--left === 0)
			console.log('serving');
	});
}
