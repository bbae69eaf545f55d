#!/bin/sh
# Ways in: kinds of programs, namespaces, the memfd, the control directory, and every refusal with its remedy.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/jeprofctl/aid"

build() {
	target=$1
	shift
	$CC -std=gnu11 -O1 -w -I"$SRC/src" -o "$target" "$SRC/test/jeprofctl/fake.c" "$@" 2>cc.out
}

# works NAME: start, dump and stop of the process started last
works() {
	ctl start "$pid" -q
	gives 0 "$1: start"
	ctl stop "$pid" -q
	gives 0 "$1: stop"
	[ -f "$out" ]
	ok $? "$1: the path opens here" "$out"
	rm -f "$out"
}

for kind in -static -no-pie -static-pie -Wl,-s -Wl,--gc-sections -m32; do
	if build "x$kind" $kind; then
		PROGRAM=$W/x$kind
		fake normal
		works "$kind"
		end
	else
		skip "cannot build with $kind"
	fi
done
cp "$NAME" gone
PROGRAM=$W/gone
fake gone
[ ! -e gone ]
ok $? "the program's file is deleted"
works "deleted file"
end
unset PROGRAM
mkdir dir
build future -DFAKE_VERSION=3
PROGRAM=$W/future
fake normal
ctl start "$pid"
gives 5 "another protocol"
has "$err" "speaks mailbox protocol 3, this program 2" "and said"
end
build without -DFAKE_BYTES=0
PROGRAM=$W/without
fake normal
ctl start "$pid"
gives 5 "a library without a profiler"
has "$err" "built without the profiler (--disable-prof)" "and said"
end
unset PROGRAM
# a process without the library: the line that starts it on that, for a shell
mkdir -p "it's (here)/bin" "it's (here)/lib"
cp jeprofctl "it's (here)/bin"
: >"it's (here)/lib/libjemalloc.so.2"
sleep 1000 &
pid=$!
children="$children $pid"
is_sleep() { tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q ^sleep; }
until_true is_sleep
CTL="$W/it's (here)/bin/jeprofctl"
ctl status "$pid" --wait 100ms
CTL=$W/jeprofctl
gives 5 "a process without the library"
has "$err" ": LD_PRELOAD='$W/it'\\''s (here)/lib/libjemalloc.so.2' sleep 1000" "how to start it, quoted for a shell"
kill "$pid"
fake closed
ctl start "$pid" --wait 200ms # how long it may still become one
gives 5 "closed"
has "$err" "keeps the mailbox closed" "and said"
end

# an object that lies in memory as a file only is no library
cat >reader.c <<'C'
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <stdio.h>
int main(int c, char **v) {
	char b;
	int fd = open(v[1], O_RDONLY);
	char *p = mmap(0, 65536, PROT_READ, MAP_PRIVATE, fd, 0);
	printf("ready %d\n", p[1]);
	fflush(stdout);
	return c - 2 + (int)read(0, &b, 1);
}
C
$CC -w -o reader reader.c
PROGRAM=$W/reader
fake "$W/$NAME"
ctl start "$pid" --wait 200ms
gives 5 "a program that reads the library's file"
end
unset PROGRAM

