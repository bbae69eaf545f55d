#!/bin/sh
# Each status code of jeprofd, with its line: what is asked for, by whom, of which process.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/agent/aid"
agent --allow-control
work
sleep 1000 &
other=$!
children="$children $other"

# paths and numbers
get /nowhere
gives 404 'no such path' "another path"
get "/p/$pid/debug/pprof/goroutine"
gives 404 'no such path below' "another path of a process"
for number in '' 0 01 abc 2147483648 99999999999999999999 -1 1x; do
	get "/p/$number/"
	gives 400 'number of a process' "process \"$number\""
done
for seconds in 0 -1 x 601 1e3 ''; do
	get "/p/$pid/debug/pprof/heap?seconds=$seconds"
	gives 400 'seconds is a number' "seconds \"$seconds\""
done
get "/p/$pid/debug/pprof/heap?raw=1&seconds=1"
gives 400 'no difference' "raw and seconds"
get "/p/$pid/debug/pprof/heap?since=monday"
gives 400 'since can be' "since"
for raw in 2 -1 yes '' 01; do
	get "/p/$pid/debug/pprof/heap?raw=$raw"
	gives 400 'raw can be' "raw \"$raw\""
done
get "/p/$pid/debug/pprof/heap?debug=2"
gives 400 'debug can be' "debug"
get "/p/$pid/debug/pprof/heap?gc=x"
gives 400 'gc can be' "gc"
get "/p/$pid/debug/pprof/heap?raw=0&raw=1"
gives 400 twice "an argument twice"
for query in "debug/pprof/heap?second=5" "debug/pprof/allocs?rate=64K" "debug/pprof/heap?%72aw=1" "debug/pprof/heap?Raw=1" "metrics?raw=1" "?x"; do
	get "/p/$pid/$query"
	gives 400 'no such argument' "$query"
done
get '/targets?seconds=1'
gives 400 'no such argument' "targets with one"
is "$(state "$pid")" idle "all these have begun nothing"
for path in "/p/$pid/../../targets" "/p/$pid/%2e%2e/targets" "//targets" "/targets/" "/p//" "/%74argets" "/targets%00"; do
	get "$path" --path-as-is
	case $code in 404 | 400) ok 0 "no other way: $path" ;; *) ok 1 "no other way: $path" "code $code" "$out" ;; esac
done

# processes
get "/p/4194305/debug/pprof/heap"
gives 404 'no process 4194305' "no such process"
get "/p/$other/debug/pprof/heap?raw=1"
gives 404 'does not run the library' "a process without the library"
get "/p/$other/"
gives 404 'that runs the library' "its page"
get "/p/$other/metrics"
gives 404 'that runs the library' "its metrics"

# methods
get /targets -X POST
gives 405 'wants GET' "POST to what is read"
get /targets -X DELETE
gives 405 'DELETE' "DELETE"
get "/p/$pid/start"
gives 405 'wants POST' "GET of what changes something"
get /targets -I
gives 200 '' "HEAD"

# control
for query in "start?raw=1" "start?rate=64K&rate=1" "stop?seconds=1" "mark?x=1"; do
	get "/p/$pid/$query" -X POST
	case $code$out in 400*'no such argument'* | 400*twice*) ok 0 "POST $query" ;; *) ok 1 "POST $query" "$code $out" ;; esac
done
is "$(state "$pid")" idle "they have begun nothing either"
get "/p/$pid/start?rate=64K" -X POST
gives 200 'session 1' "start"
get "/p/$pid/start" -X POST
gives 409 'session 1 of this jeprofd since' "start again: who, and since when"
get "/p/$pid/start?rate=x" -X POST
gives 400 'rate is a number of bytes from 1 to 1024G' "a bad rate"
# Each profile is saved under the name of what it is.
for name in heap.pb.gz=debug/pprof/heap allocs.pb.gz=debug/pprof/allocs heap.otlp.pb=otlp; do
	get "/p/$pid/${name#*=}" -D headers
	has "$code $(grep -i '^content-disposition' headers)" "filename=\"${name%%=*}\"" "a browser saves /${name#*=}"
	gzip -t <answer 2>/dev/null && is_packed=.gz || is_packed=
	is "$is_packed" "$(case $name in *.gz=*) echo .gz ;; esac)" "which is packed if its name says so"
done
get "/p/$pid/debug/pprof/heap?since=mark"
gives 404 'has no mark' "no mark"
get "/p/$pid/mark" -X POST
gives 200 marked "mark"
get "/p/$pid/debug/pprof/heap?since=mark"
[ "$code" = 200 ] && gzip -t <answer
ok $? "what changed since the mark" "$code"
get "/p/$pid/debug/pprof/heap?since=mark&raw=1"
gives 200 'heap_v2/1' "the same as the process writes it"
grep -q '^# jemalloc.kind=delta' answer
ok $? "a delta" "$(head -n 20 answer)"
get "/p/$pid/debug/pprof/allocs?since=mark"
[ "$code" = 200 ] && gzip -t <answer
ok $? "what was allocated since" "$code"
get "/p/$pid/debug/pprof/allocs?since=mark&raw=1"
gives 400 'no difference' "for which two profiles are needed: not raw"
"$BUILD/bin/jeprofctl" dump "$pid" --since-mark -o delta.heap -q >/dev/null && grep -q '^# jemalloc.kind=delta' delta.heap
ok $? "the mark is that of the process"
get "/p/$pid/stop" -X POST
gives 200 '.heap' "stop"
rm -f "$out"
get "/p/$pid/stop" -X POST
gives 409 'nothing changed' "stop again"
get "/p/$pid/start" -X POST -H 'Origin: http://elsewhere.example'
gives 403 'from elsewhere' "a form of another page"
for site in cross-site same-site; do
	get "/p/$pid/debug/pprof/heap" -H "Sec-Fetch-Site: $site"
	gives 403 'from elsewhere' "a picture in another page ($site), which would start profiling"
