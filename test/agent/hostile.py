# A hostile client of jeprofd: usage: hostile.py HOST PORT PID AGENT. Prints TAP; every check is that others are served. AGENT: the pid
# of jeprofd, whose descriptors are counted.
import os, resource, socket, sys, threading, time, random, http.client

host, port, pid, agent = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
tests = 0
failed = False


def ok(good, name, remark=""):
    global tests, failed
    tests += 1
    failed = failed or not good
    print("%sok %d - %s %s" % ("" if good else "not ", tests, name, "" if good else remark))


def connect():
    s = socket.create_connection((host, port), 60)
    s.settimeout(2)
    return s


def raw(data, shut=True, patience=2):
    s = connect()
    s.settimeout(patience)
    try:
        s.sendall(data)
        if shut:
            s.shutdown(socket.SHUT_WR)
        answer = b""
        while True:
            piece = s.recv(65536)
            if not piece:
                return answer
            answer += piece
    except OSError:
        return b""
    finally:
        s.close()


def serves(name):
    for attempt in range(20):
        try:
            c = http.client.HTTPConnection(host, port, timeout=20)
            c.request("GET", "/targets")
            good = c.getresponse().status == 200
            c.close()
            if good:
                return ok(True, name)
        except (OSError, http.client.HTTPException):
            time.sleep(0.1)
    ok(False, name)


def status(answer):
    return answer[9:12].decode("latin-1") if answer.startswith(b"HTTP/1.1 ") else ""


# half requests
for data in (b"", b"G", b"GET", b"GET /targets", b"GET /targets HTTP/1.1", b"GET /targets HTTP/1.1\r\n",
             b"GET /targets HTTP/1.1\r\nHost: x\r\nX", b"POST /p/1/start HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nabc"):
    raw(data)
serves("half requests")

# headers
answer = raw(b"GET /targets HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(10000)) + b"\r\n")
ok(status(answer) in ("", "413", "431"), "10 000 headers", status(answer))
answer = raw(b"GET /targets HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 1000000 + b"\r\n\r\n")
ok(status(answer) in ("", "413", "431"), "a header of 1 MB", status(answer))
answer = raw(b"GET /" + b"a" * 1000000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
ok(status(answer) in ("", "414"), "a path of 1 MB", status(answer))
answer = raw(b"GET /targets?" + b"a=b&" * 3000 + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
ok(status(answer) in ("", "200", "414", "431", "413"), "3000 arguments", status(answer))
answer = raw(b"GET /targets HTTP/1.1\r\nConnection: close\r\n\r\n", patience=60)
ok(status(answer) in ("400", "403"), "no Host", status(answer))
answer = raw(b"POST /p/1/start HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999\r\n\r\n" + b"z" * 200000)
ok(status(answer) in ("", "413", "400", "403"), "a body that has no end", status(answer))
answer = raw(b"POST /p/1/start HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n" + b"z" * 100)
ok(status(answer) in ("", "400", "413", "403"), "a chunk that has no end", status(answer))
serves("after them")

# no request at all
random.seed(15)
for i in range(300):
    raw(bytes(random.randrange(256) for _ in range(random.randrange(200))), True, 0.02)
for i in range(300):
    line = bytearray(b"GET /p/%s/debug/pprof/heap?raw=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % pid.encode())
    for _ in range(3):
        line[random.randrange(len(line))] = random.randrange(256)
    raw(bytes(line), True, 0.02)
serves("random bytes")

# 10 000 that begin a request and do not end it, as many at the same time as this process may have; others ask meanwhile
MANY = 10000
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
most = MANY + 100 if hard == resource.RLIM_INFINITY else min(MANY + 100, hard)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
held, opened, fds, asked, slowest, missed, is_over = [], 0, 0, 0, 0, 0, False


def ask():
    global asked, slowest, missed
    while not is_over:
        since = time.monotonic()
        answer = raw(b"GET /p/%s/debug/pprof/heap?raw=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % pid.encode(), False, 60)
        if status(answer) == "200":
            asked += 1
            slowest = max(slowest, time.monotonic() - since)
        else:
            missed += 1


def descriptors():
    """How many jeprofd has; 1 where only root sees them: it gives up its rights, and so hides them from its own user."""
    try:
        return len(os.listdir("/proc/%s/fd" % agent))
    except PermissionError:
        return 1


others = threading.Thread(target=ask, daemon=True)
others.start()
while opened < MANY:
    try:
        held.append(connect())
        held[-1].sendall(b"GET /targets HTTP/1.1\r\nHost: local")
    except OSError:
        pass  # it was ended already
    opened += 1
    if len(held) >= most - 60:
        held.pop(random.randrange(len(held))).close()
    if opened % 500 == 0:
        fds = max(fds, descriptors())
serves("%d connections, %d of them at the same time" % (opened, len(held)))
is_over = True
others.join()
print("# meanwhile %d profiles of another client, the slowest in %.2f s, and %d that were broken off; at most %d descriptors" % (asked, slowest, missed, fds))
ok(asked > 0, "profiles come meanwhile", "%d, %.2f s" % (asked, slowest))
ok(0 < fds < 500, "the descriptors of jeprofd are bounded", str(fds))
for s in held:
    s.close()

# answers that nobody reads
held = []
for i in range(100):
    s = connect()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    s.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 10)
    held.append(s)
serves("answers that nobody reads")
for s in held:
    s.close()

# so many of them that each place is taken by one that reads nothing of a large answer
held = []
for i in range(330):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    s.settimeout(2)
    try:
        s.connect((host, port))
        s.sendall(b"GET /p/%s/ HTTP/1.1\r\nHost: localhost\r\n\r\n" % pid.encode() * 100)
    except OSError:
        pass
    held.append(s)
    time.sleep(0.02)
serves("%d connections that ask and read nothing" % len(held))
for s in held:
    s.close()

# more profiles than there is room for
held = []
for i in range(60):
    s = connect()
    s.sendall(b"GET /p/%s/debug/pprof/heap?seconds=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % pid.encode())
    held.append(s)
serves("60 profiles at once")
codes = []
for s in held:
    s.settimeout(120)
    try:
        codes.append(s.recv(64)[9:12].decode("latin-1"))
    except OSError:
        codes.append("gone")
    s.close()
ok(codes.count("200") >= 1 and set(codes) <= {"200", "503"}, "some are served, the rest is told so", " ".join(codes))

# clients that go before the answer is there
for i in range(30):
    s = connect()
    s.sendall(b"GET /p/%s/debug/pprof/heap HTTP/1.1\r\nHost: localhost\r\n\r\n" % pid.encode())
    s.close()
serves("clients that go away")
print("1..%d" % tests)
sys.exit(failed)