# the control directory
mkdir -m 755 ctl
fake directory "$W/ctl"
ctl start "$pid" --ctl-dir "$W/ctl"
gives 0 "control directory: start"
is "$out" "session 1" "its session"
is "$err" "next: jeprofctl dump $pid --ctl-dir $W/ctl, jeprofctl stop $pid --ctl-dir $W/ctl --session 1" "the next command has the directory too"
ln -s ctl "link to it"
ctl status "$pid" --ctl-dir "link to it"
has "$err" "next: jeprofctl dump $pid --ctl-dir 'link to it'" "quoted for a shell if it has blanks"
ctl start "$pid" --ctl-dir "$W/ctl"
gives 4 "control directory: again"
ctl status "$pid" --ctl-dir "$W/ctl" --json
has "$out" '"way":"control directory","state":"active"' "control directory: status"
ctl stop "$pid" --ctl-dir "$W/ctl"
gives 0 "control directory: stop"
rm -f "$out"
ctl dump "$pid" -o x --ctl-dir "$W/ctl"
gives 2 "control directory: no stream"
ctl stop "$pid" --ctl-dir "$W/none"
gives 5 "no such directory"
chmod 775 ctl
ctl stop "$pid" --ctl-dir "$W/ctl" --wait 100s
gives 5 "a directory that others may write, which no library uses"
has "$err" "$W/ctl is writable by others (mode 0775)" "is refused at once"
has "$err" "chmod go-w $W/ctl" "with the way out"
mkdir -m 775 "of others"
ctl stop "$pid" --ctl-dir "$W/of others" --wait 100s
has "$err" "chmod go-w '$W/of others'" "quoted for a shell if it has blanks"
chmod 755 ctl
is "$(find ctl -name '.*' -type f; ls ctl | grep cmd)" "" "no command is left"
end
fake distrustful "$W/ctl"
ctl start "$pid" --ctl-dir "$W/ctl"
gives 6 "a command that the library does not trust"
has "$err" "not a file to trust" "and why"
end
fake idle
ctl stop "$pid" --ctl-dir "$W/ctl" --wait 300ms
gives 7 "control directory that nobody reads"
is "$(ls ctl | grep cmd)" "" "the command was taken back"
kill -STOP "$pid"
until_true is_in_state "$pid" T
ctl stop "$pid" --ctl-dir "$W/ctl" --wait 300ms
gives 7 "control directory of a process that is stopped"
is "$err" "jeprofctl: $pid $NAME is stopped (by a signal or a debugger) and cannot answer; the command was taken back" "is said"
kill -CONT "$pid"
echo "stop" >"ctl/$pid.cmd"
ctl stop "$pid" --ctl-dir "$W/ctl" --wait 300ms
gives 7 "somebody else's command waits"
is "$(cat "ctl/$pid.cmd")" "stop" "and was not overwritten"
rm "ctl/$pid.cmd"
mkdir "ctl/$pid.cmd"
ctl stop "$pid" --ctl-dir "$W/ctl" --wait 100s
gives 5 "a directory in place of a command"
has "$err" "$W/ctl/$pid.cmd is a directory" "is told at once"
is "$(ls -A ctl | grep -v '\.status$')" "$pid.cmd" "and stays, alone"
rmdir "ctl/$pid.cmd"
end

if [ "$(id -u)" -ne 0 ] || ! command -v setpriv >/dev/null; then
	diag "not root, or no setpriv: other users and namespaces are not tested"
	done_testing
fi
nobody="setpriv --reuid=65534 --regid=65534 --clear-groups"

# a full disk
if can_unshare; then
	printf '#!/bin/sh\nmount -t tmpfs -o size=4k,mode=755 none "$0.d" && echo >"$0.d/full" && exec "$@"\n' >filled
	mkdir -m 755 filled.d
	chmod 755 filled
	fake idle
	AS="unshare -m $W/filled"
	ctl stop "$pid" --ctl-dir "$W/filled.d"
	unset AS
	gives 1 "control directory on a full disk"
	has "$err" "No space left on device" "and said"
	end
fi

# root and the control directory of another user's process
mkdir -m 755 theirs
chown 65534:65534 theirs
LAUNCH=$nobody
fake directory "$W/theirs"
ctl start "$pid" --ctl-dir "$W/theirs"
gives 0 "root, and a control directory of another user"
AS="setpriv --bounding-set -chown --inh-caps -chown"
ctl status "$pid" --ctl-dir "$W/theirs"
gives 0 "and without CAP_CHOWN"
unset AS
is "$(find theirs ! -name '*.status' -type f)" "" "and no command is left"
end
unset LAUNCH

# an answer with a relative path, as where the working directory makes the prefix too long
mkdir there
LAUNCH="env -C $W/there"
fake busy
unset LAUNCH
ctl start "$pid" prefix:rel
ctl stop "$pid" -q
is "$code $out" "0 $(ls "$W"/there/rel.*)" "a relative path begins at the directory of the process"
ctl status "$pid"
has "$out" " $(ls "$W"/there/rel.*)" "in the status too"
end

