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
	has "$("$BUILD/bin/jeprof" --text host gone.heap 2>&1)" allocate_in_plug "$how: its function has its name"
	[ "$(lines again.heap)" -ge 1 ]
	ok $? "$how: loaded again"
	is "$(sed -n 's/^# module \([0-9a-f-]*\) .*/\1/p' again.heap | sort | uniq -d)" "" "$how: no place stands twice"
done
printf '#define _GNU_SOURCE\n#include <dlfcn.h>\n#if defined __GLIBC__ && !defined DLFO_STRUCT_HAS_EH_DBASE\n#error\n#endif\n' >find.c
if ! $CC -fsyntax-only find.c 2>/dev/null; then
	skip "this C library does not say without a lock what lies at an address"
	done_testing
fi
# Others that are loaded where it was, one after the other: each keeps its own samples, under its own name.
cat >one_of.c <<'END'
#include <stdlib.h>
#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
__attribute__((noinline)) void JOIN(allocate_in_, NUMBER)(void **to, int n)
{
	for (int i = 0; i < n; i++)
		to[i] = malloc(5000);
	__asm__ volatile("");
}
void allocate(void **to, int n)
{
	JOIN(allocate_in_, NUMBER)(to, n);
	__asm__ volatile("");
}
END
cat >many.c <<'END'
#include <dlfcn.h>
#include <stdio.h>
#include <jemalloc/jemalloc.h>

static void *kept[1000];

/* Plugins by their numbers, each opened, asked for ten objects, closed. */
int main(int argc, char **argv)
{
	const char *name = argv[1];
	void *place = NULL;
	int n_there = 0;
	for (int i = 2; i < argc; i++) {
		char path[200];
		void (*allocate)(void **, int);
		snprintf(path, sizeof(path), "./p%s.so", argv[i]);
		void *h = dlopen(path, RTLD_NOW);
		if (h == NULL)
			return 1;
		*(void **)&allocate = dlsym(h, "allocate");
		n_there += place == *(void **)&allocate;
		place = *(void **)&allocate;
		allocate(kept + 20 * (i - 2), 10);
		if (i == 3)
			mallctl("prof.dump", NULL, NULL, &(const char *){"early.heap"}, sizeof(char *));
		allocate(kept + 20 * (i - 2) + 10, 10);
		dlclose(h);
	}
	mallctl("prof.dump", NULL, NULL, &name, sizeof(name));
	printf("%d\n", n_there);
	return 0;
}
END
for i in 1 2 3 4; do
	$CC -O1 -g -DNUMBER=$i -shared -fPIC -o p$i.so one_of.c || exit 1
done
$CC -O1 -g -w -I"$BUILD/include" -o many many.c "$LIB" -Wl,-rpath,"$LIBDIR" -ldl
MALLOC_CONF=prof:true,lg_prof_sample:0 ./many many.heap 1 2 1 3 4 3 2 >there
is "$?" 0 "four plugins, one after the other and again"
diag "at the place of the one before: $(cat there) of 6"
"$BUILD/bin/jeprof" --text --show_bytes many many.heap >text 2>&1
for i in 1:40 2:40 3:40 4:20; do
	n=${i#*:}
	is "$(awk -v f=allocate_in_${i%:*} '$NF == f { print $1 / 5120 }' text)" "$n" "$n objects of allocate_in_${i%:*}" "$(cat text)"
done
"$BUILD/bin/jeprof" --text --show_bytes many early.heap >text 2>&1
is "$(awk '/allocate_in_/ { print $NF }' text | sort | tr '\n' ' ')" "allocate_in_1 allocate_in_2 " "while the second is loaded: both"
is "$(sed -n 's/^# module \([0-9a-f-]*\) .*/\1/p' many.heap | sort | uniq -d)" "" "no place stands twice"
done_testing
