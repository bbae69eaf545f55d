#!/bin/sh
# An object that is gone when the profile is written: its addresses can be named all the same.
. "$JEMALLOC_SRC/test/include/tap.sh"
grep -q '^#define CONFIG_PROF 1' "$BUILD/src/config.h" || skip_all "no profiler"

cat >plug.c <<'END'
#include <stdlib.h>
__attribute__((noinline)) void allocate_in_plug(void **to)
{
	for (int i = 0; i < 100; i++)
		to[i] = malloc(5000);
	__asm__ volatile("");
}
END
cat >host.c <<'END'
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <jemalloc/jemalloc.h>

static void *kept[100];

static void dump(const char *name)
{
	mallctl("prof.dump", NULL, NULL, &name, sizeof(name));
}

/* Samples for longer than the second between two looks at what is loaded, and once more after that: however it is held up. */
static void work(void)
{
	struct timespec begin, now;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		clock_gettime(CLOCK_MONOTONIC, &now);
		void *volatile p = malloc(1000);
		free(p);
	} while (now.tv_sec - begin.tv_sec < 3);
}

static int is_mapped(const char *path)
{
	char line[1000];
	int found = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (maps != NULL && fgets(line, sizeof(line), maps) != NULL)
		found |= strstr(line, path) != NULL;
	if (maps != NULL)
		fclose(maps);
	return found;
}

int main(int argc, char **argv)
{
	void (*allocate)(void **);
	void *h = argc < 3 ? NULL : dlopen(argv[2], RTLD_NOW);
	if (h == NULL)
		return 1;
	*(void **)&allocate = dlsym(h, "allocate_in_plug");
	allocate(kept);
	if (strcmp(argv[1], "work") == 0)
		work();
	else
		dump("loaded.heap");
	dlclose(h);
	if (is_mapped("plug.so"))
		return 2;
	dump("gone.heap");
	if (dlopen(argv[2], RTLD_NOW) == NULL)
		return 3;
	dump("again.heap");
	return 0;
}
END
$CC -O1 -g -shared -fPIC -o plug.so plug.c && $CC -O1 -g -I"$BUILD/include" -I"$SRC/include" -o host host.c "$LIB" -Wl,-rpath,"$LIBDIR" -ldl
ok $? "built"

lines() {
	grep -c '^# module .*/*plug\.so$' "$1"
}

for how in dump work; do
	rm -f ./*.heap
	MALLOC_CONF=prof:true,lg_prof_sample:0,prof_prefix:p ./host $how "$W/plug.so" 2>said
	is "$?" 0 "$how: it came, it went, it came again" "$(cat said)"
	[ $how = work ] || is "$(lines loaded.heap)" 1 "$how: loaded: one line"
	is "$(lines gone.heap)" 1 "$how: gone: one line all the same"
	has "$("$SRC/bin/jeprof" --text host gone.heap 2>&1)" allocate_in_plug "$how: its function has its name"
	[ "$(lines again.heap)" -ge 1 ]
	ok $? "$how: loaded again"
	is "$(sed -n 's/^# module \([0-9a-f-]*\) .*/\1/p' again.heap | sort | uniq -d)" "" "$how: no place stands twice"
done
done_testing
