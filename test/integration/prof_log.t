#!/bin/sh
# The log of sampled allocations: the command line that the notes give, valid JSON of the right content, started
# and stopped by hand, in forked children, to places where nothing can be written, a hundred thousand records.
. "$JEMALLOC_SRC/test/include/tap.sh"
[ "$(asks config.prof)" = true ] || skip_all "no profiler in this build"
command -v python3 >/dev/null || skip_all "no python3 to read JSON"

cat >prog.c <<'END'
#include <errno.h>
#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void *kept[100];

/* Each alone in a section, so that its ends are known. */
extern char __start_makes[], __stop_makes[], __start_drops[], __stop_drops[];

__attribute__((noinline, section("makes"))) static void
make_here(int n, size_t size)
{
	for (int i = 0; i < n; i++)
		kept[i] = malloc(size);
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline, section("drops"))) static void
drop_here(int n)
{
	for (int i = 0; i < n; i++)
		free(kept[i]);
	__asm__ volatile("" ::: "memory");
}

static int
log_start(const char *path)
{
	return mallctl("prof.log_start", NULL, NULL, path == NULL ? NULL : &path, path == NULL ? 0 : sizeof(path));
}

static int
log_stop(void)
{
	return mallctl("prof.log_stop", NULL, NULL, NULL, 0);
}

/* "name function" of our own two, for the reader of stacks. */
static void
functions(void)
{
	printf("make_here %p %p\n", (void *)__start_makes, (void *)__stop_makes);
	printf("drop_here %p %p\n", (void *)__start_drops, (void *)__stop_drops);
}

static void *
named(void *name)
{
	mallctl("thread.prof.name", NULL, NULL, &name, sizeof(name));
	make_here(10, 600);
	return NULL;
}

static void *
churn(void *arg)
{
	unsigned long seed = (unsigned long)arg;
	void *p[32] = {NULL};

	for (int i = 0; i < 20000; i++) {
		seed = seed * 6364136223846793005ul + 1442695040888963407ul;
		free(p[seed >> 59]);
		p[seed >> 59] = malloc(1 + (seed >> 40) % 3000);
	}
	for (int i = 0; i < 32; i++)
		free(p[i]);
	return NULL;
}

static void
in_thread(void *(*fn)(void *), void *arg)
{
	pthread_t t;

	pthread_create(&t, NULL, fn, arg);
	pthread_join(t, NULL);
}

/* What is logged, exactly. */
static void
content(void)
{
	functions();
	make_here(7, 500);      /* sampled before it begins, freed while it runs: in it */
	printf("start %d\n", log_start("content.json"));
	printf("again %d\n", log_start("other.json"));
	drop_here(7);
	in_thread(named, "a\"b\\c\td");
	drop_here(10);          /* made by one thread, freed by another */
	make_here(5, 100000);
	drop_here(5);
	make_here(3, 50);       /* still there at its end: not in it */
	printf("stop %d\n", log_stop());
	printf("again %d\n", log_stop());
	drop_here(3);
	printf("next %d\n", log_start(NULL));
	printf("stop %d\n", log_stop());
	printf("next %d\n", log_start(NULL));
	make_here(2, 50);
	drop_here(2);
	printf("stop %d\n", log_stop());
}

static void
refused(void)
{
	char *longer = malloc(5001);

	memset(longer, 'a', 5000);
	longer[5000] = '\0';
	printf("long %d\n", log_start(longer));
	printf("nowhere %d\n", log_start("/nowhere/x.json"));
	make_here(2, 50);
	drop_here(2);
	printf("stop %d\n", log_stop());
	printf("full %d\n", log_start("/dev/full"));
	make_here(2, 50);
	drop_here(2);
	printf("stop %d\n", log_stop());
	printf("good %d\n", log_start("good.json"));
	make_here(2, 50);
	drop_here(2);
	printf("stop %d\n", log_stop());
	printf("good %d\n", log_start("good.json"));
	printf("stop %d\n", log_stop());
}

static void
many(void)
{
	log_start("many.json");
	for (int i = 0; i < 1000; i++) {
		make_here(100, 64 + i % 10 * 64);
		drop_here(100);
	}
	printf("stop %d\n", log_stop());
}

/* Eight threads; started and stopped all the time. */
static void
load(void)
{
	pthread_t t[8];
	char name[40];
	int bad = 0;

	for (long i = 0; i < 8; i++)
		pthread_create(&t[i], NULL, churn, (void *)(i + 1));
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "load.%d.json", i);
		bad += log_start(name) != 0;
		usleep(500);
		bad += log_stop() != 0;
	}
	for (int i = 0; i < 8; i++)
		pthread_join(t[i], NULL);
	printf("bad %d\n", bad);
}