done
for site in same-origin none; do
	get "/p/$pid/debug/pprof/heap?seconds=0" -H "Sec-Fetch-Site: $site"
	gives 400 'seconds is' "what asks itself is not refused ($site)"
done
is "$(state "$pid")" idle "it has begun nothing"
get "/p/$pid/debug/pprof/heap?seconds=0" -H 'Sec-Fetch-Site: cross-site' -H 'Sec-Fetch-User: ?1'
gives 400 'seconds is' "but a click there is not refused"
for page in "/p/$pid" /dead/20260101T000000Z.1; do
	get "$page" -D header
	gives 301 'slash' "$page: links of the page would lead elsewhere"
	is "$(tr -d '\r' <header | sed -n 's/^Location: //p')" "${page##*/}/" "$page: where the page is"
done
get "/p/$pid/" -H 'Sec-Fetch-Site: cross-site'
gives 200 'id="live-state"' "a link to a page, from elsewhere"
get /targets -H 'Host: elsewhere.example'
gives 403 'Host' "another name for this machine"
for host in '[::1' '[::1]x:1' 127.0.0.1:1:1 localhost:x '[localhost]:1' ::1; do
	get /targets -H "Host: $host"
	gives 403 'Host' "no name: $host"
done
get /targets -H 'Host: [::1]:1'
gives 200 '[' "a name of this machine: an address in brackets"
get /targets -H 'Host: localhost:1'
gives 200 '[' "localhost"

# too large
long=$(printf '%02000d' 0)
get "/$long"
gives 414 'longer than' "a long path"
get "/$long$long$long$long$long$long$long$long$long$long"
case $code in 414 | 431 | 400) ok 0 "a very long path: $code" ;; *) ok 1 "a very long path" "$code" ;; esac
get /targets -H "X: $long$long$long$long$long$long$long$long$long"
case $code in 413 | 431) ok 0 "a long header: $code" ;; *) ok 1 "a long header" "$code" ;; esac
head -c 100000 /dev/zero >large
get "/p/$pid/start" -X POST --data-binary @large
gives 413 'more than 4096 bytes' "a large body"
get "/p/$pid/start" -X POST --data-binary @large -H 'Transfer-Encoding: chunked'
gives 413 'more than 4096 bytes' "a large body of which the length is not told"
head -c 3000000 /dev/zero >large
get "/p/$pid/start" -X POST --data-binary @large -H 'Expect: 100-continue'
gives 413 'more than 4096 bytes' "a body that is too large to be thrown away"
get "/p/$pid/start" -X POST -d 'rate=1K&seconds=3'
gives 400 'behind the ?' "arguments in the body"
is "$(state "$pid")" idle "none of these has begun anything"
get /targets -X GET -d 'x=1'
gives 200 '[' "a small body of what only reads is thrown away"
get /metrics
gives 200 jeprof_rss_bytes "and it serves on"
end_agent
is "$ended" 0 "SIGTERM ends it"

# passive, without control
agent --passive
until_true is_target "$pid"
get "/p/$pid/debug/pprof/heap?raw=1"
gives 409 'passive' "--passive starts nothing"
is "$(state "$pid")" idle "nothing was started"
get "/p/$pid/start" -X POST
gives 403 '--allow-control' "no control without --allow-control"
"$BUILD/bin/jeprofctl" start "$pid" -q --rate 64K >/dev/null
get "/p/$pid/debug/pprof/heap?raw=1"
gives 200 heap_v2/65536 "--passive shows what runs"
end_agent

# Of two more processes one at most is kept in mind, and only that one is kept open.
agent --max-processes 1
for _ in 1 2; do
	LD_PRELOAD=$LIB sleep 1000 &
	children="$children $!"
	pair="$pair $!"
done
# is each that is no target closed?
are_closed() {
	for process in $pair; do
		is_target "$process" || ! find "/proc/$agent_pid/fd" -type l -exec readlink {} + | grep -qx "/proc/$process/mem" || return 1
	done
}
if ls "/proc/$agent_pid/fd" >/dev/null 2>&1; then
	sleep 2 # it has looked at both
	until_true are_closed
	ok $? "a process above --max-processes is not held open" "$(ls -l "/proc/$agent_pid/fd")"
else
	skip "an agent that is not root hides its descriptors"
fi
until_true grep -q 'more than 1 processes run the library (--max-processes): the others are left out' agent.err
sleep 2
is "$(grep -c 'left out' agent.err)" 1 "that there are more is told once" "$(cat agent.err)"
# shellcheck disable=SC2086
kill $pair
end_agent

# Each process that is looked at may take a descriptor: the soft limit follows the options, as far as the hard one lets it.
soft_limit() { sed -n 's/^Max open files *\([0-9]*\) .*/\1/p' "/proc/$agent_pid/limits"; }
soft=$(ulimit -Sn)
hard=$(ulimit -Hn)
ulimit -Sn 64
agent --blackbox off --max-processes 3000
ulimit -Sn "$soft"
if [ "$hard" = unlimited ] || [ "$hard" -ge 8192 ]; then
	[ "$(soft_limit)" -ge 3256 ]
	ok $? "without boxes too there are descriptors for --max-processes and --max-connections" "$(soft_limit)"
	is "$(grep -c descriptors agent.err)" 0 "nothing is told of it"
