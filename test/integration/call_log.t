#!/bin/sh
# The log of calls (builds with --enable-log): each public function has its two lines, names choose
# them, a name that is none is refused, and lines are written at any moment and never because of
# themselves.
. "$JEMALLOC_SRC/test/include/tap.sh"

grep -q '^#define CONFIG_LOG 1' "$BUILD/src/config.h" && grep -q '^#define JEMALLOC_PREFIX_STR ""' "$BUILD/src/config.h" || {
	echo "1..0 # SKIP not built with --enable-log, or the functions have other names"
	exit 0
}

cat >calls.c <<'END'
#include <jemalloc/jemalloc.h>
#include <malloc.h>
#include <stdlib.h>

static void nothing(void *opaque, const char *text) { (void)opaque; (void)text; }

int main(void) {
	void *p = malloc(16), *q, *many[3];
	free(p);
	p = calloc(3, 5);
	p = realloc(p, 100);
	free_sized(p, 100);
	if (posix_memalign(&q, 64, 100) != 0)
		return 1;
	free(q);
	free_aligned_sized(aligned_alloc(128, 256), 128, 256);
	free(memalign(32, 7));
	free(valloc(9));
	free(pvalloc(11));
	p = mallocx(17, MALLOCX_ZERO);
	p = rallocx(p, 200, 0);
	xallocx(p, 210, 5, 0);
	if (malloc_usable_size(p) != sallocx(p, 0) || nallocx(200, 0) == 0)
		return 1;
	sdallocx(p, sallocx(p, 0), 0);
	dallocx(mallocx(5, 0), 0);
	size_t mib[2], n = 2, size = sizeof(size_t), got;
	if (mallctl("arenas.page", &got, &size, NULL, 0) != 0 || mallctlnametomib("arenas.page", mib, &n) != 0
	    || mallctlbymib(mib, n, &got, &size, NULL, 0) != 0)
		return 1;
	struct { void **ptrs; size_t num, size; int flags; } batch = {many, 3, 48, 0};
	if (mallctl("experimental.batch_alloc", &got, &size, &batch, sizeof(batch)) != 0)
		return 1;
	p = malloc(4242);
	malloc_stats_print(nothing, NULL, "Jgmdablxhe");
	return 0;
}
END
runs "the program of all functions" "$CC" -O0 -fno-builtin -w -I"$BUILD/include" -o calls calls.c "$LIB" -Wl,-rpath,"$LIBDIR"
logged() { MALLOC_CONF=$1 ./calls 2>err; }

# ---- each function
logged log:.
is $? 0 "the program runs while all is logged"
for f in malloc calloc posix_memalign aligned_alloc realloc free free_sized free_aligned_sized memalign valloc pvalloc \
	malloc_usable_size mallocx rallocx xallocx sallocx dallocx sdallocx nallocx mallctl mallctlnametomib mallctlbymib \
	malloc_stats_print batch_alloc; do
	n=$(grep -c "^core\.$f\.entry: " err)
	ok "$([ "$n" -gt 0 ] && [ "$n" = "$(grep -c "^core\.$f\.exit: " err)" ]; echo $?)" "$f: as many entries as exits" "$n entries"
done
is "$(grep -vcE '^core\.[a-z_]+\.(entry|exit): .' err)" 0 "no line has another form"
while read -r line; do
	is "$(grep -cF -- "$line" err)" 1 "$line"
done <<'END'
core.malloc.entry: size: 16
core.calloc.entry: num: 3, size: 5
core.aligned_alloc.entry: alignment: 128, size: 256
core.memalign.entry: alignment: 32, size: 7
core.mallocx.entry: size: 17, flags: 64
core.mallctl.entry: name: arenas.page
core.mallctlnametomib.entry: name: arenas.page
core.malloc_stats_print.entry: opts: Jgmdablxhe
END
has "$(cat err)" ", size: 210, extra: 5, flags: 0" "xallocx: all arguments"
is "$(sed -n 's/^core.malloc.exit: result: //p' err | head -n 1)" "$(sed -n 's/^core.free.entry: ptr: //p' err | head -n 1)" \
    "the pointer that was told is freed"

