/* Which slab serves, which waits, which goes. */
#include "arena/bin.h"

#include "arena/safety.h"
#include "os/witness.h"

/* The counters against each other and the current slab. */
static void
bin_check(const bin_t *bin UNUSED, const bin_info_t *info UNUSED) {
	assert(bin->stats.curregs <= bin->stats.curslabs * info->nregs);
	assert(bin->stats.nonfull_slabs <= bin->stats.curslabs);
	assert(bin->stats.nmalloc - bin->stats.ndalloc == bin->stats.curregs);
	assert(bin->slabcur == NULL || (bin->slabcur->is_slab && !bin->slabcur->is_listed));
	assert((bin->stats.nonfull_slabs == 0) == ph_is_empty(&bin->nonfull));
}

void
bin_init(bin_t *bin) {
	mutex_init(&bin->mtx, "bin", WITNESS_RANK_BIN);
	ph_init(&bin->nonfull);
}

static void
bin_nonfull_add(bin_t *bin, edata_t *slab) {
	assert(!slab->is_listed && slab->nfree > 0 && slab != bin->slabcur);
	ph_insert(&bin->nonfull, &slab->heap, edata_cmp_addr);
	slab->is_listed = true;
	bin->stats.nonfull_slabs++;
}

static void
bin_nonfull_remove(bin_t *bin, edata_t *slab) {
	assert(slab->is_listed && bin->stats.nonfull_slabs > 0);
	ph_remove(&bin->nonfull, &slab->heap, edata_cmp_addr);
	slab->is_listed = false;
	bin->stats.nonfull_slabs--;
}

/* Makes the lowest waiting slab the current one. */
static bool
bin_has_next_slab(bin_t *bin) {
	ph_link_t *l = ph_first(&bin->nonfull, edata_cmp_addr);
	if (l == NULL) {
		return false;
	}
	edata_t *slab = edata_of_heap(l);
	bin_nonfull_remove(bin, slab);
	bin->slabcur = slab;
	bin->stats.nreslabs++;
	return true;
}

unsigned
bin_take_locked(bin_t *bin, const bin_info_t *info, void **out, unsigned n) {
	mutex_assert_owner(&bin->mtx);
	unsigned got = 0;
	while (got < n) {
		edata_t *slab = bin->slabcur;
		if (slab != NULL && slab->nfree > 0) {
			got += slab_take(slab, info, &out[got], n - got);
		} else if (!bin_has_next_slab(bin)) {
			break;
		}
	}
	bin->stats.nmalloc += got;
	bin->stats.curregs += got;
	bin_check(bin, info);
	return got;
}

void
bin_add_slab_locked(bin_t *bin, edata_t *slab) {
	mutex_assert_owner(&bin->mtx);
	bin->stats.nslabs++;
	bin->stats.curslabs++;
	if (bin->slabcur != NULL && bin->slabcur->nfree > 0) {
		bin_nonfull_add(bin, slab); /* another thread was faster */
	} else {
		bin->slabcur = slab;
	}
}

edata_t *
bin_put_locked(bin_t *bin, const bin_info_t *info, edata_t *slab, void *ptr) {
	mutex_assert_owner(&bin->mtx);
	assert(slab->is_slab && sz_i2s(slab->szind) == info->reg_size);
	if (unlikely(!slab_put_is_valid(slab, info, ptr))) {
		safety_fail("double free or pointer into a block");
	}
	assert(bin->stats.curregs > 0);
	bin->stats.ndalloc++;
	bin->stats.curregs--;
	if (slab == bin->slabcur) {
		return NULL;
	}
	if (slab->nfree == info->nregs) {
		if (slab->is_listed) {
			bin_nonfull_remove(bin, slab);
		}
		bin->stats.curslabs--;
		return slab;
	}
	if (!slab->is_listed) {
		bin_nonfull_add(bin, slab);
	}
	bin_check(bin, info);
	return NULL;
}

void
bin_stats_merge(bin_t *bin, bin_stats_t *out, mutex_prof_data_t *mutex_out) {
	mutex_prof_data_t data;
	mutex_lock(&bin->mtx);
#define BIN_STATS_ADD(name, type) out->name += bin->stats.name;
	BIN_STATS_FIELDS(BIN_STATS_ADD)
#undef BIN_STATS_ADD
	mutex_prof_read(&data, &bin->mtx);
	mutex_unlock(&bin->mtx);
	mutex_prof_merge(mutex_out, &data);
}
