/*
 * Control from outside the process: serves the mailbox and the control directory, and runs the
 * profiler's own thread (prof_control.h).
 *
 * Invariant: at most one thread serves requests at a time (control.server). Other processes may
 * write the mailbox block at any time, so a request is copied and then checked, and nothing that
 * the library itself relies on is kept there. Locks: none; state is atomic, or written only at
 * boot, in a forked child, by the serving thread or by the one that starts the profiler's thread.
 * Requests are served outside the gate (os/gate.h: fork waits until no thread is inside). Called by
 * jemalloc_init.c (hooks, constructor), by prof.c at boot, after fork and at heartbeats, by
 * thread_event at heartbeats (a hook that jemalloc_init sets), by the profiler's thread, and
 * through the hooks of prof_control_wire(); conf_table.c sets the options.
 */
#include "prof/control/prof_control.h"

#include <pthread.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "os/gate.h"
#include "os/malloc_io.h"
#include "os/memfile.h"
#include "os/nstime.h"
#include "os/pages.h"
#include "os/sys.h"
#include "os/thread.h"
#include "prof/control/prof_ctl_dir.h"
#include "prof/control/prof_handover.h"
#include "prof/control/prof_listen.h"
#include "prof/control/prof_request.h"
#include "prof/control/prof_session.h"
#include "prof/file/prof_box.h"
#include "prof/file/prof_course.h"
#include "prof/file/prof_dump.h"
#include "prof/file/prof_sys.h"
#include "prof/sites/prof_opt.h"
#include "prof/sites/prof_root.h"
#include "prof/sites/prof_switch.h"
#include "prof/trigger/prof_signal.h"
#include "thread/recall.h"
#include "thread/thread_event.h"
#include "util/hash.h"

/* Longest sleep of the profiler's thread between two rounds, in ns. */
#define ROUND_NS (NSTIME_PER_SEC / 10)
/* Minimum time between two looks into the control directory, in ns. */
#define DIR_GAP_NS (NSTIME_PER_SEC / 2)
/* Rounds without work until the thread ends, or one less after one with work: about a second. */
#define ROUNDS_IDLE 10
/* Answers that are remembered; more than the number of clients that are likely to ask at once. */
#define ANSWERS_KEPT 16

prof_thread_opt_t opt_prof_thread = prof_thread_auto;
const char *const prof_thread_opt_names[] = {"auto", "true", "false", NULL};
bool opt_prof_ctl_fd;

static_assert(sizeof(prof_mailbox_block_t) == PROF_MAILBOX_BYTES, "the block is whole pages");
static_assert(sizeof(prof_mailbox_t) <= PROF_MAILBOX_BYTES, "the mailbox fits");
static_assert(PROF_MAILBOX_VERSION == 2 && PROF_MAILBOX_BYTES == 65536, "as in the note");

/*
 * The block has a section of its own, so that its alignment to the largest page size of the machine
 * adds no padding to other data. The note holds the sizes of owner and body, the type, the owner
 * and the body (prof_note_t).
 */
#if LG_PAGE_FIXED_P
#define BLOCK_ALIGN "4096"
#else
#define BLOCK_ALIGN "65536"
#endif
#if CONFIG_PROF
#define NOTE_BYTES "65536"
#else
#define NOTE_BYTES "0"
#endif
__asm__(".pushsection jemalloc_mailbox, \"aw\", %nobits\n"
	".balign " BLOCK_ALIGN "\n"
	".globl prof_mailbox_block\n"
	".hidden prof_mailbox_block\n"
	".type prof_mailbox_block, %object\n"
	".size prof_mailbox_block, 65536\n"
	"prof_mailbox_block: .zero 65536\n"
	".popsection\n"
	".pushsection .note.jemalloc, \"a\", %note\n"
	".balign 4\n"
	".long 9, 16, 0x6a706d62\n"
	".asciz \"jemalloc\"\n"
	".balign 4\n"
	".long 2, " NOTE_BYTES "\n"
	".quad prof_mailbox_block - .\n"
	".popsection\n");

