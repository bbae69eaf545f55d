/*
 * Boot: the order of the steps as two tables, and the function pointers (hooks) by which a lower
 * floor (layer of src/) calls a higher one. The first call of malloc_boot() boots: in the slow path
 * of an allocation (a free does not call it), in mallctl and the like, or by the constructor. After
 * the first table (boot_core) the allocator can serve requests. Steps of the second (boot_late) may
 * call the C library, which may allocate: such requests of the booting thread find boot.is_serving
 * set and are served, without a tsd until tsd_boot(), the first of these steps, is done.
 *
 * Invariant: boot_state becomes boot_done after both tables. If a step of the first one fails,
 * boot_state becomes boot_failed, and the next call boots again. Locks: `init`, held for the whole
 * of boot, so that other threads wait. Called by imalloc.c (slow path of allocations), jemalloc.c,
 * jemalloc_logged.c, cxx.c and the constructor.
 */
#include <pthread.h>
#include <stdlib.h>

#include "arena/arenas.h"
#include "arena/background_thread.h"
#include "conf/conf.h"
#include "extent/ahead.h"
#include "extent/guard.h"
#include "extent/piece.h"
#include "hpa/hpa.h"
#include "hpa/hpa_opt.h"
#include "imalloc.h"
#include "jemalloc_fork.h"
#include "malloc_boot.h"
#include "meta/base.h"
#include "meta/emap.h"
#include "meta/freepool.h"
#include "os/gate.h"
#include "os/malloc_io.h"
#include "os/pages.h"
#include "os/room.h"
#include "os/sys.h"
#include "os/thread.h"
#include "prof/control/prof_control.h"
#include "prof/prof.h"
#include "prof/sites/prof_backtrace.h"
#include "stats.h"
#include "thread/claim.h"
#include "thread/peak.h"
#include "thread/quarantine.h"
#include "thread/tcache.h"
#include "thread/thread_event.h"
#include "thread/user_event.h"

enum { boot_none, boot_running, boot_done, boot_failed };

/*
 * One of the enum above. The slow path of allocations reads it first, so it lies on a page that is
 * in memory in any case (EARLY_DATA).
 */
static EARLY_DATA atomic_u8_t boot_state;

static EARLY_DATA struct {
	mutex_t mtx;
	struct tls_s *booter; /* the thread in boot_all(), compared without the lock; NULL: none */
	/* The first table is done; stays true. Only the thread that holds mtx reads or writes it. */
	bool is_serving;
	bool is_loaded; /* the constructor has run: who boots now calls boot_start(); under mtx too */
} boot = {.mtx = MUTEX_INITIALIZER("init", WITNESS_RANK_OMIT)};

static void
boot_message(void *opaque, const char *s) {
	if (je_malloc_message != NULL) {
		const malloc_io_text_t *text = opaque;
		je_malloc_message(text == NULL ? NULL : text->opaque, s);
	} else {
		malloc_io_write_stderr(opaque, s);
	}
}

static int
boot_io(void) {
	malloc_io_message = boot_message;
	malloc_io_boot();
	return 0;
}

static int
boot_conf(void) {
	static bool is_read; /* so that a second attempt to boot repeats no message */
	if (!is_read) {
		is_read = true;
		conf_boot();
		hpa_opt_boot();
		dss_boot();
	}
	return 0;
}

/*
 * Asks the system now what is needed later: a program may forbid these system calls after its
 * start.
 */
static int
boot_ask(void) {
	os_ncpus();
	os_thread_boot();
	piece_boot();
	if (opt_hpa) {
		hpa_sys();
	}
	room_boot();
	return 0;
}

static int
boot_shapes(void) {
	assert(SC_NBINS > 0 && sc_size_tab[SC_NBINS] == SC_LARGE_MINCLASS);
	canary_boot();
	bin_info_boot();
	tcache_boot();
	assert(tcache_nhbins <= SC_NSIZES);
	sz_boot(tcache_max_default);
	emap_boot(tcache_nhbins);
	meta_boot();
	return 0;
}

static int
boot_options(void) {
	tsd_all_slow = opt_junk_alloc || opt_junk_free || opt_zero || !opt_tcache || quarantine_is_on();
	return 0;
}

