/* Two words of each thread, written from outside. */
#include "thread/recall.h"

#include "os/gate.h"

void
recall_one(struct tls_s *t, uint32_t what) {
	assert(what != 0);
	__atomic_fetch_or(&t->recall, what, __ATOMIC_SEQ_CST);
	__atomic_store_n(&t->cache, (void *)(uintptr_t)tls_boot_cache, __ATOMIC_SEQ_CST);
	/* It may have looked in between, and would then not look again and stay on the slow path. */
	__atomic_fetch_or(&t->recall, what, __ATOMIC_SEQ_CST);
}

typedef struct {
	uint32_t what;
	unsigned n;
} recall_t;

static void
recall_next(struct tls_s *t, void *ctx) {
	recall_t *r = ctx;
	recall_one(t, r->what);
	r->n++;
}

unsigned
recall_all(uint32_t what) {
	recall_t r = {what, 0};
	gate_enter(tls_get());
	gate_for_each(recall_next, &r);
	gate_exit(tls_get());
	return r.n;
}
