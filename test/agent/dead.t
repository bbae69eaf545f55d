#!/bin/sh
# What jeprofd tells of processes that ended: how, at which size, and who held the memory; boxes that lie; bounds; a new jeprofd.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/agent/aid"

cat >hold.c <<'C'
/*
 * hold MODE: holds the last 60 MB; ends as told when a line comes on its standard input. With the mode "grow" it holds 6 MB, from the line
 * on more and more, and does not end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>
char *kept[1 << 16];
__attribute__((noinline)) char *hoard(size_t n) { char *p = malloc(n); memset(p, 1, n); return p; }
int
main(int argc, char **argv) {
	char line[8];
	int grows = strcmp(argv[1], "grow") == 0, most = grows ? 100 : 1000;
	for (int i = 0;; i++) {
		fd_set set;
		struct timeval wait = {0, 3000};
		char *p = hoard(65536);
		free(kept[i % most]);
		kept[i % most] = p;
		FD_ZERO(&set);
		FD_SET(0, &set);
		if (select(1, &set, NULL, NULL, &wait) == 1 && read(0, line, sizeof(line)) > 0) {
			if (!grows)
				break;
			most = 1 << 16;
		}
	}
	if (strcmp(argv[1], "abort") == 0)
		abort();
	if (strcmp(argv[1], "exec") == 0)
		execlp("sleep", "sleep", "1000", (char *)NULL);
	return strcmp(argv[1], "three") == 0 ? 3 : 0;
}
C
HOLD=hold$$
LIAR=liar$$
$CC -g -O1 -fno-builtin -o "$HOLD" hold.c || exit 1

# hold MODE: sets pid, when a scrape has begun its session and its box is held; a line to descriptor 9 ends it
hold() {
	rm -f go
	mkfifo go
	LD_PRELOAD=$LIB "./$HOLD" "$@" <go >/dev/null 2>&1 &
	pid=$!
	children="$children $pid"
	exec 9>go
	until_true is_target "$pid"
	until_true is_scraped
	sleep 0.5
}
is_scraped() { get "/p/$pid/debug/pprof/heap" && [ "$code" = 200 ] && has_box; }
# Another jeprofd of this machine may have begun a session before.
has_box() { [ -n "$without" ] || shows_box || { "$BUILD/bin/jeprofctl" stop "$pid" -q; false; }; }
shows_box() { "$BUILD/bin/jeprofctl" status "$pid" -q | grep -q '^blackbox  *memfd$'; }
without=
metric() { curl -s "$URL/metrics" | sed -n "s/^$1 //p"; }
# Whether its box is held. box is then the inode number of its memory file: other processes of this machine may have boxes too.
is_held() {
	curl -s "$URL/p/$pid/metrics" | grep -qx 'jeprof_box_held 1' || return 1
	held=$(metric jeprofd_boxes_held)
	for f in "/proc/$pid/fd"/*; do
		case $(readlink "$f") in /memfd:jemalloc-blackbox*) box=$(stat -L -c %i "$f") ;; esac
	done
}
is_free() { ! curl -s "$URL/p/$pid/metrics" | grep -qx 'jeprof_box_held 1' && is_closed; }
# The descriptors of an agent that is not root are closed to its user too; it counts what it holds.
is_closed() {
	if ls "/proc/$agent_pid/fd" >/dev/null 2>&1; then
		has_no_descriptor
	else
		[ "$(metric jeprofd_boxes_held)" -lt "$held" ]
	fi
}
has_no_descriptor() { ! stat -L -c %i "/proc/$agent_pid/fd"/* 2>/dev/null | grep -qx "${box:-none}"; }
# keys: those of /dead/, the last one first
keys() { curl -s "$URL/dead/" | grep -o '/dead/[0-9TZ.]*/' | cut -d/ -f3; }
own() { curl -s "$URL/dead/" | grep "<td>\($HOLD\|$LIAR\)</td>" | grep -o '/dead/[0-9TZ.]*/'; }
is_dead() { key=$(keys | grep "\.$1\$" | head -n 1) && [ -n "$key" ]; }
# told PID: what the list says of its end
told() { curl -s "$URL/dead/" | grep "\.$1/\"" | sed 's/.*<td>\([^<]*\)<\/td><td><svg.*/\1/'; }
# ends NAME HOW: how the process was told to end, and what is there of it
ends() {
	until_true is_dead "$pid"
	ok $? "$1: it is among the dead" "$(curl -s "$URL/dead/")"
	has "$(told "$pid")" "$2" "$1: how"
	until_true is_free
	ok $? "$1: its box is let go"
	is_target "$pid"
	is $? 1 "$1: it is no target"
}
# holds NAME: its profile names who held the memory
holds() {
	get "/dead/$key/debug/pprof/heap?raw=1"
	cp answer "dead.$pid.heap"
	is "$code" 200 "$1: heap_v2"
	grep -q '^# jemalloc.torn=0$' answer
	ok $? "$1: nothing is torn" "$(grep torn answer)"
	"$BUILD/bin/jeprof" top "dead.$pid.heap" >table 2>&1
	has "$(sed -n '/^ *self /{n;p;}' table)" " hoard" "$1: jeprof names who held most"
	get "/dead/$key/debug/pprof/heap"
	is "$code" 200 "$1: profile.proto"
	gzip -dc answer | tr -d '\000' | grep -q hoard
	ok $? "$1: with names"
}

