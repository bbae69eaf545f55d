#!/bin/sh
# node: a server whose worker threads compress, hash and parse; the same answers as without the library.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/real/aid"
needs node

cat >work.js <<'JS'
// One piece of work: buffers of many sizes, compressed and back, JSON, strings, maps. Gives a digest of all of it.
const zlib = require('zlib'), crypto = require('crypto');
module.exports = function work(n) {
	const hash = crypto.createHash('sha256'), kept = new Map();
	for (let i = 0; i < 150; i++) {
		const size = (i * 7919 + n * 104729) % 60000 + 1, raw = Buffer.alloc(size, `piece ${i * n} `);
		const small = zlib.deflateSync(raw, { level: 1 + i % 6 });
		if (!zlib.inflateSync(small).equals(raw)) throw new Error(`piece ${i} is not what it was`);
		kept.set(`${n}/${i}`, Buffer.concat([small, raw.subarray(0, size >> 3)]));
		hash.update(small);
	}
	const text = JSON.stringify([...kept].map(([k, b]) => ({ k, b: b.toString('base64') })));
	for (const o of JSON.parse(text)) if (!kept.get(o.k).equals(Buffer.from(o.b, 'base64'))) throw new Error(o.k);
	return hash.update(text.replace(/[A-M]/g, 'x')).update(text.split('').reverse().join('')).digest('hex');
};
JS
cat >worker.js <<'JS'
const { parentPort } = require('worker_threads'), work = require('./work.js');
parentPort.on('message', ({ id, n }) => parentPort.postMessage({ id, answer: work(n) }));
JS
cat >serve.js <<'JS'
const http = require('http'), { Worker } = require('worker_threads'), work = require('./work.js');
const workers = [], waiting = new Map();
let next = 0;
function employ() {
	const w = new Worker('./worker.js');
	w.on('message', ({ id, answer }) => { waiting.get(id)(answer); waiting.delete(id); });
	w.on('error', (e) => { console.error(e); process.exit(3); });
	return w;
}
for (let i = 0; i < 3; i++) workers.push(employ());
const server = http.createServer((request, response) => {
	const [, what, n] = request.url.split('/');
	if (what === 'here') return response.end(work(Number(n)));
	if (what === 'ready') return response.end('ready');
	const id = next++;
	waiting.set(id, (answer) => response.end(answer));
	workers[id % workers.length].postMessage({ id, n: Number(n) });
	// Threads come and go: every tenth request its worker, when it has nothing to do any more, is replaced.
	if (id % 10 === 9 && waiting.size === 1) {
		const old = workers[id % workers.length], done = waiting.get(id);
		workers[id % workers.length] = employ();
		waiting.set(id, (answer) => { done(answer); old.terminate(); });
	}
});
server.listen(process.argv[2]);
process.on('SIGTERM', async () => {
	server.close();
	server.closeIdleConnections();
	await Promise.all(workers.map((w) => w.terminate()));
});
JS
cat >client.py <<'PY'
# client.py SOCKET COUNT: asks that many times, four at once, in order of the numbers
import http.client, socket, sys, concurrent.futures
class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX); self.sock.settimeout(300); self.sock.connect(sys.argv[1])
def ask(path):
    c = Unix("localhost"); c.request("GET", path); r = c.getresponse(); body = r.read().decode(); c.close()
    assert r.status == 200, r.status
    return path.split("/")[2] + " " + body
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    count = int(sys.argv[2])
    paths = ["/%s/%d" % ("here" if i % 8 == 7 else "work", i % 20) for i in range(count)] or ["/ready/0"]
    print("\n".join(sorted(set(pool.map(ask, paths)))))
PY
ask() {
	$PYTHON client.py "$W/node.sock" "$1"
}

node serve.js "$W/node.sock" >plain.out 2>&1 </dev/null &
pid=$!
started="$started $pid"
served_by $pid ask 0
ok $? "a server without the library, to compare with" "$(cat plain.out)"
ask 20 >want 2>&1
kill $pid
wait $pid
rm -f node.sock

launch node node serve.js "$W/node.sock"
served_by $pid ask 0
ok $? "the server answers" "$(cat node.err)"
on_library $pid node
profile_begins $pid node
ask 40 >got 2>&1
ok "$(cmp -s want got; echo $?)" "forty answers are those without the library" "$(diff want got | head -n 10)"
profile_goes_on $pid node
ask 40 >got 2>&1
ok "$(cmp -s want got; echo $?)" "and forty more" "$(diff want got | head -n 10)"
profile_ends $pid node
stops $pid TERM 0 node
done_testing
