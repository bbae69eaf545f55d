#!/bin/sh
# What people do with jemalloc's heap profiler, in the order in which they learn it: building it by their
# configure lines, leaks at the end, a profile every MiB and at new maxima, the steady state, the
# allocation log, tuning, reading elsewhere, and what this library has beside. Each as it is written
# in their notes. Two builds of the library, one of them for aarch64 if there is a compiler.
. "$JEMALLOC_SRC/test/include/tap.sh"

unset MAKEFLAGS MFLAGS MAKELEVEL CFLAGS LDFLAGS CPPFLAGS CXXFLAGS CC CXX
[ -x "$SRC/configure" ] || skip_all "no configure in the source tree"
jobs=$(nproc 2>/dev/null || echo 2)

cat >t.c <<'END'
#include <stdlib.h>
static void *kept[120];
static unsigned n;
__attribute__((noinline)) void by_kib(int i) { kept[n++] = malloc((size_t)i * 1024); }
__attribute__((noinline)) void by_page(int i) { kept[n++] = malloc((size_t)i * 4096); }
int main(void) {
	for (int i = 0; i < 80; i++)
		by_kib(i);
	for (int i = 0; i < 40; i++)
		by_page(i);
	return 0;
}
END
gcc -g -O0 t.c -o a.out || skip_all "no gcc"

# ---- the build with debug, prof and log, beside the source, installed
P=$W/installed
mkdir build && cd build || exit 1
runs "../configure --prefix=P --enable-debug --enable-prof --enable-log" \
    "$SRC/configure" --prefix="$P" --enable-debug --enable-prof --enable-log
has "$(cat out)" "log: yes" "its summary says that it logs"
runs "make" make -s -j"$jobs"
runs "make install" make -s install
# No other build of the tests logs.
runs "the test of the log of calls, on this build" env JEMALLOC_BUILD="$PWD" JEMALLOC_SRC="$SRC" JEMALLOC_LIB="$PWD/lib/libjemalloc.so.2" \
    prove "$SRC/test/integration/call_log.t"
has "$(cat out)" "Tests=" "which has tests there"
cd "$W" || exit 1
LIB=$P/lib/libjemalloc.so.2
JEPROF=$P/bin/jeprof
for f in lib/libjemalloc.so.2 lib/libjemalloc.a include/jemalloc/jemalloc.h bin/jeprof bin/jeprofctl bin/jemalloc-config; do
	ok "$([ -e "$P/$f" ]; echo $?)" "installed: $f"
done

