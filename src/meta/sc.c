/*
 * The ladder of size classes as constant tables, and what depends on the page size.
 * sc.h describes the ladder. Invariant: sc_offset_tab and sc_index_compute() give the same class
 * for every size up to SC_LOOKUP_MAX (a unit test compares them). No lock: sc_boot() runs before
 * any allocation.
 */
#include "meta/sc.h"
#include "util/assert.h"

/* The four classes of the doubling (2^lg, 2^(lg+1)]; and those of eight doublings. */
#define GROUP(lg) \
	((size_t)5 << ((lg) - 2)), ((size_t)6 << ((lg) - 2)), ((size_t)7 << ((lg) - 2)), \
	    ((size_t)8 << ((lg) - 2))
#define GROUP8(lg) \
	GROUP(lg), GROUP((lg) + 1), GROUP((lg) + 2), GROUP((lg) + 3), \
	GROUP((lg) + 4), GROUP((lg) + 5), GROUP((lg) + 6), GROUP((lg) + 7)

const size_t sc_size_tab[SC_NSIZES] = {
	8, 16, 32, 48, 64,
	GROUP8(6), GROUP8(14), GROUP8(22), GROUP8(30), GROUP8(38), GROUP8(46), GROUP8(54),
	(size_t)5 << 60, (size_t)6 << 60, (size_t)7 << 60
};

/* The entries of sizes in (from, to], which are of class ind. The index is size / 8, rounded up. */
#define SLOTS(from, to, ind) [(from) / 8 + 1 ... (to) / 8] = ((ind) + 1) * SC_BIN_STRIDE
#define SLOT_GROUP(lg) \
	SLOTS(4u << ((lg) - 2), 5u << ((lg) - 2), ((lg) - 6) * 4 + 5), \
	SLOTS(5u << ((lg) - 2), 6u << ((lg) - 2), ((lg) - 6) * 4 + 6), \
	SLOTS(6u << ((lg) - 2), 7u << ((lg) - 2), ((lg) - 6) * 4 + 7), \
	SLOTS(7u << ((lg) - 2), 8u << ((lg) - 2), ((lg) - 6) * 4 + 8)

const uint16_t sc_offset_tab[SC_LOOKUP_MAX / 8 + 1] = {
	[0] = SC_BIN_STRIDE, SLOTS(0, 8, 0),
	SLOTS(8, 16, 1), SLOTS(16, 32, 2), SLOTS(32, 48, 3), SLOTS(48, 64, 4),
	SLOT_GROUP(6), SLOT_GROUP(7), SLOT_GROUP(8), SLOT_GROUP(9), SLOT_GROUP(10), SLOT_GROUP(11)
};

sc_cuts_t sc_cuts;

void
sc_boot(void) {
	sc_cuts.large_min = (size_t)4 << LG_PAGE;
	sc_cuts.small_max = (size_t)7 << (LG_PAGE - 1);
	sc_cuts.nbins = sc_index_compute(sc_cuts.small_max) + 1;
	sc_cuts.first_psize = sc_index_compute(PAGE);
	/*
	 * Page classes are 1, 2, 3 and 4 pages, then every class above. Below 4 pages the other
	 * steps of the ladder are not whole pages; from 4 pages on a quarter step is.
	 */
	sc_cuts.npsizes = 4 + (SC_NSIZES - 1 - sc_index_compute(sc_cuts.large_min));
	assert(sc_cuts.npsizes <= SC_NPSIZES_MAX);
	assert(sc_cuts.nbins <= SC_SMALL_MAXCLASS_LIMIT_NBINS);
	assert(sc_size_tab[sc_cuts.nbins] == sc_cuts.large_min);
}
