#!/bin/sh
# Counts that must not rise: instructions of the common pairs under callgrind, and page
# faults of the smallest program with the library preloaded. With JEMALLOC_NOPROF_LIB (a build
# without the profiler), what the profiler costs that is built in and off; with JEMALLOC_NOPROBES_LIB
# (a build without the probes), what the probes cost while nobody is attached.
. "$JEMALLOC_SRC/test/include/tap.sh"
[ "$(asks config.debug)" = false ] || skip_all "a debug build is not measured"

# at_most VALUE LIMIT NAME, with decimals
at_most() {
	awk -v v="$1" -v l="$2" 'BEGIN { exit !(v != "" && v != "-" && v + 0 <= l) }'
	ok $? "$3: $1, at most $2"
}

# counted OP [ARGUMENT...]: instructions of OP with the library
counted() {
	op=$1
	shift
	timeout 1200 "$SRC/scripts/count-fastpath" --no-peers --tsv --only "$op" "$@" 2>err |
		awk -v op="$op" '$1 == op { print $2 }'
}

# The difference of two runs with N and 2N pairs; of a million there are 122 samples more, give or take
# 19. What is compared with takes as many, so that what the starts differ by does not matter.
sampled() {
	off=$(counted pair64 --rounds 1000000)
	on=$(MALLOC_CONF=prof:true,prof_final:false counted pair64 --rounds 1000000)
	at_most "$on" "$(awk -v off="${off:--9}" 'BEGIN { print off * 1.03 }')" "the same with sampling on at 512 KiB, off $off"
}

# sampled_by PRELOAD COMMAND...: instructions of one of 20000 pairs that are samples, in a program that is run so
sampled_by() {
	preload=$1
	shift
	for n in 20000 40000; do
		LD_PRELOAD=$preload MALLOC_CONF=prof:true,lg_prof_sample:0,prof_final:false,prof_thread:false \
		    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$@" $n 2>&1 | sed -n 's/.*Collected : //p'
	done | tr '\n' ' ' | awk '{ print NF == 2 ? ($2 - $1) / 20000 : "-" }'
}

# What a sample costs does not depend on who runs the program: the system, or the loader (ld.so FILE), of which count-fastpath
# makes use. What the library has to look up of the objects that frames lie in stays known.
run_by() {
	printf '%s\n' '#include <stdlib.h>' 'int main(int argc, char **argv) {' \
	    'for (long i = argc > 1 ? atol(argv[1]) : 0; i > 0; i--) {' 'void *volatile p = malloc(64);' 'free(p);' '}' \
	    'return 0;' '}' >run_by.c
	$CC -w -O1 -fno-builtin -o run_by run_by.c
	loader=$(readelf -lW run_by | sed -n 's/.*interpreter: \(.*\)\]/\1/p')
	at_most "$(sampled_by "$LIB" ./run_by)" 1300 "a sampled pair, in a program that the system runs"
	at_most "$(sampled_by "" "$loader" --preload "$LIB" ./run_by)" 1300 "the same in one that the loader runs"
	at_most "$(MALLOC_CONF=prof:true,prof_final:false counted live-2M)" 1300 "one of 100 blocks of 2 MiB, most of them samples"
}

# The other library in the place of ours, for the same program.
unprofiled() {
	for op in pair64 sized64 calloc64 aligned64; do
		with=$(counted $op --rounds 300000)
		without=$(JEMALLOC_LIB=$JEMALLOC_NOPROF_LIB counted $op --rounds 300000)
		at_most "$with" "$(awk -v n="${without:--9}" 'BEGIN { print n + 2 }')" "$op, with a profiler that is off; without one $without"
	done
}

# collected LIBRARY CONF PAIRS: instructions of a program, the least of three runs: some runs have a round of decay more
collected() {
	for _ in 1 2 3; do
		LD_PRELOAD=$1 MALLOC_CONF=$2 valgrind --tool=callgrind --callgrind-out-file=/dev/null ./unprobed "$3" 2>&1 | sed -n 's/.*Collected : //p'
	done | sort -n | head -n 1
}

# pairs LIBRARY CONF: instructions of 50000 pairs, by the difference of two runs
pairs() { echo $(($(collected "$1" "$2" 100000) - $(collected "$1" "$2" 50000))); }

# A heartbeat, one in a thousand of these pairs, looks for a tracer. A sample has 3 for its malloc and 3 for its free; less than one more is the clock.
unprobed() {
	cat >unprobed.c <<'END'
#include <stdlib.h>
#include <time.h>

/* For the library, which calls it by name: rounds of decay fall at the same pairs in each run. */
int
clock_gettime(clockid_t id, struct timespec *ts)
{
	static long calls;

	calls++;
	ts->tv_sec = 1000 + calls / 1000000;
	ts->tv_nsec = calls % 1000000 * 1000;
	return 0;
}

int
main(int argc, char **argv)
{
	for (long i = argc > 1 ? atol(argv[1]) : 0; i > 0; i--) {
		void *volatile p = malloc(64);
		free(p);
	}
	return 0;
}
END
	$CC -w -O1 -fno-builtin -rdynamic -o unprobed unprobed.c
	for conf in prof:false prof:true,lg_prof_sample:0,prof_final:false,prof_thread:false; do
		case $conf in prof:false) most=0.1 ;; *) most=6.99 ;; esac
		with=$(pairs "$LIB" $conf)
		without=$(pairs "$JEMALLOC_NOPROBES_LIB" $conf)
		at_most "$(awk -v a="$with" -v b="$without" 'BEGIN { if (a + 0 == 0 || b + 0 == 0) print "-"; else print (a - b) / 50000 }')" $most "instructions of the probes in a pair, $conf"
	done
}

