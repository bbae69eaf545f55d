/*
 * The allocation log (prof.log_start, prof.log_stop): records in mapped memory while it runs, and
 * the JSON document that is written at the stop.
 *
 * Invariant: a record holds one pin on each of the two counts it names. Threads and stacks get
 * their numbers in the document only while it is written. Locks: `prof_log`, held for the time of
 * one record, a start or a stop, but not while the document is written: then the thread that
 * changed the state to prof_log_dumping owns the detached records, file, writer and tables. Called
 * by prof.c for frees and in a forked child; by ctl_prof.c, prof_start.c and prof_auto.c for start
 * and stop; by prof_dump.c at exit; by prof.c, prof_dump.c and prof_recent.c for the clock.
 */
#include "prof/file/prof_log.h"

#include "os/gate.h"
#include "os/malloc_io.h"
#include "os/nstime.h"
#include "os/pages.h"
#include "os/sys.h"
#include "prof/file/prof_write.h"
#include "prof/sites/prof_data.h"
#include "prof/sites/prof_switch.h"
#include "util/bits.h"
#include "util/fmt.h"

/* One sampled object that was freed. */
typedef struct {
	prof_cnt_t *alloc;  /* thread and stack of the allocation */
	prof_cnt_t *freed;  /* thread and stack of the free */
	uint64_t alloc_ns;  /* by prof_log_clock(), as free_ns */
	uint64_t free_ns;
	uint64_t usize;     /* usable bytes */
} log_rec_t;

/*
 * An array: the records, oldest first; or pointers to the thread records or sites that the records
 * name, in the order of their numbers in the document. Such an element has its own index as its
 * log_number; one whose log_number is another index, or none below n, is not in it.
 */
typedef struct {
	pages_store_t store;
	size_t n;
} log_list_t;

cassert(prof_log_stopped == 0);

static LARGE_BSS struct {
	/* protects the records, and prof_log_state except its change to prof_log_stopped */
	mutex_t mtx;
	log_list_t recs;
	uint64_t start_ns;      /* by prof_log_clock() */
	bool has_path;          /* a path was given; else a name is made from the prefix */
	char path[PROF_PATH_SIZE];
	/* Owned by the thread that writes (state prof_log_dumping), whose mutex_self() is `writing`: */
	uint32_t writing;
	log_list_t written;     /* the records that it writes */
	prof_file_t file;
	prof_writer_t writer;
	log_list_t threads;     /* of pointers to prof_tdata_t */
	log_list_t stacks;      /* of pointers to prof_site_t */
} alog = {.mtx = MUTEX_INITIALIZER("prof_log", WITNESS_RANK_PROF_LOG)};

atomic_u32_t prof_log_state;

uint64_t
prof_log_clock(void) {
	return opt_prof_time_resolution == prof_time_res_high ? nstime_realtime_ns()
	    : nstime_monotonic_coarse_ns();
}

/* ---------------------------------------------------------------- recording */

static log_rec_t *
rec_at(const log_list_t *recs, size_t i) {
	return (log_rec_t *)recs->store.at + i;
}

/* Room for the next record; NULL without memory. The caller holds alog.mtx. */
static log_rec_t *
rec_new_locked(void) {
	mutex_assert_owner(&alog.mtx);
	size_t bytes = (alog.recs.n + 1) * sizeof(log_rec_t);
	return pages_store_try_reserve(&alog.recs.store, bytes) ? rec_at(&alog.recs, alog.recs.n++)
	    : NULL;
}

void
prof_log_free(prof_cnt_t *c, prof_cnt_t *freed, uint64_t alloc_ns, size_t usize) {
	mutex_lock(&alog.mtx);
	log_rec_t *r = prof_log_is_running() ? rec_new_locked() : NULL;
	if (r != NULL) {
		prof_data_pin(c);
		prof_data_pin(freed);
		*r = (log_rec_t){c, freed, alloc_ns, prof_log_clock(), usize};
	}
	mutex_unlock(&alog.mtx);
}

int
prof_log_start(const char *path) {
	if (!prof_is_booted()) {
		return ENOENT;
	}
	if (path != NULL && strnlen(path, PROF_PATH_SIZE) >= PROF_PATH_SIZE) {
		return EFAULT;
	}
	int err = EFAULT;
	gate_lock(&alog.mtx);
	/* The previous writer announces without the lock that it has finished. */
	if (atomic_load_u32(&prof_log_state, MO_ACQUIRE) == prof_log_stopped) {
		alog.has_path = path != NULL;
		if (path != NULL) {
			prof_sys_path_absolute(alog.path, sizeof(alog.path), path);
		}
		alog.start_ns = prof_log_clock();
		atomic_store_u32(&prof_log_state, prof_log_started, MO_RELEASE);
		err = 0;
	}
	gate_unlock(&alog.mtx);
	return err;
}