static int
boot_background(void) {
	background_thread_abort = opt_abort;
	background_thread_boot();
	return 0;
}

/*
 * The hooks that each heartbeat calls, one after the other; NULL ends the list. Some are there
 * always, others only if an option needs them.
 */
static thread_event_hook_t *boot_event_hooks[11];

static void
boot_add_event_hook(bool is_wanted, thread_event_hook_t *hook) {
	assert(boot_event_hooks[ARRAY_LEN(boot_event_hooks) - 1] == NULL);
	unsigned n = 0;
	while (boot_event_hooks[n] != NULL) {
		n++;
	}
	assert(n + 1 < ARRAY_LEN(boot_event_hooks));
	boot_event_hooks[n] = is_wanted ? hook : NULL;
}

static void (*const boot_tsd_cleanups[])(tsd_t *tsd) = {
	background_thread_cleanup,
	config_prof ? prof_thread_cleanup : NULL,
	NULL
};

static int
boot_wires(void) {
	assert(!boot.is_serving);
	/* this may be a second attempt to boot */
	memset(boot_event_hooks, 0, sizeof(boot_event_hooks));
	boot_add_event_hook(opt_stats_interval >= 0, stats_heartbeat);
	thread_event_wait_set(THREAD_EVENT_FOR_STATS, opt_stats_interval >= 0);
	boot_add_event_hook(arenas_percpu_limit() > 0, tsd_percpu_heartbeat);
	boot_add_event_hook(arenas_percpu_limit() == 0, tsd_borrow_heartbeat);
	boot_add_event_hook(true, tcache_heartbeat);
	boot_add_event_hook(true, claim_heartbeat);
	boot_add_event_hook(true, peak_heartbeat);
	boot_add_event_hook(config_prof, prof_control_heartbeat);
	boot_add_event_hook(config_prof, prof_heartbeat);
	boot_add_event_hook(true, user_event_heartbeat);
	thread_event_hooks = boot_event_hooks;
	pac_rise_hook = thread_event_unused_rose; /* unused pages rose: decays, recalls threads */
	background_thread_hook = claim_serve; /* takes over caches of idle threads */
	tsd_cleanups = boot_tsd_cleanups;
	if (config_prof) {
		prof_control_wire();
	}
	ahead_boot();
	return 0;
}

/* Steps that make the allocator able to serve requests; an errno value from one ends boot. */
static int (*const boot_core[])(void) = {
	boot_io,
	pages_boot_size,
	boot_conf,
	pages_boot,
	boot_ask,
	base_boot,
	boot_shapes,
	boot_options,
	guard_boot,
	arenas_boot,
	boot_background,
	boot_wires,
};

static int
boot_atfork(void) {
	if (pthread_atfork(jemalloc_prefork, jemalloc_postfork_parent, jemalloc_postfork_child) != 0) {
		malloc_write("<jemalloc>: Error in pthread_atfork()\n");
		if (opt_abort) {
			abort();
		}
	}
	return 0;
}

/*
 * At exit: checks the objects that are still in the quarantine of the exiting thread. Not in a lost
 * child (gate.h), whose locks may belong to threads that do not exist.
 */
static void
boot_quarantine_atexit(void) {
	if (gate_is_lost()) {
		return;
	}
	tsd_t *tsd = tsd_enter();
	if (tsd != NULL) {
		quarantine_flush(tsd);
	}
	tsd_leave();
}

static void
boot_add_atexit(bool is_wanted, void (*fn)(void)) {
	assert(boot.is_serving);
	if (is_wanted && atexit(fn) != 0) {
		malloc_write("<jemalloc>: Error in atexit()\n");
		if (opt_abort) {
			abort();
		}
	}
}

static int
boot_atexit(void) {
	boot_add_atexit(opt_stats_print, stats_atexit);
	/* In hardened builds objects enter a quarantine even while its option is off. */
	boot_add_atexit(quarantine_is_on() || config_hardening, boot_quarantine_atexit);
	return 0;
}

static int
boot_prof(void) {
	assert(boot.booter == tls_get() && boot.is_serving);
	if (!config_prof) {
		return 0;
	}
	prof_abort = opt_abort;
	if (prof_boot_conf() != 0 && opt_abort_conf) {
		abort();
	}
	return opt_prof ? prof_boot() : 0;
}

