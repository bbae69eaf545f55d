/*
 * The history of loaded objects: objects of a few places, load biases, paths and build ids are
 * loaded and unloaded at random, as the loader (of this test) lists them. A model says when a look
 * lists them and forgets unwind rows, which get a record, what a profile shows for an address of
 * each, and which objects it lists as gone; also where there was no memory, the gate was closed,
 * another thread was looking, and in a child of that thread's process.
 */
#include "test.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "meta/base.h"
#include "meta/image.h"
#include "meta/region.h"
#include "os/gate.h"
#include "os/sys.h"
#include "unwind/frame_scan.h"
#include "unwind/module_history.h"
#include "unwind/unwind_backend.h"

enum { UNIT = 4096, NUNITS = 12, MOST = MODULE_HISTORY_MAX };

static char *memory; /* where the objects lie, in units */

/* The lengths of build ids; the last one is too long to be recorded. */
static const unsigned id_lengths[] = {0, 1, MODULE_BUILD_ID_MAX, MODULE_BUILD_ID_MAX + 1};

/* What tells an object from others; build_id: index of its length, 0: it has none. */
struct object {
	unsigned at, n; /* units */
	unsigned bias, path, build_id;
};
static struct object loaded[NUNITS];
static unsigned nloaded, nadds, nsubs;
static struct object recorded[MOST + 1]; /* by number, from 1 on */
static uint32_t nrecorded;

enum { NPATHS = 17 };
static char paths[NPATHS][NPATHS + 1]; /* one of each length, so of each use of a record's bytes */

static uint64_t state = 11;

static unsigned
pick(unsigned n) {
	return (unsigned)(test_random(&state) % n);
}

/* ---- the loader ---- */

typedef int loader_cb_t(struct dl_phdr_info *, size_t, void *);

static bool is_old; /* it does not count what is loaded and unloaded */

static int
show(const struct object *o, loader_cb_t *cb, void *ctx) {
	static struct {
		ElfW(Nhdr) head;
		char owner[4];
		unsigned char id[64];
	} note = {{4, 0, NT_GNU_BUILD_ID}, "GNU", {7}};
	uintptr_t bias = (uintptr_t)memory + o->bias * 100 * UNIT;
	note.head.n_descsz = id_lengths[o->build_id];
	ElfW(Phdr) ph[] = {
		{.p_type = PT_LOAD, .p_flags = PF_R, .p_vaddr = (uintptr_t)memory + o->at * UNIT - bias,
		    .p_memsz = o->n * UNIT},
		{.p_type = PT_GNU_EH_FRAME, .p_vaddr = (uintptr_t)memory - bias, .p_memsz = 16},
		{.p_type = PT_NOTE, .p_vaddr = (uintptr_t)&note - bias, .p_memsz = sizeof(note),
		    .p_align = 4}};
	struct dl_phdr_info info = {.dlpi_addr = bias, .dlpi_name = paths[o->path], .dlpi_phdr = ph,
		.dlpi_phnum = o->build_id != 0 ? 3 : 2, .dlpi_adds = nadds, .dlpi_subs = nsubs};
	return cb(&info, is_old ? offsetof(struct dl_phdr_info, dlpi_subs) : sizeof(info), ctx);
}

static bool is_ours; /* whose loader it is: that of the test */
static unsigned nlisted, ncut; /* listings; those that were ended after the first object */

/* Stands before the C library's. The first object is the program. */
int
dl_iterate_phdr(loader_cb_t *cb, void *ctx) {
	static const struct object program = {NUNITS, 1, 0, 0, 0};
	int (*real)(loader_cb_t *, void *) = NULL;
	if (!is_ours) {
		*(void **)&real = dlsym(RTLD_NEXT, "dl_iterate_phdr");
		return real(cb, ctx);
	}
	int ret = show(&program, cb, ctx);
	nlisted += ret == 0;
	for (unsigned i = 0; i < nloaded && ret == 0; i++) {
		ret = show(&loaded[i], cb, ctx);
		ncut += ret != 0;
	}
	return ret;
}