/* ---------------------------------------------------------------- numbers of threads and stacks */

static const void **
names_of(const log_list_t *names) {
	return names->store.at;
}

/* The number of a thread or site, whose log_number is *place: the next one if it has none. */
static uint32_t
number_of(log_list_t *names, const void *who, uint32_t *place) {
	if (*place >= names->n || names_of(names)[*place] != who) {
		assert((names->n + 1) * sizeof(who) <= names->store.bytes);
		*place = (uint32_t)names->n;
		names_of(names)[names->n++] = who;
	}
	return *place;
}

static uint32_t
thread_of(const prof_cnt_t *c) {
	return number_of(&alog.threads, c->tdata, &c->tdata->log_number);
}

static uint32_t
stack_of(const prof_cnt_t *c) {
	return number_of(&alog.stacks, c->site, &c->site->log_number);
}

/* Frees a list, also one for which there was no room. */
static void
names_free(log_list_t *names) {
	pages_store_free(&names->store);
	names->n = 0;
}

/* Lists all threads and stacks that the records name. 0 or ENOMEM. */
static int
names_list(const log_list_t *recs) {
	size_t bytes = (2 * recs->n + 1) * sizeof(void *);
	if (!pages_store_try_reserve(&alog.threads.store, bytes)
	    || !pages_store_try_reserve(&alog.stacks.store, bytes)) {
		return ENOMEM;
	}
	for (size_t i = 0; i < recs->n; i++) {
		thread_of(rec_at(recs, i)->alloc);
		thread_of(rec_at(recs, i)->freed);
		stack_of(rec_at(recs, i)->alloc);
		stack_of(rec_at(recs, i)->freed);
	}
	return 0;
}

/* ---------------------------------------------------------------- writing */

void
prof_log_emit(emitter_t *em, const char *key, uint64_t v) {
	emitter_json_kv(em, key, emitter_type_uint64, &v);
}

void
prof_log_emit_trace(emitter_t *em, const prof_site_t *s) {
	emitter_json_array_begin(em);
	for (unsigned i = 0; i < prof_site_nframes(s); i++) {
		char frame[24];
		const char *at = frame;
		fmt_snprintf(frame, sizeof(frame), "0x%zx", (size_t)prof_site_frame(s, i));
		emitter_json_value(em, emitter_type_string, &at);
	}
	emitter_json_array_end(em);
}

static void
emit_info(emitter_t *em, uint64_t duration) {
	const char *version = JEMALLOC_VERSION;
	emitter_json_object_kv_begin(em, "info");
	prof_log_emit(em, "duration", duration);
	emitter_json_kv(em, "version", emitter_type_string, &version);
	prof_log_emit(em, "lg_sample_rate", prof_lg_sample_get());
	emitter_json_kv(em, "prof_time_resolution", emitter_type_string,
	    &prof_time_res_names[opt_prof_time_resolution]);
	prof_log_emit(em, "pid", (uint64_t)sys_pid());
	emitter_json_object_end(em);
}

static void
emit_thread(emitter_t *em, const prof_tdata_t *td) {
	char name[PROF_THREAD_NAME_MAX];
	const char *text = name;
	prof_tdata_name_read(td, name);
	emitter_json_object_begin(em);
	prof_log_emit(em, "thr_uid", td->uid);
	emitter_json_kv(em, "thr_name", emitter_type_string, &text);
	emitter_json_object_end(em);
}

static void
emit_rec(emitter_t *em, const log_rec_t *r) {
	emitter_json_object_begin(em);
	prof_log_emit(em, "alloc_thread", thread_of(r->alloc));
	prof_log_emit(em, "free_thread", thread_of(r->freed));
	prof_log_emit(em, "alloc_trace", stack_of(r->alloc));
	prof_log_emit(em, "free_trace", stack_of(r->freed));
	prof_log_emit(em, "alloc_timestamp", r->alloc_ns);
	prof_log_emit(em, "free_timestamp", r->free_ns);
	prof_log_emit(em, "usize", r->usize);
	emitter_json_object_end(em);
}

static void
write_piece(void *writer, const char *text) {
	prof_write_text(writer, text);
}

