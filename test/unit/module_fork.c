/*
 * A fork while another thread records a loaded object: the child completes the record, whichever
 * instruction that thread had come to, and records what follows with the next numbers. The
 * processor's trap flag stops the look after each instruction; the "other thread" is the handler.
 */
#include "step.h"
#include "test.h"

#include <dlfcn.h>

#include "meta/region.h"
#include "os/sys.h"
#include "unwind/module_history.h"

#if CAN_STEP

static unsigned nsteps, nforks, nbad;
static void *frame; /* in the object that was loaded last */

/* The number of records on the list; 0 if their numbers do not rise by one. */
static uint32_t
records(void) {
	uint32_t n = 0;
	const module_record_t *r = (const module_record_t *)region_root()->modules;
	for (; r != NULL; r = atomic_load_p(&r->next, MO_ACQUIRE)) {
		if (r->number != ++n) {
			return 0;
		}
	}
	return n;
}

/* Whether a recorded object is at this address. */
static bool
is_recorded(uintptr_t at) {
	const module_record_t *r = (const module_record_t *)region_root()->modules;
	for (; r != NULL; r = atomic_load_p(&r->next, MO_ACQUIRE)) {
		if (at - r->start < r->end - r->start) {
			return true;
		}
	}
	return false;
}

/* In the child: what was begun is whole, and the last object gets the next number. */
static bool
is_complete(void) {
	sys_modules_postfork_child();
	module_history_postfork_child();
	uint32_t n = records(), more = is_recorded((uintptr_t)frame) ? 0 : 1;
	return n != 0 && n == module_history_last() && module_history_note(&frame, 1) == n + more
	    && records() == n + more && is_recorded((uintptr_t)frame);
}

/* Forks where the list and the number of the last record differ. */
static void
on_step(int sig UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
	int saved = errno, status = -1;
	nsteps++;
	if (records() == module_history_last()) {
		return;
	}
	pid_t pid = fork();
	if (pid == 0) {
		alarm(20);
		_exit(is_complete() ? 0 : 1);
	}
	nforks++;
	nbad += waitpid(pid, &status, 0) != pid || status != 0;
	errno = saved;
}

int
main(void) {
	struct sigaction sa = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
	free(malloc(1));
	void *library = dlopen("libresolv.so.2", RTLD_NOW); /* none that was there at the start */
	frame = library == NULL ? NULL : dlsym(library, "__b64_ntop");
	if (frame == NULL) {
		plan_skip_all("no library to load");
	}
	sigaction(SIGTRAP, &sa, NULL);
	is_uint(module_history_last(), 0, "no record yet");
	step(true);
	module_history_try_look();
	step(false);
	diag("%u steps, %u forks", nsteps, nforks);
	ok(module_history_last() > 1 && records() == module_history_last(), "the objects are recorded");
	ok(nforks > 0, "forks where a record is linked and not counted");
	is_uint(nbad, 0, "each child completes it");
	return done_testing();
}

#else

int
main(void) {
	plan_skip_all("the processor is not one that this test steps");
	return 0;
}

#endif