static void
forks(void)
{
	make_here(20, 700);
	drop_here(20);
	make_here(10, 700);
	fflush(stdout);
	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			drop_here(10);
			make_here(4, 700);
			drop_here(4);
			exit(0); /* its log ends by itself */
		}
		waitpid(pid, NULL, 0);
	}
	make_here(1, 700);
	printf("forked\n");
}

/* The directory changes while a log runs, as in a daemon. */
static void
moved(void)
{
	printf("start %d\n", log_start("here.json"));
	printf("chdir %d\n", chdir("/"));
	printf("stop %d\n", log_stop());
}

/* A log is begun and left to exit; the last objects are freed by exit's own functions. */
static void
drop_five(void)
{
	drop_here(5);
}

static void
left(void)
{
	mallctl("prof.session.start", NULL, NULL, &(const char *){"sample_interval:1"}, sizeof(char *));
	atexit(drop_five);
	printf("start %d\n", log_start("left.json"));
	make_here(20, 700);
	drop_here(20);
	make_here(6, 700);      /* one more than is freed: a leak */
}

/* A child that is forked while another thread writes a log begins one of its own. */
static void *
log_all_the_time(void *arg)
{
	for (int i = 0; i < 60; i++) {
		log_start("thread.json");
		churn(arg);
		log_stop();
	}
	return NULL;
}

static void
forks_while_writing(void)
{
	pthread_t t;
	int bad = 0, status;

	pthread_create(&t, NULL, log_all_the_time, (void *)5);
	for (int i = 0; i < 60; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			log_stop(); /* of the parent's, if it ran */
			int err = log_start("child.json");
			make_here(4, 700);
			drop_here(4);
			err = err != 0 ? err : log_stop();
			_exit(err);
		}
		waitpid(pid, &status, 0);
		bad += status != 0;
		usleep(2000);
	}
	pthread_join(t, NULL);
	printf("bad %d\n", bad);
}