static int
boot_prof_late(void) {
	assert(boot.booter == tls_get() && boot.is_serving);
	if (config_prof) {
		prof_boot_exit();
		if (opt_prof) {
			prof_boot_box();
			prof_boot_late();
		}
	}
	return 0;
}

/*
 * Steps that may call into the C library. A failure here does not make boot fail: boot_all()
 * ignores it. With abort or abort_conf a step may end the process.
 */
static int (*const boot_late[])(void) = {
	tsd_boot,
	boot_atfork,
	boot_prof,
	boot_atexit,
	boot_prof_late,
};

static int
boot_run_core(void) {
	mutex_assert_owner(&boot.mtx);
	for (size_t i = 0; i < ARRAY_LEN(boot_core); i++) {
		int err = boot_core[i]();
		if (err != 0) {
			return err;
		}
	}
	return 0;
}

/*
 * Runs both tables. Called with boot.mtx held, so that other threads wait. Requests of this thread
 * fail before the end of the first table; after it they are served, from arena 0 until tsd_boot()
 * is done, and then as those of any thread. If tsd_boot() fails, all threads stay without a tsd.
 */
static int
boot_all(struct tls_s *t) {
	mutex_assert_owner(&boot.mtx);
	assert(boot.booter == NULL && !boot.is_serving);
	boot.booter = t;
	atomic_store_u8(&boot_state, boot_running, MO_RELEASE);
	int err = boot_run_core();
	if (err != 0) {
		boot.booter = NULL;
		atomic_store_u8(&boot_state, boot_failed, MO_RELEASE);
		return err;
	}
	boot.is_serving = true;
	for (size_t i = 0; i < ARRAY_LEN(boot_late); i++) {
		boot_late[i]();
	}
	boot.booter = NULL;
	atomic_store_u8(&boot_state, boot_done, MO_RELEASE);
	return 0;
}

/* Starts the library's threads and makes backtraces ready, as the options say. */
static void
boot_start(void) {
	assert(atomic_load_u8(&boot_state, MO_ACQUIRE) == boot_done);
	background_thread_boot_late();
	if (config_prof) {
		/*
		 * Without opt_prof backtraces are only allowed (boot_at_load() has set
		 * prof_backtrace_is_constructed), not made ready: that would touch pages which such a
		 * process may never need.
		 */
		if (opt_prof) {
			prof_boot_constructed();
		}
		prof_control_boot_late();
	}
}

/*
 * The part of malloc_boot() for the time before boot_done. In the booting thread the result is
 * ENOMEM, or 0 once boot.is_serving is true.
 */
static int
malloc_boot_slow(void) {
	struct tls_s *t = tls_get();
	if (boot.booter == t) {
		return boot.is_serving ? 0 : ENOMEM;
	}
	int err = 0;
	bool is_late = false;
	mutex_lock(&boot.mtx);
	switch (atomic_load_u8(&boot_state, MO_ACQUIRE)) {
	case boot_none:
	case boot_failed: /* tried again: mostly there was no memory, and there may be now */
		err = boot_all(t);
		is_late = err == 0 && boot.is_loaded;
		break;
	default:
		break;
	}
	mutex_unlock(&boot.mtx);
	if (is_late) {
		boot_start();
	}
	return err;
}

int
malloc_boot(void) {
	if (likely(atomic_load_u8(&boot_state, MO_ACQUIRE) == boot_done)) {
		return 0;
	}
	return malloc_boot_slow();
}

/*
 * Called when the library is loaded. Boots, unless an earlier request did. Keeps the library from
 * being unloaded. If boot failed and no request has booted since, the one that does so later calls
 * boot_start().
 */
__attribute__((constructor)) static void
boot_at_load(void) {
	malloc_boot();
	sys_module_keep_self();
	if (config_prof) {
		prof_backtrace_is_constructed = true;
	}
	mutex_lock(&boot.mtx);
	boot.is_loaded = true;
	bool is_booted = atomic_load_u8(&boot_state, MO_RELAXED) == boot_done;
	mutex_unlock(&boot.mtx);
	if (is_booted) {
		boot_start();
	}
}
