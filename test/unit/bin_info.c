/* arena/bin_info.h: shapes of slabs, recomputed; wishes of the options, clipped. */
#include "core.h"

#include "arena/bin_info.h"

static size_t
gcd(size_t a, size_t b) {
	while (b != 0) {
		size_t t = a % b;
		a = b;
		b = t;
	}
	return a;
}

/* The regions whose index does not come out when their offset is multiplied by info->magic. */
static unsigned
bad_divisions(const bin_info_t *info) {
	unsigned bad = 0;
	for (size_t n = 0; n < info->nregs; n++) {
		bad += ((uint64_t)(n * info->reg_size) * info->magic) >> 32 != n;
	}
	return bad;
}

/* Of the plain shape as many whole pages as waste no more than an eighth. */
static unsigned
bad_sampled_shapes(void) {
	unsigned bad = 0;
	bin_info_boot_sampled();
	for (szind_t i = 0; i < SC_NBINS; i++) {
		const bin_info_t *plain = &bin_infos[i], *info = &bin_infos_sampled[i];
		size_t used = info->nregs * info->reg_size, fit = info->slab_size / info->reg_size;
		size_t before = (info->slab_size - PAGE) % info->reg_size;
		bad += wrong_if(info->reg_size != plain->reg_size)
		    || wrong_if(info->nregs > plain->nregs) || wrong_if(info->nregs == 0);
		bad += wrong_if(info->slab_size > plain->slab_size)
		    || wrong_if(info->slab_size % PAGE != 0);
		bad += info->nregs != fit && info->nregs != SAMPLED_REGS_MAX && info->nregs != plain->nregs;
		bad += info->nregs == fit && info->slab_size < plain->slab_size
		    && (info->slab_size - used) * 8 > info->slab_size;
		/* One page less would not do. */
		bad += info->slab_size - PAGE >= info->reg_size && before * 8 <= info->slab_size - PAGE;
	}
	return bad;
}

static void
test_shapes(void) {
	unsigned bad = 0, bad_div = 0;
	size_t regs_min = config_hardening ? 4 : 1;
	for (szind_t i = 0; i < SC_NBINS; i++) {
		const bin_info_t *info = &bin_infos[i];
		size_t reg = sc_size_tab[i], slab = PAGE / gcd(PAGE, reg) * reg, unit = slab;
		while (slab / reg < regs_min) {
			slab += unit;
		}
		bad += wrong_if(info->reg_size != reg) || wrong_if(info->slab_size != slab)
		    || wrong_if(info->nregs != slab / reg);
		bad += info->n_shards != 1;
		bad_div += bad_divisions(info);
	}
	is_uint(bad, 0, "a slab is the least common multiple of page and region, or a few of it");
	is_uint(bad_div, 0, "offsets of regions divide exactly");
	is_uint(bad_sampled_shapes(), 0, "slabs of samples are small and nearly full of regions");
	if (PAGE == 4096) {
		is_uint(bin_infos[0].nregs, 512, "512 regions of 8 bytes");
		is_uint(bin_infos[3].slab_size, 12288, "48 bytes: slabs of three pages");
		is_uint(bin_infos[35].slab_size, config_hardening ? 57344 : 28672,
		    "14336 bytes: slabs of seven pages, or two times seven with canaries");
	}
}

static szind_t
class_of(size_t size) {
	return sc_index_compute(size);
}

/* In a child: the shapes of this process must not change under its feet. */
static void
wishes_now(void *arg) {
	int bad = 0;
	(void)arg;
	bad += wrong_if(bin_info_set_shards(1, 100, 4) != 0)
	    || wrong_if(bin_info_set_shards(160, 160, 64) != 0);
	bad += wrong_if(bin_info_set_shards(5, 4, 2) != EINVAL)
	    || wrong_if(bin_info_set_shards(1, 2, 0) != EINVAL);
	bad += bin_info_set_shards(1, 2, BIN_SHARDS_MAX + 1) != EINVAL;
	bad += bin_info_set_shards(SIZE_MAX - 1, SIZE_MAX, 2) != 0; /* no such class: no matter */
	bad += wrong_if(bin_info_set_slab_pages(1024, 2048, 16) != 0)
	    || wrong_if(bin_info_set_slab_pages(3072, 3072, 1) != 0);
	bad += wrong_if(bin_info_set_slab_pages(8, 8, SIZE_MAX) != 0)
	    || wrong_if(bin_info_set_slab_pages(16, 16, 0) != 0);
	bad += wrong_if(bin_info_set_slab_pages(2, 1, 1) != EINVAL)
	    || wrong_if(bin_info_set_slab_pages(100, 200, 3) != 0);
	bad += bin_info_set_slab_pages(SIZE_MAX - 1, SIZE_MAX, 2) != 0;
	size_t plain_below = bin_infos[class_of(96)].slab_size, plain_above =
	    bin_infos[class_of(224)].slab_size;
	bin_info_boot();
	bad += wrong_if(bin_infos[class_of(112)].slab_size != 3 * PAGE)
	    || wrong_if(bin_infos[class_of(192)].slab_size != 3 * PAGE);
	bad += wrong_if(bin_infos[class_of(96)].slab_size != plain_below)
	    || wrong_if(bin_infos[class_of(224)].slab_size != plain_above);
	for (szind_t i = 0; i < SC_NBINS; i++) {
		const bin_info_t *info = &bin_infos[i];
		unsigned shards = i <= class_of(100) ? 4 : i == class_of(160) ? 64 : 1;
		bad += info->n_shards != shards;
		bad += wrong_if(info->slab_size % PAGE != 0) || wrong_if(info->nregs == 0)
		    || wrong_if(info->nregs > PAGE / 8);
		bad += (size_t)info->nregs * info->reg_size > info->slab_size;
		bad += bad_divisions(info);
	}
	bad += bad_sampled_shapes();
	bad += bin_infos[class_of(1024)].slab_size != 16 * PAGE;
	bad += bin_infos[class_of(1024)].nregs != 16 * PAGE / 1024;
	bad += bin_infos[class_of(2048)].slab_size != 16 * PAGE;
	bad += bin_infos[class_of(3072)].slab_size != PAGE;
	bad += wrong_if(bin_infos[class_of(8)].slab_size != PAGE)
	    || wrong_if(bin_infos[class_of(16)].slab_size < PAGE);
	_exit(bad);
}

static void
body(void) {
	static struct test_result r;
	test_shapes();
	run_forked(&r, wishes_now, NULL);
	child_exits(&r, 0, "numbers of shards and sizes of slabs by option");
}

int
main(int argc, char **argv) {
	return core_run_all_pages(argc, argv, body);
}