# ---- leaks at the end
mkdir leaks && cd leaks && cp ../a.out . || exit 1
MALLOC_CONF=prof_leak:true,lg_prof_sample:0,prof_final:true LD_PRELOAD=$LIB ./a.out 2>err
is "$(sed -n 1p err)" "<jemalloc>: Leak approximation summary: ~6926352 bytes, ~120 objects, >= 2 contexts" "prof_leak: the summary"
set -- ./*.heap
echo top | "$JEPROF" a.out "$1" >out 2>err
is "$(sed -n 1p out)" "Total: 6.6 MB" "jeprof a.out F.heap, top: the total"
is "$(awk '/by_(kib|page)$/ { print $1, $NF }' out | sort | tr '\n' ' ')" "3.3 by_kib 3.3 by_page " "and the two functions"
if command -v dot >/dev/null; then
	"$JEPROF" --show_bytes --pdf a.out "$1" >a.pdf 2>err
	is "$(head -c 5 a.pdf)" "%PDF-" "--show_bytes --pdf"
else
	"$JEPROF" --show_bytes --pdf a.out "$1" >a.pdf 2>err
	has "$(cat err)" "dot (package graphviz)" "--pdf without graphviz names it"
fi
"$JEPROF" --svg a.out "$1" >a.svg 2>err
has "$(cat a.svg)" "<svg" "--svg, which needs no graphviz"

# ---- a profile each MiB, the difference of two, new maxima, by hand
mkdir ../steps && cd ../steps && cp ../a.out . || exit 1
MALLOC_CONF="prof:true,lg_prof_interval:20,lg_prof_sample:10" LD_PRELOAD=$LIB ./a.out 2>err
set -- ./*.i*.heap
ok "$([ $# -ge 5 ] && [ $# -le 7 ]; echo $?)" "lg_prof_interval:20: a profile each MiB" "$# profiles"
old=$1
for new; do :; done
total() { printf 'top\nquit\n' | "$JEPROF" --interactive "$@" 2>/dev/null | sed -n 's/^.*Total: //p'; }
is "$(total --base="$new" a.out "$new")" "0.0 MB" "a profile against itself"
all=$(total a.out "$new")
first=$(total a.out "$old")
more=$(total --base="$old" a.out "$new")
ok "$(awk -v a="${all% MB}" -v b="${first% MB}" -v d="${more% MB}" 'BEGIN { x = a - b - d; exit !(d > 1 && x < 0.15 && x > -0.15) }'; echo $?)" \
    "--base=OLD NEW is the difference" "$all - $first, $more"
MALLOC_CONF=prof:true,prof_gdump:true,lg_prof_sample:10 LD_PRELOAD=$LIB ./a.out 2>err
ok "$([ "$(ls ./*.u*.heap | wc -l)" -ge 1 ]; echo $?)" "prof_gdump:true: profiles at new maxima"
cat >hand.c <<'END'
#include <jemalloc/jemalloc.h>
#include <stdlib.h>
__attribute__((noinline)) void *before(void) { return malloc(3000000); }
__attribute__((noinline)) void *later(void) { return malloc(2000000); }
int main(int argc, char **argv) {
	bool on = true;
	before();
	if (argc > 1 && mallctl("prof.active", NULL, NULL, &on, sizeof(on)) != 0)
		return 1;
	later();
	(void)argv;
	return mallctl("prof.dump", NULL, NULL, NULL, 0);
}
END
gcc -g -O0 -I"$P/include" -o hand hand.c "$LIB" -Wl,-rpath,"$P/lib"
MALLOC_CONF=prof:true,prof_prefix:jeprof.out,lg_prof_sample:0 ./hand
is "$? $(ls jeprof.out.*.m*.heap | wc -l)" "0 1" "prof.dump by hand"

# ---- the steady state
rm -f jeprof.out.*
MALLOC_CONF=prof:true,prof_active:false,prof_prefix:jeprof.out,lg_prof_sample:0 ./hand active
echo top | "$JEPROF" hand jeprof.out.*.heap >out 2>err
has "$(cat out)" later "prof.active set later: what came later"
is "$(grep -c before out)" 0 "and nothing of what came before"

# ---- the allocation log and the log of calls
mkdir ../log && cd ../log && cp ../a.out . || exit 1
export MALLOC_CONF="prof:true,lg_prof_interval:20,lg_prof_sample:19,prof_log:true,log=."
LD_PRELOAD=$LIB ./a.out 2>err
is $? 0 "the line with prof_log and log=. runs in a debug build"
unset MALLOC_CONF
ok "$([ "$(ls ./*.i*.heap | wc -l)" -ge 5 ]; echo $?)" "it writes profiles by interval" "$(ls)"
is "$(ls ./*.json | wc -l)" 1 "and the log of allocations"
is "$(grep -c '^core.malloc.entry: size: 4096$' err) $(grep -c '^core.malloc.entry: size: 81920$' err)" "2 1" "and it logs its calls" "$(head -n 5 err)"

# ---- tuning
cat >tuned.c <<'END'
#include <jemalloc/jemalloc.h>
#include <stdio.h>
int main(void) {
	unsigned n;
	ssize_t dirty, muzzy;
	size_t size = sizeof(n);
	mallctl("opt.narenas", &n, &size, NULL, 0);
	size = sizeof(dirty);
	mallctl("opt.dirty_decay_ms", &dirty, &size, NULL, 0);
	mallctl("opt.muzzy_decay_ms", &muzzy, &size, NULL, 0);
	printf("%u %zd %zd\n", n, dirty, muzzy);
	return 0;
}
END
gcc -D_GNU_SOURCE -I"$P/include" -o tuned tuned.c "$LIB" -Wl,-rpath,"$P/lib"
is "$(MALLOC_CONF='narenas:16,dirty_decay_ms:5000,muzzy_decay_ms:5000,junk:false' ./tuned 2>&1)" "16 5000 5000" "tuning"
is "$(MALLOC_CONF='background_thread:true' ./tuned 2>&1 | awk '{ print NF }')" 3 "background_thread:true"

# ---- reading where programs are missing
mkdir ../poor && cd ../poor && cp ../leaks/*.heap . || exit 1
mkdir bin && ln -s "$(command -v perl)" bin/perl
PATH=$W/poor/bin "$JEPROF" --text ../a.out ./*.heap >out 2>err
is "$? $(grep -c 'at .* line [0-9]' err)" "0 0" "jeprof alone on the machine: no warning of Perl" "$(cat err)"
is "$(awk '/by_(kib|page)$/ { print $1, $NF }' out | sort | tr '\n' ' ')" "3.3 by_kib 3.3 by_page " "the names are there"
mv ../a.out ../gone.out && mv ../leaks/a.out ../leaks/gone.out
PATH=$W/poor/bin "$JEPROF" --text ./*.heap >out 2>err
is "$? $(grep -c 'at .* line [0-9]' err)" "3 0" "and without the program: what is missing is an exit status" "$(cat err)"
has "$(cat out err)" "a.out+0x" "addresses in the program it is named by" "$(cat out err)"
mv ../gone.out ../a.out
cd .. || exit 1

# ---- beside these
cat >server.c <<'END'
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) void *request(void) { return malloc(4096); }
int main(void) {
	for (int i = 0; i < 120000; i++) {
		void *p = request();
		if (i % 2)
			free(p);
		usleep(5000);
	}
	return 0;
}
END
gcc -g -O0 -o server server.c
LD_PRELOAD=$LIB ./server 2>/dev/null &
pid=$!
trap 'kill $pid 2>/dev/null; cd /; rm -rf "$W"' EXIT
sleep 1
CTL=$P/bin/jeprofctl
runs "a session starts in a running process" "$CTL" start $pid --rate 512 --prefix "$W/session"
"$CTL" start $pid >out 2>&1
[ $? -ne 0 ]
ok $? "a second start is refused" "$(cat out)"
sleep 1
runs "the session is dumped" "$CTL" dump $pid
runs "and stopped" "$CTL" stop $pid
"$CTL" stop $pid >out 2>&1
[ $? -ne 0 ]
ok $? "a second stop is refused" "$(cat out)"
set -- session.*.heap
is "$(echo "$1" | sed 's/\.[0-9]\{8\}T[0-9]\{6\}\.[0-9]\{3\}Z[_.].*/.TIME/')" "session.$pid.TIME" "names have the time"
MALLOC_CONF=prof:true,prof_sample_interval:1000,prof_threshold_alloc:1M,prof_dump_min_gap_ms:0,prof_prefix:$W/by LD_PRELOAD=$LIB ./a.out
ok "$([ "$(ls by.*.heap 2>/dev/null | wc -l)" -ge 5 ]; echo $?)" "a threshold of allocated bytes and a free sampling value"
kill $pid