else
	skip "a hard limit of $hard descriptors"
fi
end_agent
printf '#!/bin/sh\nulimit -n 200\nexec "%s" "$@"\n' "$AGENT" >few
chmod 755 few
(AGENT=./few && agent --max-processes 3000 && end_agent)
has "$(cat agent.err)" 'the limit of descriptors is 200: at most 50 processes are kept in mind' "with a low hard limit fewer processes are kept open"
(AGENT=./few && agent --blackbox off --max-processes 3000 && end_agent)
has "$(cat agent.err)" 'at most 100 processes are kept in mind' "without boxes more of them"

# differences: those that wait, and whose client has gone, leave their places to others
agent --allow-control
for _ in 1 2 3; do
	curl -s -o /dev/null --max-time 0.4 "$URL/p/$pid/debug/pprof/heap?seconds=60"
done
get "/p/$pid/debug/pprof/heap?raw=1"
gives 200 heap_v2 "a profile beside three differences that nobody waits for"
get "/p/$pid/mark" -X POST
gives 200 marked "mark"
get "/p/$pid/stop" -X POST
rm -f "$out"
get "/p/$pid/start?rate=64K&seconds=60" -X POST
gives 200 session "another session"
get "/p/$pid/debug/pprof/heap?since=mark"
gives 409 'session of the earlier profile' "no difference over two sessions"
get "/p/$pid/debug/pprof/allocs?seconds=1"
[ "$code" = 200 ] && gzip -dc <answer >allocs && ! grep -q 'were not counted' allocs
ok $? "a session that was asked for counts allocations too"
get "/p/$pid/stop" -X POST
rm -f "$out"
# a program that makes the library forget its samples again and again
cat >forget.c <<'C'
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
char *volatile held;
int main(void) {
	int (*ctl)(const char *, void *, size_t *, void *, size_t);
	*(void **)&ctl = dlsym(RTLD_DEFAULT, "mallctl");
	for (;; usleep(20000)) {
		ctl("prof.reset", NULL, NULL, NULL, 0);
		held = malloc(1 << 20);
		free(held);
	}
}
C
$CC -D_GNU_SOURCE -g -O1 -o forget forget.c -ldl || exit 1
work ./forget
get "/p/$pid/debug/pprof/heap?seconds=1"
gives 409 'has reset the profiler (prof.reset) since' "no difference over a reset of the program"
get "/p/$pid/mark" -X POST
get "/p/$pid/debug/pprof/allocs?since=mark"
gives 409 '(prof.reset)' "nor from a mark that jeprofd keeps"
get "/p/$pid/stop" -X POST
rm -f "$out"
end_agent

# who waits when jeprofd ends is told so
agent
until_true is_target "$pid"
curl -s -o late -w '%{http_code}' --max-time 60 "$URL/p/$pid/debug/pprof/heap?seconds=600" >late.code &
waiting=$!
until_true is_state "$pid" active
end_agent
is "$ended" 0 "SIGTERM ends a jeprofd with a client that waits"
wait "$waiting"
is "$(cat late.code)" 503 "which gets an answer" "$(cat late)"

# a terminal that is closed ends it like SIGTERM, unless nohup was asked for
hang_up() {
	: >hup.err # what the last one said is not this one's
	"$@" "$AGENT" --unix closed 2>hup.err &
	agent_pid=$!
	children="$children $agent_pid"
	until_true grep -q 'listens on' hup.err
	kill -HUP "$agent_pid"
}
hang_up env --default-signal=HUP # nohup may have started this test
wait "$agent_pid"
is "$? $(ls closed 2>&1 | grep -c '^closed')" "0 0" "SIGHUP ends it, and its socket is gone"
hang_up nohup
curl -s --unix-socket closed -o answer http://localhost/targets
ok $? "not with nohup"
end_agent

# a program whose file was removed or replaced is still told by its path; " (deleted)" may be part of a name
cp work upgraded
cp work 'named (deleted)'
for program in upgraded 'named (deleted)'; do
	LD_PRELOAD=$LIB "./$program" >/dev/null 2>&1 &
	children="$children $!"
	until_true grep -q libjemalloc "/proc/$!/maps"
done
cp work upgraded.new
mv upgraded.new upgraded
agent
until_true sh -c 'curl -s "$1/targets" | grep -q "\"exe\":\"[^\"]*/upgraded\""' sh "$URL"
ok $? "a replaced program is told by its path" "$(curl -s "$URL/targets")"
until_true sh -c 'curl -s "$1/targets" | grep -q "/named (deleted)\""' sh "$URL"
ok $? "a name that ends like the kernel's mark stays" "$(curl -s "$URL/targets")"
end_agent

# the time limit of a session is its own: the one after a long difference ends soon after its last scrape
agent --allow-control --interval 300ms
curl -s -o /dev/null "$URL/p/$pid/debug/pprof/heap?seconds=600" &
difference=$!
children="$children $difference"
until_true is_state "$pid" active
kill "$difference"
get "/p/$pid/stop" -X POST
gives 200 '' "the session of a long difference is stopped"
get "/p/$pid/debug/pprof/heap?raw=1&debug=1&gc=1"
gives 200 heap_v2 "a profile begins another one"
until_true is_state "$pid" idle
ok $? "which ends soon" "$(state "$pid")"
end_agent

# who listens for all without a token is told so
agent --listen '[::]:0'
has "$(cat agent.err)" 'warning: whoever reaches [::]:' "all addresses without a token"
has "$(cat agent.err)" 'read profiles and start sessions: there is no --token-file' "what that allows"
end_agent
agent
is "$(grep -c warning agent.err)" 0 "no warning for this machine"
end_agent

