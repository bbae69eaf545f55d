/* Options of a session: parsed, then given to set, start and stop. */
#include "target.h"

#include "imalloc_flags.h"
#include "prof/control/prof_session.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	prof_session_opts_t o;
	const char *why = NULL;
	char *text = copy_exactly(data, size, true);
	int err = prof_session_parse(&o, text, &why);
	if ((err != 0) != (why != NULL && *why != '\0') || (err != 0 && err != EINVAL)) {
		abort();
	}
	if (err == 0 && o.prefix != NULL && (o.prefix < text
	    || o.prefix + o.prefix_len > text + size)) {
		abort();
	}
	prof_session_set(text, &why);
	if (prof_session_start(text, &why, NULL) == 0) {
		if (err != 0 || prof_session_stop(prof_session_id() + 1, NULL) == 0) {
			abort();
		}
		ifree_default(imalloc_mallocx(100000, 0));
		prof_session_stop(0, NULL);
	}
	if (prof_session_state() != prof_session_idle) {
		abort();
	}
	free(text);
	return 0;
}