# ---- for aarch64
if command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64-static >/dev/null; then
	U=${RECIPES_PACKAGES:-$W/arm64}
	if "$SRC/scripts/fetch-arm64" "$U" libunwind8 libunwind-dev liblzma5 >out 2>&1; then
		L=$U/usr/lib/aarch64-linux-gnu
		mkdir cross && cd cross || exit 1
		runs "../configure for aarch64 with libunwind and pages of 64 KiB" "$SRC/configure" --prefix="$W/arm" --host=aarch64-linux-gnu \
		    --target=aarch64-linux-gnu --enable-debug --enable-prof --with-lg-page=16 --enable-prof-libunwind \
		    CPPFLAGS="-I$U/usr/include -I$U/usr/include/aarch64-linux-gnu" \
		    LDFLAGS="-L$L -Wl,-rpath,$L -Wl,-rpath-link,$L:$U/lib/aarch64-linux-gnu"
		has "$(cat out)" "libunwind" "its summary names libunwind"
		runs "make for aarch64" make -s -j"$jobs" build_lib
		aarch64-linux-gnu-gcc -g -O0 -o t ../t.c -Llib -Wl,--no-as-needed -ljemalloc -Wl,-rpath,"$PWD/lib" \
		    -Wl,-rpath-link,"$L:$U/lib/aarch64-linux-gnu"
		MALLOC_CONF=prof_leak:true,lg_prof_sample:0,prof_final:true,prof_unwind:libunwind \
		    qemu-aarch64-static -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH="$L:$U/lib/aarch64-linux-gnu" ./t >out 2>err
		has "$(cat err)" "~120 objects, >= 2 contexts" "it runs, and finds the leaks by libunwind" "$(cat err)"
		"$JEPROF" --text --sysroot=/usr/aarch64-linux-gnu t ./*.heap >out 2>err
		is "$(grep -cE 'by_(kib|page)$' out)" 2 "with the functions" "$(cat out err)"
	else
		skip "no packages of arm64 to be had: $(tail -n 1 out)"
	fi
else
	skip "no compiler for aarch64, or no emulator"
fi
done_testing
