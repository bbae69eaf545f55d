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
		is "$(grep -i 'warning' err)" "" "the linker has nothing to warn of"
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
	# Memory comes after the boot by its constructor has failed, and before that constructor ends.
	cat >fails.c <<'END'
#include <stdlib.h>
#include <sys/resource.h>
static struct rlimit was;
static __attribute__((constructor)) void early(void)
{
	getrlimit(RLIMIT_AS, &was);
	struct rlimit none = {0, was.rlim_max};
	setrlimit(RLIMIT_AS, &none);
}
void *dlopen(const char *file, int flags)
{
	setrlimit(RLIMIT_AS, &was);
	free(malloc(100));
	return NULL;
}
END
	$CC -shared -fPIC -O0 -w -fno-builtin -o fails.so fails.c
	# shellcheck disable=SC2016
	MALLOC_CONF=background_thread:true,max_background_threads:1 LD_PRELOAD="$W/libwith.so $W/fails.so" \
	    sh -c 'echo /proc/$$/task/*' >out
	is "$(wc -w <out)" 2 "who boots between has its background thread"
	cat >plugin.c <<'END'
#include <jemalloc/jemalloc.h>
int use(int n)
{
	for (int i = 0; i < n; i++) {
		void *p = mallocx(100 + i, 0);
		if (p == 0)
			return 1;
		dallocx(p, 0);
	}
	return 0;
}
END
	cat >closes.c <<'END'
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static sem_t used, closed;

static void *user(void *arg)
{
	void *bad = ((int (*)(int))arg)(1000) ? arg : NULL;
	sem_post(&used);
	sem_wait(&closed);
	return bad;
}

/* KiB of address space. */
static long space(void)
{
	char line[200];
	long kb = 0;
	FILE *f = fopen("/proc/self/status", "r");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		sscanf(line, "VmSize: %ld", &kb);
	if (f != NULL)
		fclose(f);
	return kb;
}

/* Opens the plugin, lets a thread use it, closes it; then the thread ends. */
int main(int argc, char **argv)
{
	int rounds = atoi(argv[2]), used_keys = 0;
	long before = 0;
	pthread_key_t key;
	sem_init(&used, 0, 0);
	sem_init(&closed, 0, 0);
	for (int i = 0; i < rounds; i++) {
		pthread_t t;
		void *bad, *h = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
		if (h == NULL)
			return printf("%s\n", dlerror()), 1;
		void *f = dlsym(h, "use");
		if (rounds > 10) {
			((int (*)(int))f)(10);
			dlclose(h);
		} else {
			pthread_create(&t, NULL, user, f);
			sem_wait(&used);
			dlclose(h);
			usleep(50000);
			sem_post(&closed);
			pthread_join(t, &bad);
			if (bad != NULL)
				return 2;
		}
		before = i == 0 ? space() : before;
	}
	for (int i = 0; i < 1000; i++)
		used_keys += pthread_key_create(&key, NULL) != 0;
	if (used_keys > 0 || space() - before > 200 * 1024)
		return printf("keys that are lost: %d, KiB of address space: %ld\n", used_keys, space() - before), 3;
	return 0;
}
END
	$CC -shared -fPIC -O1 -w -I"$BUILD/include" -o plugin.so plugin.c -Wl,-Bsymbolic -Wl,--whole-archive \
	    "$LIBDIR/libjemalloc_pic.a" -Wl,--no-whole-archive -pthread && compile closes closes.c
	ok $? "a plugin with the archive in it, and its host"
	for conf in "" background_thread:true prof:true,lg_prof_sample:0,prof_thread:true; do
		runs "closed while a thread that used it lives ($conf)" env MALLOC_CONF="$conf" ./closes ./plugin.so 3
	done
	runs "closed and opened 2000 times" ./closes ./plugin.so 2000
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

case $(uname -m) in
x86_64 | aarch64)
	$CC -shared -fPIC -O1 -w -o refuses.so "$A/refuses.c"
	for conf in "" background_thread:true prof:true,lg_prof_sample:0,prof_final:true; do
		runs "with a syscall() of another library ($conf)" env MALLOC_CONF="$conf" \
		    LD_PRELOAD="$W/refuses.so:$LIB" timeout 400 ./plain
	done
	;;
*) skip "calls by number go through syscall()" ;;
esac

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