agent --interval 60s --rate 16K --cache "$W/cache"
is "$(own)" "" "none is dead"

# ---- kinds of ends ----
hold three
until_true is_held
ok $? "a scrape begins a session with a box, which is held"
shows_box
ok $? "in a memory file" "$("$BUILD/bin/jeprofctl" status "$pid" -q | grep black)"
is "$("$BUILD/bin/jeprofctl" status "$pid" --json -q | sed -n 's/.*"blackbox_size":"*\([0-9]*\).*/\1/p')" 4194304 "of 4 MiB"
sleep 2.2
kill -9 "$pid"
wait "$pid" 2>/dev/null
ends "kill -9" "ended by SIGKILL at "
holds "kill -9"
get "/dead/$key/"
gives 200 "ended by SIGKILL at " "its page"
gives 200 'data-from="debug/pprof/heap?ages=1" data-interval="0"' "fetches its profile once"
gives 200 '<polyline fill="none" stroke="#999" points="' "and shows its last time"
gives 200 ' seconds: resident grey, allocated red.' "as wide as it was long"
first=$key
hold abort
until_true is_held
echo >&9
wait "$pid" 2>/dev/null
ends "abort" "ended by SIGABRT"
holds "abort"
hold three
until_true is_held
echo >&9
wait "$pid" 2>/dev/null
ends "return 3" "exited with status 3"
holds "return 3"
hold plain
until_true is_held
echo >&9
until_true is_dead "$pid"
ok $? "return 0, and its parent does not wait: told at once"
has "$(told "$pid")" "exited with status 0" "return 0: how"
wait "$pid" 2>/dev/null
hold exec
until_true is_held
echo >&9
until_true is_free
ok $? "exec: its box is let go"
is_dead "$pid"
is $? 1 "exec: that is no end"
kill -9 "$pid"
sleep 0.5
is_dead "$pid"
is $? 1 "exec: nor is its end one of a process with a box"
[ "$(metric 'jeprofd_dead_total{how="signal"}')" -ge 2 ] && [ "$(metric 'jeprofd_dead_total{how="exit"}')" -ge 2 ]
ok $? "counted by how they ended" "$(curl -s "$URL/metrics" | grep jeprofd_dead)"
# Those of other tests end too.
are_kept() { [ "$(metric jeprofd_dead_kept)" -eq "$(keys | wc -l)" ]; }
until_true are_kept
ok $? "and how many are kept" "$(metric jeprofd_dead_kept)" "$(keys)"

# ---- a session without a box, and one that ends ----
hold plain
until_true is_held
"$BUILD/bin/jeprofctl" stop "$pid" -q >/dev/null 2>&1
until_true is_free
ok $? "the end of the session ends the hold"
"$BUILD/bin/jeprofctl" start "$pid" -q >/dev/null 2>&1
sleep 0.6
is_held
is $? 1 "a session without a box is not held"
kill -9 "$pid"
wait "$pid" 2>/dev/null
sleep 0.5
is_dead "$pid"
is $? 1 "and its end not kept"
MALLOC_CONF=prof:true,lg_prof_sample:14,prof_blackbox:fd,prof_blackbox_size:2M LD_PRELOAD=$LIB "./$HOLD" plain <go >/dev/null 2>&1 &
pid=$!
children="$children $pid"
exec 9>go
until_true is_held
ok $? "a box that MALLOC_CONF has made is held too"
sleep 1.5
scrapes=$(metric jeprofd_scrapes_total)
kill -9 "$pid"
wait "$pid" 2>/dev/null
ends "MALLOC_CONF" "ended by SIGKILL"
until_true [ -s "$W/cache/dead/$key.pprof" ]
ok $? "MALLOC_CONF: its profile is made" "$(ls "$W/cache/dead")"
sleep 0.2
is "$(metric jeprofd_scrapes_total)" "$scrapes" "which is no scrape"
holds "MALLOC_CONF"
# A box in a file of its own stays there: it is not held, nor counted.
MALLOC_CONF="prof:true,lg_prof_sample:14,prof_prefix:$W/own,prof_blackbox:true,prof_blackbox_size:2M" LD_PRELOAD=$LIB "./$HOLD" plain <go >/dev/null 2>&1 &
pid=$!
children="$children $pid"
exec 9>go
until_true is_target "$pid"
are_all_counted() { get /metrics && [ "$(sed -n 's/^jeprofd_boxes_held //p' answer)" -eq "$(grep -c '^jeprof_box_held{.* 1$' answer)" ]; }
until_true are_all_counted
ok $? "a box in a file is not counted" "$(grep '^jeprofd*_box' answer)"
until_true ls own.*.b.box
ls own.*.b.box >/dev/null && ! is_held
ok $? "nor held" "$(ls)"
kill -9 "$pid"