# started without standard descriptors: what it opens gets none of them, or messages would be written there
"$AGENT" --unix own.sock 2>&- >&- <&- &
agent_pid=$!
children="$children $agent_pid"
until_true [ -S own.sock ]
until_true curl -s --unix-socket own.sock -o answer http://localhost/targets
if readlink /proc/$agent_pid/fd/0 >/dev/null; then
	is "$(readlink /proc/$agent_pid/fd/0 /proc/$agent_pid/fd/1 /proc/$agent_pid/fd/2 | sort -u)" /dev/null "closed standard descriptors stay unused"
else
	skip "its descriptors may not be seen"
fi
end_agent

# a cache that cannot be used, a port that does not exist
: >file
agent --cache file
has "$(cat agent.err)" '--cache file: Not a directory; names are kept in memory' "a cache that is no directory"
end_agent
mkdir open
chmod 0775 open
agent --cache open
has "$(cat agent.err)" '--cache open: others may write there (mode 0775): chmod go-w; names are kept in memory' "a cache that others may write into"
is "$(ls -A open)" "" "and nothing is put there"
end_agent
agent --cache open/own
is "$(stat -c %a open/own open/own/dead | xargs) $(grep -c . agent.err)" "700 700 1" "a directory below it is made for us alone, and used"
end_agent
rm -r open/own
chmod 0755 open
mkdir open/dead
chmod 0777 open/dead
agent --cache open
has "$(cat agent.err)" '--cache open/dead: others may write there (mode 0777): chmod go-w; processes that end are kept in memory' "a directory of the dead that others may write into"
end_agent
chmod 0700 open/dead
printf 'boxed' >open/dead/20261125T000000.000Z.1.box
chmod 0666 open/dead/20261125T000000.000Z.1.box
printf 'boxed' >open/dead/20261125T000000.000Z.2.box
chmod 0600 open/dead/20261125T000000.000Z.2.box
agent --cache open
is "$(ls open/dead)" "" "a box without a record goes too"
is "$(grep -c . agent.err) $(grep removed agent.err)" "2 jeprofd: --cache open/dead: removed 1 files that others own or may write" "a box that others may write is told"
if [ "$(id -u)" = 0 ]; then
	end_agent
	chown 65533 open
	agent --cache open
	has "$(cat agent.err)" '--cache open: it belongs to another user (65533); names are kept in memory' "a cache of another user"
fi
end_agent
"$AGENT" --listen 127.0.0.1:65536 2>words.err
is "$? $(cat words.err)" '2 jeprofd: --listen: "127.0.0.1:65536" is no ADDR:PORT with an address and a port in digits' "port 65536"

if [ -c /dev/full ]; then
	for word in --help --version; do
		"$AGENT" $word >/dev/full 2>words.err
		is "$? $(cat words.err)" "1 jeprofd: cannot write: No space left on device" "$word to a full device"
	done
fi

# token
mkfifo parts
{
	printf 'correct horse'
	sleep 0.5
	printf '%s\n' ' battery'
} >parts &
agent --token-file parts
get /targets -H 'Authorization: Bearer correct horse'
gives 401 token "the first part of a token that a pipe gave in two"
get /targets -H 'Authorization: Bearer correct horse battery'
gives 200 '[' "all of it"
end_agent
printf 'correct horse\n' >token
agent --token-file token
get /targets
gives 401 token "without the token"
for wrong in 'correct hors' 'correct horse x' 'correct horsf' '' 'correct horsecorrect horse'; do
	get /targets -H "Authorization: Bearer $wrong"
	gives 401 token "a wrong token: \"$wrong\""
done
get /targets -H 'Authorization: Bearer correct horse'
gives 200 '[' "with it"
get /targets -u 'anybody:correct horse'
gives 200 '[' "as a password, from a browser"
for wrong in 'anybody:correct hors' 'correct horse:' ':'; do
	get /targets -u "$wrong"
	gives 401 token "a wrong password: \"$wrong\""
done
get /targets -H 'Authorization: Basic !!!'
gives 401 token "no base64"
end_agent

# a process that we may not look into
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
	chmod 755 "$W"
	: >agent.err
	chmod 666 agent.err
	# Another user may not be able to reach the build.
	cp "$AGENT" jeprofd
	chmod 755 jeprofd
	setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all "$W/jeprofd" --listen 127.0.0.1:0 2>agent.err &
	agent_pid=$!
	children="$children $agent_pid"
	until_true grep -q 'listens on' agent.err
	URL=$(sed -n 's/.*listens on //p' agent.err)
	get "/p/$pid/debug/pprof/heap?raw=1"
	shows_others "$pid" && reason='belongs to uid 0' || reason='/proc hides it from us (hidepid)'
	gives 403 "$reason" "a process of another user"
	end_agent
	mkdir -p nobody/dead
	printf 'boxed' >nobody/dead/20261125T000000.000Z.3.box
	printf 'boxed' >nobody/dead/20261125T000000.000Z.4.box
	chmod 0 nobody/dead/20261125T000000.000Z.3.box
	chmod 600 nobody/dead/20261125T000000.000Z.4.box
	chown -R 65534:65534 nobody
	chmod 700 nobody nobody/dead
	setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all "$W/jeprofd" --listen 127.0.0.1:0 --cache nobody 2>agent.err &
	agent_pid=$!
	children="$children $agent_pid"
	until_true grep -q 'listens on' agent.err
	until_true [ ! -e nobody/dead/20261125T000000.000Z.4.box ] # it has looked at what is left there
	is "$(ls nobody/dead) $(grep -c 'others own' agent.err)" "20261125T000000.000Z.3.box 0" "a box of our own that cannot be opened now stays, and is not told as another's"
	end_agent
	# The same where /proc tells their numbers and no more: they are there, and counted.
	printf '#!/bin/sh\nmount -t proc -o hidepid=1 none /proc && exec "$@"\n' >hiding
	chmod 755 hiding
	if unshare -m ./hiding true 2>/dev/null; then
		unshare -m ./hiding setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all "$W/jeprofd" --listen 127.0.0.1:0 --look 200ms 2>agent.err &
		agent_pid=$!
		children="$children $agent_pid"
		until_true grep -q 'listens on' agent.err
		URL=$(sed -n 's/.*listens on //p' agent.err)
		has_unreadable() { get /metrics && grep -q '^jeprofd_unreadable_processes [1-9]' answer; }
		until_true has_unreadable
		ok $? "processes that /proc hides are counted" "$(grep '^jeprofd_unreadable' answer)"
		end_agent
	else
		skip "no hidepid here"
	fi
