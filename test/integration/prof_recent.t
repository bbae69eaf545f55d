#!/bin/sh
# experimental.prof_recent: the last samples as JSON, valid and complete whatever is in it; their number changed
# while it runs; under load.
. "$JEMALLOC_SRC/test/include/tap.sh"
[ "$(asks config.prof)" = true ] || skip_all "no profiler in this build"
command -v python3 >/dev/null || skip_all "no python3 to read JSON"

cat >prog.c <<'END'
#include <fcntl.h>
#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static void
to_fd(void *fd, const char *text)
{
	if (write(*(int *)fd, text, strlen(text)) < 0)
		_exit(9);
}

static int
dump(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	struct {
		void (*fn)(void *, const char *);
		void *opaque;
	} sink = {to_fd, &fd};
	int err = mallctl("experimental.prof_recent.alloc_dump", NULL, NULL, &sink, sizeof(sink));

	close(fd);
	return err;
}

static int
set_max(ssize_t max)
{
	return mallctl("experimental.prof_recent.alloc_max", NULL, NULL, &max, sizeof(max));
}

static ssize_t
get_max(void)
{
	ssize_t max = -7;
	size_t len = sizeof(max);

	mallctl("experimental.prof_recent.alloc_max", &max, &len, NULL, 0);
	return max;
}

static void
change(ssize_t max)
{
	int err = set_max(max);

	printf("set %d %zd\n", err, get_max());
}

static void *
in_thread(void *arg)
{
	const char *name = "a\"b\\c\td";
	void **p = arg;

	mallctl("thread.prof.name", NULL, NULL, &name, sizeof(name));
	for (int i = 0; i < 10; i++)
		p[i] = malloc(1001 + i);
	return NULL;
}

static volatile int is_over;

static void *
load(void *arg)
{
	void *p[32] = {NULL};

	for (unsigned i = 0; !is_over; i++) {
		free(p[i * 7 % 32]);
		p[i * 7 % 32] = malloc(i * 131 % 3000);
	}
	for (int i = 0; i < 32; i++)
		free(p[i]);
	return NULL;
}

int
main(int argc, char **argv)
{
	static void *p[10];
	pthread_t t[8];
	char name[40];
	int bad = 0;

	printf("max %zd\n", get_max());
	if (argc > 1) {
		for (int i = 0; i < 8; i++)
			pthread_create(&t[i], NULL, load, NULL);
		for (int i = 0; i < 100; i++) {
			snprintf(name, sizeof(name), "load.%d.json", i % 10);
			bad += dump(name) != 0;
			bad += set_max(i % 5 * 100) != 0;
			usleep(1000);
		}
		is_over = 1;
		for (int i = 0; i < 8; i++)
			pthread_join(t[i], NULL);
		printf("bad %d\n", bad);
		return 0;
	}
	pthread_create(&t[0], NULL, in_thread, p);
	pthread_join(t[0], NULL);
	free(p[7]);
	p[8] = realloc(p[8], 5000);
	printf("dump %d\n", dump("six.json"));
	change(2);
	printf("dump %d\n", dump("two.json"));
	change(-2);
	change(-1);
	for (int i = 0; i < 300; i++)
		free(malloc(70));
	printf("dump %d\n", dump("all.json"));
	change(0);
	printf("dump %d\n", dump("none.json"));
	return 0;
}
END
compile_linked prog prog.c || exit 1
MALLOC_CONF=prof:true,lg_prof_sample:0,prof_final:true,prof_prefix:probe ./prog content >out 2>err
grep -q "^# jemalloc.unwinder=none" probe.*.f.heap && skip_all "no stacks in this build"
rm -f ./*.json ./*.heap out

cat >look.py <<'END'
import json, sys

d = json.load(open(sys.argv[1]))
assert list(d) == ["sample_interval", "recent_alloc_max", "recent_alloc"], list(d)
for r in d["recent_alloc"]:
    keys = list(r)
    assert keys[:3] == ["size", "usize", "released"], keys
    for end in ("alloc", "dalloc"):
        if end + "_time" not in r:
            assert end == "dalloc" and not r["released"] and not any(k.startswith("dalloc") for k in keys)
            continue
        assert {end + "_thread_uid", end + "_time", end + "_trace"} <= set(keys)
        assert type(r[end + "_thread_uid"]) is int and r[end + "_time"] > 0
        assert r[end + "_trace"] and all(f.startswith("0x") and int(f, 16) > 0 for f in r[end + "_trace"])
    assert r["size"] <= r["usize"] and type(r["released"]) is bool
    assert not r["released"] or r["dalloc_time"] >= r["alloc_time"]
assert [r["alloc_time"] for r in d["recent_alloc"]] == sorted(r["alloc_time"] for r in d["recent_alloc"]) or len(sys.argv) < 4
print(eval(sys.argv[2]))
END

look() {
	python3 look.py "$@" 2>&1
}

MALLOC_CONF=prof:true,lg_prof_sample:0,prof_recent_alloc_max:6 ./prog >out 2>err
is "$(cat out)" "max 6
dump 0
set 0 2
dump 0
set 22 2
set 0 -1
dump 0
set 0 0
dump 0" "their number: read and changed, refused below -1" "$(cat err)"
for f in six two all none; do
	python3 -m json.tool $f.json >/dev/null 2>err
	ok $? "$f: python3 -m json.tool" "$(cat err)"
done
is "$(look six.json '(d["sample_interval"], d["recent_alloc_max"])' sorted)" "(1, 6)" "rate and limit"
is "$(look six.json '[(r["size"], r["usize"]) for r in d["recent_alloc"]]')" \
    "[(1006, 1024), (1007, 1024), (1008, 1024), (1009, 1024), (1010, 1024), (5000, 5120)]" "the last six, oldest first"
is "$(look six.json '[r["released"] for r in d["recent_alloc"]]')" "[False, False, True, True, False, False]" \
    "which were released"
is "$(look six.json 'set(r.get("alloc_thread_name") for r in d["recent_alloc"][:5])')" "{'a\"b\\\\c\\td'}" \
    "the name of the thread, whatever is in it"
is "$(look six.json 'sorted(k for k in d["recent_alloc"][5])')" \
    "['alloc_thread_uid', 'alloc_time', 'alloc_trace', 'released', 'size', 'usize']" "no name where there is none"
is "$(look six.json '[r["dalloc_thread_uid"] != r["alloc_thread_uid"] for r in d["recent_alloc"] if r["released"]]')" \
    "[True, True]" "who released them"
is "$(look two.json '[r["size"] for r in d["recent_alloc"]]')" "[1010, 5000]" "two: the newest stay"
is "$(look all.json '(len(d["recent_alloc"]) >= 302, sum(r["size"] == 70 and r["released"] for r in d["recent_alloc"]), d["recent_alloc_max"])')" \
    "(True, 300, -1)" "-1: all"
is "$(look none.json '(d["recent_alloc"], d["recent_alloc_max"])')" "([], 0)" "0: none"
MALLOC_CONF=prof:true,lg_prof_sample:0,prof_recent_alloc_max:100 ./prog load >out 2>err
is "$(cat out)" "max 100
bad 0" "a hundred times under eight threads" "$(cat err)"
bad=0
for i in 0 1 2 3 4 5 6 7 8 9; do
	look load.$i.json 'len(d["recent_alloc"])' >>got || bad=$((bad + 1))
done
is $bad 0 "each is good" "$(cat got)"
MALLOC_CONF=prof:true,prof_recent_alloc_max:-1,lg_prof_sample:0 ./prog >out 2>err
is "$(head -n 1 out)" "max -1" "without limit from the start"
done_testing
