# A receiver of OTLP over HTTP for the tests: answers by a plan, stores what it gets.
# usage: receiver.py DIR CODE[:RETRY-AFTER]...   answers in this order, the last one for ever; "slow" does not answer;
#        "partial" is 200 with one rejected profile. DIR/port has its port, DIR/log a line per request, DIR/N.gz the bodies.
#        It speaks TLS if DIR/server.pem is there, a certificate and its key.
import http.server
import os
import ssl
import sys
import threading
import time

folder, plan = sys.argv[1], sys.argv[2:]
count = 0


class Receiver(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        global count
        body = self.rfile.read(int(self.headers["Content-Length"]))
        word, _, wait = plan[min(count, len(plan) - 1)].partition(":")
        count += 1
        with open(f"{folder}/{count}.gz", "wb") as f:
            f.write(body)
        with open(f"{folder}/log", "a") as f:
            f.write(f"{count} {self.path} {self.headers['Content-Type']} {self.headers['Content-Encoding']} {self.headers.get('X-Tenant', '-')} {word} {time.monotonic():.2f}\n")
        if word == "slow":
            threading.Event().wait()
        answer = b"\x0a\x02\x08\x01" if word == "partial" else b""
        self.send_response(200 if word == "partial" else int(word))
        if wait:
            self.send_header("Retry-After", wait)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
if os.path.exists(f"{folder}/server.pem"):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{folder}/server.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
with open(f"{folder}/port.new", "w") as f:
    f.write(str(server.server_address[1]))
os.rename(f"{folder}/port.new", f"{folder}/port")
server.serve_forever()
