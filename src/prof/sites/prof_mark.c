/*
 * Sets the mark: writes into each site the sums over its counts (prof_mark.h).
 *
 * Invariant: while the mark holds (prof_data_is_marked) all sites have their sums of one pass, and
 * those that are newer have 0. Locks: `pass` of the tables (prof_data.h), held during the whole
 * walk, which runs inside the fork gate (os/gate.h) but leaves it for a moment, with `pass` held,
 * if a thread waits to fork; prof_mark_time_ns() takes none. Called by prof_auto.c, for the mallctl
 * prof.mark and the request "mark", and by prof_dump.c for the time.
 */
#include "prof/sites/prof_mark.h"

#include "os/gate.h"
#include "os/nstime.h"
#include "prof/sites/prof_data.h"

/* When the last mark was set, in ns since 1970 (UTC). */
static atomic_u64_t marked_ns;

/* Stores in the site the sums over its counts of the present epoch, which a dump reports. */
static void
site_mark(prof_site_t *s) {
	prof_counts_t sum = {0, 0, 0, 0};
	prof_counts_t cur;
	prof_counts_t accum;
	for (const prof_link_t *link = atomic_load_p(&s->counts, MO_ACQUIRE); link != NULL;
	    link = link->next) {
		const prof_cnt_t *c = container_of(link, const prof_cnt_t, link);
		prof_data_counts_read(c, &cur, &accum);
		if (cur.objs != 0 && prof_data_is_current(c)) {
			prof_counts_add(&sum, &cur);
		}
	}
	s->mark_c16 = sum.c16;
	s->mark_est = sum.est;
}

void
prof_mark_set(void) {
	struct tls_s *t = tls_get();
	assert(t->gate_depth == 1);
	prof_data_pass_begin();
	uint32_t epoch = prof_data_epoch();
	prof_data_unmark();
	atomic_store_u64(&marked_ns, nstime_realtime_ns(), MO_RELAXED);
	for (prof_link_t *link = (prof_link_t *)prof_data_sites(); link != NULL; link = link->next) {
		site_mark(container_of(link, prof_site_t, link));
		if (unlikely(gate_is_closed())) {
			gate_exit(t);
			gate_enter(t);
		}
	}
	prof_data_mark_put(epoch);
	prof_data_pass_end();
}

uint64_t
prof_mark_time_ns(void) {
	return prof_data_is_marked() ? atomic_load_u64(&marked_ns, MO_RELAXED) : 0;
}