mkdir -p jail/tmp
build jail/static -static
PROGRAM=$W/jail/static
cp jail/static static
PROGRAM=$W/static fake chroot "$W/jail"
works "chroot"
ctl dump "$pid" /tmp/named -q
is "$out" "$W/jail/tmp/named" "chroot: the path as seen from outside"
mkdir jail/data
ln -s /data jail/link
ctl dump "$pid" /link/named -q
is "$out" "$W/jail/data/named" "chroot: a path with an absolute link, as seen from outside"
ctl status "$pid" --json
has "$out" '"blackbox":"'"$W/jail/data/named"'"' "chroot: the path of its box too"
ctl dump "$pid" named
gives 2 "chroot: a relative file name"
has "$err" "give an absolute path" "and why"
mkdir -p "jail$W" file/below
: >"jail$W/file"
AS="env -C $W/file/below"
ctl dump "$pid" named
gives 2 "chroot: a relative name, and it sees a file in place of a directory above ours"
has "$err" "give an absolute path" "and why"
unset AS
ctl dump "$pid" -o streamed
gives 0 "chroot: streamed"
has "$err" "jeprof top --sysroot=/proc/$pid/root streamed" "chroot: the next command looks for its program below its root"
ctl start "$pid" --prefix /none/p
gives 2 "chroot: a prefix in a directory that it does not see"
ctl start "$pid" --prefix /link/p
gives 0 "chroot: a prefix with an absolute link"
ctl stop "$pid" -q
[ -f "$out" ]
ok $? "chroot: its profile opens here" "$out"
end
unset PROGRAM

# the freezer of cgroup version 2, which /proc shows as sleep, and that of version 1
for group in /sys/fs/cgroup/unified /sys/fs/cgroup /sys/fs/cgroup/freezer; do
	group=$group/$NAME
	mkdir "$group" 2>/dev/null || continue
	switch=$group/cgroup.freeze frozen=1 thawed=0
	[ -e "$switch" ] || switch=$group/freezer.state frozen=FROZEN thawed=THAWED
	if [ -e "$switch" ]; then
		fake idle
		echo "$pid" >"$group/cgroup.procs"
		echo "$frozen" >"$switch"
		until_true grep -q -e '^frozen 1' -e '^FROZEN' "$group/cgroup.events" "$group/freezer.state" 2>/dev/null
		ctl start "$pid" --wait 300ms
		gives 7 "frozen by $switch"
		has "$err" "frozen" "and said"
		is "$(echo "$err" | grep -c prof_thread)" 0 "a thread of the profiler would not help"
		if can_unshare && grep -q -e '^do_freezer_trap$' -e '^get_signal$' "/proc/$pid/wchan"; then
			printf '#!/bin/sh\numount -l /sys/fs/cgroup || exit 1\nexec "$@"\n' >blind
			chmod 755 blind
			AS="unshare -m $W/blind"
			ctl dump "$pid" --wait 300ms
			unset AS
			gives 7 "frozen by $switch, which we do not see"
			has "$err" "is frozen" "and said"
		fi
		WAIT= # as a person types it
		ctl status "$pid"
		is "$(echo "$err" | grep -c next:)" 0 "no next step, as it has no tables"
		ctl start "$pid"
		unset WAIT
		has "$out" "pending: begins at its next allocation, once it is no longer " "a start may stay there"
		has "$out" "frozen" "and why it waits"
		echo "$thawed" >"$switch"
		end
	fi
	rmdir "$group"
done

if can_unshare; then
	cat >inside <<'S'
#!/bin/sh
mount -t tmpfs none "$1" || exit 1
shift
exec "$@"
S
	chmod 755 inside
	mkdir private
	LAUNCH="unshare -m $W/inside $W/private"
	fake normal
	ctl dump "$pid" "$W/private/p" -q
	gives 0 "mount namespace"
	is "$out" "/proc/$pid/root$W/private/p" "the path leads into it"
	[ -s "$out" ]
	ok $? "and opens"
	ln -s "$W/private" link
	ctl dump "$pid" "$W/link/q" -q
	is "$out" "/proc/$pid/root$W/private/q" "mount namespace: without the link, which would lead elsewhere"
	[ -s "$out" ]
	ok $? "and opens"
	end
	LAUNCH="unshare -p -f"
	fake normal
	inner=$(sed 's/ready //' ready)
	outer=$(pgrep -P "$launched" 2>/dev/null || cat "/proc/$launched/task/$launched/children")
	outer=$(echo $outer)
	ctl start "$outer" -q
	gives 0 "pid namespace: start"
	ctl status "$outer" --json
	has "$out" "\"own_pid\":$inner," "pid namespace: its own pid is known"
	ctl stop "$outer" -q
	has "$out" ".$inner." "pid namespace: the profile bears its own pid"
	rm -f "$out"
	end
	unset LAUNCH

	if command -v nsenter >/dev/null; then
		LAUNCH="unshare -p -f -m --mount-proc"
		fake normal
		unset LAUNCH
		child=$(cat "/proc/$launched/task/$launched/children")
		AS="nsenter -m -t ${child% }"
		ctl status "${child% }"
		unset AS
		gives 5 "/proc of another pid namespace"
		is "$err" "jeprofctl: ${child% } exists, but /proc here is that of another pid namespace" "and said"
		end
	fi

	printf '#!/bin/sh\numount -l /proc || exit 99\n[ ! -e /proc/self ] || exit 99\nexec "$@"\n' >bare
	chmod 755 bare
	fake normal
	AS="unshare -m $W/bare"
	ctl status "$pid"
	if [ "$code" -ne 99 ]; then
		gives 5 "without /proc"
		is "$err" "jeprofctl: /proc is not mounted here, so no process can be found" "which is the reason"
		ctl list
		gives 5 "without /proc: list"
		is "$err" "jeprofctl: /proc: it is not mounted here" "and says so"
		ctl status "$NAME"
		gives 5 "without /proc: a name"
	else
		skip "cannot unmount /proc"
	fi
	unset AS
	end

	# /proc that is mounted read-only; /proc/PID/mem that may not be opened
	fake memfd
	cat >outside <<'S'
