#!/bin/sh
# varnishd, which Debian links to libjemalloc.so.2 itself: in front of a small server, with objects that come, are purged and expire.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/real/aid"
needs varnishd varnishadm

cat >origin.py <<'PY'
# The server behind: /SIZE/NAME answers SIZE bytes that follow from the name; counts what it was asked in the file "asked".
import hashlib, http.server, sys
def body(path):
    size = int(path.split("/")[1]); seed = hashlib.sha256(path.encode()).digest()
    return (seed * (size // 32 + 1))[:size]
class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        data = body(self.path)
        self.send_response(200); self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "max-age=600"); self.end_headers(); self.wfile.write(data)
        with open("asked", "a") as log: print(self.path, file=log)
    def log_message(self, *args): pass
if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    with open("origin.port", "w") as port: print(server.server_port, file=port)
    server.serve_forever()
PY
cat >client.py <<'PY'
# client.py PORT ROUND COUNT: 600 objects asked COUNT times by eight threads; each answer is compared with what it must be
import concurrent.futures, http.client, sys
from origin import body
port, turn, count = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
def ask(k):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    for i in range(count // 8):
        n = (i * 8 + k) * 37 % 600
        path = "/%d/%s-%d" % (n * n % 40000 + 1, turn, n)
        c.request("GET", path, headers={"Host": "origin"}); r = c.getresponse(); got = r.read()
        assert r.status == 200 and got == body(path), (r.status, path, len(got))
    c.close(); return count // 8
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    print(sum(pool.map(ask, range(8))), "right")
PY
$PYTHON origin.py >origin.out 2>&1 </dev/null &
started="$started $!"
until_true [ -s origin.port ]
printf 'vcl 4.1;\nbackend default { .host = "127.0.0.1"; .port = "%s"; .first_byte_timeout = 300s; .connect_timeout = 300s; }\n' \
    "$(cat origin.port)" >front.vcl
port=$(free_port)

# Without the jail that only root can use, so that everybody runs the same.
launch varnish varnishd -F -j none -n "$W/varnish" -a 127.0.0.1:"$port" -f "$W/front.vcl" -s default,32m -p thread_pools=2 \
    -p thread_pool_min=10 -p cli_timeout=600 -p idle_send_timeout=300
mother=$pid
answers() {
	$PYTHON client.py "$port" warm 8
}
served_by $mother answers
ok $? "the cache answers" "$(cat varnish.err varnish.out origin.out)"
is_child_there() {
	child=$(cat "/proc/$mother/task/$mother/children") && child=${child%% *} && [ -n "$child" ]
}
until_true is_child_there
on_library $mother "the manager"
on_library "$child" "the cache process"
load() {
	$PYTHON client.py "$port" load 800
}
while_busy load
profile_begins "$child" varnish
at_ease
is "$($PYTHON client.py "$port" a 4000 2>&1)" "4000 right" "4000 answers, each the right one"
is "$(grep -c '/a-' asked)" 600 "the server behind was asked once for each object"
while_busy load
profile_goes_on "$child" varnish
at_ease
varnishadm -t 300 -n "$W/varnish" ban 'req.url ~ /a-' >adm.out 2>&1
ok $? "objects are banned" "$(cat adm.out)"
is "$($PYTHON client.py "$port" a 2000 2>&1)" "2000 right" "2000 answers after the ban"
is "$(grep -c '/a-' asked)" 1200 "for which the server behind was asked anew"
# 32 MB hold no more than some of these: old objects go.
for turn in b c; do
	is "$($PYTHON client.py "$port" $turn 2000 2>&1)" "2000 right" "2000 more answers ($turn)"
done
varnishadm -t 300 -n "$W/varnish" vcl.load again "$W/front.vcl" >adm.out 2>&1 && varnishadm -t 300 -n "$W/varnish" vcl.use again >>adm.out 2>&1
ok $? "another configuration is loaded while it runs" "$(cat adm.out)"
is "$($PYTHON client.py "$port" f 800 2>&1)" "800 right" "and answers"
while_busy load
profile_ends "$child" varnish
at_ease
is "$(cat "/proc/$mother/task/$mother/children" | tr -d ' ')" "$child" "the cache process is still the first one"
stops $mother TERM 0 varnish
done_testing
