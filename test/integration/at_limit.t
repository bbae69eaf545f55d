#!/bin/sh
# Profiles and statistics of a program that has reached a limit of its memory, where the system refuses more: at its end, and on
# request, whether it holds the memory still or has freed it.
. "$JEMALLOC_SRC/test/include/tap.sh"

[ -x "$BUILD/bin/jeprofctl" ] || skip_all "built without the profiler"

cat >full.c <<'END'
/*
 * full [BYTES]: with a limit of its own, BYTES above what is mapped, if given, allocates until there is no memory and dumps; frees
 * all, takes statistics and dumps again; then holds all that there is again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
int mallctl(const char *, void *, size_t *, void *, size_t);
static void *list;
__attribute__((noinline)) static int
hold_more(void)
{
	void **p = malloc(3000);
	if (p == NULL)
		return 0;
	*p = list;
	list = p;
	return 1;
}
static int
dump(const char *name)
{
	return mallctl("prof.dump", NULL, NULL, &name, sizeof(name));
}
int
main(int argc, char **argv)
{
	if (argc > 1) {
		unsigned long pages = 0;
		FILE *f = fopen("/proc/self/statm", "r");
		if (f == NULL || fscanf(f, "%lu", &pages) != 1)
			return 9;
		fclose(f);
		struct rlimit l = {pages * sysconf(_SC_PAGESIZE) + atol(argv[1]), RLIM_INFINITY};
		setrlimit(RLIMIT_AS, &l);
	}
	while (hold_more())
		;
	int full = dump("full.heap");
	while (list != NULL) {
		void *next = *(void **)list;
		free(list);
		list = next;
	}
	unsigned long long epoch = 1;
	int counted = mallctl("epoch", NULL, NULL, &epoch, sizeof(epoch));
	int freed = dump("freed.heap");
	while (hold_more())
		;
	printf("%d %d %d\n", full, counted, freed);
	return 0;
}
END
$CC -g -O1 -fno-builtin -o full full.c -L"$LIBDIR" -ljemalloc -Wl,-rpath,"$LIBDIR" || exit 1
CONF=prof:true,lg_prof_sample:16,prof_final:true,prof_prefix:end

# dumps NAME: after a run of which `said` is the output
dumps() {
	is "$said" "0 0 0" "$1: both dumps are written, and statistics taken" "$(cat err)"
	for file in full.heap end.*.f.heap; do
		"$BUILD/bin/jeprof" top "$file" >table 2>&1
		has "$(cat table)" " hold_more" "$1: $file says who holds it"
	done
	rm -f ./*.heap
}

for limit in "-v 120000" "-d 60000"; do
	# shellcheck disable=SC2086
	said=$(ulimit $limit && MALLOC_CONF=$CONF ./full 2>err)
	dumps "ulimit $limit"
done
for bytes in 20000000 200000000; do
	said=$(MALLOC_CONF=$CONF ./full $bytes 2>err)
	dumps "a limit of its own, $bytes bytes"
done
done_testing