/* ---- the model ---- */

static bool
overlap(const struct object *a, const struct object *b) {
	return a->at < b->at + b->n && b->at < a->at + a->n;
}

/* What a record says of an object: one whose build id is too long has none. */
static struct object
as_recorded(const struct object *o) {
	struct object kept = *o;
	kept.build_id = id_lengths[o->build_id] > MODULE_BUILD_ID_MAX ? 0 : o->build_id;
	return kept;
}

static bool
is_of(const struct object *record, const struct object *o) {
	struct object kept = as_recorded(o);
	return memcmp(record, &kept, sizeof(kept)) == 0;
}

static struct {
	unsigned adds, subs; /* as the last look found them */
	bool has_missed, has_looked;
	uint64_t generations; /* how often rows were forgotten */
	unsigned nlisted;
} seen;

/* An object needs a record if the last one that was there is another one's. */
static void
model_add(const struct object *o, bool has_memory) {
	uint32_t last = 0, same = 0;
	for (uint32_t i = 1; i <= nrecorded; i++) {
		last = overlap(o, &recorded[i]) ? i : last;
		same = is_of(&recorded[i], o) ? i : same;
	}
	if (nrecorded >= MODULE_HISTORY_ENOUGH ? same != 0 : same != 0 && same == last) {
		return;
	}
	seen.generations += last != 0;
	if (nrecorded == MOST) {
		return;
	}
	if (!has_memory) {
		seen.has_missed = true;
		return;
	}
	recorded[++nrecorded] = as_recorded(o);
}

static void
model_look(bool has_memory) {
	unsigned adds = is_old ? 0 : nadds, subs = is_old ? 0 : nsubs;
	bool must_forget = is_old || subs != seen.subs;
	seen.generations += must_forget;
	if (must_forget || !seen.has_looked || seen.has_missed || adds != seen.adds) {
		seen.nlisted++;
		seen.has_missed = false;
		seen.has_looked = true;
		seen.adds = adds;
		seen.subs = subs;
		for (unsigned k = 0; k < nloaded; k++) {
			model_add(&loaded[k], has_memory);
		}
	}
}

static bool
is_shadowed(uint32_t number, uint32_t now) {
	for (uint32_t i = number + 1; i <= now; i++) {
		if (overlap(&recorded[number], &recorded[i])) {
			return true;
		}
	}
	return false;
}

static uint64_t
shown_start(uint32_t number, uint32_t now) {
	return is_shadowed(number, now) ? IMAGE_SHADOW_BASE
	    + ((uint64_t)number << IMAGE_LG_SHADOW_SPAN)
	    : (uintptr_t)memory + recorded[number].at * UNIT;
}

static uint64_t
shown(unsigned off, uint32_t then, uint32_t now) {
	uint32_t of = 0;
	for (uint32_t i = 1; i <= then; i++) {
		bool is_in = off - 1 >= recorded[i].at * UNIT
		    && off - 1 < (recorded[i].at + recorded[i].n) * UNIT;
		of = is_in ? i : of;
	}
	return of == 0 ? (uintptr_t)memory + off
	    : shown_start(of, now) + (off - recorded[of].at * UNIT);
}

/* ---- comparing ---- */

static struct {
	uint32_t now, number; /* of the profile; of the record that was told last */
	unsigned bad;
} gone;

static bool
is_gone(uint32_t number) {
	for (unsigned i = 0; i < nloaded; i++) {
		if (overlap(&recorded[number], &loaded[i])) {
			return is_shadowed(number, gone.now);
		}
	}
	return true;
}