# ---- a process of another user: its /proc/PID/fd is closed to root without CAP_DAC_READ_SEARCH ----
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
	chmod 755 "$W"
	cp "$LIB" lib.so
	chmod 755 lib.so "$HOLD"
	rm -f go
	mkfifo go
	setpriv --reuid 65534 --regid 65534 --clear-groups env LD_PRELOAD="$W/lib.so" "$W/$HOLD" plain <go >/dev/null 2>&1 &
	pid=$!
	children="$children $pid"
	exec 9>go
	until_true is_target "$pid"
	until_true is_scraped
	until_true is_held
	ok $? "another user: its box is held" "$(cat agent.err)"
	# A copy of the process's descriptor would have its flags: it is opened anew, for reading.
	number=$(find "/proc/$agent_pid/fd" -type l -printf '%f %l\n' | sed -n 's/ .memfd:jemalloc-blackbox.*//p' | tail -n 1)
	is "$(sed -n 's/^flags:.*\(.\)$/\1/p' "/proc/$agent_pid/fdinfo/$number")" 0 "for reading only"
	kill -9 "$pid"
	wait "$pid" 2>/dev/null
	ends "another user" "ended by SIGKILL"
	holds "another user"
	is "$(grep -c 'cannot be opened' agent.err)" 0 "no box is told as closed"
else
	skip "not root"
fi

# ---- killed for want of memory ----
if group=$("$SRC/scripts/memory-group" 83886080 "jeprofd-test.$$.service" 2>reason); then
	rm -f go
	mkfifo go
	(read -r _ <go && echo 0 >"$group/cgroup.procs" && LD_PRELOAD=$LIB exec "./$HOLD" grow <go >/dev/null 2>&1) &
	pid=$!
	children="$children $pid"
	exec 9>go
	echo >&9
	until_true is_target "$pid"
	until_true is_scraped
	until_true is_held
	echo >&9
	wait "$pid" 2>/dev/null
	ends "OOM" "killed by the kernel for want of memory at "
	has "$(told "$pid")" " of 80M, growing by " "OOM: the limit of the group, and the growth"
	[ "$(metric 'jeprofd_dead_total{how="oom"}')" -ge 1 ]
	ok $? "OOM: counted"
	holds "OOM"
	get "/dead/$key/"
	gives 200 ">service</td><td class=\"t\">jeprofd-test.$$</td>" "OOM: its service is the group's name without .service"
	LD_PRELOAD=$LIB "./$HOLD" plain <go >/dev/null 2>&1 &
	pid=$!
	children="$children $pid"
	exec 9>go
	echo "$pid" >"$group/cgroup.procs"
	until_true is_target "$pid"
	until_true is_scraped
	until_true is_held
	kill -9 "$pid"
	wait "$pid" 2>/dev/null
	ends "kill -9 in the same group later" "ended by SIGKILL"
	rmdir "$group"
else
	skip "$(cat reason)"
fi

