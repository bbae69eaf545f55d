/*
 * unwind/objects.h: which objects were there when the process started. Samples with frames in these
 * need no look at what the objects are (module_history_stamp()).
 */
#include "core.h"

#include <dlfcn.h>
#include <math.h>

#include "unwind/module_history.h"
#include "unwind/objects.h"

int main(void);

static double (*volatile of_start)(double) = lgamma; /* libm's, which all tests are linked with */

/* A function of an object that is opened now, or NULL. */
static void *
open_one(void **handle) {
	*handle = dlopen("libresolv.so.2", RTLD_NOW);
	return *handle == NULL ? NULL : dlsym(*handle, "__b64_ntop");
}

static void
test_opened(void) {
	struct object_place_s o;
	for (unsigned i = 0; i < 2; i++) {
		void *handle, *fn = open_one(&handle);
		if (fn == NULL || !objects_place((uintptr_t)fn, &o)) {
			skip(2, "nothing to open");
			continue;
		}
		ok(!objects_is_of_start(&o), "an object that is opened now is none of the start");
		ok(module_history_stamp(&fn, 1) != 0, "its frames have a stamp");
		dlclose(handle);
	}
}

/* The record of the program, which has the path that is passed; with it those of all others. */
static void
test_program(void) {
	ok(module_history_try_hold(), "nobody is looking");
	const module_record_t *r = module_history_look_program("/the/program");
	module_history_release();
	uint64_t here = (uintptr_t)&main, there = (uintptr_t)of_start;
	ok(r != NULL && strcmp(r->path, "/the/program") == 0, "the program has a record");
	ok(r != NULL && here - r->start < r->end - r->start && there - r->start >= r->end - r->start,
	    "in which its functions are, and no others");
	ok(module_history_last() >= 3, "libraries have records too");
}

int
main(void) {
	struct object_place_s o;
	void *frames[2] = {(void *)(uintptr_t)of_start, (void *)(uintptr_t)&main};
	free(keep(malloc(100)));
	if (!objects_place((uintptr_t)of_start, &o)) {
		is_uint(module_history_stamp(frames, 2), 0, "no look-up, no stamp");
		return done_testing();
	}
	ok(objects_is_of_start(&o), "a library of the program");
	is_uint(module_history_stamp(frames, 2), 0, "its frames need no stamp");
	ok(objects_place((uintptr_t)&main, &o) && objects_is_of_start(&o), "the program");
	test_opened();
	test_program();
	return done_testing();
}