#!/bin/sh
case $1 in
ro) mount -o remount,ro,bind /proc /proc || { mount --bind /proc /proc && mount -o remount,ro,bind /proc; } || exit 99 ;;
*) mount --bind "$2" "/proc/$3/mem" || exit 99 ;;
esac
how=$1
shift 3
[ "$how" = ro ] && exec "$@"
exec setpriv --reuid=65534 --regid=65534 --clear-groups ./unattached "$@"
S
	chmod 755 outside
	$CC -o unattached "$SRC/test/jeprofctl/unattached.c"
	AS="unshare -m $W/outside ro - -"
	ctl start "$pid" -q
	if [ "$code" -ne 99 ]; then
		gives 0 "read-only /proc"
		ctl stop "$pid" -q
		gives 0 "read-only /proc: stop"
		rm -f "$out"
	else
		skip "cannot remount /proc"
	fi
	unset AS
	end
	: >closed
	chmod 000 closed
	LAUNCH=$nobody
	fake memfd
	AS="unshare -m $W/outside mem $W/closed $pid"
	ctl start "$pid" -q
	if [ "$code" -ne 99 ]; then
		gives 0 "no right to attach, memfd"
		ctl status "$pid" --json
		has "$out" "mailbox (memfd)" "and said"
		ctl stop "$pid" -q
		gives 0 "no right to attach, memfd: stop"
		rm -f "$out"
		ctl list
		has "$out" "$pid  $NAME" "no right to attach, memfd: listed"
	else
		skip "cannot mount over /proc/PID/mem"
	fi
	end
	fake normal
	AS="unshare -m $W/outside mem $W/closed $pid"
	ctl start "$pid"
	[ "$code" -eq 99 ] || gives 5 "no right to attach, no memfd"
	case $err in *"holds no mailbox"*) ok 1 "of which nothing is said" "$err" ;; esac
	end
	fake junk
	AS="unshare -m $W/outside mem $W/closed $pid"
	ctl start "$pid"
	if [ "$code" -ne 99 ]; then
		gives 5 "no right to attach, a memfd of something else"
		has "$err" "its memory file jemalloc-mailbox holds no mailbox that we know, and " "which is said"
	fi
	end
	LAUNCH="$nobody env MALLOC_CONF=prof_ctl_dir:,x:y"
	fake normal
	AS="unshare -m $W/outside mem $W/closed $pid"
	ctl start "$pid"
	[ "$code" -eq 99 ] || gives 5 "no right to attach, an empty prof_ctl_dir: its working directory is none"
	end
	mkdir -m 755 nobody
	chown 65534:65534 nobody
	LAUNCH="$nobody env MALLOC_CONF=abc:1,prof_ctl_dir:/tmp,prof_ctl_dir:$W/nobody,x:y"
	fake directory "$W/nobody"
	AS="unshare -m $W/outside mem $W/closed $pid"
	ctl start "$pid" -q
	if [ "$code" -ne 99 ]; then
		gives 0 "no right to attach: the last control directory of its MALLOC_CONF"
		ctl dump "$pid" -o x
		gives 5 "which cannot stream"
		ctl stop "$pid" -q
		gives 0 "but stop"
		rm -f "$out"
	fi
	end
	unset AS LAUNCH
fi