# ---- boxes that lie ----
cat >liar.c <<'C'
/*
 * liar MODE: changes the bytes of its box when a line comes on its standard input, and kills itself; its mailbox is the library's own
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
static char *box;
static size_t size;
static int
find(void) {
	char line[512];
	FILE *maps = fopen("/proc/self/maps", "r");
	while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
		unsigned long from, to, offset;
		if (strstr(line, "jemalloc-blackbox") != NULL && sscanf(line, "%lx-%lx %*s %lx", &from, &to, &offset) == 3 && offset == 0) {
			box = (char *)from;
			size = to - from;
		}
	}
	fclose(maps);
	return box != NULL;
}
int
main(int argc, char **argv) {
	unsigned seed = argc > 2 ? atoi(argv[2]) : 1;
	for (int i = 0; !find(); i++) {
		free(malloc(9000));
		usleep(1000);
	}
	fcntl(0, F_SETFL, O_NONBLOCK);
	for (char line; read(0, &line, 1) != 1;) {
		free(malloc(9000));
		usleep(500);
	}
	if (strcmp(argv[1], "zero") == 0)
		memset(box + 4096, 0, size - 4096);
	if (strcmp(argv[1], "magic") == 0)
		memset(box, 0, 8);
	if (strcmp(argv[1], "random") == 0) {
		srand(seed);
		for (int i = 0; i < 3000; i++)
			box[64 + (size_t)rand() % (128 << 10)] = (char)rand();
	}
	raise(9);
}
#include <signal.h>
C
$CC -g -O1 -w -fno-builtin -include signal.h -o "$LIAR" liar.c || exit 1
for mode in zero magic "random 1" "random 2" "random 3"; do
	rm -f go
	mkfifo go
	# shellcheck disable=SC2086
	MALLOC_CONF=prof:true,lg_prof_sample:12,prof_blackbox:fd,prof_blackbox_size:2M LD_PRELOAD=$LIB "./$LIAR" $mode <go &
	pid=$!
	children="$children $pid"
	exec 9>go
	until_true is_held
	echo >&9
	wait "$pid" 2>/dev/null
	ends "liar $mode" "ended by SIGKILL"
	get "/dead/$key/debug/pprof/heap"
	case $mode in
	magic) gives 404 "no profile of $key: " "liar $mode: one sentence"
		get "/dead/$key/"
		gives 200 "There is no profile: " "liar $mode: its page says so"
		is "$(grep -c "href=.debug/pprof" answer)" 0 "liar $mode: and has no link to one" ;;
	*) case $code in 200 | 404) ok 0 "liar $mode: a profile or a sentence" ;; *) ok 1 "liar $mode" "$code $out" ;; esac ;;
	esac
	get "/dead/$key/"
	gives 200 "ended by SIGKILL" "liar $mode: its page"
done
kill -0 "$agent_pid"
ok $? "jeprofd lives"

# ---- paths ----
for path in /dead/x/ /dead/../ /dead/20261125T000000.000Z.1/other /dead/1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1/; do
	get "$path" --path-as-is
	is "$code" 404 "$path"
done
get /dead/20261125T000000.000Z.1/
gives 404 'nothing is kept' "another key"
get /dead/20261125T000000.000Z.1/debug/pprof/heap
gives 404 'nothing is kept' "its profile"
get "/dead/$first/debug/pprof/heap?seconds=1"
gives 400 'no such argument' "a difference of the dead"
get "/dead/$first/debug/pprof/heap" -X POST
gives 405 'wants GET' "POST"

# ---- a new jeprofd ----
before=$(own)
hold abort
until_true is_held
kill -9 "$agent_pid"
wait "$agent_pid" 2>/dev/null
umask 022 # what others may write is not jeprofd's
printf 'damaged' >"$W/cache/dead/20261125T000000.000Z.1.box"
# What a jeprofd that is killed leaves: a draft, a profile whose box is gone; and the draft of one that lives.
printf 'half' >"$W/cache/dead/20261125T000000.000Z.2.box.draft"
touch -d '1 hour ago' "$W/cache/dead/20261125T000000.000Z.2.box.draft"
printf 'half' >"$W/cache/dead/20261125T000000.000Z.3.box.draft"
printf 'alone' >"$W/cache/dead/20261125T000000.000Z.4.pprof"
# What is not jeprofd's: other names, and what others could have written.
printf 'mine' >"$W/cache/dead/notes.pprof"
printf 'mine' >"$W/cache/dead/notes.box"
printf 'mine' >"$W/cache/dead/notes.draft"
touch -d '1 hour ago' "$W/cache/dead/notes.draft"
ln -s /etc/passwd "$W/cache/dead/20261125T000000.000Z.5.pprof"
agent --interval 60s --rate 16K --cache "$W/cache"
is "$(own)" "$before" "a new jeprofd knows the dead of the one before"
[ ! -e "$W/cache/dead/20261125T000000.000Z.1.box" ]
ok $? "a damaged file is removed"
is_swept() { [ ! -e "$W/cache/dead/20261125T000000.000Z.2.box.draft" ] && [ ! -e "$W/cache/dead/20261125T000000.000Z.4.pprof" ]; }
until_true is_swept
is "$(cd "$W/cache/dead" && ls -d notes.* 20261125T000000.000Z.5.pprof)" "20261125T000000.000Z.5.pprof
notes.box
notes.draft
notes.pprof" "what is not its own stays"
(cd "$W/cache/dead" && rm -f notes.* 20261125T000000.000Z.5.pprof)
is "$(cd "$W/cache/dead" && echo 20261125T000000.000Z.[234].*)" 20261125T000000.000Z.3.box.draft "so are an old draft and a profile without a box"
rm -f "$W/cache/dead/20261125T000000.000Z.3.box.draft"
until_true is_held
ok $? "and it holds the boxes of those that live"
echo >&9
wait "$pid" 2>/dev/null
ends "after the restart" "ended by SIGABRT"
holds "after the restart"
get "/dead/$first/debug/pprof/heap"
is "$code" 200 "a profile from before the restart"

# ---- many ----
named() { curl -s "$URL/dead/" | grep -c "<td>$1</td>"; }
others=$(named "$LIAR")
many=
i=0
while [ "$i" -lt 70 ]; do
	i=$((i + 1))
	MALLOC_CONF=prof:true,lg_prof_sample:12,prof_blackbox:fd,prof_blackbox_size:1M LD_PRELOAD=$LIB "./$HOLD" plain <go >/dev/null 2>&1 &
	many="$many $!"
done
children="$children $many"
held() { curl -s "$URL/metrics" | grep "^jeprof_box_held{.*comm=\"$HOLD\"" | grep -c ' 1$'; }
are_held() { [ "$(held)" -eq "$1" ]; }
until_true are_held 70
ok $? "70 boxes are held" "$(held)"
# shellcheck disable=SC2086
kill -9 $many
# shellcheck disable=SC2086
wait $many 2>/dev/null
until_true are_held 0
ok $? "and let go" "$(held)"
are_counted() { [ "$(metric 'jeprofd_dead_total{how="signal"}')" -ge 71 ]; }
until_true are_counted
ok $? "all are counted" "$(curl -s "$URL/metrics" | grep jeprofd_dead)"
is "$(keys | wc -l) $(metric jeprofd_dead_kept)" "64 64" "64 are kept"
is "$(named "$LIAR")" "$others" "those of another program among them"
keys | grep -qxF "$first"
is $? 1 "the oldest of the program that has most went"
[ "$(metric jeprofd_dead_bytes)" -lt $((256 << 20)) ] && [ "$(find "$W/cache/dead" -name '*.box' | wc -l)" -eq 64 ]
ok $? "and so many files" "$(metric jeprofd_dead_bytes)" "$(ls "$W/cache/dead" | head)"
end_agent
is "$ended" 0 "jeprofd ends"

# ---- in memory; off ----
agent --interval 60s --rate 16K
hold abort
until_true is_held
echo >&9
wait "$pid" 2>/dev/null
ends "without --cache" "ended by SIGABRT"
holds "without --cache"
end_agent
# Exec and death between two looks: the agent looks at the process once only, at its own start.
rm -f go
mkfifo go
MALLOC_CONF=prof:true,lg_prof_sample:12,prof_blackbox:fd LD_PRELOAD=$LIB "./$HOLD" exec <go >/dev/null 2>&1 &
pid=$!
children="$children $pid"
exec 9>go
until_true shows_box
agent --interval 60s --rate 16K --look 1h
until_true is_held
ok $? "looks once an hour: the box is held"
echo >&9
until_true is_closed
ok $? "exec: it is let go without another look"
kill -9 "$pid"
wait "$pid" 2>/dev/null
sleep 0.5
is "$(own)" "" "and its end is not one of a process with a box"
end_agent
agent --interval 60s --rate 16K --blackbox off
without=1
hold plain
sleep 0.6
is_held
is $? 1 "--blackbox off: it is not held"
"$BUILD/bin/jeprofctl" status "$pid" -q | grep -q '^blackbox'
is $? 1 "--blackbox off: the session has none"
get /dead/
gives 200 'blackbox off' "its list says so"
kill -9 "$pid"
end_agent
for size in 1 512K 2G x ''; do
	"$AGENT" --blackbox "$size" >out 2>&1
	is "$? $(grep -c 'no size (4M) or off, which may be from 1M to 1G' out)" "2 1" "--blackbox \"$size\""
done
done_testing