else
	skip "not root"
fi

# a Unix socket
"$AGENT" --unix "$W/socket" 2>unix.err &
agent_pid=$!
children="$children $agent_pid"
until_true grep -q 'listens on' unix.err
URL=http://localhost
get /targets --unix-socket "$W/socket"
gives 200 '[' "a Unix socket"
is "$(stat -c %a "$W/socket")" 660 "for its user and group only"
end_agent
[ ! -e "$W/socket" ]
ok $? "it goes with jeprofd"
# a socket that a process left; the lock of the directory; a listener that does not accept, and has a full backlog
left() { perl -MSocket -e 'socket my $s, AF_UNIX, SOCK_STREAM, 0; bind $s, sockaddr_un("left") or die "$!\n"'; }
mkdir locked && cd locked || exit 1
left
"$AGENT" --unix left 2>../unix.err &
agent_pid=$!
children="$children $agent_pid"
until_true grep -q 'listens on' ../unix.err
rm left
left
inode=$(stat -c %i left)
end_agent
is "$(stat -c %i left)" "$inode" "one that has its name by then stays"
cat >hold.pl <<'P'
use strict;
use warnings;
use Fcntl qw(:DEFAULT :flock);
sysopen my $d, '.', O_RDONLY or die "$!\n";
flock $d, LOCK_EX or die "$!\n";
exit system(@ARGV) >> 8;
P
perl hold.pl timeout 30 "$AGENT" --unix left 2>../unix.err
is "$? $(cat ../unix.err) $(stat -c %i left)" "1 jeprofd: --unix: left: Address already in use $inode" "no left one is replaced while another jeprofd may be replacing it"
cat >full.pl <<'P'
use strict;
use warnings;
use Socket qw(:DEFAULT SOCK_NONBLOCK);
socket my $s, AF_UNIX, SOCK_STREAM, 0;
bind $s, sockaddr_un('full') and listen $s, 1 or die "$!\n";
my @in;
do { socket my $c, AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0; push @in, $c } while connect $in[-1], sockaddr_un('full');
exit system(@ARGV) >> 8;
P
perl full.pl timeout 30 "$AGENT" --unix full 2>../unix.err
is "$? $(cat ../unix.err)" "1 jeprofd: --unix: full: Address already in use" "a listener that does not accept is not waited for"
rm left
left
for i in 1 2 3 4 5; do
	"$AGENT" --unix left 2>"../unix.err$i" &
	children="$children $!"
done
gone() { [ "$(cat ../unix.err? | grep -c 'Address already')" = 4 ] && cat ../unix.err? | grep -q 'listens on'; }
until_true gone
ok $? "of five that start at once on a left one, one has it" "$(cat ../unix.err?)"
curl -s --unix-socket left -o ../answer http://localhost/targets
ok $? "and is reached by it"
cd ..

# words
for words in "--push-select comm=x" "--push-header A:b" "--rate 0" "--rate 5x" "--listen nowhere" "--listen 1.2.3.4" "--listen 127.0.0.1:" "--listen ::1:0" "--listen [127.0.0.1]:0" "--listen [::1]x:0" "--listen [::1:0" "--listen 127.0.0.1:0x" "--interval" "--passive=1" "--fly" "--max-scrapes 0" word; do
	# shellcheck disable=SC2086
	"$AGENT" $words >/dev/null 2>words.err
	is "$?" 2 "usage: $words"