static int
see_gone(void *ctx, const struct sys_module_s *m) {
	(void)ctx;
	do {
		gone.number++;
	} while (gone.number <= nrecorded && !is_gone(gone.number));
	const struct object *o = &recorded[gone.number];
	uint64_t start = shown_start(gone.number, gone.now);
	uintptr_t bias = (uintptr_t)memory + o->bias * 100 * UNIT;
	gone.bad += wrong_if(gone.number > nrecorded) || wrong_if(m->start != start)
	    || wrong_if(m->end - m->start != o->n * UNIT)
	    || wrong_if(m->start - m->bias != (uintptr_t)memory + o->at * UNIT - bias)
	    || wrong_if(strcmp(m->path, paths[o->path]) != 0)
	    || wrong_if(m->build_id_len != id_lengths[o->build_id])
	    || wrong_if(m->build_id_len > 0 && m->build_id[0] != 7);
	return 0;
}

static unsigned
nwrong(void) {
	uint32_t then = pick(nrecorded + 1), now = then + pick(nrecorded + 1 - then);
	unsigned off = pick(2) == 0 ? 1 + pick(NUNITS * UNIT) : (1 + pick(NUNITS)) * UNIT + pick(2);
	unsigned bad = wrong_if(module_history_last() != nrecorded);
	bool has_shadows = false;
	for (uint32_t i = 1; i <= now; i++) {
		has_shadows = has_shadows || is_shadowed(i, now);
	}
	bad += wrong_if(module_history_place((uintptr_t)memory + off, then, now)
	    != shown(off, then, now));
	bad += wrong_if(module_history_has_shadows(now) != has_shadows);
	gone.now = now;
	gone.number = gone.bad = 0;
	module_history_gone(see_gone, NULL, now);
	for (gone.number++; gone.number <= nrecorded; gone.number++) {
		gone.bad += wrong_if(is_gone(gone.number));
	}
	return bad + gone.bad;
}

static void
load(void) {
	struct object o = {pick(NUNITS - 2), 1 + pick(3), pick(4), pick(NPATHS), pick(4)};
	/* With just enough records for the other rule, mostly one of before: it stays there a while. */
	bool is_at_edge = nrecorded == MODULE_HISTORY_ENOUGH && pick(50) > 0;
	if (is_at_edge) {
		o = recorded[1 + pick(nrecorded)];
	} else if (nrecorded > 0 && pick(3) == 0) {
		/* Like one of before, but for one thing at most. */
		unsigned *part[] = {&o.bias, &o.path, &o.build_id};
		o = recorded[1 + pick(nrecorded)];
		*part[pick(3)] = pick(3);
	}
	bool is_free = true;
	for (unsigned i = 0; i < nloaded; i++) {
		is_free = is_free && !overlap(&o, &loaded[i]);
	}
	if (is_free) {
		loaded[nloaded++] = o;
		nadds++;
	}
}

static void
step(void) {
	unsigned i = pick(NUNITS);
	if (i < nloaded) {
		loaded[i] = loaded[--nloaded];
		nsubs++;
	} else {
		load();
	}
}

static bool
no_memory(void) {
	return true;
}

static uint64_t
ngenerations(void) {
	struct unwind_stats_s stats;
	unwind_stats_read(&stats);
	return stats.generations;
}

/* A look, in one of the states that there are; what it does is what the model says. */
static unsigned
nwrong_look(void) {
	bool is_held = pick(12) == 0, is_stopped = pick(12) == 0, is_full = pick(12) == 0;
	uint64_t before = ngenerations(), should_before = seen.generations;
	unsigned bad = 0;
	is_old = pick(12) == 0;
	nlisted = seen.nlisted = 0;
	frame_scan_try_know(1);
	bad += wrong_if(!frame_scan_is_wanted()) || wrong_if(is_held && !module_history_try_hold())
	    || wrong_if(is_stopped && !gate_try_stop());
	base_fault_hook = is_full ? no_memory : NULL;
	bool has_looked = module_history_try_look();
	base_fault_hook = NULL;
	if (is_stopped) {
		gate_let_go();
	}
	if (!is_held) {
		model_look(!is_stopped && !is_full);
	}
	bad += wrong_if(has_looked == is_held) || wrong_if(nlisted != seen.nlisted)
	    || wrong_if(frame_scan_is_wanted() != is_held) || wrong_if(gate_is_entered(tls_get()));
	if (is_held && pick(2) == 0) {
		module_history_release();
	} else if (is_held || pick(12) == 0) {
		module_history_postfork_child();
		seen.has_missed = seen.has_missed || is_held;
		seen.generations += is_held;
	}
	is_old = false;
	return bad + (wrong_if(ngenerations() - before != seen.generations - should_before) ? 1 : 0);
}

