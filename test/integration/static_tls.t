#!/bin/sh
# The library opened late in programs with much static TLS: it needs little of what the loader has left.
. "$JEMALLOC_SRC/test/include/tap.sh"

bytes=$(readelf -lW "$LIB" | awk '$1 == "TLS" { print $6 }')
[ "$((${bytes:-0}))" -le 512 ]
ok $? "static TLS of the library: $((${bytes:-0})) bytes, at most 512"

# A library whose static TLS takes BYTES of the loader's surplus when it is opened.
cat >taker.c <<'EOF'
static __thread __attribute__((tls_model("initial-exec"))) char words[BYTES];
char *taker(void) { return words; }
EOF
cat >opener.c <<'EOF'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static __thread char big[BIG];
static void *(*lib_malloc)(size_t);
static void (*lib_free)(void *);

static void *
use(void *arg)
{
	memset(big, 1, sizeof(big));
	for (int i = 0; i < 1000; i++) {
		char *p = lib_malloc((size_t)i * 30 + 1);

		if (p == NULL)
			return arg;
		memset(p, 2, (size_t)i * 30 + 1);
		lib_free(p);
	}
	return big[0] + big[BIG - 1] == 2 ? NULL : arg;
}

int
main(int argc, char **argv)
{
	void *h = NULL;
	pthread_t t;
	void *bad = argv;

	for (int i = 1; i < argc; i++) {
		h = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
		if (h == NULL) {
			printf("%s\n", dlerror());
			return i == argc - 1 ? 1 : 3;
		}
	}
	lib_malloc = (void *(*)(size_t))dlsym(h, "malloc");
	lib_free = (void (*)(void *))dlsym(h, "free");
	if (lib_malloc == NULL || lib_free == NULL || use(argv) != NULL || pthread_create(&t, NULL, use, argv) != 0)
		return 2;
	pthread_join(t, &bad);
	return bad != NULL;
}
EOF
compile opener opener.c -DBIG=200000
runs "dlopen in a program with 200 KB of static TLS" ./opener "$LIB"

# A thousand bytes of what glibc keeps for libraries that are opened late, all but a few hundred.
compile taker.so taker.c -DBYTES=1000 -shared -fPIC
./opener ./taker.so "$LIB" >out 2>&1
rc=$?
if [ $rc -eq 3 ]; then
	skip "this C library keeps less than 1000 bytes of static TLS: $(cat out)"
else
	ok $rc "dlopen after a library that took a thousand bytes of what is left" "exit status $rc" "$(cat out)"
fi
done_testing
