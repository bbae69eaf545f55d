#!/bin/sh
# Control of a running program: the control directory's answers and refusals, jeprofctl on the real library,
# the mailbox in a memory file, a system that refuses threads.
. "$JEMALLOC_SRC/test/include/tap.sh"

CTL=$BUILD/bin/jeprofctl
[ -x "$CTL" ] || skip_all "built without the profiler"
CTL="$CTL --wait 60s"

cat >busy.c <<'END'
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* clone and clone3 fail with EPERM. */
static void
no_threads(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {sizeof(code) / sizeof(code[0]), code};
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

static void *kept[200];

__attribute__((noinline)) static void *
busy_leaf(size_t n)
{
	void *p = malloc(n);
	memset(p, 1, n);
	return p;
}

int
main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "nothreads") == 0)
		no_threads();
	if (argc > 1 && strcmp(argv[1], "undumpable") == 0)
		prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	alarm(900); /* should the test have died */
	if (argc > 1 && strcmp(argv[1], "silent") == 0) {
		free(busy_leaf(3000));
		if (syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		} else { /* only the child allocates, until somebody tells the parent to */
			while (access("go", F_OK) != 0)
				usleep(10000);
		}
	}
	free(busy_leaf(3000));
	write(1, "ready\n", 6);
	for (unsigned i = 0;; i++) {
		free(kept[i % 200]);
		kept[i % 200] = busy_leaf(3000 + i % 200 * 10);
		usleep(2000);
	}
}
END
$CC -w -g -O1 -o busy busy.c || exit 1

# begin CONF ARGS: the program, preloaded; its number in pid
begin() {
	conf=$1
	shift
	rm -f said ready
	MALLOC_CONF=$conf LD_PRELOAD=$LIB ./busy "$@" >ready 2>said &
	pid=$!
	until_true [ -s ready ] # it has allocated: the mailbox is open
}

end() {
	kill "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
}

# ask TEXT: through the control directory; the answer in answer
ask() {
	rm -f "$D/$pid.status"
	printf '%s\n' "$1" >"$D/new" && mv "$D/new" "$D/$pid.cmd"
	await
}

await() {
	until_true [ -e "$D/$pid.status" ]
	answer=$(cat "$D/$pid.status" 2>/dev/null)
}

# ---- the directory ----
umask 077
D=$W/ctl
mkdir -m 755 "$D"
# A prefix that is relative, in a current directory that was deleted.
mkdir gone
cd gone && rmdir "$W/gone"
for prefix in p ./p; do
	rm -f "$W/said" "$W/ready"
	MALLOC_CONF="prof_ctl_dir:$D,prof:true,prof_prefix:$prefix" LD_PRELOAD=$LIB "$W/busy" >"$W/ready" 2>"$W/said" &
	pid=$!
	until_true [ -s "$W/ready" ]
	has "$(cat "$W/said")" "<jemalloc>: prof_prefix:$prefix: there is no such directory, so no profile can be written." "no directory: $prefix"
	ask "dump $W/p.heap"
	is "$answer" "nonce=0 error=1
no path is allowed here: the configured prefix is relative, and the current directory had no usable path" "nor another one"
	ask "dump p.heap"
	has "$answer" "error=1" "nor one that is relative too"
	end
	rm -f "$D/$pid.status"
