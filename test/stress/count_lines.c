/*
 * What the code that gcc compiles with -fsanitize=thread calls at each access to memory, in the
 * place of the sanitizer's library: it counts atomic read-modify-writes, and lines of memory that a
 * thread takes from another one, by the place in the program. Each thread has a cache of its own
 * that is never full: a read takes a line that another thread has written since this one had it, a
 * write takes one that another thread has read or written since. scripts/count-contention links it
 * into a copy of the allocator, so it does not allocate. Compiled without the sanitizer.
 *
 * At the end of the process it writes a row for each place into the file that COUNT_LINES names:
 * the address in the library, read-modify-writes, lines read, lines written.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LG_LINE 6
#define LG_LINES 20
#define LG_PLACES 14
/* Threads in the life of the process; a number is not used again. */
#define THREADS 1024
#define WORD 64
#define SHARED (-1)

/*
 * Who has a line. What takes it changes all under the spin lock; what finds that it has it looks
 * without.
 */
struct line {
	uintptr_t number;	/* its address / 64; 0: no line yet */
	int is_busy;		/* the spin lock */
	int sole;			/* the only thread that has it; SHARED: several; 0: none */
	bool was_written;
	uint64_t holders[THREADS / WORD];
};

/* An instruction of the library that accesses memory. */
struct place {
	uintptr_t pc;
	long rmw, reads, writes;
};

static struct line lines[1 << LG_LINES];
static struct place places[1 << LG_PLACES];
static int nthreads;
static __thread int self;
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

static void
fail(const char *why) {
	dprintf(STDERR_FILENO, "count_lines: %s\n", why);
	_exit(3);
}

static inline size_t
slot(uintptr_t key, int lg) {
	return (size_t)(((uint64_t)key * 0x9e3779b97f4a7c15u) >> (64 - lg));
}

/* Whether the key of a slot of a table is this one, which it becomes if the slot is empty. */
static inline bool
settle(uintptr_t *at, uintptr_t key) {
	uintptr_t found = __atomic_load_n(at, __ATOMIC_RELAXED);

	return found == key || (found == 0 && (__atomic_compare_exchange_n(at, &found, key, false,
	    __ATOMIC_RELAXED, __ATOMIC_RELAXED) || found == key));
}

static struct place *
place_of(uintptr_t pc) {
	size_t i = slot(pc, LG_PLACES);

	for (int n = 0; !settle(&places[i].pc, pc); n++) {
		if (n == 1 << LG_PLACES)
			fail("too many places");
		i = (i + 1) % (1 << LG_PLACES);
	}
	return &places[i];
}

static struct line *
line_of(uintptr_t number) {
	size_t i = slot(number, LG_LINES);

	for (int n = 0; !settle(&lines[i].number, number); n++) {
		if (n == 1 << LG_LINES)
			fail("too many lines");
		i = (i + 1) % (1 << LG_LINES);
	}
	return &lines[i];
}