static struct {
	os_thread_t thread;       /* filled in by the thread that starts it; used only for the start */
	memfile_t file;           /* mapped over the block if prof_ctl_fd is set */
	uint32_t pid;             /* of this process; 0: not known */
	/* mutex_self() of the thread that is carrying out requests; 0: none */
	atomic_u32_t server;
	/* the thread is wanted and does not run; the next heartbeat starts it */
	atomic_b_t thread_due;
	/* prof_control_boot() was called: heartbeats and changes matter */
	bool is_booted;
	/* in a forked child, until it has a mailbox of its own */
	bool is_forking;
	/* prof_control_boot_late() was called; before it no thread is started (loader's locks) */
	bool has_started;
	/* this is a forked child, which may be under a filter; so prof_thread:true means auto here */
	bool is_child;
	atomic_b_t has_thread;    /* the thread runs or is being started */
	/* the system refused to create the thread; the next change of a session or threshold retries */
	atomic_b_t thread_failed;
	atomic_b_t has_reported_failure;
	/* no thread is created, because a system call filter might end the process for that */
	atomic_b_t thread_barred;
	atomic_b_t is_awaited;    /* a slot has a request that was left to the thread */
	atomic_u32_t wakes;       /* number of wake-ups; the futex on which the thread sleeps */
	/* monotonic ns of the next look into the directory; for the thread that is serving */
	uint64_t dir_next_ns;
} control;

/* The request that is being carried out; used only by the thread that is serving. */
static LARGE_BSS struct {
	uint64_t nonce; /* 0: none, so its answer is not found again */
	char text[PROF_MAILBOX_TEXT];
	const prof_verb_t *verb; /* of the text; NULL: it is no request */
	prof_answer_t answer;
} current;

/*
 * Answers by nonce; written only by the thread that is serving. A nonce of 0 means an empty entry.
 */
static LARGE_BSS struct {
	unsigned next; /* index of the entry that the next answer replaces */
	struct {
		uint64_t nonce;
		int err;
		prof_answer_t answer;
	} kept[ANSWERS_KEPT];
} answers;

/* The mailbox, as are all box_*() here; prof_box_*() are of the black box. */
static prof_mailbox_t *
box(void) {
	return &prof_mailbox_block.box;
}

/* ---------------------------------------------------------------- the block */

/* Fills in the constant fields but magic and instance; again at each serving: clients may write. */
static void
box_header(void) {
	static const char version[] = JEMALLOC_VERSION;
	prof_mailbox_t *b = box();
	b->version = PROF_MAILBOX_VERSION;
	b->bytes = PROF_MAILBOX_BYTES;
	b->pid = control.pid;
	size_t len = min_zu(sizeof(version), sizeof(b->library_version)) - 1;
	memcpy(b->library_version, version, len);
	b->library_version[len] = '\0';
}

/* Copies the state that can be read without a request into the block. */
static void
box_mirror(void) {
	prof_mailbox_t *b = box();
	__atomic_store_n(&b->state, prof_request_state(), __ATOMIC_RELAXED);
	__atomic_store_n(&b->session_id, prof_session_id(), __ATOMIC_RELAXED);
	__atomic_store_n(&b->session_start_ns, prof_session_start_ns(), __ATOMIC_RELAXED);
	__atomic_store_n(&b->root, (uintptr_t)prof_root(), __ATOMIC_RELEASE);
}

/*
 * box_mirror(), if there is a mailbox and it is of this process: that of a child whose handlers run
 * may still be the file of its parent.
 */
static void
control_mirror(void) {
	if (prof_mailbox_is_open && !control.is_forking) {
		box_mirror();
	}
}

/* Opens the mailbox: `magic` last. instance: random, also told in profiles (prof_sys_instance). */
static void
box_open(uint64_t instance) {
	box_header();
	box()->instance = instance;
	atomic_store_u64(&prof_sys_instance, box()->instance, MO_RELAXED);
	__atomic_store_n(&box()->magic, PROF_MAILBOX_MAGIC, __ATOMIC_RELEASE);
	prof_mailbox_is_open = true;
}

/*
 * Maps a memory file over the block, for clients that may look into /proc/PID/fd but not into the
 * memory of the process. 0 or an errno.
 */
static int
box_to_memfd(void) {
	assert((uintptr_t)&prof_mailbox_block % os_page_size == 0);
	if (prof_sys_file_is_forbidden(sizeof(prof_mailbox_block))) {
		return EFBIG;
	}
	int err = memfile_open(&control.file, PROF_MAILBOX_FD_NAME, sizeof(prof_mailbox_block));
	if (err == 0 && mmap(&prof_mailbox_block, sizeof(prof_mailbox_block), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_FIXED, memfile_fd(&control.file), 0) == MAP_FAILED) {
		err = errno;
		memfile_close(&control.file);
	}
	return err;
}