done
cd "$W" || exit 1
begin "prof_ctl_dir:$D,prof_prefix:$W/p"
has_thread() { [ "$(ls "/proc/$pid/task" | wc -l)" -eq 2 ]; }
until_true has_thread
sleep 0.3 # its first look: what was not asked is not answered
is "$(ls "$D")" "" "nothing is answered before it is asked"
echo left >"$D/$pid.status.tmp" # as of a process of that pid that was killed while it wrote
ask status
has "$answer" "nonce=0 error=0" "status is answered"
has "$answer" "state=idle" "idle"
[ ! -e "$D/$pid.cmd" ]
ok $? "the command is gone"
is "$(ls "$D")" "$pid.status" "nothing else is left"
ask "nonce=abc start sample_interval:1K"
is "$answer" "nonce=abc error=0
1" "start, with a nonce"
ask "dump $W/other"
is "$answer" "nonce=0 error=0
$W/other" "a file in the directory of the prefix"
echo data >"$W/important.db"
ask "dump $W/important.db"
has "$answer" "error=17" "a file that is no profile is not replaced"
has "$answer" "that is no profile" "and why"
cp "$W/important.db" "$W/fake.heap"
ask "dump $W/fake.heap"
has "$answer" "error=17" "nor one that only has the ending"
cp "$W/other" "$W/other.txt"
ask "dump $W/other.txt"
has "$answer" "error=17" "nor one that only begins as one"
is "$(cat "$W/important.db" "$W/fake.heap")" "data
data" "they are as they were"
ask "dump $W/mine.heap"
ask "dump $W/mine.heap"
is "$answer" "nonce=0 error=0
$W/mine.heap" "a profile is replaced"
ask "dump /tmp/elsewhere.$pid"
has "$answer" "error=1
only $W/, the directory of the configured prefix, is allowed here" "no file elsewhere"
ask "dump $W/../elsewhere"
has "$answer" "error=1
" "nor by dots"
ask stop
has "$answer" "error=0
$W/p." "stop, with the path"
ask "start prefix:/tmp/elsewhere"
has "$answer" "error=1
" "no prefix elsewhere"
if command -v prlimit >/dev/null; then
	rm -f "$D/$pid.status"
	prlimit --pid "$pid" --nofile=3:1024
	printf 'nonce=7 status\n' >"$D/new" && mv "$D/new" "$D/$pid.cmd"
	sleep 1.2 # two looks
	prlimit --pid "$pid" --nofile=1024:1024
	await
	has "$answer" "nonce=7 error=0" "a command that came while no descriptor was left is carried out later"
fi
ask "dump-stream"
has "$answer" "error=95" "no stream this way"

rm -f "$D/$pid.status"
printf status >"$D/new" && mv "$D/new" "$D/$pid.cmd"
await
has "$answer" "error=74" "a truncated command"
rm -f "$D/$pid.status"
head -c 1048576 /dev/zero | tr '\0' x >"$D/new" && mv "$D/new" "$D/$pid.cmd"
await
has "$answer" "too long" "1 MiB"
rm -f "$D/$pid.status"
echo status >"$W/target" && ln -s "$W/target" "$D/$pid.cmd"
await
has "$answer" "error=13" "a symbolic link"
rm -f "$D/$pid.status"
mkfifo "$D/$pid.cmd"
await
has "$answer" "no regular file" "a FIFO"
rm -f "$D/$pid.status"
ln "$W/target" "$D/$pid.cmd"
await
has "$answer" "more than one link" "a hard link"
rm -f "$D/$pid.status" "$W/target"
echo status >"$D/new" && chmod 666 "$D/new" && mv "$D/new" "$D/$pid.cmd"
await
has "$answer" "writable by others" "a command that others may write"
rm -f "$D/$pid.status"
echo status >"$D/new"
if chown 12345 "$D/new" 2>/dev/null; then
	mv "$D/new" "$D/$pid.cmd"
	await
	has "$answer" "another user" "a command of another user"
fi
end

mkdir open && chmod 777 open
begin "prof_ctl_dir:$W/open"
until_true grep -q 'not used' said
has "$(cat said)" "prof_ctl_dir:$W/open is not used: it is writable by others" "a directory for all"
chmod 755 open
D=$W/open
ask status
has "$answer" "nonce=0 error=0" "mended, it is used"
D=$W/ctl
end
ln -s "$D" link
begin "prof_ctl_dir:$W/link"
until_true grep -q 'not used' said
has "$(cat said)" "is not used: it cannot be opened" "a directory by a link"
end

mkdir foreign
if chown 12345 foreign 2>/dev/null; then
	begin "prof_ctl_dir:$W/foreign"
	until_true grep -q 'not used' said
	has "$(cat said)" "is not used: it belongs to another user" "a directory of another user"
	end
fi

MALLOC_CONF=abort_conf:false,prof_ctl_dir:ctl LD_PRELOAD=$LIB /bin/true 2>said
has "$(cat said)" "Hint: prof_ctl_dir takes an absolute path of at most" "a relative directory: what is wrong with it"

