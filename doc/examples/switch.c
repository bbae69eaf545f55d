/* Started with prof_active:false, looks only at the part that matters. */
#include <jemalloc/jemalloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static void *volatile start_up[1000];
static void *volatile requests[1000];

void
begin(void) {
	for (int i = 0; i < 1000; i++) {
		start_up[i] = malloc(2000);
	}
}

void
serve(void) {
	for (int i = 0; i < 1000; i++) {
		requests[i] = malloc(300);
	}
}

int
main(void) {
	bool on = true, old = false;
	size_t size = sizeof(old);
	const char *path = "switch.heap";
	begin();
	if (mallctl("prof.active", &old, &size, &on, sizeof(on)) != 0) {
		puts("no profiler: start me with MALLOC_CONF=prof:true,prof_active:false");
		return 1;
	}
	serve();
	if (mallctl("prof.dump", NULL, NULL, &path, sizeof(path)) != 0) {
		puts("the dump failed");
		return 1;
	}
	printf("was %s, wrote %s\n", old ? "active" : "not active", path);
	return 0;
}
