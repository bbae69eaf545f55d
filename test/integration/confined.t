#!/bin/sh
# Real programs that confine themselves, on the library: chronyd with its filter, a login through sshd, whose child before the login
# has one; and a program with the narrowest filter that is asked for its status. A call that a filter forbids ends them by SIGSYS.
. "$JEMALLOC_SRC/test/include/tap.sh"

PATH=$PATH:/usr/sbin:/sbin
CTL=$BUILD/bin/jeprofctl
started=
trap 'for c in $started; do kill -9 "$c" 2>/dev/null; done; cd /; rm -rf "$W"' EXIT
[ "$(preloaded /bin/true 2>&1)" = "" ] || skip_all "the library cannot be preloaded here"

# filtered PID: it has a filter
filtered() {
	grep -q '^Seccomp:[[:space:]]*2' "/proc/$1/status"
}

# ---- chronyd ----

# chronyd answers and has put on its filter, which it does later; or it has ended
is_up() {
	test ! -d "/proc/$launched" || { test -S chrony/sock && server=$(cat chrony/pid) && filtered "$server"; }
}

# chronyd_runs CONF: it is given servers, whose names, keys and samples are memory, answers, and ends
chronyd_runs() {
	rm -rf chrony
	mkdir -m 770 chrony
	printf '%s\n' "driftfile $W/chrony/drift" "local stratum 5" "port 0" "cmdport 0" "pidfile $W/chrony/pid" \
	    "bindcmdaddress $W/chrony/sock" "user $(id -un)" >chrony/conf
	MALLOC_CONF=$1 LD_PRELOAD=$LIB timeout -k 1 120 chronyd -F 1 -x -d -f "$W/chrony/conf" >chrony/out 2>&1 &
	launched=$!
	started="$started $launched"
	server=
	until_true is_up
	filtered "$server"
	ok $? "chronyd, ${1:-default options}: has a filter" "$(cat chrony/out)"
	for i in 1 2 3 4 5 6 7 8; do
		for j in 1 2 3 4 5 6 7 8; do echo "add server 127.$i.$j.1 minpoll 16"; done
		echo "sources"
		echo "delete 127.$i.1.1"
	done >commands
	timeout 60 chronyc -n -h "$W/chrony/sock" <commands >out 2>&1
	is "$(grep -c '200 OK' out)" 72 "is given 64 servers, and loses 8" "$(tail -n 5 out)"
	kill "$server" 2>/dev/null
	wait "$launched"
	is $? 0 "and ends at SIGTERM, not by SIGSYS"
}
if ! command -v chronyd >/dev/null; then
	skip "no chronyd"
elif [ "$(id -u)" -ne 0 ]; then
	skip "chronyd: not root"
else
	for conf in "" prof:true,lg_prof_sample:10 hpa:true; do chronyd_runs "$conf"; done
fi

# ---- sshd ----

# listens CONF: sshd at a port, in server; false if somebody else has that
listens() {
	printf '%s\n' "Port $port" "ListenAddress 127.0.0.1" "HostKey $W/host" "AuthorizedKeysFile $W/user.pub" "PidFile none" \
	    "StrictModes no" "UsePAM no" "PermitRootLogin yes" "LogLevel VERBOSE" >conf
	MALLOC_CONF=$1 LD_PRELOAD=$LIB timeout -k 1 120 "$sshd" -D -e -f "$W/conf" >log 2>&1 &
	server=$!
	started="$started $server"
	until_true grep -q 'Server listening\|Cannot bind' log
	grep -q 'Server listening' log
}

# logs_in CONF: a login and a command
logs_in() {
	for try in 1 2 3 4 5; do
		listens "$1" && break
		port=$((port + try))
	done
	timeout 60 ssh -F none -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -i "$W/user" -p "$port" \
	    127.0.0.1 echo hello >out 2>err
	is "$? $(cat out)" "0 hello" "sshd, ${1:-default options}: a login" "$(cat err log)"
	kill "$server" 2>/dev/null
	wait "$server"
}
sshd=$(command -v sshd)
if [ -z "$sshd" ] || ! command -v ssh >/dev/null; then
	skip "no sshd or no ssh"
elif [ "$(id -u)" -ne 0 ]; then
	skip "sshd: not root"
else
	mkdir -p /run/sshd
	ssh-keygen -q -t ed25519 -N '' -f host
	ssh-keygen -q -t ed25519 -N '' -f user
	port=$((20000 + $$ % 10000))
	for conf in "" prof:true,lg_prof_sample:10 prof:true,lg_prof_sample:10,hpa:true,prof_thread:true; do logs_in "$conf"; done
fi

# ---- asked from outside ----

if [ ! -x "$CTL" ] || [ "$(asks config.prof)" = false ]; then
	skip "no jeprofctl or no profiler in this build"
else
	compile_linked confined "$SRC/test/integration/confined.c"
	MALLOC_CONF=prof:true,lg_prof_sample:10 ./confined --child=first >out 2>&1 &
	server=$!
	started="$started $server"
	until_true filtered $server
	"$CTL" status $server --wait 30s >status 2>&1
	ok $? "a confined program answers a question for its status" "$(cat status)"
	rss=$(sed -n 's/^rss  *\([0-9]*\).*/\1/p' status)
	[ "${rss:-0}" -gt 1000000 ]
	ok $? "with its resident bytes" "$(cat status)"
	wait $server
	is $? 0 "and goes on" "$(cat out)"
fi
done_testing