# ---- the mailbox ----
begin ""
out=$($CTL start "$pid" --rate 1K -q 2>err)
is "$out" "session 1" "jeprofctl start, empty MALLOC_CONF" "$(cat err)"
$CTL start "$pid" >/dev/null 2>&1
is $? 4 "again: 4"
$CTL stop "$pid" --session 5 >/dev/null 2>&1
is $? 6 "another's session: 6"
out=$($CTL dump "$pid" -o "$W/streamed" -q 2>err)
has "$(head -n 1 streamed)" "heap_v2/" "a streamed dump" "$(cat err)"
has "$(tail -n 1 streamed)" "# end " "whole"
out=$($CTL stop "$pid" -q 2>err)
has "$(cat "$out")" "# jemalloc.kind=session" "stop: a profile" "$out" "$(cat err)"
has "$("$BUILD/bin/jeprof" --text ./busy "$out" 2>/dev/null)" busy_leaf "names the function that allocates"
end

# The descriptors of a process that is not dumpable are shown to root alone.
begin "prof_ctl_fd:true" $([ "$(id -u)" -ne 0 ] || echo undumpable)
out=$($CTL start "$pid" -q 2>err)
is "$out" "session 1" "prof_ctl_fd" "$(cat err)"
$CTL stop "$pid" -q >/dev/null 2>&1
end

# A child of clone(), which has the same memory file, leaves the requests to its parent.
rm -f go
begin "prof_ctl_fd:true" silent
$CTL start "$pid" -q >out 2>err &
asker=$!
until_true [ -s ready ]
sleep 1
kill -0 "$asker" 2>/dev/null
ok $? "no child answers for its parent" "$(cat out err)"
: >go
wait "$asker"
is "$(cat out)" "session 1" "which answers itself" "$(cat err)"
$CTL dump "$pid" -q >out 2>err
is $? 0 "and has the session" "$(cat err)"
end

begin "" nothreads
out=$($CTL start "$pid" --max 1 -q 2>err)
is "$out" "session 1" "without threads" "$(cat err)"
has "$(cat err)" "system calls are filtered (seccomp)" "under a filter none is made, which is said"
is_idle() { $CTL status "$pid" | grep -q '^state  *idle'; }
until_true is_idle
$CTL stop "$pid" >/dev/null 2>&1
is $? 4 "its time was over all the same"
is "$(cat said)" "" "and nothing is said by the program"
end

begin "prof_thread:true" nothreads
is "$(ls /proc/$pid/task | wc -l)" 2 "with prof_thread:true the thread is there before the filter"
out=$($CTL start "$pid" --max 1 -q 2>err)
is "$out" "session 1" "and a session begins" "$(cat err)"
until_true is_idle
is "$(cat said)" "" "nothing is said by the program"
end

begin "prof_thread:false"
out=$($CTL start "$pid" -q 2>err)
is "$out" "session 1" "prof_thread:false" "$(cat err)"
is "$(ls /proc/$pid/task | wc -l)" 1 "one thread"
end

# A constructor that runs before the library's own, while the loader may hold its locks.
cat >early.c <<'END'
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int mallctl(const char *, void *, size_t *, void *, size_t);
static int
tasks(void)
{
	DIR *d = opendir("/proc/self/task");
	int n = -2;
	while (d != NULL && readdir(d) != NULL)
		n++;
	if (d != NULL)
		closedir(d);
	return n;
}
static int error, early;
__attribute__((constructor)) static void
begin(void)
{
	error = mallctl("prof.session.start", NULL, NULL, NULL, 0);
	for (int i = 0; i < 50000; i++)
		free(malloc(3000));
	early = tasks();
}
void
tell(void)
{
	for (int i = 0; i < 1000 && tasks() < 2; i++)
		usleep(10000);
	printf("%d %d %d\n", error, early, tasks());
}
END
printf 'void tell(void);\nint main(void) { tell(); return 0; }\n' >late.c
runs "an early constructor compiles" $CC -fPIC -shared -fno-builtin -o libearly.so early.c
runs "and a program with it" $CC -o late late.c -L. -learly -Wl,--unresolved-symbols=ignore-all -Wl,-rpath,"$W"
is "$(LD_PRELOAD=$LIB ./late)" "0 1 2" "a session begins there; its thread comes with the library's constructor"
done_testing