# ---- names
names() { logged "log:$1"; cut -d: -f1 err | sort | uniq -c | awk '{ print $2 "*" $1 }' | tr '\n' ' '; }
is "$(names core.calloc)" "core.calloc.entry*1 core.calloc.exit*1 " "a function"
is "$(names core.calloc.exit)" "core.calloc.exit*1 " "one side of it"
is "$(names 'core.calloc.exit|core.pvalloc')" "core.calloc.exit*1 core.pvalloc.entry*1 core.pvalloc.exit*1 " "names joined by |"
is "$(names core | tr ' ' '\n' | grep -c .)" "$(names . | tr ' ' '\n' | grep -c .)" "core is all"
is "$(names core.free | tr ' ' '\n' | grep -c free_sized)" 0 "a prefix ends before a dot"
is "$(names '')" "" "an empty value is nothing"
for bad in core.fre core.malloc. .core core.malloc.entr 'core.malloc|' 'core.malloc|nosuch' 'core malloc' ..; do
	logged "abort_conf:false,log:core.pvalloc,log:$bad"
	case $bad in
	*'|') is "$(cut -d: -f1 err | sort -u | tr '\n' ' ')" "core.malloc.entry core.malloc.exit " "log:$bad: a last | is nothing" ;;
	*) is "$(grep -c "^<jemalloc>: Invalid conf value: log:$bad$" err) $(grep -c '^core' err) $(grep -c '^core.pvalloc' err)" "1 2 2" \
		"log:$bad is refused, the names before stay" ;;
	esac
done

# ---- at any moment
cat >moments.cpp <<'END'
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <pthread.h>
#include <sys/time.h>
#include <unistd.h>

extern "C" void (*malloc_message)(void *, const char *);
static unsigned told;
static void tell(void *, const char *) { told++; free(malloc(33)); }
static void *volatile kept;
static void on_alarm(int) { int e = errno; kept = malloc(21); errno = e; }
static void *work(void *) { for (int i = 0; i < 1000; i++) free(malloc(40)); return nullptr; }

int main() {
	errno = 77;
	free(malloc(16));
	int stays = errno;
	char *p = new char[50];
	delete[] p;
	struct alignas(64) wide { char c[64]; };
	delete new wide;
	malloc_message = tell;
	free(malloc(34));
	malloc_message = nullptr;
	struct itimerval every = {{0, 200}, {0, 200}};
	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &every, nullptr);
	pthread_t t[4];
	for (auto &i : t)
		pthread_create(&i, nullptr, work, nullptr);
	for (auto &i : t)
		pthread_join(i, nullptr);
	printf("errno %d told %u\n", stays, told);
	return 0;
}
END
runs "the program of moments" "$CXX" -O0 -fno-builtin -w -o moments moments.cpp "$LIB" -Wl,-rpath,"$LIBDIR" -pthread
MALLOC_CONF=log:. ./moments >out 2>err
is "$? $(cat out)" "0 errno 77 told 4" "errno stays; a message function that allocates is not logged again"
is "$(grep -c '^core.operator_new.entry: size: 50, alignment: 0$' err)" 1 "operator new"
is "$(grep -c '^core.operator_new.entry: size: 64, alignment: 64$' err)" 1 "operator new with an alignment"
is "$(grep -c '^core.operator_delete.entry' err)" "$(grep -c '^core.operator_delete.exit: done' err)" "operator delete"
ok "$([ "$(grep -c '^core.malloc.entry: size: 40' err)" -ge 3990 ]; echo $?)" "four threads, with signals whose handler allocates" "$(grep -c '^core.malloc.entry: size: 40' err)"
# Its constructor runs before ours, and needs no C++ runtime, which would call malloc first.
cat >early.c <<'END'
void *_Znwm(unsigned long size);
void _ZdlPv(void *ptr);
static __attribute__((constructor)) void early(void) { _ZdlPv(_Znwm(77)); }
END
runs "a library of an early constructor" "$CC" -O0 -w -shared -fPIC -o early.so early.c
MALLOC_CONF=log:core.operator_new LD_PRELOAD="$LIB $PWD/early.so" /bin/true 2>err
is "$(grep -c '^core.operator_new.*size: 77' err) $(grep -c '^core.operator_new.exit' err)" "1 1" "operator new as the first call of all"
MALLOC_CONF=log:core.mallocx LD_PRELOAD=$LIB /bin/true 2>err
is "$? $(wc -c <err)" "0 0" "nothing is written for other functions"

# ---- stacks of samples: the function that logs is not a part of them
if "$BUILD/bin/jemalloc-config" --config 2>/dev/null | grep -q -- --disable-prof; then :; else
	MALLOC_CONF=prof:true,lg_prof_sample:0,prof_final:true,prof_prefix:s ./calls 2>err
	is "$(cat s.*.heap 2>/dev/null | sed -n '/^@ /s/ .*//p' | sort -u)" "@" "a profile is written"
	"$BUILD/bin/jeprof" top ./calls s.*.heap >shown 2>err
	is "$(grep -c unlogged shown)" 0 "no frame of the log in it" "$(head -n 5 shown)"
	ok "$(grep -q main shown; echo $?)" "the function of the program is in it" "$(cat shown err)"
fi
done_testing
