/* A list that only grows, in mappings of its own. */
#include "os/module_history.h"

#include "os/pages.h"
#include "util/assert.h"
#include "util/atomic.h"

#define CHUNK_BYTES ((size_t)64 << 10)
#define BUILD_ID_MAX 32

typedef struct record_s record_t;
struct record_s {
	atomic_p_t next;
	uintptr_t start;
	uintptr_t end;
	uintptr_t bias;
	bool is_covered; /* by a loaded object; of module_history_gone's caller */
	uint8_t build_id_len;
	unsigned char build_id[BUILD_ID_MAX];
	char path[];
};

static struct {
	atomic_p_t first;
	/* The rest is of who looks: pid of that process while it does, so that a forked child looks again. */
	atomic_u32_t looker;
	record_t *last;
	unsigned n;
	char *room;
	size_t left;
	uint64_t adds;
	bool has_looked;
} history;

static record_t *
record_next(const record_t *r) {
	return atomic_load_p(r == NULL ? &history.first : &r->next, MO_ACQUIRE);
}

static bool
is_record_of(const record_t *r, const struct sys_module_s *m) {
	if (r->start != m->start || r->end != m->end || r->bias != m->bias || strcmp(r->path, m->path) != 0) {
		return false;
	}
	/* One of a length that is not kept has none here. */
	return r->build_id_len == 0 || (r->build_id_len == m->build_id_len
	    && memcmp(r->build_id, m->build_id, r->build_id_len) == 0);
}

/* NULL: no memory, or too many. */
static record_t *
record_new(size_t path_len) {
	size_t bytes = align_up(sizeof(record_t) + path_len + 1, sizeof(void *));
	if (bytes > CHUNK_BYTES || history.n == MODULE_HISTORY_MAX) {
		return NULL;
	}
	if (history.left < bytes) {
		bool commit = true;
		char *room = pages_map(NULL, PAGE_CEILING(CHUNK_BYTES), PAGE, &commit);
		if (room == NULL) {
			return NULL;
		}
		history.room = room;
		history.left = CHUNK_BYTES;
	}
	record_t *r = (record_t *)history.room;
	history.left -= bytes; /* first: a child forked in between may write here again */
	history.room += bytes;
	history.n++;
	return r;
}

/* The program itself (no path here) is never gone, and what has no path cannot be named. */
static int
note_module(void *ctx UNUSED, const struct sys_module_s *m) {
	assert(m->start < m->end);
	for (record_t *r = record_next(NULL); r != NULL; r = record_next(r)) {
		if (is_record_of(r, m)) {
			return 0;
		}
	}
	record_t *r = m->path[0] == '\0' ? NULL : record_new(strlen(m->path));
	if (r == NULL) {
		return 0;
	}
	r->start = m->start;
	r->end = m->end;
	r->bias = m->bias;
	r->build_id_len = m->build_id_len <= BUILD_ID_MAX ? (uint8_t)m->build_id_len : 0;
	if (r->build_id_len > 0) {
		memcpy(r->build_id, m->build_id, r->build_id_len);
	}
	strcpy(r->path, m->path);
	atomic_store_p(history.last == NULL ? &history.first : &history.last->next, r, MO_RELEASE);
	history.last = r;
	return 0;
}

void
module_history_look(void) {
	uint32_t self = (uint32_t)sys_pid(), looker = atomic_load_u32(&history.looker, MO_RELAXED);
	uint64_t adds, subs;
	bool is_known = sys_module_changes(&adds, &subs);
	if (looker == self || !atomic_cas_strong_u32(&history.looker, &looker, self, MO_ACQUIRE, MO_RELAXED)) {
		return;
	}
	if (!is_known || !history.has_looked || adds != history.adds) {
		sys_modules(note_module, NULL, NULL, 0);
		history.adds = adds;
		history.has_looked = true;
	}
	atomic_store_u32(&history.looker, 0, MO_RELEASE);
}

static void
cover(record_t *r, uintptr_t start, uintptr_t end) {
	r->is_covered = r->is_covered || (start < r->end && r->start < end);
}

static int
cover_module(void *ctx UNUSED, const struct sys_module_s *m) {
	for (record_t *r = record_next(NULL); r != NULL; r = record_next(r)) {
		cover(r, m->start, m->end);
	}
	return 0;
}

/* Where two have been, the later one counts. */
static void
cover_by_later(record_t *r) {
	for (const record_t *later = record_next(r); later != NULL; later = record_next(later)) {
		cover(r, later->start, later->end);
	}
}

int
module_history_gone(int (*cb)(void *ctx, const struct sys_module_s *m), void *ctx) {
	for (record_t *r = record_next(NULL); r != NULL; r = record_next(r)) {
		r->is_covered = false;
		cover_by_later(r);
	}
	sys_modules(cover_module, NULL, NULL, 0);
	int ret = 0;
	for (record_t *r = record_next(NULL); r != NULL && ret == 0; r = record_next(r)) {
		struct sys_module_s m = {.start = r->start, .end = r->end, .bias = r->bias, .build_id = r->build_id,
			.build_id_len = r->build_id_len, .path = r->path};
		ret = r->is_covered ? 0 : cb(ctx, &m);
	}
	return ret;
}