int
main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*fn)(void);
	} jobs[] = {{"content", content}, {"refused", refused}, {"many", many}, {"load", load}, {"forks", forks},
	    {"forks2", forks_while_writing}, {"left", left}, {"moved", moved}};

	setvbuf(stdout, NULL, _IONBF, 0);
	for (unsigned i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++)
		if (strcmp(argv[1], jobs[i].name) == 0)
			jobs[i].fn();
	return 0;
}
END
compile_linked prog prog.c || exit 1
MALLOC_CONF=prof:true,lg_prof_sample:0,prof_final:true,prof_prefix:probe ./prog content >out 2>err
grep -q "^# jemalloc.unwinder=none" probe.*.f.heap && skip_all "no stacks in this build"
rm -f ./*.json ./*.heap out

# Reads logs: complains about whatever is not as it must be, then evaluates an expression with d, the document, and
# st(n), names of the functions (by the lines of "out") in a stack.
cat >look.py <<'END'
import json, sys

def check(d):
    assert list(d) == ["info", "threads", "stack_traces", "allocations"], list(d)
    i = d["info"]
    assert list(i) == ["duration", "version", "lg_sample_rate", "prof_time_resolution", "pid"], list(i)
    assert all(type(i[k]) is int and i[k] >= 0 for k in ("duration", "lg_sample_rate", "pid"))
    assert i["prof_time_resolution"] in ("default", "high")
    uids = [t["thr_uid"] for t in d["threads"]]
    assert len(set(uids)) == len(uids)
    assert all(list(t) == ["thr_uid", "thr_name"] for t in d["threads"])
    assert len(set(map(tuple, d["stack_traces"]))) == len(d["stack_traces"]), "a stack twice"
    assert all(s and all(f.startswith("0x") and int(f, 16) > 0 for f in s) for s in d["stack_traces"])
    used_threads, used_stacks = set(), set()
    last = 0
    for a in d["allocations"]:
        assert list(a) == ["alloc_thread", "free_thread", "alloc_trace", "free_trace", "alloc_timestamp",
                           "free_timestamp", "usize"], list(a)
        assert 0 < a["alloc_timestamp"] <= a["free_timestamp"] and a["usize"] > 0
        used_threads |= {a["alloc_thread"], a["free_thread"]}
        used_stacks |= {a["alloc_trace"], a["free_trace"]}
    assert used_threads == set(range(len(uids))), "threads are not 0..n"
    assert used_stacks == set(range(len(d["stack_traces"]))), "stacks are not 0..n"

functions = []
try:
    for line in open("out"):
        w = line.split()
        if len(w) == 3 and w[1].startswith("0x"):
            functions.append((w[0], int(w[1], 16), int(w[2], 16)))
except FileNotFoundError:
    pass

d = json.load(open(sys.argv[1]))
check(d)

def st(n):
    return [name for f in d["stack_traces"][n] for name, lo, hi in functions if lo <= int(f, 16) - 1 < hi]

print(eval(sys.argv[2]))
END

# look FILE EXPRESSION
look() {
	python3 look.py "$1" "$2" 2>&1
}

json() {
	python3 -m json.tool "$1" >/dev/null 2>err
	ok $? "$2: python3 -m json.tool" "$(cat err)"
}

# ---- as written
# (a debug build without log ends at the option log unless told not to)
lenient=
[ "$(asks config.debug)" = true ] && lenient=abort_conf:false,
grep -q '^#define CONFIG_LOG 1' "$BUILD/src/config.h" && has_log=1 || has_log=
mkdir notes && cd notes || exit 1
cp ../look.py .
for lib in libjemalloc.so libjemalloc.so.2; do
	rm -f ./*.json ./*.heap
	MALLOC_CONF="${lenient}prof:true,lg_prof_interval:20,lg_prof_sample:19,prof_log:true,log=." \
	    LD_PRELOAD="$LIBDIR/$lib" ../prog many >out 2>err
	is $? 0 "the line of the notes, with $lib" "$(cat err)"
	is "$(cat out)" "stop 0" "the program does its work"
	has "$(head -n 1 err)" '<jemalloc>: Note: "log=" is read as "log:"' "the pair with = is noted"
	if [ -n "$has_log" ]; then
		has "$(cat err)" "core.malloc.entry: size: " "the calls are logged"
	else
		is "$(sed -n 2p err)" "<jemalloc>: Invalid conf pair: log:." "the option that is not built in is reported"
		has "$(sed -n 3p err)" "it needs --enable-log" "with the build that has it"
		is "$(wc -l <err)" 3 "and nothing more is said"
	fi
	# prof_log is on already, so log_start of the program is refused and its log_stop ends this one
	is "$(ls ./*.json | grep -c '^\./jeprof\.[0-9]*\.0\.json$')" 1 "prof_log: a log"
	json jeprof.*.0.json "prof_log"
	is "$(look jeprof.*.0.json 'd["info"]["lg_sample_rate"]')" 19 "lg_prof_sample: holds"
	# 35 MiB are allocated in all
	n=$(ls ./*.i*.heap | wc -l)
	ok "$([ "$n" -ge 33 ] && [ "$n" -le 36 ]; echo $?)" "lg_prof_interval:20: a profile each MiB, $n"
done
cd ..

# ---- content
ALL=prof:true,lg_prof_sample:0
MALLOC_CONF=$ALL ./prog content >out 2>err
is "$? $(grep -v 0x out | tr '\n' ' ')" "0 start 0 again 14 stop 0 again 14 next 0 stop 0 next 0 stop 0 " \
    "started twice, stopped twice: EFAULT" "$(cat err)"
f=content.json
json $f content
is "$(look $f 'len(d["allocations"])')" 22 "what was freed while it ran is in it, all of it"
# the class of 100 000 bytes
large=114688
is "$(look $f 'sorted(set((a["usize"]) for a in d["allocations"]))')" "[512, 640, $large]" "usable sizes"
is "$(look $f "[sum(a['usize'] == u for a in d['allocations']) for u in (512, 640, $large)]")" "[7, 10, 5]" \
    "so many of each"
is "$(look $f 'all(st(a["alloc_trace"])[0] == "make_here" and st(a["free_trace"])[0] == "drop_here" for a in d["allocations"])')" \
    True "stacks of both ends"
is "$(look $f 'sorted(t["thr_name"] for t in d["threads"])')" "['', 'a\"b\\\\c\\td']" \
    "names of threads, whatever is in them"
is "$(look $f 'all((d["threads"][a["alloc_thread"]]["thr_name"] != "") == (a["usize"] == 640) and d["threads"][a["free_thread"]]["thr_name"] == "" for a in d["allocations"])')" \
    True "who made it and who freed it"
is "$(look $f 'len(d["stack_traces"])')" 6 "each stack once" "$(look $f 'd["stack_traces"]')"
is "$(ls jeprof.*.json | sed 's/\.[0-9]*\./.PID./' | tr '\n' ' ')" "jeprof.PID.0.json jeprof.PID.1.json " \
    "names of the library's own are numbered"
is "$(look "$(ls jeprof.*.0.json)" '[d["threads"], d["stack_traces"], d["allocations"]]')" "[[], [], []]" \
    "an empty log is a log"
is "$(look "$(ls jeprof.*.1.json)" 'len(d["allocations"])')" 2 "the second begins anew"
[ ! -e other.json ]
ok $? "of a refused start nothing comes"
MALLOC_CONF=$ALL,prof_time_resolution:high ./prog content >out 2>err
is "$(look content.json 'd["info"]["prof_time_resolution"] == "high" and 0 < d["info"]["duration"] < 10**15 and all(a["alloc_timestamp"] > 10**18 for a in d["allocations"])')" \
    True "prof_time_resolution:high: the time of day in ns"
./prog content >out 2>err
has "$(cat out)" "start 2" "without the profiler: ENOENT"

# ---- where nothing can be written
rm -f ./*.json
MALLOC_CONF=$ALL ./prog refused >out 2>err
is "$? $(tr '\n' ' ' <out)" "0 long 14 nowhere 0 stop 14 full 0 stop 14 good 0 stop 0 good 0 stop 0 " \
    "the stop fails, and the next log is good"
has "$(cat err)" "failed to write the allocation log \"/nowhere/x.json\": ENOENT" "said where and why"
has "$(cat err)" "failed to write the allocation log \"/dev/full\": ENOSPC" "for a full one too"
is "$(ls -A | grep -c -E 'tmp|x\.json')" 0 "no half file"
is "$(look good.json 'len(d["allocations"])')" 0 "a file of the same name is replaced"

# ---- many, and under load
MALLOC_CONF=$ALL ./prog many >out 2>err
is "$(cat out)" "stop 0" "a hundred thousand records" "$(cat err)"
json many.json many
is "$(look many.json 'len(d["allocations"])')" 100000 "are in it"
is "$(look many.json 'len(d["stack_traces"])')" 2 "of two places"
rm -f ./*.json
MALLOC_CONF=$ALL ./prog load >out 2>err
is "$(cat out)" "bad 0" "a hundred logs under eight threads" "$(cat err)"
n=0
for i in 0 1 2 50 98 99; do
	look load.$i.json 'len(d["allocations"])' >got 2>&1 || n=$((n + 1))
done
is $n 0 "each is good" "$(cat got)"

# ---- fork, exit
rm -f ./*.json
MALLOC_CONF=$ALL,prof_log:true,prof_final:true ./prog forks >out 2>err
is "$(cat out)" "forked" "children of a process with a log" "$(cat err)"
is "$(ls ./*.json | wc -l)" 4 "a log each, at exit"
is "$(ls ./*.f.heap | wc -l)" 4 "and a final profile"
good=0
for f in ./*.json; do
	pid=${f#./jeprof.}
	pid=${pid%%.*}
	[ "$(look "$f" 'd["info"]["pid"]')" = "$pid" ] && good=$((good + 1))
	look "$f" 'sum(a["usize"] == 768 for a in d["allocations"])' >>counts
done
is $good 4 "each with its own pid"
is "$(sort -n counts | tr '\n' ' ')" "20 34 34 34 " "a child's holds what it freed, and what was in the log before"
rm -f ./*.json
rm -f ./*.json ./*.heap
MALLOC_CONF=$ALL,prof_log:true,prof_fork:idle ./prog forks >out 2>err
is "$(cat out) $(ls ./*.json | wc -l)" "forked 1" "prof_fork:idle: a child's log does not go on" "$(cat err)"
rm -f ./*.json ./*.heap
MALLOC_CONF=$ALL ./prog forks2 >out 2>err
is "$(cat out)" "bad 0" "children forked while another thread writes" "$(cat err)"
# ... and what the thread had freed while the gate was closed for the fork
is "$(look child.json 'sum(a["usize"] == 768 and a["alloc_thread"] == a["free_thread"] for a in d["allocations"])')" \
    4 "have logs of their own"
is "$(look thread.json 'len(d["allocations"])')" 20000 "and the parent's are whole"
MALLOC_CONF=$ALL ./prog moved >out 2>err
is "$(tr '\n' ' ' <out)$(ls here.json 2>&1)" "start 0 chdir 0 stop 0 here.json" \
    "a relative path counts from the directory at the start" "$(cat err)"
for conf in $ALL $ALL,prof_final:true prof:false,prof_prefix: prof_leak_error:true,prof_final:true; do
	rm -f ./*.json ./*.heap
	MALLOC_CONF=$conf ./prog left >out 2>err
	is "$? $(cat out)" "$(case $conf in *leak*) echo 1 ;; *) echo 0 ;; esac) start 0" \
	    "a log that nobody stops, with $conf" "$(cat err)"
	is "$(look left.json 'sum(a["usize"] == 768 for a in d["allocations"])')" 25 "exit writes it, with what exit freed"
done
done_testing