done
# /p/PID/metrics of a process whose answer has all figures, each another one, and of one whose answer has two of them.
$CC -std=gnu11 -O1 -I"$SRC/src" -o fake "$SRC/test/jeprofctl/fake.c" || exit 1
agent
tell() {
	mkfifo "go$2"
	./fake told "$1" <"go$2" >/dev/null 2>&1 &
	pid=$!
	children="$children $pid"
	eval "exec $2>go$2"
	until_true is_target "$pid"
}
# The samples that are the same in each run.
samples() { grep -v '^#' answer | grep -v '^jeprof_cgroup\|_start_time_\|_rss_bytes'; }
tell 'state=paused
allocated=18446744073709551605
active=18446744073709551606
metadata=18446744073709551607
resident=18446744073709551608
mapped=18446744073709551609
retained=18446744073709551610
sample_interval=18446744073709551611
dumps=18446744073709551612
suppressed=18446744073709551613
dump_errors=18446744073709551614
rejected=18446744073709551615' 8
all=$pid
tell 'state=idle
rejected=0
allocated=1' 9
has_told() { get "/p/$1/metrics" && grep -q '^jeprof_allocated_bytes' answer; }
until_true has_told "$pid"
seen='jeprof_threads 1
jeprof_session 0
jeprof_box_held 0
jeprof_state{state="idle"} 1
jeprof_state{state="active"} 0
jeprof_state{state="stopping"} 0
jeprof_state{state="paused"} 0
jeprof_state{state="sampling"} 0
jeprof_state{state="switched_on"} 0'
is "$(samples)" "jeprof_allocated_bytes 1
jeprof_requests_rejected_total 0
$seen" "metrics of a process that tells two figures"
until_true has_told "$all"
is "$(samples)" "jeprof_allocated_bytes 18446744073709551605
jeprof_active_bytes 18446744073709551606
jeprof_metadata_bytes 18446744073709551607
jeprof_resident_bytes 18446744073709551608
jeprof_mapped_bytes 18446744073709551609
jeprof_retained_bytes 18446744073709551610
jeprof_sample_interval_bytes 18446744073709551611
jeprof_dumps_total 18446744073709551612
jeprof_dumps_suppressed_total 18446744073709551613
jeprof_dump_errors_total 18446744073709551614
jeprof_requests_rejected_total 18446744073709551615
$seen" "of one that tells all"
# The form of /metrics, and that each metric is there: of a counter the samples end with _total, in the older format its name does, too.
cat >form.py <<'PY'
import re, sys
text, source, is_open, is_all = open("answer").read(), open(sys.argv[1]).read(), "open" in sys.argv, "all" in sys.argv
blocks, lines = {}, text.splitlines()
assert text.endswith("\n") and (lines[-1] == "# EOF") == is_open, lines[-1]
for line in lines[: -1 if is_open else None]:
    word = line.split(" ")
    if line.startswith("# HELP "):
        name, help_of = word[2], line.split(" ", 3)[3]
        assert name not in blocks and help_of.endswith("."), line
        blocks[name] = {"kind": None, "unit": None, "samples": []}
    elif line.startswith("# TYPE "):
        assert word[2] == name and word[3] in ("counter", "gauge") and len(word) == 4, line
        blocks[name]["kind"] = word[3]
    elif line.startswith("# UNIT "):
        assert is_open and word[2] == name and len(word) == 4, line
        blocks[name]["unit"] = word[3]
    else:
        sample = re.fullmatch(r'(\w+)(?:\{(\w+="[^"]*"(?:,\w+="[^"]*")*)\})? -?[0-9.e+-]+', line)
        assert sample and blocks[name]["kind"], line
        end = "_total" if is_open and blocks[name]["kind"] == "counter" else ""
        assert sample[1] == name + end, line
        assert blocks[name]["kind"] == "gauge" or sample[1].endswith("_total"), line
        blocks[name]["samples"].append(re.findall(r'(\w+)="([^"]*)"', sample[2] or ""))
got = {n[: -6] if not is_open and b["kind"] == "counter" else n: b for n, b in blocks.items()}
want = set(re.findall(r'"(jeprofd?_[a-z_]+)"', source)) - set(re.findall(r'"(jeprofd_push_[a-z_]+)"', source))
if not is_all:
    want = {n for n in want if n.startswith("jeprof_") and n != "jeprof_process_info"}
assert set(got) == want, set(got) ^ want
for name, b in got.items():
    unit = name.split("_")[-1] if name.split("_")[-1] in ("bytes", "seconds") else None
    assert b["unit"] == (unit if is_open else None), name
    own, labels = name.startswith("jeprofd_"), [[k for k, _ in s] for s in b["samples"]]
    assert b["samples"] or not own, name
    first = ["pid", "comm", "service_name"] if is_all and not own else []
    more = {"jeprof_state": ["state"], "jeprofd_dead": ["how"], "jeprofd_sessions_without_box": ["why"]}.get(name, [])
    assert name == "jeprof_process_info" or all(k == first + more for k in labels), (name, labels)
    assert len({tuple(s) for s in b["samples"]}) == len(b["samples"]), name
if is_all:
    words = lambda name: [s[-1][1] for s in got[name]["samples"]]
    assert words("jeprofd_dead") == ["exit", "signal", "oom", "unknown"], words("jeprofd_dead")
    assert words("jeprofd_sessions_without_box") == ["filter", "room", "refused"], words("jeprofd_sessions_without_box")
PY
# All labels of a target but those of its cgroup and build-id, and when it began: ticks behind boot.
cat >target.py <<'PY'
import json, os, pwd, sys, time
pid, seconds = sys.argv[1], int([line.split()[1] for line in open("answer") if line.startswith("jeprof_start_time_seconds ")][0])
labels = [t["labels"] for t in json.load(open("targets")) if t["labels"]["pid"] == pid][0]
for key in "cgroup", "container_id", "unit", "service_name", "build_id":
    labels.pop(key, None)
assert labels == {
    "pid": pid, "comm": "fake", "exe": os.path.realpath("fake"), "user": pwd.getpwuid(os.getuid()).pw_name,
    "start_time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)), "__metrics_path__": "/p/%s/metrics" % pid,
    "__profile_path_prefix__": "/p/" + pid, "__meta_jeprof_heap_path": "/p/%s/debug/pprof/heap" % pid,
    "__meta_jeprof_allocs_path": "/p/%s/debug/pprof/allocs" % pid}, labels