# the control directory as others use it too: the process is played by this shell
mkdir -m 755 shared
fake normal
(
	until_true [ -e "shared/$pid.cmd" ]
	mv "shared/$pid.cmd" taken
	echo "nonce=1 status" >"shared/$pid.cmd"
	sleep 12
	sed 's/ .*/ error=0/' taken >answer
	mv answer "shared/$pid.status"
) &
ctl stop "$pid" --ctl-dir "$W/shared" --wait 10s
gives 0 "control directory: a command that was taken is waited for, though another one lies there"
wait $!
"$CTL" status "$pid" --ctl-dir "$W/shared" --wait 1h >ctl.out 2>ctl.err 9>&- &
asked=$!
until_true catches $asked
kill "$asked"
wait "$asked"
code=$? out=$(cat ctl.out) err=$(cat ctl.err)
has "$err" "interrupted; the command was not given" "control directory: an interrupt ends the wait for the place of another command"
[ "$(cat "shared/$pid.cmd")" = "nonce=1 status" ] && [ "$(ls -A shared | wc -l)" -eq 2 ]
ok $? "control directory: the command of somebody else stays, of ours nothing" "exit $code: $(ls -A shared)"
end

# somebody's command without a nonce was taken before ours, and fails while ours waits
fake normal
rm -f "shared/$pid.cmd" "shared/$pid.status"
(
	until_true [ -e "shared/$pid.cmd" ]
	printf 'nonce=0 error=28\nno room\n' >answer
	mv answer "shared/$pid.status"
	sleep 1
	mv "shared/$pid.cmd" taken
	sed 's/ .*/ error=0/' taken >answer
	mv answer "shared/$pid.status"
) 2>played.err &
ctl stop "$pid" --ctl-dir "$W/shared" --wait 100s
gives 0 "control directory: the failure of somebody else's command is no answer to ours"
wait $!
end

# a command that is taken, and not answered
fake normal
"$CTL" status "$pid" --ctl-dir "$W/shared" --wait 1h >ctl.out 2>ctl.err 9>&- &
asked=$!
until_true [ -e "shared/$pid.cmd" ]
mv "shared/$pid.cmd" taken
kill "$asked"
wait "$asked"
is "$(cat ctl.err)" "jeprofctl: interrupted; $pid $NAME has taken the command, and may still carry it out" "control directory: an interrupt after the command was taken"
end

# refusals
AS=$nobody
LAUNCH="setpriv --euid=65534 --clear-groups"
fake normal
unset LAUNCH
if shows_others "$pid"; then
	ctl start "$pid"
	gives 5 "a process of another user, with our effective user id"
	has "$err" "it belongs to uid 0, we are uid 65534" "whose it is"
fi
end
fake normal
ctl start "$pid"
gives 5 "another user's process"
if shows_others "$pid"; then
	has "$err" "it belongs to uid 0, we are uid 65534: use sudo" "reason and remedy"
	ctl list
	printf '%s' "$err" | grep -qE '^jeprofctl: [0-9]+ process(es)? may not be read; sudo shows more'
	ok $? "list counts what may not be read, in one line" "$err"
else
	has "$err" "$pid exists, but /proc hides it from us (hidepid): use sudo" "reason and remedy"
fi
if unshare -m mount -t proc -o hidepid=2 none /proc 2>/dev/null; then
	printf '#!/bin/sh\nmount -t proc -o hidepid=2 none /proc && exec %s "$@"\n' "$nobody" >hiding
	chmod 755 hiding
	AS="unshare -m $W/hiding"
	ctl start "$pid"
	gives 5 "/proc with hidepid"
	has "$err" "$pid exists, but /proc hides it from us (hidepid): use sudo" "reason and remedy"
	AS=$nobody
else
	skip "cannot mount /proc"
fi
end
LAUNCH=$nobody
fake normal
works "our own process, without root"
end
fake undumpable
ctl start "$pid"
gives 5 "not dumpable"
shows_others "$pid" && reason="it is not dumpable" || reason="/proc hides it from us (hidepid)"
has "$err" "$reason" "reason"
has "$err" "use sudo" "and remedy"
unset AS
ctl start "$pid" -q
gives 0 "which root may"
AS="setpriv --bounding-set=-sys_ptrace"
ctl start "$pid"
gives 5 "root without CAP_SYS_PTRACE"
has "$err" "it is not dumpable" "reason"
has "$err" "--cap-add SYS_PTRACE" "remedy"
if $nobody unshare -r true 2>/dev/null; then
	AS="$nobody unshare -r"
	ctl start "$pid"
	gives 5 "not dumpable, from a user namespace"
	has "$err" "it is not dumpable" "reason"
else
	skip "no user namespace"
	skip "no user namespace"
fi
unset AS
end
unset LAUNCH
done_testing
