/*
 * Where the resident bytes of the heap are, and which sites pin those that nobody uses. Called by
 * prof_dump.c, which writes both into a profile, and by prof_age.c for each live sample.
 *
 * A slab of S bytes has n regions of r bytes in use and stays as long as n > 0; its waste is
 * S - n r. A sample lies elsewhere (in a slab of samples), and its record names the slab that would
 * have served it. Let N objects be meant for a slab, each a sample with probability p, of weight
 * w = 1 / p: then m are samples, and n = N - m lie in it. Then for any function h
 *	E[sum over the m samples of (w - 1) h(n + 1) / (n + 1)] = E[h(n) if n > 0, else 0]
 * (term by term: m C(N, m) / (n + 1) = C(N, m - 1)). With h(n) = S - n r each sample is charged
 * (w - 1) times its share in the waste of the slab as it would be with the sample in it, and the
 * expected sum of the charges is the waste of all slabs that have an object.
 *
 * The term n = 0 is a sample whose slab is gone: it stands for objects that lie alone in theirs, or
 * for some around which the slab would have been filled again; the sample cannot know. But the
 * waste of each class is known exactly. So the part of it that the samples of existing slabs do not
 * explain is charged to the samples whose slabs are gone, by weight, at most (w - 1) (S - r) each.
 * A sample of weight 1 stands for no other object. Regions that thread caches hold or that wait in
 * the stock of a bin count as in use.
 *
 * How sure a sum of charges c is: each comes with the probability 1 / w, so that the sum of
 * c^2 (1 - 1 / w) over the samples has the expected value of its variance, if samples are few among
 * the objects of their slabs.
 */
#pragma once

#include "arena/bin_info.h"
#include "prof/sites/prof_snap.h"

/* Parts in bytes that sum to the resident bytes: X(name, what it is). */
#define PROF_FRAG_PARTS(X) \
	X(live, "objects that the program holds, by usable size") \
	X(cached, "free objects in thread caches") \
	X(free, "free regions in slabs of small objects") \
	X(stock, "free regions that bins keep for thread caches") \
	X(samples, "free regions in slabs of samples") \
	X(slack, "ends of extents of large objects") \
	X(hot, "freed large extents that are kept whole for the next request") \
	X(dirty, "other unused pages") \
	X(hpa, "unused pages of huge slabs (hpa)") \
	X(metadata, "the allocator's own data")

/* What is told beside the parts, in bytes but for `arenas`: X(name, what it is). */
#define PROF_FRAG_MORE(X) \
	X(resident, "sum of the parts") \
	X(muzzy, "unused pages that the system may take, in memory or not") \
	X(retained, "address space without memory") \
	X(huge, "bytes of the parts that lie in huge pieces") \
	X(kept, "unused pages that stay so that huge pieces stay whole") \
	X(spread, "free regions in slabs of other arenas than the one that has most") \
	X(arenas, "number of arenas")

/* One class of small objects, over all arenas. */
typedef struct {
	uint64_t slabs;  /* bytes of its slabs less those of holes; slabs of samples are not in it */
	uint64_t used;   /* bytes of regions in use or in thread caches */
	uint64_t stock;  /* bytes of free regions that bins keep for thread caches */
	/*
	 * bytes that samples whose slabs exist were charged, and most that those whose slabs are gone
	 * may be
	 */
	double charged;
	double gone;
} prof_frag_class_t;

/* All counters of one moment, and what was charged since they were read. */
typedef struct {
#define PROF_FRAG_FIELD(name, says) uint64_t name;
	PROF_FRAG_PARTS(PROF_FRAG_FIELD)
	PROF_FRAG_MORE(PROF_FRAG_FIELD)
#undef PROF_FRAG_FIELD
	uint64_t active;    /* these two as in prof_figures_t */
	uint64_t populated;
	prof_frag_class_t classes[BIN_MAX];
} prof_frag_t;

/*
 * Reads all counters, inside the gate (os/gate.h: fork waits until no thread is inside); takes the
 * locks of prof_figures_read() and prof_figures_live(). They are of slightly different moments; a
 * part that would be negative is 0.
 */
void prof_frag_read(prof_frag_t *to);

/*
 * Charges a live sample to the item of its site, in a snapshot made right after these counters were
 * read; inside the gate. slab is sample_rec_t.slab (a slab_name()); weight: objects in units of 1 /
 * PROF_WEIGHT_ONE. Charges nothing if slab is 0 or weight that of one object. Takes no lock.
 */
void prof_frag_take(prof_frag_t *frag, prof_item_t *item, uint64_t slab, uint64_t weight);
/* After the last sample: whether any site has a charge. */
bool prof_frag_has_charges(const prof_frag_t *frag);
/* After the last sample: the bytes that a site pins; *error: their standard error, in bytes. */
uint64_t prof_frag_pinned(const prof_frag_t *frag, const prof_item_t *item, uint64_t *error);