ticks = int(open("/proc/%s/stat" % pid).read().rsplit(")", 1)[1].split()[19])
began = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")
assert abs(began - seconds) <= 2, (began, seconds)
PY
if command -v python3 >/dev/null; then
	is_target "$all"
	get "/p/$all/metrics"
	runs "the labels of a target" python3 target.py "$all"
	for kind in /metrics:all "/p/$all/metrics:one"; do
		get "${kind%:*}"
		runs "${kind%:*}, its form" python3 form.py "$SRC/bin/agent/metrics.c" text "${kind##*:}"
		get "${kind%:*}" -H 'Accept: application/openmetrics-text; version=1.0.0'
		runs "as OpenMetrics" python3 form.py "$SRC/bin/agent/metrics.c" open "${kind##*:}"
	done
else
	skip "no python3"
fi
exec 8>&- 9>&-
end_agent

# Each argument at its bounds, where it may stand and where not; a process that is not there is 404 if all is well with them.
agent --allow-control
while IFS='|' read -r method path key code values; do
	urls=
	want=
	for value in $values; do
		urls="$urls $URL$path?$key=$(echo "$value" | tr -d \')"
		want="$want$code "
	done
	# shellcheck disable=SC2086
	is "$(curl -s -g --max-time 60 -X "$method" -w '%{http_code} ' $urls | grep -o '[0-9]* $\|^[0-9]* ' | tr -d '\n')" "$want" "$method $path?$key=: $code $values"
done <<'ROWS'
GET|/p/4194305/debug/pprof/heap|seconds|404|1 600 0600
GET|/p/4194305/debug/pprof/heap|seconds|400|0 601 '' -1 1K 18446744073709551617
GET|/p/4194305/debug/pprof/allocs|since|404|mark
GET|/p/4194305/debug/pprof/allocs|since|400|'' marks mar
GET|/p/4194305/debug/pprof/heap|raw|404|0 1 false true
GET|/p/4194305/debug/pprof/heap|raw|400|'' 2 -1 tru
GET|/p/4194305/debug/pprof/heap|debug|404|0 1
GET|/p/4194305/debug/pprof/heap|debug|400|'' 2 -1
GET|/p/4194305/debug/pprof/heap|gc|404|0 1
GET|/p/4194305/debug/pprof/heap|gc|400|'' 2 -1
GET|/p/4194305/debug/pprof/heap|ages|404|0 1
GET|/p/4194305/debug/pprof/heap|ages|400|'' 2 -1
GET|/p/4194305/debug/pprof/heap|rate|400|1 64K
POST|/p/4194305/start|seconds|404|1 86400
POST|/p/4194305/start|seconds|400|0 86401 '' 1m
POST|/p/4194305/start|rate|404|1 1024G 1099511627776 1073741824k 1048576M 1g
POST|/p/4194305/start|rate|400|0 0K 1025G 1099511627777 1073741825K 1048577M 17179869185G 1KB 1T K ''
POST|/p/4194305/start|since|400|mark
POST|/p/4194305/start|raw|400|1
POST|/p/4194305/start|debug|400|1
POST|/p/4194305/start|gc|400|1
POST|/p/4194305/start|ages|400|1
POST|/p/4194305/stop|rate|400|1
POST|/p/4194305/mark|seconds|400|1
GET|/dead/1.20260101T000000Z/debug/pprof/heap|raw|404|0 1
GET|/dead/1.20260101T000000Z/debug/pprof/heap|debug|404|0 1
GET|/dead/1.20260101T000000Z/debug/pprof/heap|gc|404|0 1
GET|/dead/1.20260101T000000Z/debug/pprof/heap|ages|404|0 1
GET|/dead/1.20260101T000000Z/debug/pprof/heap|seconds|400|1
GET|/dead/1.20260101T000000Z/debug/pprof/heap|rate|400|1
GET|/dead/1.20260101T000000Z/debug/pprof/heap|since|400|mark
GET|/metrics|raw|400|1
GET|/dead/|raw|400|1
ROWS
end_agent

# Which connection a new one ends when there is no room: the one that has waited longest for a request, its first or a further one.
cat >room.py <<'PY'
import select, socket, sys
host, port, pid, kinds = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]


def ask(s, path, end=b"\r\n"):
    s.sendall(b"GET %s HTTP/1.1\r\nHost: localhost\r\n" % path.encode() + end)


def answer(s):
    text = b""
    while not text.endswith(b"\r\n\r\n"):
        text += s.recv(1)
    left = int(text.lower().split(b"content-length:")[1].split()[0])
    while left > 0:
        piece = s.recv(left)
        text += piece
        left -= len(piece)
    return text


def connect():
    held.append(socket.create_connection((host, port), 60))
    return held[-1]


held = []
own = connect()
ask(own, "/targets")
while b'"pid":"%s"' % pid.encode() not in answer(own):
    ask(own, "/targets")
for kind in kinds + ["answered"]:
    if len(held) == len(kinds) + 1:  # no longer the oldest
        ask(own, "/targets")
        answer(own)
    s = connect()
    ask(s, "/p/%s/debug/pprof/heap?seconds=60" % pid if kind == "working" else "/", b"" if kind == "half" else b"\r\n")
    if kind == "answered":
        answer(s)
