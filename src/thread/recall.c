/*
 * Makes other threads take their slow path (recall.h).
 *
 * Invariant: after recall_one() each malloc and free of the thread takes the slow path until one of
 * them has handled the bit (tsd_look), even if the thread was in the slow path during the call.
 * Locks: recall_all() takes that of the gate's list of threads. Called by the profiler,
 * alloc_hook.c, claim.c, peak.c, thread_event.c, user_event.c, tsd.c, tcache.c and ctl_arena.c.
 */
#include "thread/recall.h"

#include "os/gate.h"

void
recall_one(struct tls_s *t, uint32_t what) {
	assert(what != 0);
	__atomic_fetch_or(&t->recall, what, __ATOMIC_SEQ_CST);
	__atomic_store_n(&t->cache, (void *)(uintptr_t)tls_boot_cache, __ATOMIC_SEQ_CST);
	/*
	 * The thread may have handled the bit before its cache word changed. It would then take the
	 * slow path for ever, so the bit is set once more.
	 */
	__atomic_fetch_or(&t->recall, what, __ATOMIC_SEQ_CST);
}

void *
recall_close(struct tls_s *t) {
	void *was = __atomic_load_n(&t->cache, __ATOMIC_RELAXED);
	__atomic_store_n(&t->cache, (void *)(uintptr_t)tls_boot_cache, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return was;
}

void
recall_open(struct tls_s *t, void *cache) {
	__atomic_store_n(&t->cache, cache, __ATOMIC_SEQ_CST);
	if (unlikely(__atomic_load_n(&t->recall, __ATOMIC_SEQ_CST) != 0) || gate_is_lost()) {
		/* A recall that came meanwhile, and a lost child, require that the next call is slow. */
		__atomic_store_n(&t->cache, (void *)(uintptr_t)tls_boot_cache, __ATOMIC_SEQ_CST);
	}
}

typedef struct {
	uint32_t what;
	unsigned n; /* threads recalled so far */
} recall_t;

static void
recall_next(struct tls_s *t, void *ctx) {
	recall_t *r = ctx;
	recall_one(t, r->what);
	r->n++;
}

unsigned
recall_all(uint32_t what) {
	assert((what & ~(uint32_t)(RECALL_SETTINGS | RECALL_PACE | RECALL_GRANTS)) == 0);
	recall_t r = {what, 0};
	gate_enter(tls_get());
	gate_for_each(recall_next, &r);
	gate_exit(tls_get());
	return r.n;
}