static void
add(long *counter) {
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static void
lock(struct line *l) {
	while (__atomic_exchange_n(&l->is_busy, 1, __ATOMIC_ACQUIRE) != 0)
		sched_yield();
}

static void
unlock(struct line *l) {
	__atomic_store_n(&l->is_busy, 0, __ATOMIC_RELEASE);
}

static void
read_line(struct line *l, uintptr_t pc) {
	uint64_t *word = &l->holders[self / WORD], mine = (uint64_t)1 << self % WORD;

	if ((__atomic_load_n(word, __ATOMIC_RELAXED) & mine) != 0)
		return;
	lock(l);
	if (l->was_written)
		add(&place_of(pc)->reads);
	__atomic_store_n(&l->sole, l->sole == 0 ? self : SHARED, __ATOMIC_RELAXED);
	__atomic_store_n(word, *word | mine, __ATOMIC_RELAXED);
	unlock(l);
}

static void
write_line(struct line *l, uintptr_t pc) {
	if (__atomic_load_n(&l->sole, __ATOMIC_RELAXED) == self
	    && __atomic_load_n(&l->was_written, __ATOMIC_RELAXED))
		return;
	lock(l);
	if (l->sole != self && l->sole != 0)
		add(&place_of(pc)->writes);
	for (int i = 0; i < THREADS / WORD; i++)
		__atomic_store_n(&l->holders[i], 0, __ATOMIC_RELAXED);
	__atomic_store_n(&l->holders[self / WORD], (uint64_t)1 << self % WORD, __ATOMIC_RELAXED);
	__atomic_store_n(&l->sole, self, __ATOMIC_RELAXED);
	__atomic_store_n(&l->was_written, true, __ATOMIC_RELAXED);
	unlock(l);
}

static inline void
touch(const volatile void *at, size_t size, bool is_write, void *pc) {
	uintptr_t first = (uintptr_t)at >> LG_LINE;
	uintptr_t end = ((uintptr_t)at + size + (1 << LG_LINE) - 1) >> LG_LINE;

	if (self == 0 && (self = __atomic_add_fetch(&nthreads, 1, __ATOMIC_RELAXED)) >= THREADS)
		fail("too many threads");
	for (uintptr_t i = first; i < end; i++) {
		if (is_write)
			write_line(line_of(i), (uintptr_t)pc);
		else
			read_line(line_of(i), (uintptr_t)pc);
	}
}

__attribute__((destructor)) static void
report(void) {
	const char *path = getenv("COUNT_LINES");
	int fd = path == NULL ? -1 : open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	for (int i = 0; fd >= 0 && i < 1 << LG_PLACES; i++) {
		struct place *p = &places[i];

		if (p->pc != 0)
			dprintf(fd, "%#zx %ld %ld %ld\n", (size_t)(p->pc - (uintptr_t)__ehdr_start), p->rmw,
			    p->reads, p->writes);
	}
	if (fd >= 0)
		close(fd);
}

/* ------------------------------------- what the compiled code calls */

#define PC __builtin_return_address(0)

void
__tsan_init(void) {
}

void
__tsan_func_entry(void *pc) {
	(void)pc;
}

void
__tsan_func_exit(void) {
}

void
__tsan_read_range(const void *at, size_t size) {
	touch(at, size, false, PC);
}

void
__tsan_write_range(void *at, size_t size) {
	touch(at, size, true, PC);
}

/* The linker leads these calls here (--wrap): the compiler does not tell of them. */
void *__real_memcpy(void *to, const void *from, size_t size);
void *__real_memmove(void *to, const void *from, size_t size);
void *__real_memset(void *to, int byte, size_t size);
int __real_memcmp(const void *a, const void *b, size_t size);

void *
__wrap_memcpy(void *to, const void *from, size_t size) {
	touch(from, size, false, PC);
	touch(to, size, true, PC);
	return __real_memcpy(to, from, size);
}

void *
__wrap_memmove(void *to, const void *from, size_t size) {
	touch(from, size, false, PC);
	touch(to, size, true, PC);
	return __real_memmove(to, from, size);
}

void *
__wrap_memset(void *to, int byte, size_t size) {
	touch(to, size, true, PC);
	return __real_memset(to, byte, size);
}

int
__wrap_memcmp(const void *a, const void *b, size_t size) {
	touch(a, size, false, PC);
	touch(b, size, false, PC);
	return __real_memcmp(a, b, size);
}

void
__tsan_atomic_thread_fence(int order) {
	(void)order;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void
__tsan_atomic_signal_fence(int order) {
	(void)order;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

#define PLAIN(size) \
	void __tsan_read##size(const void *at) { touch(at, size, false, PC); } \
	void __tsan_write##size(void *at) { touch(at, size, true, PC); }

PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

/* Each atomic access is made here, in the strongest order. */
static inline void
modify(const volatile void *at, size_t size, void *pc) {
	add(&place_of((uintptr_t)pc)->rmw);
	touch(at, size, true, pc);
}

#define FETCH(bits, name) \
	uint##bits##_t \
	__tsan_atomic##bits##_fetch_##name(volatile void *at, uint##bits##_t value, int order) { \
		(void)order; \
		modify(at, bits / 8, PC); \
		return __atomic_fetch_##name((uint##bits##_t *)at, value, __ATOMIC_SEQ_CST); \
	}

#define EXCHANGE(bits, strength) \
	int \
	__tsan_atomic##bits##_compare_exchange_##strength(volatile void *at, void *expected, \
	    uint##bits##_t value, int order, int failed_order) { \
		(void)order, (void)failed_order; \
		modify(at, bits / 8, PC); \
		return __atomic_compare_exchange_n((uint##bits##_t *)at, (uint##bits##_t *)expected, \
		    value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
	}

#define ATOMIC(bits) \
	uint##bits##_t \
	__tsan_atomic##bits##_load(const volatile void *at, int order) { \
		(void)order; \
		touch(at, bits / 8, false, PC); \
		return __atomic_load_n((const uint##bits##_t *)at, __ATOMIC_SEQ_CST); \
	} \
	void \
	__tsan_atomic##bits##_store(volatile void *at, uint##bits##_t value, int order) { \
		(void)order; \
		touch(at, bits / 8, true, PC); \
		__atomic_store_n((uint##bits##_t *)at, value, __ATOMIC_SEQ_CST); \
	} \
	uint##bits##_t \
	__tsan_atomic##bits##_exchange(volatile void *at, uint##bits##_t value, int order) { \
		(void)order; \
		modify(at, bits / 8, PC); \
		return __atomic_exchange_n((uint##bits##_t *)at, value, __ATOMIC_SEQ_CST); \
	} \
	FETCH(bits, add) \
	FETCH(bits, sub) \
	FETCH(bits, and) \
	FETCH(bits, or) \
	FETCH(bits, xor) \
	EXCHANGE(bits, strong) \
	EXCHANGE(bits, weak)

ATOMIC(8)
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)
