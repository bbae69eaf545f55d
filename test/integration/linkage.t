#!/bin/sh
# The ways in: preloaded, linked, static, opened late; and libraries around it that
# allocate in constructors, destructors and fork handlers.
. "$JEMALLOC_SRC/test/include/tap.sh"
A=$SRC/test/integration/aid

compile plain "$A/work.c" || exit 1
runs "preloaded" preloaded ./plain
has "$(cat out)" "library: yes" "it serves the program"
runs "without the library" ./plain
has "$(cat out)" "library: no" "the C library serves it"
compile_linked linked "$A/work.c"
runs "linked" ./linked
has "$(cat out)" "library: yes" "it serves the program"
for conf in prof:true,lg_prof_sample:0 tcache:false narenas:1 junk:true zero:true abort_conf:false,percpu_arena:percpu \
    retain:false thp:always prof:true,prof_final:true,lg_prof_sample:10; do
	runs "linked, $conf" env MALLOC_CONF="$conf" ./linked
done
runs "preloaded twice over" env LD_PRELOAD="$LIB:$LIB" ./linked

if [ -f "$LIBDIR/libjemalloc.a" ]; then
	compile archive "$A/work.c" "$LIBDIR/libjemalloc.a"
	runs "linked to the archive" ./archive
	has "$(cat out)" "library: yes" "it serves the program"
	if compile static -static "$A/work.c" "$LIBDIR/libjemalloc.a" 2>err; then
		runs "static program" ./static
		runs "static program, profiled" env MALLOC_CONF=prof:true,lg_prof_sample:0 ./static
	else
		ok 1 "static program links" "$(cat err)"
	fi
	$CXX -std=c++17 -O1 -o cxx_archive "$A/work.cpp" "$LIBDIR/libjemalloc.a" -pthread -ldl 2>err
	ok $? "C++ program links to the archive" "$(cat err)"
	runs "C++ program with the archive" ./cxx_archive
else
	skip "no static library"
fi
if [ -f "$LIBDIR/libjemalloc_pic.a" ]; then
	$CC -shared -fPIC -o libwith.so -Wl,--whole-archive "$LIBDIR/libjemalloc_pic.a" \
	    -Wl,--no-whole-archive -pthread 2>err
	ok $? "the PIC archive goes into a shared object" "$(cat err)"
	runs "which serves a program" env LD_PRELOAD="$W/libwith.so" ./plain
else
	skip "no PIC archive"
fi
$CXX -std=c++17 -O1 -o cxx_plain "$A/work.cpp" -pthread
runs "C++ program, preloaded" preloaded ./cxx_plain

compile opens "$A/dlopen.c"
runs "opened, used by threads, closed, five times" ./opens "$LIB"
runs "the same with profiling" env MALLOC_CONF=prof:true,lg_prof_sample:0 ./opens "$LIB"

$CC -shared -fPIC -O1 -w -fno-builtin -o shim.so "$A/shim.c" -ldl
for conf in "" prof:true,lg_prof_sample:0,prof_final:true; do
	runs "shim before the library ($conf)" env MALLOC_CONF="$conf" LD_PRELOAD="$W/shim.so:$LIB" \
	    timeout 400 ./plain
	runs "shim after the library ($conf)" env MALLOC_CONF="$conf" LD_PRELOAD="$LIB:$W/shim.so" \
	    timeout 400 ./plain
done

$CC -shared -fPIC -O1 -w -fno-builtin -o libatfork.so "$A/atfork_lib.c" -pthread
rp="-Wl,-rpath,$W -Wl,-rpath,$LIBDIR"
# shellcheck disable=SC2086
compile before "$A/atfork_main.c" -Wl,--no-as-needed ./libatfork.so "$LIB" $rp
# shellcheck disable=SC2086
compile after "$A/atfork_main.c" -Wl,--no-as-needed "$LIB" ./libatfork.so $rp
runs "fork handlers of a library linked before" ./before
runs "fork handlers of a library linked after" ./after
runs "the same with profiling" env MALLOC_CONF=prof:true,lg_prof_sample:0 ./after
done_testing