/*
 * Puts the block, if it is page aligned, into a memory file of its own if prof_ctl_fd is set. If
 * that fails, a forked child gets plain pages, not to write into the file of its parent.
 */
static void
box_share(bool is_child) {
	int saved = errno;
	if (opt_prof_ctl_fd && ((uintptr_t)&prof_mailbox_block & (os_page_size - 1)) == 0
	    && box_to_memfd() != 0) {
		malloc_write("<jemalloc>: prof_ctl_fd: no memory file could be made\n");
		if (is_child) {
			mmap(&prof_mailbox_block, sizeof(prof_mailbox_block), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		}
	}
	errno = saved;
}

/* ---------------------------------------------------------------- slots */

/* Asserts that the caller is the one thread that carries out requests. */
static void
serving_assert(void) {
	assert(atomic_load_u32(&control.server, MO_RELAXED) == mutex_self());
}

/*
 * If the answer to a request with the current nonce is remembered, makes it the current answer,
 * sets *err and returns true.
 */
static bool
answer_try_repeat(int *err) {
	serving_assert();
	for (unsigned i = 0; i < ANSWERS_KEPT && current.nonce != 0; i++) {
		if (answers.kept[i].nonce == current.nonce) {
			*err = answers.kept[i].err;
			current.answer = answers.kept[i].answer;
			return true;
		}
	}
	return false;
}

/*
 * Remembers the current answer in place of the oldest one, unless a repetition of its request is to
 * be carried out anew.
 */
static void
answer_keep(int err) {
	serving_assert();
	assert(answers.next < ANSWERS_KEPT);
	if (err == EBADMSG || current.verb == NULL || current.verb->is_repeated) {
		return; /* a repetition of this request may get another result */
	}
	answers.kept[answers.next].nonce = current.nonce;
	answers.kept[answers.next].err = err;
	answers.kept[answers.next].answer = current.answer;
	answers.next = (answers.next + 1) % ANSWERS_KEPT;
}

/*
 * Carries out the current request, which is in this slot, or repeats the answer to it. Returns its
 * errno.
 */
static int
request_serve(unsigned slot) {
	assert(slot < PROF_MAILBOX_SLOTS);
	static const prof_asker_t asker = {.is_confined = false, .stream = prof_handover_sink};
	bool is_stream = current.verb != NULL && current.verb->is_stream;
	int err;
	if (answer_try_repeat(&err)) {
		return err;
	}
	if (is_stream) {
		prof_handover_begin(box()->streams, slot, opt_prof_ctl_fd);
	}
	err = prof_request(current.text, &asker, &current.answer);
	if (is_stream) {
		prof_handover_end(current.nonce, err);
	}
	answer_keep(err);
	return err;
}

/* Copies the request out of the slot and checks it; 0, or EBADMSG with an answer. */
static int
slot_copy(const prof_slot_t *s, uint64_t sequence) {
	serving_assert();
	uint32_t len = __atomic_load_n(&s->length, __ATOMIC_RELAXED);
	uint32_t sum = __atomic_load_n(&s->checksum, __ATOMIC_RELAXED);
	current.nonce = __atomic_load_n(&s->nonce, __ATOMIC_RELAXED);
	if (len >= PROF_MAILBOX_TEXT) {
		return prof_request_refuse(&current.answer, EBADMSG, "the request is too long");
	}
	memcpy(current.text, s->text, len);
	current.text[len] = '\0';
	if (prof_mailbox_sum(sequence, current.nonce, current.text, len) != sum
	    || strlen(current.text) != len) {
		return prof_request_refuse(&current.answer, EBADMSG, "the request is torn");
	}
	current.verb = prof_request_verb(current.text);
	return 0;
}

/* 0 if the lease of the request in the slot holds or it has none; else ESTALE, with an answer. */
static int
slot_check_lease(unsigned slot, uint64_t sequence) {
	serving_assert();
	const prof_lease_t *l = &box()->leases[slot];
	if (__atomic_load_n(&l->sequence, __ATOMIC_RELAXED) != sequence) {
		return 0;
	}
	uint64_t until_ms = __atomic_load_n(&l->until_ms, __ATOMIC_RELAXED);
	uint64_t span_ms = __atomic_load_n(&l->span_ms, __ATOMIC_RELAXED);
	return prof_request_check_lease(&current.answer, until_ms, span_ms);
}

/*
 * Whether the current request is left to the profiler's thread: a dump, or a mark, which may wait
 * for a dump. Formatting and writing a profile takes milliseconds; an allocating thread does that
 * only if there can be no profiler's thread. A stop needs no test here: while a session is active
 * the thread runs, if there can be one.
 */
static bool
is_for_thread(void) {
	bool is_long = current.verb != NULL && current.verb->is_long;
	return is_long && opt_prof_thread != prof_thread_false
	    && control.has_started
	    && !atomic_load_b(&control.thread_failed, MO_RELAXED)
	    && !atomic_load_b(&control.thread_barred, MO_RELAXED);
}

/*
 * Carries out the request in the slot, if it has one without an answer, and writes the answer.
 * by_thread: all is carried out here, as by the profiler's thread; otherwise a long request is left
 * to that thread (is_awaited) if there can be one.
 */
static void
slot_serve(unsigned slot, bool by_thread) {
	assert(slot < PROF_MAILBOX_SLOTS);
	prof_slot_t *s = &box()->slots[slot];
	uint64_t sequence = __atomic_load_n(&s->sequence, __ATOMIC_ACQUIRE);
	if (sequence == 0 || __atomic_load_n(&s->answered, __ATOMIC_RELAXED) == sequence) {
		return;
	}
	int err = slot_copy(s, sequence);
	if (err == 0) {
		err = slot_check_lease(slot, sequence);
	}
	/* A client that has withdrawn its request before this point does not get it carried out. */
	if (__atomic_load_n(&s->sequence, __ATOMIC_ACQUIRE) != sequence) {
		return;
	}
	if (err == 0 && !by_thread && is_for_thread()) {
		atomic_store_b(&control.is_awaited, true, MO_RELAXED);
		return;
	}
	__atomic_store_n(&s->answer_nonce, current.nonce, __ATOMIC_RELEASE);
	/*
	 * A client copies the answer, then reads answer_nonce: if it is still its own, no later answer
	 * is in the copy.
	 */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	if (err == 0) {
		err = request_serve(slot);
	}
	assert(current.answer.len < sizeof(s->answer));
	memcpy(s->answer, current.answer.text, current.answer.len);
	s->answer[current.answer.len] = '\0';
	s->answer_length = (uint32_t)current.answer.len;
	s->error = err;
	__atomic_store_n(&s->answered, sequence, __ATOMIC_RELEASE);
}

/*
 * When the client of the request in the slot left it there or, if it waits, looked for its answer
 * last: the beginning of the lease, in ms. 0: it has no lease.
 */
static uint64_t
slot_given_ms(unsigned slot) {
	const prof_lease_t *l = &box()->leases[slot];
	uint64_t sequence = __atomic_load_n(&box()->slots[slot].sequence, __ATOMIC_ACQUIRE);
	uint64_t until_ms = __atomic_load_n(&l->until_ms, __ATOMIC_RELAXED);
	uint64_t span_ms = __atomic_load_n(&l->span_ms, __ATOMIC_RELAXED);
	return __atomic_load_n(&l->sequence, __ATOMIC_RELAXED) == sequence ? until_ms - span_ms : 0;
}

/*
 * Serves all slots in the order in which their requests were given. So if several were left to an
 * idle process, a set acts on the session that the start before it began, and a stop whose client
 * still waits ends that session.
 */
static void
slots_serve(bool by_thread) {
	unsigned order[PROF_MAILBOX_SLOTS];
	uint64_t given[PROF_MAILBOX_SLOTS];
	for (unsigned i = 0; i < PROF_MAILBOX_SLOTS; i++) {
		uint64_t ms = slot_given_ms(i);
		unsigned at = i;
		for (; at > 0 && given[at - 1] > ms; at--) {
			given[at] = given[at - 1];
			order[at] = order[at - 1];
		}
		given[at] = ms;
		order[at] = i;
	}
	for (unsigned i = 0; i < PROF_MAILBOX_SLOTS; i++) {
		slot_serve(order[i], by_thread);
	}
}

static bool
serving_try_begin(void) {
	uint32_t none = 0;
	return atomic_cas_strong_u32(&control.server, &none, mutex_self(), MO_ACQUIRE, MO_RELAXED);
}

static void
serving_end(void) {
	serving_assert();
	atomic_store_u32(&control.server, 0, MO_RELEASE);
}

/*
 * Whether this is a child in which our fork handlers have not run: one of vfork(), which has its
 * parent's memory, or a silent one (gate_watch()).
 */
static bool
is_untold_child(void) {
	return control.pid != 0 && control.pid != (uint32_t)sys_pid();
}

/* Serves all slots; false if the mailbox is closed or another thread or process is serving. */
static bool
box_serve(bool by_thread) {
	assert(!gate_is_entered(tls_get()));
	/* A mailbox that is a memory file is its parent's, which serves it. */
	if (!prof_mailbox_is_open || (opt_prof_ctl_fd && is_untold_child()) || !serving_try_begin()) {
		return false;
	}
	__atomic_store_n(&box()->doorbell, 0, __ATOMIC_SEQ_CST);
	atomic_store_b(&control.is_awaited, false, MO_RELAXED);
	box_header();
	prof_handover_tick();
	slots_serve(by_thread);
	if (atomic_load_b(&control.is_awaited, MO_RELAXED)) {
		__atomic_store_n(&box()->doorbell, 1, __ATOMIC_SEQ_CST);
	}
	box_mirror();
	serving_end();
	return true;
}

bool
prof_control_serve(void) {
	return box_serve(true);
}

/*
 * Frees profiles (prof_handover.h) that a client has fetched, or that none has fetched in time, and
 * freed pages that were kept for too long; does nothing while another thread is serving.
 */
static void
handover_look(void) {
	if (prof_handover_is_any() && serving_try_begin()) {
		prof_handover_tick();
		serving_end();
	}
}

static bool
doorbell_is_rung(void) {
	return __atomic_load_n(&box()->doorbell, __ATOMIC_RELAXED) != 0;
}

/* ---------------------------------------------------------------- the thread */

/* Whether the thread exists from the start on; in a forked child it is made when it is needed. */
static bool
thread_is_permanent(void) {
	return opt_prof_thread == prof_thread_true && !control.is_child;
}

/* Whether there is, or may come, work that does not wait for heartbeats. */
static bool
thread_is_wanted(void) {
	return opt_prof_thread != prof_thread_false && (thread_is_permanent()
	    || prof_box_wants_thread() || opt_prof_final_signals || prof_session_is_active()
	    || prof_trigger_wants_thread() || prof_ctl_dir_is_on()
	    || atomic_load_b(&control.is_awaited, MO_RELAXED) || prof_handover_is_any());
}

/* Ends the sleep of the thread between two rounds; also called in signal handlers. */
static void
thread_wake(void) {
	atomic_fetch_add_u32(&control.wakes, 1, MO_RELEASE);
	os_word_wake(&control.wakes, 1);
}

/*
 * Looks into the control directory if DIR_GAP_NS have passed. Called by the profiler's thread, or
 * at heartbeats while there is none.
 */
static void
dir_look(void) {
	if (!prof_ctl_dir_is_on() || !serving_try_begin()) {
		return;
	}
	uint64_t now = nstime_monotonic_ns();
	if (now >= control.dir_next_ns) {
		control.dir_next_ns = now + DIR_GAP_NS;
		prof_ctl_dir_look();
	}
	serving_end();
}

/*
 * What the profiler's thread does in each round, or a heartbeat while there is no such thread;
 * outside the gate. Returns the ns until the session's time is over (prof_session_tick).
 */
static uint64_t
services_tick(bool by_thread) {
	prof_signal_tick();
	prof_listen_follow();
	if (doorbell_is_rung()) {
		box_serve(by_thread);
	}
	handover_look();
	dir_look();
	uint64_t session = prof_session_tick();
	/* Not during a dump, for which prof_box_tick() would wait; a later call comes. */
	if (!prof_dump_is_busy()) {
		prof_box_tick();
	}
	return session;
}

/* Does all that is due, outside the gate; returns the ns until the next round, at most ROUND_NS. */
static uint64_t
thread_round(void) {
	uint64_t session = services_tick(true);
	uint64_t timer = prof_trigger_tick();
	prof_course_tick(nstime_monotonic_ns(), true);
	uint64_t next = session < timer ? session : timer;
	__atomic_fetch_add(&box()->heartbeats, 1, __ATOMIC_RELAXED);
	control_mirror();
	return next < ROUND_NS ? next : ROUND_NS;
}

/*
 * Whether no other thread that allocates is left: the first one has ended by pthread_exit(), and so
 * have those that it made. The C library ends a process with its last thread, and counts this one,
 * which must not keep the process alive. Threads that have never allocated are not seen; for them
 * the process goes on without this thread.
 */
static bool
thread_is_last(void) {
	struct tls_s *t = tls_get();
	gate_enter(t);
	bool has_others = gate_has_others(t);
	gate_exit(t);
	return !has_others;
}

/* Runs rounds until there has been nothing to do for a while, or it is the last thread. */
static void
thread_rounds(void) {
	assert(tls_get()->inside > 0);
	for (unsigned idle = 0; idle < ROUNDS_IDLE && !thread_is_last(); idle++) {
		uint32_t seen = atomic_load_u32(&control.wakes, MO_ACQUIRE);
		bool is_asked = doorbell_is_rung();
		uint64_t wait = thread_round();
		if (is_asked || thread_is_wanted()) {
			idle = 0;
		}
		os_word_wait(&control.wakes, seen, wait);
	}
}

/*
 * Clears has_thread before the thread ends; true if it must continue, with has_thread set again.
 * A thread that changes something before has_thread is cleared is seen by the check here; one that
 * does so afterwards finds has_thread clear and starts another thread.
 */
static bool
thread_try_continue(void) {
	assert(atomic_load_b(&control.has_thread, MO_RELAXED));
	atomic_store_b(&control.has_thread, false, MO_SEQ_CST);
	atomic_fence(MO_SEQ_CST);
	return (thread_is_wanted() || doorbell_is_rung()) && !thread_is_last()
	    && !atomic_exchange_b(&control.has_thread, true, MO_ACQ_REL);
}

static void *
thread_main(void *arg) {
	(void)arg;
	struct tls_s *t = tls_get();
	pthread_detach(pthread_self());
	t->inside++; /* allocations of this thread are never samples */
	do {
		thread_rounds();
	} while (thread_try_continue());
	t->inside--;
	return NULL;
}

/* Creates the thread, after has_thread was set; called outside the gate with `inside` raised. */
static void
thread_make(void) {
	assert(atomic_load_b(&control.has_thread, MO_RELAXED) && !gate_is_entered(tls_get()));
	int err = os_thread_create(&control.thread, "jemalloc_prof", thread_main, NULL);
	if (err == 0) {
		return;
	}
	atomic_store_b(&control.thread_failed, true, MO_RELAXED);
	atomic_store_b(&control.has_thread, false, MO_RELEASE);
	if (!atomic_exchange_b(&control.has_reported_failure, true, MO_RELAXED)) {
		malloc_printf("<jemalloc>: the profiler's thread could not be started (error %d); "
		    "it goes on at the program's own allocations\n", err);
	}
}

/*
 * Asks for the thread: the next heartbeat starts it, and heartbeats come soon even in a thread that
 * allocates little.
 */
static void
thread_want(void) {
	atomic_store_b(&control.thread_due, true, MO_RELAXED);
	if (control.has_started) {
		atomic_store_b(&thread_event_is_wanted, true, MO_SEQ_CST);
		recall_all(RECALL_SETTINGS);
	}
}

/*
 * Whether a thread may be created; also stores the result in thread_barred and the mailbox. A
 * system call filter may end the process for the call that creates a thread, and what it permits
 * cannot be found out. So no thread is created under a filter unless the user permits it
 * (prof_thread:true, not in a forked child). A filter is never removed.
 */
static bool
thread_try_permit(void) {
	bool is_barred = !thread_is_permanent() && os_thread_is_filtered();
	atomic_store_b(&control.thread_barred, is_barred, MO_RELAXED);
	uint32_t flags = is_barred ? PROF_MAILBOX_BARRED : 0;
	__atomic_store_n(&box()->flags, flags, __ATOMIC_RELAXED);
	return !is_barred;
}

/* The text of prof_request_thread_hook(). */
static const char *
thread_text(void) {
	if (prof_control_has_thread()) {
		return "yes";
	}
	return atomic_load_b(&control.thread_barred, MO_RELAXED) ? "no: a seccomp filter is in force"
	    : atomic_load_b(&control.thread_failed, MO_RELAXED) ? "no: the system refused it" : "no";
}

/* Starts the thread if it is wanted, permitted, and does not run. */
static void
thread_start(void) {
	atomic_store_b(&control.thread_due, false, MO_RELAXED);
	atomic_store_b(&thread_event_is_wanted, false, MO_RELAXED);
	if (atomic_load_b(&control.thread_failed, MO_RELAXED) || !thread_is_wanted()
	    || !thread_try_permit()) {
		return;
	}
	if (is_untold_child()) {
		/* A child of vfork in the memory of its parent: the thread would end with it. */
		thread_want();
		return;
	}
	if (atomic_exchange_b(&control.has_thread, true, MO_ACQ_REL)) {
		return;
	}
	uint32_t depth = gate_step_out();
	thread_make();
	gate_step_in(depth);
}

bool
prof_control_has_thread(void) {
	return atomic_load_b(&control.has_thread, MO_ACQUIRE);
}

/*
 * prof_trigger_changed_hook, called after a session or threshold has changed, by the user's code, a
 * request, a heartbeat or the profiler's thread: starts or wakes that thread. Not while handlers of
 * a forked child run, because prof_control_postfork_child() looks at all changes after them.
 */
static void
control_changed(void) {
	if (!control.is_booted || control.is_forking) {
		return;
	}
	control_mirror();
	atomic_fence(MO_SEQ_CST); /* pairs with thread_try_continue() */
	if (prof_control_has_thread()) {
		thread_wake();
	} else if (gate_is_closed() || !control.has_started) {
		/* While a thread forks, or moves the tables into or out of a black box; or at the start. */
		thread_want();
	} else if (thread_is_wanted()) {
		atomic_store_b(&control.thread_failed, false, MO_RELAXED);
		thread_start();
	}
}

/* Wakes the thread; false if there is none. Called in signal handlers (prof_signal_wake_hook). */
static bool
control_wake(void) {
	if (!prof_control_has_thread()) {
		return false;
	}
	thread_wake();
	return true;
}

/* ---------------------------------------------------------------- heartbeats, life */

/*
 * Whether the thread came directly from the user's code, so that only the heartbeat itself has
 * raised `inside` and entered the gate, and no fork is under way.
 */
static bool
is_safe(const struct tls_s *t) {
	return t->inside == 1 && t->gate_depth <= 1 && !gate_is_closed();
}

/*
 * The slow part of a heartbeat: starts or wakes the profiler's thread. While there is none this
 * thread does its work, except the triggers and the course, which prof_heartbeat() (prof.c) looks
 * after.
 */
static void NOINLINE
control_due(void) {
	struct tls_s *t = tls_get();
	if (!is_safe(t)) {
		return;
	}
	if (atomic_load_b(&control.thread_due, MO_RELAXED) && control.has_started) {
		thread_start();
	}
	if (prof_control_has_thread()) {
		thread_wake();
		return;
	}
	uint32_t depth = gate_leave_all(t);
	(void)services_tick(false);
	gate_reenter(t, depth);
	if (atomic_load_b(&control.is_awaited, MO_RELAXED)) {
		thread_start();
	}
}

/*
 * Whether control_due() has something to do: a request, a signal, a tracer that came or went, a
 * time limit or a black box; a thread to start; or, while there is none, the control directory or a
 * profile to free.
 */
static bool
is_anything_due(void) {
	return doorbell_is_rung() || atomic_load_b(&control.thread_due, MO_RELAXED)
	    || prof_session_is_over()
	    || prof_signal_is_due()
	    || prof_box_is_due()
	    || prof_listen_is_due()
	    || ((prof_handover_is_any() || (opt_prof_more && prof_ctl_dir_is_on()))
	    && !prof_control_has_thread());
}

/*
 * Changes the count by which a client sees that the process allocates. Each thread does so at most
 * once in a tick of the coarse clock, because all threads share the cache line of the count. Counts
 * of other threads may be lost: only that it changes matters.
 */
static void
control_count_beat(tsd_t *tsd) {
	if (tsd->beat_told_ns != tsd->beat_ns) {
		uint64_t *beats = &box()->heartbeats;
		tsd->beat_told_ns = tsd->beat_ns;
		__atomic_store_n(beats, __atomic_load_n(beats, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
	}
}

void
prof_control_heartbeat(tsd_t *tsd, uint64_t bytes) {
	(void)bytes;
	control_count_beat(tsd);
	if (unlikely(is_anything_due()) && control.is_booted) {
		control_due();
	}
}

/*
 * If the thread is due (the options want it, or a change before), starts it now, before the program
 * may forbid the system calls that this needs. Called by the constructor.
 */
void
prof_control_boot_late(void) {
	control.has_started = true;
	if (atomic_load_b(&control.thread_due, MO_RELAXED)) {
		thread_start();
	}
}

/*
 * The part of boot for the options of the profiler that need it; without any of them
 * (opt_prof_more) it is skipped.
 */
static void
control_boot_options(void) {
	box_share(false);
	if (prof_ctl_dir_is_on()) {
		prof_request_boot();
	}
	prof_signal_boot();
	if (thread_is_wanted()) {
		thread_want();
	}
}

void
prof_control_wire(void) {
	prof_switch_changed_hook = control_mirror;
	prof_trigger_changed_hook = control_changed;
	prof_trigger_has_thread_hook = prof_control_has_thread;
	prof_signal_wake_hook = control_wake;
	prof_request_thread_hook = thread_text;
}

void
prof_control_boot(void) {
	bool is_secure = sys_is_secure();
	if (is_secure) {
		opt_prof_ctl_dir = "";
		opt_prof_ctl_fd = false;
	}
	control.pid = (uint32_t)sys_pid();
	control.is_booted = true;
	if (opt_prof_more) {
		control_boot_options();
	}
	if (!is_secure) {
		box_open(sys_random());
	}
}

/*
 * Clears doorbell, heartbeats and used slots; pages of unused ones stay shared with the parent. A
 * lease that stays fits no request, as each try has a random `sequence`.
 */
static void
box_clear(void) {
	prof_mailbox_t *b = box();
	b->doorbell = 0;
	b->heartbeats = 0;
	for (unsigned i = 0; i < PROF_MAILBOX_SLOTS; i++) {
		if (b->slots[i].sequence != 0 || b->slots[i].answered != 0) {
			memset(&b->slots[i], 0, sizeof(b->slots[i]));
		}
	}
}

void
prof_control_postfork_begin(void) {
	control.is_forking = true;
}

/*
 * Ends the serving of a thread that does not exist here. If this thread was serving, it forked in
 * the dump hook or a signal handler, and goes on with that request, though nobody gets the answer.
 */
static void
server_postfork_child(void) {
	if (atomic_load_u32(&control.server, MO_RELAXED) != mutex_self()) {
		atomic_store_u32(&control.server, 0, MO_RELAXED);
	}
}

/* Gives the child a mailbox of its own, without the requests to the parent. */
static void
box_postfork_child(void) {
	if (opt_prof_ctl_fd) {
		control.pid = (uint32_t)sys_pid();
		memfile_close(&control.file); /* the parent's file */
		box_share(true);
	}
	box_clear();
	prof_handover_postfork_child();
	/* A number of its own; not by sys_random(), which makes a system call. */
	box_open(hash_mix64(box()->instance ^ control.pid ^ nstime_realtime_ns()));
	box_mirror();
}

/* The child has no thread, and gets one at a heartbeat if it wants one. */
void
prof_control_postfork_child(void) {
	if (!control.is_booted) {
		control.is_forking = false;
		return;
	}
	control.is_child = true;
	prof_signal_postfork_child();
	server_postfork_child();
	atomic_store_b(&control.has_thread, false, MO_RELAXED);
	atomic_store_b(&control.thread_due, false, MO_RELAXED);
	atomic_store_b(&control.is_awaited, false, MO_RELAXED);
	control.pid = (uint32_t)os_tid_stored(); /* without a system call: a filter may forbid it */
	if (prof_mailbox_is_open) {
		box_postfork_child();
	}
	control.is_forking = false;
	if (thread_is_wanted()) {
		thread_want();
	}
}
