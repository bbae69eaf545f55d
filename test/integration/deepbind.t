#!/bin/sh
# libjemalloc_deepbind.so: a plugin that is opened with RTLD_DEEPBIND allocates from the preloaded library like its program, and the
# loader still searches the caller's RUNPATH.
. "$JEMALLOC_SRC/test/include/tap.sh"
COMPANION=$(echo "$LIB" | sed 's/\.so\..*$//')_deepbind.so
[ -e "$COMPANION" ] || skip_all "no companion library in this build"

mkdir sub
cat >plugin.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
const char *plugin_takes(void *block) {
	Dl_info from;
	void *of_plugin = malloc(100);
	const char *name = dladdr((void *)&malloc, &from) != 0 ? from.dli_fname : "?";

	if (strstr(name, "libjemalloc") != NULL) /* otherwise a free of it would end the process */
		free(block);
	free(of_plugin);
	return name;
}
C
cat >program.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) {
#ifndef RTLD_DEEPBIND
	return 77;
#else
	void *h = dlopen("plugin.so", RTLD_NOW | RTLD_DEEPBIND);
	const char *(*takes)(void *);
	if (h == NULL) {
		puts(dlerror());
		return 1;
	}
	takes = (const char *(*)(void *))dlsym(h, "plugin_takes");
	puts(takes(malloc(100)));
	return 0;
#endif
}
C
compile sub/plugin.so plugin.c -shared -fPIC
compile program program.c -Wl,--enable-new-dtags,-rpath,"$W/sub"
./program >/dev/null 2>&1
[ $? -ne 77 ] || skip_all "this C library has no RTLD_DEEPBIND"

is "$(LD_PRELOAD=$LIB ./program 2>&1 | grep -c libjemalloc)" 0 "without the companion the plugin's malloc is the C library's"
is "$(LD_PRELOAD=$COMPANION:$LIB ./program 2>&1)" "$LIB" "with it the plugin's malloc is the program's, found by the program's RUNPATH"
mkdir lib
ln -s "$LIB" "$COMPANION" lib
sed "s|^libdir=.*|libdir=$W/lib|" "$BUILD/bin/jemalloc.sh" >jemalloc.sh
is "$(sh ./jemalloc.sh --deepbind ./program 2>&1)" "$W/lib/$(basename "$LIB")" "jemalloc.sh --deepbind preloads both"
is "$(sh ./jemalloc.sh ./program 2>&1 | grep -c libjemalloc)" 0 "jemalloc.sh alone does not"
sh ./jemalloc.sh --deepbind >out 2>&1
is "$?" 1 "jemalloc.sh --deepbind without a program is refused"
has "$(cat out)" "usage: " "with its usage"
is "$(sh ./jemalloc.sh --help 2>err)" "usage: ./jemalloc.sh [--deepbind] <command> [<argument>...]" "jemalloc.sh --help"
sh ./jemalloc.sh --nope >out 2>&1
is "$? $(head -n 1 out)" "1 ./jemalloc.sh: no such option: --nope" "jemalloc.sh with an unknown option"
sh ./jemalloc.sh --deepbind --nope ./program >out 2>&1
is "$? $(head -n 1 out)" "1 ./jemalloc.sh: no such option: --nope" "also after --deepbind"
done_testing