if command -v valgrind >/dev/null; then
	timeout 1200 "$SRC/scripts/count-fastpath" --no-peers --tsv --only pair64,sized64,new64,usable,batch-random >counts 2>err
	ok $? "scripts/count-fastpath" "$(cat err)"
	at_most "$(awk '$1 == "pair64" { print $2 }' counts)" 40 "malloc(64) and free"
	at_most "$(awk '$1 == "sized64" { print $2 }' counts)" 38 "malloc(64) and sized free"
	at_most "$(awk '$1 == "new64" { print $2 }' counts)" 40 "new and delete of 64 bytes"
	at_most "$(awk '$1 == "usable" { print $2 }' counts)" 20 "malloc_usable_size"
	# 1.5 times is the aim; memcpy costs one more where the processor has short registers only
	at_most "$(awk '$1 == "batch-random" { print $2 }' counts)" "$(awk '$1 == "pair64" { print $2 * 1.55 }' counts)" \
	    "one of 1000, freed at random; 1.55 times a pair"
	# a hundred live blocks past the caches, and hand-over of blocks within them: by stacks of hot extents
	at_most "$(counted live-512K)" 750 "one of 100 blocks of 512 KiB"
	at_most "$(counted live-2M)" 750 "one of 100 blocks of 2 MiB"
	at_most "$(counted hand-16K)" 600 "16 KiB handed to another thread"
	at_most "$(counted realloc-steps)" 50 "a step of realloc by 16 bytes, from 16 to 4096"
	[ "$(asks config.prof)" != true ] || { sampled && run_by; }
	[ -z "${JEMALLOC_NOPROF_LIB:-}" ] || unprofiled
	[ -z "${JEMALLOC_NOPROBES_LIB:-}" ] || unprobed
else
	skip "no valgrind"
fi

cat >faults.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int
compare(const void *a, const void *b)
{
	return (int)(*(const long *)a - *(const long *)b);
}

/* Median of minor faults of 21 runs of a program. */
int
main(int argc, char **argv)
{
	static char preload[4096] = "NOTHING=";
	char *env[] = { preload, NULL };
	char *args[] = { argv[1], NULL };
	long n[21];

	if (argc > 2)
		snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", argv[2]);
	for (int i = 0; i < 21; i++) {
		struct rusage u;
		int status;
		pid_t pid = vfork(); /* no pages copied before the exec */

		if (pid == 0) {
			execve(argv[1], args, env);
			_exit(127);
		}
		wait4(pid, &status, 0, &u);
		if (status != 0)
			return 1;
		n[i] = u.ru_minflt;
	}
	qsort(n, 21, sizeof(n[0]), compare);
	printf("%ld\n", n[10]);
	return 0;
}
END
$CC -w -O1 -o faults faults.c
without=$(./faults /bin/true)
with=$(./faults /bin/true "$LIB")
# 19 to 22: a page of .bss costs two if its first access reads, what comes first depends on where the pages begin, and a start
# without the library has 49 or 50.
at_most $((with - without)) 22 "page faults of /bin/true, $with preloaded and $without without"

# The system reads a file in by windows of 64 KiB, so this is a matter of the order in which the library is linked.
cat >pairs.c <<'END'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *
pairs(void *arg)
{
	for (int i = 0; i < 30000; i++)
		free(malloc(64));
	return arg;
}

/* KiB of the library that are resident and only read, after pairs of malloc and free; with an argument, by a thread that then ends. */
int
main(int argc, char **argv)
{
	char line[512], mode[5];
	long kb = 0;
	int is_ours = 0;
	pthread_t t;

	(void)argv;
	if (argc == 1)
		pairs(NULL);
	else if (pthread_create(&t, NULL, pairs, NULL) != 0 || pthread_join(t, NULL) != 0)
		return 1;
	FILE *f = fopen("/proc/self/smaps", "r");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		if (sscanf(line, "%*lx-%*lx %4s", mode) == 1)
			is_ours = strstr(line, "libjemalloc") != NULL && mode[1] != 'w';
		else if (is_ours && strncmp(line, "Rss:", 4) == 0)
			kb += atol(line + 4);
	}
	printf("%ld\n", kb);
	return 0;
}
END
$CC -w -O1 -fno-builtin -o pairs pairs.c -pthread
code=$(LD_PRELOAD=$LIB ./pairs)
ok "$([ "$code" -gt 0 ]; echo $?)" "the library's code is found among the program's pages"
# Four windows of code, one of constants, six pages of tables that the loader has written.
at_most "$code" 344 "KiB of the library's code and constants are in memory of a small program"
at_most "$(LD_PRELOAD=$LIB ./pairs thread)" 344 "the same with a thread that ends"
done_testing