/* Writes the JSON document; duration is in ns. */
static void
write_log(uint64_t duration) {
	emitter_t em;
	emitter_init(&em, emitter_json, write_piece, &alog.writer, NULL, 0);
	emitter_begin(&em);
	emit_info(&em, duration);
	emitter_json_array_kv_begin(&em, "threads");
	for (size_t i = 0; i < alog.threads.n; i++) {
		emit_thread(&em, names_of(&alog.threads)[i]);
	}
	emitter_json_array_end(&em);
	emitter_json_array_kv_begin(&em, "stack_traces");
	for (size_t i = 0; i < alog.stacks.n; i++) {
		prof_log_emit_trace(&em, names_of(&alog.stacks)[i]);
	}
	emitter_json_array_end(&em);
	emitter_json_array_kv_begin(&em, "allocations");
	for (size_t i = 0; i < alog.written.n; i++) {
		emit_rec(&em, rec_at(&alog.written, i));
	}
	emitter_json_array_end(&em);
	emitter_end(&em);
	prof_writer_flush(&alog.writer);
}

/* Opens the file, writes the document and closes the file; reports a failure. Outside the gate. */
static int
log_write_file(uint64_t duration) {
	prof_name_t name = {.kind = prof_kind_log};
	int err = prof_file_open(&alog.file, alog.has_path ? alog.path : NULL, &name, false);
	if (err == 0) {
		write_log(duration);
	}
	err = prof_file_close(&alog.file);
	if (err != 0) {
		char text[16];
		/* Exit has kept the file from being made, or has removed it. */
		err = prof_sys_is_ending() ? ECANCELED : err;
		malloc_printf("<jemalloc>: failed to write the allocation log \"%.*s\": %s\n", 900,
		    alog.file.path, prof_errno_name(err, text));
	}
	return err;
}

/* Removes the pins of all records and frees their memory. */
static void
recs_free(log_list_t *recs) {
	for (size_t i = 0; i < recs->n; i++) {
		prof_data_unpin(rec_at(recs, i)->alloc);
		prof_data_unpin(rec_at(recs, i)->freed);
	}
	pages_store_free(&recs->store);
	recs->n = 0;
}

/*
 * Numbers and writes the records; 0 or an errno. Called inside the gate (os/gate.h: fork waits
 * until no thread is inside), because allocating takes locks; leaves it while the file is written.
 */
static int
log_finish(uint64_t duration) {
	struct tls_s *t = tls_get();
	int err = names_list(&alog.written);
	err = err != 0 ? err : prof_writer_init(&alog.writer, &alog.file);
	if (err == 0) {
		uint32_t depth = gate_leave_all(t);
		err = log_write_file(duration);
		gate_reenter(t, depth);
		prof_writer_forget(&alog.writer);
	}
	names_free(&alog.threads);
	names_free(&alog.stacks);
	return err;
}

int
prof_log_stop(void) {
	if (!prof_is_booted()) {
		return ENOENT;
	}
	struct tls_s *t = tls_get();
	gate_enter(t);
	t->inside++;
	mutex_lock(&alog.mtx);
	bool is_mine = prof_log_is_running();
	if (is_mine) {
		alog.writing = mutex_self();
		alog.written = alog.recs;
		atomic_store_u32(&prof_log_state, prof_log_dumping, MO_RELEASE);
		alog.recs = (log_list_t){.n = 0};
	}
	mutex_unlock(&alog.mtx);
	int err = EFAULT;
	if (is_mine) {
		assert(atomic_load_u32(&prof_log_state, MO_RELAXED) == prof_log_dumping);
		err = log_finish(nstime_ns_between(alog.start_ns, prof_log_clock()));
		recs_free(&alog.written);
		/* No record came meanwhile, because only a started log takes records. */
		assert(alog.recs.n == 0 && alog.recs.store.at == NULL);
		atomic_store_u32(&prof_log_state, prof_log_stopped, MO_RELEASE);
	}
	t->inside--;
	gate_exit(t);
	return err == 0 ? 0 : EFAULT;
}

void
prof_log_abandon(void) {
	if (alog.writing != mutex_self()) {
		prof_file_abandon(&alog.file);
	}
}

/*
 * In the child a log that runs goes on with the records from before the fork if goes_on, else it is
 * dropped. One that another thread was writing is over: that thread was outside the gate, between
 * gate_leave_all() and gate_reenter() of log_finish(), and its file is the parent's. If this thread
 * itself writes (it forked in a hook or a handler), it goes on; its mutex_self() is the same here.
 */
void
prof_log_postfork_child(bool goes_on) {
	uint32_t state = atomic_load_u32(&prof_log_state, MO_RELAXED);
	if (state == prof_log_started && !goes_on) {
		recs_free(&alog.recs);
	} else if (state == prof_log_dumping && alog.writing != mutex_self()) {
		prof_file_forget(&alog.file);
		prof_writer_forget(&alog.writer);
		names_free(&alog.threads);
		names_free(&alog.stacks);
		recs_free(&alog.written);
	} else {
		return;
	}
	atomic_store_u32(&prof_log_state, prof_log_stopped, MO_RELAXED);
}
