/*
 * Two constant tables about size classes: the ladder, which is the size of each class; and for each
 * size up to SC_LOOKUP_MAX the offset of its class's bin. sc.h describes both.
 * Invariant: an entry of sc_offset_tab is (class + 1) * SC_BIN_STRIDE bytes, with the class that
 * sc_index_compute() gives for the size (a unit test compares them); + 1 because slot 0 of a thread
 * cache is unused. No lock. Read by the functions of sc.h and sz.h.
 */
#include "meta/sc.h"

/*
 * GROUP(lg): the sizes, in bytes, of the four classes in (2^lg, 2^(lg+1)]. GROUP8(lg): those of the
 * 32 classes in (2^lg, 2^(lg+8)].
 */
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

/*
 * SLOTS: the entries of sizes in (from, to], in bytes, which are all of class ind. The index of an
 * entry is size / 8, rounded up. SLOT_GROUP(lg): the entries of sizes in (2^lg, 2^(lg+1)].
 */
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
