/* A library whose handlers of pthread_atfork allocate and free. */
#include <pthread.h>
#include <stdlib.h>

static void *held;

static void
prepare(void) {
	held = malloc(3000);
	free(malloc(200000));
}

static void
after(void) {
	free(held);
	free(calloc(3, 3000));
	held = NULL;
}

__attribute__((constructor)) static void
init(void) {
	pthread_atfork(prepare, after, after);
}

int
atfork_lib_here(void) {
	return 1;
}
