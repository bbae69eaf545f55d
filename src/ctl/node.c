/*
 * Helpers that the leaves of all directories of mallctl share: the size of a value, and the reply
 * to the caller. Invariant: never more bytes are copied than the caller has room for. No state and
 * no lock. Called by ctl.c and the directories.
 */
#include "ctl/node.h"

size_t
ctl_type_size(ctl_type_t type) {
	static const uint8_t size[CTL_NTYPES] = {
		[CTL_NONE] = 0,
		[CTL_BOOL] = sizeof(bool),
		[CTL_UNSIGNED] = sizeof(unsigned),
		[CTL_U32] = sizeof(uint32_t),
		[CTL_U64] = sizeof(uint64_t),
		[CTL_SIZE] = sizeof(size_t),
		[CTL_SSIZE] = sizeof(ssize_t),
		[CTL_STRING] = sizeof(const char *),
		[CTL_POINTER] = sizeof(void *),
	};
	static_assert(CTL_STRING > (int)emitter_type_int64, "no number stands for two types");
	assert(type < CTL_NTYPES && type != CTL_BYTES);
	assert(type == CTL_NONE || size[type] > 0);
	return size[type];
}

int
ctl_reply(const ctl_call_t *call, const void *value, size_t size) {
	assert(size > 0);
	if (!ctl_wants_reply(call)) {
		return 0;
	}
	if (*call->oldlenp == size) {
		memcpy(call->oldp, value, size);
		return 0;
	}
	size_t n = min_zu(size, *call->oldlenp);
	memcpy(call->oldp, value, n);
	*call->oldlenp = n;
	return EINVAL;
}