/* ---- what the kernel places ---- */

static int
count_gone(void *ctx, const struct sys_module_s *m) {
	unsigned *at = ctx;
	at[0]++;
	at[1] = (unsigned)(m->start - (uintptr_t)memory) / UNIT;
	return 0;
}

/* In a child: the loader or the vdso, at `memory`, and objects in its hole, listed in any order. */
static void
in_hole(void *arg) {
	static const struct object outer = {0, NUNITS, 0, 0, 0}, first = {3, 2, 0, 1, 0},
	    later = {4, 2, 0, 2, 0};
	unsigned at[2] = {0, 0};
	memory = arg;
	is_ours = true;
	for (nloaded = 2; nadds < 10; nadds++) {
		loaded[nadds % 2] = outer;
		loaded[1 - nadds % 2] = first;
		module_history_try_look();
	}
	is_uint(module_history_last(), 2, "one record each: neither takes the other's place");
	ok(!module_history_has_shadows(2), "nor shadows it");
	module_history_gone(count_gone, at, 2);
	is_uint(at[0], 0, "both are there");
	loaded[0] = outer;
	nloaded = 1;
	nsubs++;
	module_history_try_look();
	module_history_gone(count_gone, at, 2);
	ok(at[0] == 1 && at[1] == 3, "one in the hole goes");
	loaded[1] = later;
	nloaded = 2;
	nadds++;
	module_history_try_look();
	uint32_t now = module_history_last();
	is_uint(now, 3, "another one comes there");
	uintptr_t addr = (uintptr_t)memory + 4 * UNIT + 8;
	ok(module_history_place(addr, 2, now) >= IMAGE_SHADOW_BASE, "and shadows the first");
	ok(module_history_place(addr, 3, now) == addr, "not itself");
	addr = (uintptr_t)memory + 8;
	ok(module_history_place(addr, 2, now) == addr, "nor what is around");
	_exit(done_testing());
}

static void
test_hole(void) {
	static struct test_result r;
	static const struct {
		unsigned long type;
		const char *name;
	} kinds[] = {{AT_BASE, "the loader"}, {AT_SYSINFO_EHDR, "the vdso"}};
	for (unsigned i = 0; i < 2; i++) {
		void *at = (void *)getauxval(kinds[i].type);
		if (at == NULL) {
			skip(1, "there is none");
			continue;
		}
		test_fork(&r, in_hole, at);
		child_exits(&r, 0, "%s has objects in its hole", kinds[i].name);
	}
}

int
main(void) {
	unsigned bad = 0;
	free(keep(malloc(1)));
	memory = mmap(NULL, (NUNITS + 1) * UNIT, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (unsigned i = 0; i < NPATHS; i++) {
		memset(paths[i], '/', i + 1);
	}
	test_hole();
	is_ours = true;
	bad += nwrong_look(); /* what the loader counts is not other than before the first look */
	for (unsigned i = 0; i < 15000; i++) {
		step();
		if (pick(3) > 0) {
			continue;
		}
		bad += nwrong_look() + nwrong();
	}
	is_ours = false;
	is_uint(bad, 0, "records of objects that come and go are those of the model");
	is_uint(nrecorded, MOST, "there are as many as there can be");
	is_uint(ncut, 0, "each listing goes to its end");
	return done_testing();
}