ended = select.select(held, [], [], 60)[0]
print(*[str(held.index(s) - 1) for s in ended])
PY
# room KINDS WANT NAME: the one of four, and of one that asks what runs, that the sixth ends, by its place
room() {
	agent --max-connections 5
	# shellcheck disable=SC2086
	is "$(python3 room.py $(echo "${URL#http://}" | tr : ' ') "$pid" $1)" "$2" "$3"
	end_agent
}
LD_PRELOAD=$LIB ./work &
pid=$!
children="$children $pid"
if command -v python3 >/dev/null; then
	room "answered half half half" 0 "the oldest has had its answer"
	room "half answered half half" 0 "the oldest has sent half a request"
	room "working answered half half" 1 "one that is worked for stays"
	room "working working half answered" 2 "and another one, too"
	room "working working answered half" 2 "one that has had its answer does not"
else
	skip "no python3"
fi
# The values at the bounds of each option, in each unit, and those beside them. What follows a good one is refused.
takes() {
	option=$1
	shift
	for value; do set -- "$@" "--$option=$value"; shift; done
	"$AGENT" "$@" --fly 2>words.err
	is "$(cat words.err)" "jeprofd: no such option: --fly; try jeprofd --help" "--$option takes $(echo "$*" | cut -c 1-200)"
}
refuses() {
	"$AGENT" "--$1=$2" --fly 2>words.err
	is "$? $(cat words.err)" "2 jeprofd: --$1: \"$(printf '%s' "$2" | tr '\n' '?')\" is no $3" "--$1 refuses \"$(printf '%s' "$2" | tr '\n' '?')\""
}
while IFS='|' read -r option kind bounds good bad; do
	# shellcheck disable=SC2086
	takes "$option" ${bounds%-*} ${bounds#*-} $good
	for value in $bad ""; do refuses "$option" "$value" "$kind, which may be from ${bounds%-*} to ${bounds#*-}"; done
done <<'ROWS'
rate|size (64M)|1-1024G|1099511627776 1073741824K 1073741824k 1048576M 1024g|0 x -1 +1 1.5 18446744073709551616 1025G 1048577M 1073741825K 1099511627777 18014398509481985K 17179869185G 1KB 1s
interval|time (30s)|100ms-24h|1 86400 86400s 1440m 24H 86400000MS|0 99ms 86400001ms 86401s 86401 1441m 25h 18446744073709551ms 5124095576031h 1d 1K
blackbox|size (4M) or off|1M-1G|off 1024K 1048576 1073741824 1024M|0 1048575 1073741825 OFF of
cache-max|size (64M)|1M-1024G|1048576|1048575 1099511627777 off
push-interval|time (30s)|1s-24h|1000ms 86400000ms|999ms 86400001ms
look|time (30s)|100ms-1h|3600000ms|99ms 3600001ms
max-scrapes|number|1-256||0 257 1K 1s
max-connections|number|4-10000||3 10001
max-processes|number|1-100000||0 100001
max-profile|size (64M)|4K-1G|4096 1073741824|4095 1073741825
ROWS
while IFS='|' read -r option kind good bad; do
	# shellcheck disable=SC2086
	takes "$option" $good
	for value in $bad ""; do refuses "$option" "$value" "$kind that can be used here"; done
done <<'ROWS'
label|label (KEY=VALUE)|a=b a= a=b=c|a =b =
push-header|header (Name: value)|A: A:b A:b:c|A : :b
push-select|selection (comm=, exe=, unit=, user= or service_name=)|comm=x exe=/x unit=x user=x service_name=x|x comm comm= exe= unit= user= service_name= pid=1
push|URL (http://HOST:PORT) of at most 1023 bytes|http://a https://a:1 http://a:65535/ http://u@[::1]:80?q|a:80 http:// http://:80 http://a:0 http://a:65536 ftp://a
listen|text|a|
unix|text|a|
token-file|text|a|
cache|text|a|
ROWS
refuses push-header "A: b
C: d" "header (Name: value) that can be used here"
"$AGENT" --passive --allow-control --debuginfod --fly 2>words.err
has "$(cat words.err)" 'no such option: --fly' "flags take no value"
for option in passive allow-control debuginfod; do
	"$AGENT" "--$option=" 2>words.err
	is "$? $(cat words.err)" "2 jeprofd: --$option takes no value" "not an empty one either"
done
for option in rate look push-header label listen; do
	"$AGENT" "--$option" 2>words.err
	is "$? $(cat words.err)" "2 jeprofd: --$option takes a value" "--$option takes one"
done
long_url=http://$(printf '%01016d' 0)
takes push "$long_url"
"$AGENT" --push "${long_url}0" --fly 2>words.err
has "$? $(cat words.err)" 'is no URL (http://HOST:PORT) of at most 1023 bytes' "a URL of 1024 bytes"
for n in 32 33; do
	# shellcheck disable=SC2046
	"$AGENT" $(seq -f '--label=k%g=v' "$n") --fly 2>words.err
	has "$(cat words.err)" "$([ "$n" = 32 ] && echo 'no such option' || echo 'label: "k33=v" is no label')" "$n labels"
done
for text in 'long \0 and more' '\0' 'a tab\tand more'; do
	printf "$text\n" >token # shellcheck disable=SC2059
	"$AGENT" --token-file token 2>words.err
	is "$? $(cat words.err)" "1 jeprofd: --token-file: token: the token has control characters, which no request can have" "a token that nobody can send: $text"
done
printf 'short\n' >token
"$AGENT" --token-file token 2>words.err
is "$? $(cat words.err)" "1 jeprofd: --token-file: token: the token has less than 8 bytes" "a short token"
mkfifo unwritten
timeout 60 "$AGENT" --token-file unwritten 2>words.err
is "$? $(cat words.err)" "1 jeprofd: --token-file: unwritten: nothing came out of it, so nobody may be writing it" "a pipe that nobody writes"
echo "$long" >token
"$AGENT" --token-file token 2>words.err
is "$? $(cat words.err)" "1 jeprofd: --token-file: token: the token has more than 510 bytes" "a long token is not cut"
done_testing
