/*
 * Unwinders: every method must give the same stack, from ordinary code, callbacks of the C
 * library, signal handlers, small and foreign stacks; code that lies must never crash the walk.
 */
#include "test.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "os/sys.h"
#include "os/tls.h"
#include "unwind/code.h"
#include "unwind/module_history.h"
#include "unwind/unwind.h"
#include "unwind/unwind_backend.h"
#include "unwind/unwind_step.h"

#if CONFIG_PROF_FRAMEPTR || CONFIG_PROF_LIBUNWIND || CONFIG_PROF_LIBGCC

#define MAX 256

static const char *const method_names[] = {"auto", "fp", "libgcc", "libunwind"};
enum { N_METHODS = 4 };

struct stacks {
	void *frames[N_METHODS][MAX];
	unsigned n[N_METHODS];
	bool has[N_METHODS];
	unsigned max;
};

static struct stacks got;

/* One call site for all methods, so that all frames are comparable. */
static
__attribute__((noinline)) void
capture_all(void) {
	if (got.max == 0) {
		got.max = MAX;
	}
	for (unsigned m = 0; m < hide(N_METHODS); m++) {
		got.has[m] = unwind_select(method_names[m]) == 0;
		memset(got.frames[m], 0, sizeof(got.frames[m]));
		got.n[m] = got.has[m] ? unwind(got.frames[m], got.max) : 0;
	}
	__asm__ volatile("" ::: "memory");
}

static bool
is_same(unsigned a, unsigned b) {
	return got.n[a] == got.n[b]
	    && memcmp(got.frames[a], got.frames[b], got.n[a] * sizeof(void *)) == 0;
}

static void
show(unsigned m) {
	diag("%s: %u frames", method_names[m], got.n[m]);
	for (unsigned i = 0; i < got.n[m] && i < 40; i++) {
		Dl_info info;
		bool is_known = dladdr(got.frames[m][i], &info) != 0;
		diag("  %p %s %s", got.frames[m][i], is_known ? info.dli_fname : "?",
		    is_known && info.dli_sname ? info.dli_sname : "?");
	}
}

/* All methods that exist agree with libgcc, and the stack is at least min deep. */
static void
check_agree(unsigned min, const char *what) {
	enum { LIBGCC = 2 };
	bool good = got.n[0] >= min;
	for (unsigned m = 0; m < N_METHODS; m++) {
		/* libunwind leaves out the outermost frame here and there. */
		if (got.has[m] && got.has[LIBGCC] && m != 3 && !is_same(m, LIBGCC)) {
			good = false;
		}
	}
	ok(good, "all methods agree: %s", what);
	if (!good) {
		for (unsigned m = 0; m < N_METHODS; m++) {
			show(m);
		}
	}
}

static
__attribute__((noinline)) void
recurse(unsigned depth, void (*fn)(void)) {
	if (depth == 0) {
		fn();
	} else {
		recurse(depth - 1, fn);
	}
	__asm__ volatile("");
}

static
__attribute__((noinline)) void
with_big_frame(void (*fn)(void)) {
	volatile char big[1 << 20];
	big[0] = 1;
	fn();
	big[sizeof(big) - 1] = 2;
}

static
__attribute__((noinline, unused)) void
with_big_frame_of(size_t size, void (*fn)(void)) {
	char *big = __builtin_alloca(size);
	__asm__ volatile("" : "+r"(big) : : "memory");
	memset(big, 1, size);
	fn();
	__asm__ volatile("" : : "r"(big) : "memory");
}

static
__attribute__((noinline)) void
with_variable_frame(size_t size, void (*fn)(void)) {
	volatile char *p = __builtin_alloca(size);
	p[0] = 1;
	fn();
	p[size - 1] = 2;
}

/* An over-aligned local: gcc realigns the stack and describes the frame by an expression. */
static
__attribute__((noinline)) void
with_aligned_frame(unsigned n, void (*fn)(void)) {
	volatile _Alignas(64) char box[64];
	volatile char *p = __builtin_alloca(n);
	p[0] = box[0] = 1;
	fn();
	box[1] = 2;
}

static int
__attribute__((unused))
compare_and_capture(const void *a, const void *b) {
	capture_all();
	return *(const int *)a - *(const int *)b;
}

static void capture_both(void);

static int
__attribute__((unused))
compare_and_capture_both(const void *a, const void *b) {
	capture_both();
	return *(const int *)a - *(const int *)b;
}

static void
test_ordinary(void) {
	recurse(0, capture_all);
	check_agree(3, "shallow");
	recurse(100, capture_all);
	check_agree(100, "100 deep");
	recurse(10000, capture_all);
	check_agree(MAX, "cut at the maximum");
	with_big_frame(capture_all);
	check_agree(3, "frame of 1 MiB");
	with_variable_frame(hide(5000), capture_all);
	check_agree(3, "frame of variable size");
	with_aligned_frame((unsigned)hide(100), capture_all);
	check_agree(3, "realigned frame");
#ifdef __GLIBC__
	int v[2] = {2, 1};
	qsort(v, 2, sizeof(v[0]), compare_and_capture);
	check_agree(4, "callback from the C library");
#else
	skip(1, "the C library has no unwind tables");
#endif
	got.max = 5;
	recurse(20, capture_all);
	got.max = MAX;
	check_agree(5, "five frames asked for");
}

static void *
on_thread(void *arg) {
	recurse(10, (void (*)(void))(uintptr_t)arg);
	return NULL;
}

static void
run_on_thread(void (*fn)(void), size_t stack_size) {
	pthread_attr_t attr;
	pthread_t t;
	pthread_attr_init(&attr);
	if (stack_size > 0) {
		pthread_attr_setstacksize(&attr, stack_size);
	}
	pthread_create(&t, &attr, on_thread, (void *)(uintptr_t)fn);
	pthread_join(t, NULL);
	pthread_attr_destroy(&attr);
}

static void
capture_fp_only(void) {
	void *frames[64];
	unwind_select("auto");
	got.n[0] = unwind(frames, 64);
}

static void
test_threads(void) {
	run_on_thread(capture_all, 0);
	check_agree(12, "thread");
	size_t small = (size_t)sysconf(_SC_THREAD_STACK_MIN);
	run_on_thread(capture_fp_only, small > 16384 ? small : 16384);
	ok(got.n[0] >= 12, "thread with the smallest stack");
}

#ifdef __GLIBC__
static void
on_signal(int sig) {
	(void)sig;
	capture_all();
}

static
__attribute__((noinline)) void
raise_here(void) {
	raise(SIGUSR1);
	__asm__ volatile("");
}

/*
 * libgcc knows a signal's frame on ppc64le by the unwind table of the vDSO, or by the kernel's
 * three instructions that return from it. qemu-user before 8.2 has no vDSO and two instructions, so
 * libgcc's own backtrace ends there.
 */
static bool
has_signal_frames(void) {
#if defined(__powerpc64__)
	return getauxval(AT_SYSINFO_EHDR) != 0;
#else
	return true;
#endif
}

static void
test_signals(void) {
	if (!has_signal_frames()) {
		skip(2, "libgcc cannot leave a signal's frame under this emulator");
		return;
	}
	struct sigaction sa = {.sa_handler = on_signal};
	sigaction(SIGUSR1, &sa, NULL);
	recurse(3, raise_here);
	check_agree(8, "through a signal handler");

	static char stack_memory[1 << 16];
	stack_t alt = {.ss_sp = stack_memory, .ss_size = sizeof(stack_memory)};
	sigaltstack(&alt, NULL);
	sa.sa_flags = SA_ONSTACK;
	sigaction(SIGUSR1, &sa, NULL);
	recurse(3, raise_here);
	check_agree(8, "through a handler with its own stack");
	signal(SIGUSR1, SIG_DFL);
}
#else
static void
test_signals(void) {
	skip(2, "the C library has no unwind tables");
}
#endif

#ifdef __GLIBC__
static ucontext_t main_context, fiber_context;

static void
in_fiber(void) {
	recurse(5, capture_all);
}

static void
test_fiber(void) {
	static char memory[1 << 16];
	getcontext(&fiber_context);
	fiber_context.uc_stack.ss_sp = memory;
	fiber_context.uc_stack.ss_size = sizeof(memory);
	fiber_context.uc_link = &main_context;
	makecontext(&fiber_context, in_fiber, 0);
	swapcontext(&main_context, &fiber_context);
	check_agree(7, "fiber");
	recurse(2, capture_all);
	check_agree(4, "back from the fiber");
}
#else
static void
test_fiber(void) {
	skip(2, "no makecontext");
}
#endif

/* ---- what is remembered from walk to walk ---- */

/* One thread's memo; each walk with it must give what a walk without gives. */
static struct {
	struct unwind_memo_s memo;
	__attribute__((aligned(16))) char marks[48 * 128];
	void *frames[MAX];
	void *plain[MAX];
	unsigned n_walks, n_same, n_wrong;
} walks;

static
__attribute__((noinline)) void
capture_both(void) {
	struct unwind_memo_s nothing = {.lo = 0};
	struct unwind_where_s where;
	UNWIND_HERE(&where);
	unsigned n = unwind_at(walks.plain, got.max, &where, &nothing);
	unsigned with = unwind_at(walks.frames, got.max, &where, &walks.memo);
	walks.n_walks++;
	walks.n_same += walks.memo.is_same;
	if (n != with || memcmp(walks.plain, walks.frames + walks.memo.first, n * sizeof(void *))
	    != 0) {
		if (walks.n_wrong++ == 0) {
			diag("%u frames with the memo, %u without", with, n);
		}
	}
	__asm__ volatile("" ::: "memory");
}

static void
memo_begin(unsigned room) {
	unwind_select("auto");
	memset(&walks, 0, sizeof(walks));
	unwind_memo_set_room(&walks.memo, walks.marks, room);
	got.max = got.max == 0 ? MAX : got.max;
}

static
__attribute__((noinline)) void
way_a(uint64_t path, void (*next)(uint64_t)) {
	volatile char pad[64] = {(char)path};
	next(path);
	next(path ^ (uint64_t)(pad[0] & 1) << 20);
}

static
__attribute__((noinline)) void
way_b(uint64_t path, void (*next)(uint64_t)) {
	next(path);
	__asm__ volatile("");
}

/* Whether code signs return addresses on this processor, as that of whole distributions does. */
#if defined(__aarch64__)
enum { HAS_SIGNED = 1 };
#define SIGNED __attribute__((noinline, target("branch-protection=pac-ret")))
#else
enum { HAS_SIGNED = 0 };
#define SIGNED __attribute__((noinline))
#endif

static
SIGNED void
way_signed(uint64_t path, void (*next)(uint64_t)) {
	next(path);
	__asm__ volatile("");
}

static
SIGNED void
recurse_signed(unsigned depth, void (*fn)(void)) {
	if (depth == 0) {
		fn();
	} else {
		recurse_signed(depth - 1, fn);
	}
	__asm__ volatile("");
}

/* Three bits of the path for each step; 0 ends it. */
static
__attribute__((noinline)) void
wander(uint64_t path) {
	uint64_t rest = path >> 3;
	switch (path & 7) {
	case 0:
		capture_both();
		break;
	case 1:
	case 2:
		way_a(rest, wander);
		break;
	case 3:
		recurse((unsigned)(rest & 15), capture_both);
		break;
	case 4:
		way_signed(rest, wander);
		break;
	default:
		way_b(rest, wander);
		break;
	}
	__asm__ volatile("");
}

static void
test_memo_same(void) {
	memo_begin(48);
	for (unsigned i = 0; i < hide(10); i++) {
		recurse(12, capture_both);
	}
	is_uint(walks.n_wrong, 0, "the same stack ten times");
	is_uint(walks.n_same, HAS_WALK && unwind_has("fp") ? 9 : 0, "and it is known to be the same");
	walks.n_same = 0;
	for (unsigned i = 0; i < hide(20); i++) {
		recurse(i, capture_both);
	}
	recurse(3, capture_both);
	recurse(4, capture_both);
	is_uint(walks.n_wrong, 0, "deeper and deeper, then not");
	is_uint(walks.n_same, 0, "none was taken for the one before");
}

/* How many frames of the last walk with the memo have a signed return address. */
static unsigned
count_signed(void) {
	unsigned n = 0;
	for (unsigned i = walks.memo.known; i < walks.memo.room; i++) {
		n += (walks.memo.marks[i].ra_at & RA_AT_SIGNED) != 0;
	}
	return n;
}

/*
 * Captures from one place, the last two times with a bit of a caller's return address changed that
 * belongs to the signature if there is one.
 */
static
__attribute__((noinline)) void
capture_changed(void) {
	uint64_t *word = NULL;
	for (unsigned i = 0; i < hide(5); i++) {
		unsigned caller = walks.memo.known + 4;
		if (i == 3 && caller < walks.memo.room && walks.memo.marks[caller].ra_at != NOT_READ) {
			word = (uint64_t *)(walks.memo.marks[caller].ra_at & ~RA_AT_SIGNED);
			*word ^= UINT64_C(1) << 53;
		}
		capture_both();
	}
	if (word != NULL) {
		*word ^= UINT64_C(1) << 53;
	}
}

static void
test_memo_signed(void) {
	bool has_memo = HAS_WALK && unwind_has("fp");
	recurse_signed(20, capture_all);
	check_agree(20, "signed return addresses");
	memo_begin(48);
	for (unsigned i = 0; i < hide(10); i++) {
		recurse_signed(12, capture_both);
	}
	is_uint(walks.n_wrong, 0, "the same signed stack ten times");
	is_uint(walks.n_same, has_memo ? 9 : 0, "and it is known to be the same");
	ok(!has_memo || !HAS_SIGNED || count_signed() >= 12, "%u frames are signed", count_signed());
	recurse(12, capture_changed);
	is_uint(walks.n_wrong, 0, "a bit changed in a return address");
	recurse_signed(12, capture_changed);
	is_uint(walks.n_wrong, 0, "a bit changed in a signature");
}

static void
test_memo_random(void) {
	static const unsigned rooms[] = {48, 16, 8, 1, 0};
	for (unsigned r = 0; r < sizeof(rooms) / sizeof(rooms[0]); r++) {
		uint64_t rnd = 99, path = 0;
		memo_begin(rooms[r]);
		for (unsigned i = 0; i < 2000; i++) {
			/* Often nearly the same way as before. */
			path = i % 3 == 0 ? test_random(&rnd) >> 40 : path ^ test_random(&rnd) >> 50;
			got.max = i % 5 == 0 ? 48 + i % 7 : MAX;
			wander(path);
		}
		is_uint(walks.n_wrong, 0, "room for %u: %u walks on many ways, as without memo", rooms[r],
		    walks.n_walks);
	}
	got.max = MAX;
}

/*
 * Stacks that come again are compared by a list of their words, where all of the stack is known to
 * be the thread's own (is_own; not where rows end before it does, as in musl).
 */
static void
test_memo_again(void) {
	uint64_t rnd = 7;
	unsigned n_listed = 0, n_own = 0;
	memo_begin(48);
	for (unsigned i = 0; i < 500; i++) {
		uint64_t path = test_random(&rnd) >> 40;
		for (unsigned j = 0; j < hide(3); j++) {
			wander(path);
		}
		n_listed += walks.memo.n_checks != 0;
		n_own += walks.memo.is_own;
		wander(path ^ UINT64_C(1) << i % 24);
		walks.n_wrong += walks.memo.is_same && walks.memo.n_checks == 0;
	}
	is_uint(walks.n_wrong, 0, "a word changed in a stack that came again");
	ok((n_listed > 200 || n_own == 0) && walks.n_same > 400, "%u of %u were listed, %u the same",
	    n_listed, n_own, walks.n_same);
}

static void
test_memo_forget(void) {
	memo_begin(48);
	recurse(5, capture_both);
	recurse(5, capture_both);
	memset(walks.frames, 0, sizeof(walks.frames));
	unwind_memo_forget(&walks.memo);
	recurse(5, capture_both);
	is_uint(walks.n_wrong, 0, "forgotten: all is read again");
	for (unsigned i = 0; i < hide(4); i++) {
		got.max = i % 2 == 0 ? 48 : MAX;
		recurse(5, capture_both);
		recurse(20, capture_both);
		recurse(44, capture_both);
		recurse(100, capture_both);
		recurse(101, capture_both);
	}
	got.max = MAX;
	is_uint(walks.n_wrong, 0, "another number of frames asked for");
}

static void
with_memo_on_thread(void) {
	recurse(7, capture_both);
}

static void
test_memo_elsewhere(void) {
	memo_begin(48);
	for (unsigned i = 0; i < 3; i++) {
		recurse(3, capture_both);
		run_on_thread(with_memo_on_thread, 0);
	}
#ifdef __GLIBC__
	int v[4] = {4, 3, 2, 1};
	for (unsigned i = 0; i < 3; i++) {
		qsort(v, 4, sizeof(v[0]), compare_and_capture_both);
	}
#endif
	is_uint(walks.n_wrong, 0, "from other stacks with the same memo");
}

/* ---- code that lies, and code without tables ---- */

#if defined(__x86_64__)
/* fp_garbage(fn): a garbage frame pointer, rightly described; fp_hidden: not described at all. */
__asm__(".text\n"
    ".type fp_garbage,@function\n"
    "fp_garbage: .cfi_startproc\n"
    "push %rbp\n .cfi_def_cfa_offset 16\n .cfi_offset %rbp,-16\n"
    "mov %rsi,%rbp\n call *%rdi\n pop %rbp\n"
    ".cfi_restore %rbp\n .cfi_def_cfa_offset 8\n ret\n .cfi_endproc\n"
    ".size fp_garbage,.-fp_garbage\n"
    ".type lying,@function\n"
    "lying: .cfi_startproc\n"
    "push %rbp\n .cfi_def_cfa %rbp, 16\n .cfi_offset %rbp,-16\n"
    "mov %rsi,%rbp\n call *%rdi\n pop %rbp\n"
    ".cfi_def_cfa %rsp, 8\n ret\n .cfi_endproc\n"
    ".size lying,.-lying\n");
void fp_garbage(void (*fn)(void), uintptr_t fp_value);
void lying(void (*fn)(void), uintptr_t fp_value);

/* push %rbp; mov %rsp,%rbp; call *%rdi; pop %rbp; ret */
static const unsigned char jit_with_fp[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
/* push %rbp; mov $1,%ebp; call *%rdi; pop %rbp; ret */
static const unsigned char jit_without_fp[] = {0x55, 0xbd, 1, 0, 0, 0, 0xff, 0xd7, 0x5d, 0xc3};
#elif defined(__aarch64__)
__asm__(".text\n"
    ".type fp_garbage,%function\n"
    "fp_garbage: .cfi_startproc\n"
    "stp x29,x30,[sp,#-16]!\n .cfi_def_cfa_offset 16\n .cfi_offset 29,-16\n"
    ".cfi_offset 30,-8\n mov x29,x1\n blr x0\n ldp x29,x30,[sp],#16\n"
    ".cfi_restore 29\n .cfi_restore 30\n .cfi_def_cfa_offset 0\n ret\n .cfi_endproc\n"
    ".size fp_garbage,.-fp_garbage\n"
    ".type lying,%function\n"
    "lying: .cfi_startproc\n"
    "stp x29,x30,[sp,#-16]!\n .cfi_def_cfa 29, 16\n .cfi_offset 29,-16\n"
    ".cfi_offset 30,-8\n mov x29,x1\n blr x0\n ldp x29,x30,[sp],#16\n"
    ".cfi_def_cfa 31, 0\n ret\n .cfi_endproc\n"
    ".size lying,.-lying\n");
void fp_garbage(void (*fn)(void), uintptr_t fp_value);
void lying(void (*fn)(void), uintptr_t fp_value);

static const uint32_t jit_with_fp[] = {0xa9bf7bfd, 0x910003fd, 0xd63f0000, 0xa8c17bfd, 0xd65f03c0};
static const uint32_t jit_without_fp[] = {0xa9bf7bfd, 0xd280003d, 0xd63f0000, 0xa8c17bfd,
    0xd65f03c0};
#endif

#if defined(__x86_64__) || defined(__aarch64__)
static uintptr_t bad_value;

static void
with_garbage(void) {
	fp_garbage(capture_all, bad_value);
	__asm__ volatile("");
}

static void
capture_auto_only(void) {
	unwind_select("auto");
	got.n[0] = unwind(got.frames[0], MAX);
}

static void
with_lie(void) {
	lying(capture_auto_only, bad_value);
	__asm__ volatile("");
}

static void
test_lies(void) {
	if (unwind_select("fp") != 0) {
		skip(2, "only libgcc, which believes everything");
		return;
	}
	static const uintptr_t values[] = {0, 1, 17, 4096, UINTPTR_MAX, UINTPTR_MAX - 15,
	    (uintptr_t)1 << 46, (uintptr_t)1 << 63, 0x7fffffffe000};
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	bool is_deep = true;
	for (unsigned i = 0; i < sizeof(values) / sizeof(values[0]) + 6; i++) {
		bad_value = i < 9 ? values[i] : here + ((uintptr_t)1 << (4 * (i - 8)));
		recurse(5, with_garbage);
		is_deep = is_deep && got.n[0] >= 9 && is_same(0, 1);
		recurse(5, with_lie);
	}
	ok(is_deep, "a garbage frame pointer that the rows do not use costs nothing");
	pass("rows that lie about the frame pointer do not crash the walk");
}

/* ---- a frame whose row cannot be cached ---- */

#if defined(__x86_64__) && defined(__GLIBC__)
/* odd_frame(fn): its CFA is rightly described, by an expression that rows do not hold. */
__asm__(".text\n"
    ".type odd_frame,@function\n"
    "odd_frame: .cfi_startproc\n"
    "push %rbp\n .cfi_def_cfa_offset 16\n .cfi_offset %rbp,-16\n"
    ".cfi_escape 0x0f,4,0x77,16,0x30,0x22\n"
    "call *%rdi\n pop %rbp\n"
    ".cfi_def_cfa %rsp, 8\n .cfi_restore %rbp\n ret\n .cfi_endproc\n"
    ".size odd_frame,.-odd_frame\n");
void odd_frame(void (*fn)(void));

static uint64_t
fallbacks(void) {
	struct unwind_stats_s s;
	unwind_stats_read(&s);
	return s.fallbacks;
}

static void
with_odd_frame(void) {
	odd_frame(capture_both);
	__asm__ volatile("");
}

static void
with_odd_frame_all(void) {
	odd_frame(capture_all);
	__asm__ volatile("");
}

static void
test_odd_frame(void) {
	if (!unwind_has("fp") || !unwind_has("libgcc")) {
		skip(5, "no method to compare with");
		return;
	}
	recurse(4, with_odd_frame_all);
	ok(is_same(0, 2) && is_same(0, 1) && got.n[0] >= 8,
	    "auto and fp compute its row each time: %u frames", got.n[0]);
	memo_begin(48);
	recurse(4, capture_both);
	uint64_t before = fallbacks();
	recurse(4, with_odd_frame);
	is_uint(fallbacks(), before + 2, "it is counted, once a walk (with the memo and without)");
	before = fallbacks();
	for (unsigned i = 0; i < hide(20); i++) {
		recurse(i % 4, capture_both);
	}
	is_uint(fallbacks(), before, "and none for the next samples of the thread");
	recurse(4, with_odd_frame);
	is_uint(fallbacks(), before + 2, "but for the next of its kind");
	is_uint(walks.n_wrong, 0, "all stacks are the same with and without memo");
}
#else
static void
test_odd_frame(void) {
	skip(5, "not for this processor or C library");
}
#endif

/* A compiler that checks types of functions reads the words in front of what it calls. */
enum { JIT_AT = 64 };
static void *jit_code;

static void
call_jit(void) {
	void (*f)(void (*)(void)) = (void (*)(void (*)(void)))(uintptr_t)jit_code;
	f(capture_auto_only);
	__asm__ volatile("");
}

static bool
make_jit(const void *code, size_t size) {
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	jit_code = page + JIT_AT;
	memcpy(jit_code, code, size);
	__builtin___clear_cache((char *)jit_code, (char *)jit_code + size);
	return mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0;
}

static bool
is_in_jit(const void *pc) {
	return (uintptr_t)pc - (uintptr_t)jit_code < 64;
}

static unsigned
count_in_jit(void) {
	unsigned n = 0;
	for (unsigned i = 0; i < got.n[0]; i++) {
		n += is_in_jit(got.frames[0][i]);
	}
	return n;
}

static void
test_jit(void) {
	if (unwind_select("fp") != 0) {
		skip(3, "libgcc stops there");
		return;
	}
	recurse(6, capture_auto_only);
	unsigned plain = got.n[0];
	if (!make_jit(jit_with_fp, sizeof(jit_with_fp))) {
		skip(3, "no executable memory");
		return;
	}
	recurse(6, call_jit);
	is_uint(got.n[0], plain + 2, "a JIT frame with a frame pointer is walked over");
	is_uint(count_in_jit(), 1, "and is in the stack");
	make_jit(jit_without_fp, sizeof(jit_without_fp));
	recurse(6, call_jit);
	ok(got.n[0] >= 2 && count_in_jit() == 1 && is_in_jit(got.frames[0][got.n[0] - 1]),
	    "one without ends the stack there");
}
/* ---- a stack that was, and is smaller now ---- */

#if defined(__x86_64__) && defined(__GLIBC__)
/* push %rbp; mov %rsi,%rbp; call *%rdi; pop %rbp; ret */
static const unsigned char jit_with_any_fp[] = {0x55, 0x48, 0x89, 0xf5, 0xff, 0xd7, 0x5d, 0xc3};
static char *fiber_stack;
static unsigned n_on_fiber;

static
__attribute__((noinline)) void
capture_with_memo(void) {
	struct unwind_where_s where;
	UNWIND_HERE(&where);
	n_on_fiber = unwind_at(walks.frames, MAX, &where, &walks.memo);
}

static void
on_large_fiber(void) {
	recurse(2, capture_with_memo);
	with_big_frame_of(20000, capture_with_memo);
	with_big_frame_of(50000, capture_with_memo);
}

static void
on_small_fiber(void) {
	void (*f)(void (*)(void), uintptr_t) = (void (*)(void (*)(void), uintptr_t))(uintptr_t)jit_code;
	f(capture_with_memo, (uintptr_t)fiber_stack + 49152);
}

static void
run_fiber(void (*fn)(void), size_t size) {
	getcontext(&fiber_context);
	fiber_context.uc_stack.ss_sp = fiber_stack;
	fiber_context.uc_stack.ss_size = size;
	fiber_context.uc_link = &main_context;
	makecontext(&fiber_context, fn, 0);
	swapcontext(&main_context, &fiber_context);
}

static void
test_stack_shrunk(void) {
	memo_begin(0);
	fiber_stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!unwind_has("fp") || !make_jit(jit_with_any_fp, sizeof(jit_with_any_fp))) {
		skip(2, "no executable memory, or only libgcc");
		return;
	}
	run_fiber(on_large_fiber, 65536);
	ok(walks.memo.hi >= (uintptr_t)fiber_stack + 65536 && walks.memo.lo < (uintptr_t)fiber_stack
	    + 16384, "the whole stack of a fiber is known");
	munmap(fiber_stack + 32768, 32768);
	run_fiber(on_small_fiber, 32768);
	ok(n_on_fiber >= 1, "what is gone is not read by a frame pointer that leads there");
	munmap(fiber_stack, 32768);
}
#else
static void
test_stack_shrunk(void) {
	skip(2, "not for this processor or C library");
}
#endif
#else
static void
test_lies(void) {
	skip(2, "not for this processor");
}

static void
test_odd_frame(void) {
	skip(5, "not for this processor");
}

static void
test_stack_shrunk(void) {
	skip(2, "not for this processor");
}

static void
test_jit(void) {
	skip(3, "not for this processor");
}
#endif

/* ---- the end of the thread's own stack ---- */

/*
 * What the memo holds after a walk that is known up to the page of the thread's TLS, and after one
 * on the stack itself.
 */
struct own_s {
	struct unwind_memo_s below_tls, here;
	uintptr_t below_sp, here_sp;
};

static void *
own_learn(void *arg) {
	struct own_s *own = arg;
	uintptr_t hi = align_down((uintptr_t)tls_get(), os_page_size), at = (uintptr_t)&hi;
	*own = (struct own_s){.below_sp = hi - os_page_size - 64, .here_sp = align_down(at, 8)};
	struct walk_s w = {.sp = own->below_sp, .hi = hi, .memo = &own->below_tls};
	unwind_walk_learn(&w, own->below_sp);
	w = (struct walk_s){.sp = own->here_sp, .hi = align_up(at, os_page_size), .memo = &own->here};
	unwind_walk_learn(&w, own->here_sp);
	return tls_get();
}

/* Whether the memo has an own stack of that end, from the page of sp on; 0: none. */
static bool
is_own(const struct unwind_memo_s *m, uintptr_t sp, uintptr_t end) {
	return m->own_hi == align_down(end, sizeof(end))
	    && m->own_lo == (end == 0 ? 0 : align_down(sp, os_page_size));
}

/* The first thread's TLS lies among the libraries, below which the stack of a coroutine may lie. */
static void
test_own_end(void) {
	static struct own_s own;
	pthread_t t;
	void *tls;
	own_learn(&own);
	ok(is_own(&own.below_tls, own.below_sp, 0),
	    "what lies below the TLS of the first thread is not its stack");
	ok(is_own(&own.here, own.here_sp, (uintptr_t)getauxval(AT_RANDOM)),
	    "which ends at the data of the kernel");
	pthread_create(&t, NULL, own_learn, &own);
	pthread_join(t, &tls);
	ok(is_own(&own.below_tls, own.below_sp, (uintptr_t)tls)
	    && is_own(&own.here, own.here_sp, (uintptr_t)tls), "that of another thread at its TLS");
}

/* A walk that began below what is known of the own stack shows that the stack goes on there. */
static void
test_own_start(void) {
	const uintptr_t lo = 16 * os_page_size, hi = 32 * os_page_size;
	struct unwind_memo_s m = {.own_lo = lo, .own_hi = hi};
	struct walk_s w = {.hi = lo - os_page_size, .memo = &m};
	unwind_walk_learn(&w, lo - 2 * os_page_size);
	is_uint(m.own_lo, lo, "memory below the own stack that ends before it is another one");
	w.hi = lo;
	unwind_walk_learn(&w, lo - 2 * os_page_size + 8);
	is_uint(m.own_lo, lo - 2 * os_page_size, "that which reaches it is the same");
	w.hi = hi;
	unwind_walk_learn(&w, hi - 64);
	is_uint(m.own_lo, lo - 2 * os_page_size, "a walk within it changes nothing");
}

/* What a walk shows of a stack that is not its own: from the page of its start to its end. */
static void
test_other_stack(void) {
	const uintptr_t lo = 40 * os_page_size, hi = 48 * os_page_size;
	struct unwind_memo_s m = {.own_lo = 16 * os_page_size, .own_hi = 32 * os_page_size};
	struct walk_s w = {.hi = hi, .memo = &m};
	unwind_walk_learn(&w, lo + 64);
	ok(m.lo == lo && m.hi == hi, "another stack is noted from the page of the start");
	unwind_walk_learn(&w, hi - 64);
	ok(m.lo == lo && m.hi == hi, "a walk within it changes nothing");
	w.hi = hi - os_page_size;
	unwind_walk_learn(&w, lo - 64);
	ok(m.lo == lo - os_page_size && m.hi == w.hi, "one that begins below it is noted in its place");
	w.hi = hi;
	unwind_walk_learn(&w, lo + 64);
	ok(m.lo == lo && m.hi == hi, "and one that ends above it");
	w.is_moved = true;
	w.hi = hi + os_page_size;
	unwind_walk_learn(&w, lo - 64);
	ok(m.lo == lo && m.hi == hi, "but none that has left its stack");
	is_uint(m.own_lo, 16 * os_page_size, "the own stack stays as it was");
}

/* ---- to another stack ---- */

#if defined(__x86_64__) || defined(__aarch64__)
/* A CIE, and the FDE of all code below 2^63: the CFA is the frame pointer, the pc is below it. */
static unsigned char moving_record[64];

static const unsigned char *
find_moving(uintptr_t pc UNUSED) {
#if defined(__aarch64__)
	enum { FP = 29, RA = 30 };
#else
	enum { FP = 6, RA = 16 };
#endif
	static const unsigned char cie[] = {20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, RA, 1, 0,
		0x0c, FP, 0, 0x80 + RA, 1, 0, 0};
	static const unsigned char fde[] = {28, 0, 0, 0, sizeof(cie) + 4, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f};
	memcpy(moving_record, cie, sizeof(cie));
	memcpy(moving_record + sizeof(cie), fde, sizeof(fde));
	return moving_record + sizeof(cie);
}

static
__attribute__((noinline)) uintptr_t
behind_a_call(void) {
	return (uintptr_t)__builtin_return_address(0);
}

/*
 * Three stacks of two pages, with pages around that cannot be read. A walk on the middle one comes
 * to a row that leads elsewhere: the whole of its state then. Places are in pages and bytes.
 */
static void
test_moves(void) {
	enum { LOW = 1, MID = 4, HIGH = 7, END = 10 };
	static const struct {
		int page, byte, guard_page, guard_byte;
		unsigned n_before;
		bool moves;
	} of[] = {
		{LOW, 8, 0, 0, 0, true}, {LOW, 0, 0, 0, 0, false}, {LOW, 64, 0, 0, 0, true},
		{LOW, 68, 0, 0, 0, false}, {LOW + 1, 0, 0, 0, 0, true}, {LOW + 2, 0, 0, 0, 0, true},
		{LOW + 2, 8, 0, 0, 0, false}, {HIGH, 0, MID, 0, 0, false}, {HIGH, 8, MID, 0, 0, true},
		{HIGH + 1, 16, MID, 0, 15, true}, {HIGH + 1, 16, MID, 0, 16, false},
		{HIGH + 2, 0, MID, 0, 0, true}, {HIGH + 2, 8, MID, 0, 0, false},
		/* Where the guarded unwinder will be: 64 KiB below the guard. */
		{LOW, 64, LOW, 0, 0, true}, {LOW, 64, LOW, 8, 0, false}, {LOW + 1, 8, LOW + 1, 0, 0, true},
		{LOW + 1, 0, LOW + 1, 0, 0, false}, {LOW, 64, LOW, 64 + (64 << 10), 0, true},
		{LOW, 64, LOW, 56 + (64 << 10), 0, false},
	};
	size_t page = os_page_size;
	unsigned char *map = mmap(NULL, END * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
	    -1, 0);
	uintptr_t base = (uintptr_t)map, ra = behind_a_call();
	struct unwind_memo_s memo = {.lo = 0};
	for (size_t i = 0; i < END * page / sizeof(ra); i++) {
		memcpy(map + i * sizeof(ra), &ra, sizeof(ra));
	}
	for (unsigned i = 0; i < END; i += 3) {
		mprotect(map + i * page, page, PROT_NONE);
	}
	for (unsigned i = 0; i < ARRAY_LEN(of); i++) {
		uintptr_t cfa = base + (uintptr_t)of[i].page * page + (uintptr_t)of[i].byte;
		uintptr_t sp = base + MID * page + 64, hi = base + (MID + 1) * page;
		struct walk_s w = {.pc = base + 1, .sp = sp, .hi = hi, .fp = cfa, .memo = &memo,
			.n_moves = of[i].n_before, .guard_sp = base + (uintptr_t)of[i].guard_page * page
			+ (uintptr_t)of[i].guard_byte};
		struct walk_s plain = w;
		plain.guard_sp = 0;
		bool is_done = unwind_step_guard(&w, find_moving) == 0;
		ok(is_done == of[i].moves && w.is_moved == is_done
		    && w.n_moves == of[i].n_before + is_done && !w.is_own
		    && w.hi == (is_done ? align_up(cfa, page) : hi) && (!is_done || w.sp == cfa)
		    && (!is_done || (w.pc == ra && w.fp == cfa)),
		    "a CFA at page %d + %d, guard %d + %d: %s", of[i].page, of[i].byte,
		    of[i].guard_page, of[i].guard_byte,
		    of[i].moves ? "the walk goes there" : "none");
		ok(unwind_step_guard(&plain, find_moving) != 0 && !plain.is_moved, "none without a guard");
	}
	for (uintptr_t cfa = 0; cfa <= page; cfa += page / 2) {
		struct walk_s w = {.pc = base + 1, .sp = base + MID * page, .hi = base + (MID + 1) * page,
			.fp = cfa, .memo = &memo, .guard_sp = base + MID * page};
		ok(unwind_step_guard(&w, find_moving) != 0 && !w.is_moved, "a CFA of %#zx", (size_t)cfa);
	}
	munmap(map, END * page);
}
#else
static void
test_moves(void) {
	skip(1, "no walk for this machine");
}
#endif

/* ---- the front ---- */

static void *hint_frames[8];
static unsigned hint_n;

static
__attribute__((noinline)) void
inner(const struct unwind_where_s *where) {
	struct unwind_memo_s nothing = {.lo = 0};
	hint_n = unwind_at(hint_frames, 8, where, &nothing);
	__asm__ volatile("");
}

static
__attribute__((noinline)) void *
entry(void) {
	struct unwind_where_s where;
	UNWIND_HERE(&where);
	inner(&where);
	return __builtin_return_address(0);
}

static void
test_hint(void) {
	for (unsigned m = 0; m < N_METHODS; m++) {
		if (unwind_select(method_names[m]) != 0) {
			continue;
		}
		void *ra = entry();
		ok(hint_n > 0 && hint_frames[0] == ra, "%s: first frame is the caller of the entry",
		    method_names[m]);
	}
}

#if defined(__x86_64__)
/* push %rbp and mov %rsp,%rbp right before pc, where a page begins and may be the first one. */
static void
test_setting_at_page(void) {
	static const unsigned char setting[] = {0x55, 0x48, 0x89, 0xe5};
	size_t page = os_page_size;
	unsigned char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
	    0);
	for (size_t pc = page - 3; pc <= page + 8; pc++) {
		memset(p, 0x90, 2 * page);
		memcpy(p + pc - sizeof(setting), setting, sizeof(setting));
		ok(code_keeps_frame((uintptr_t)p + pc, 0), "set before byte %zu", pc - page);
	}
	memset(p, 0x90, 2 * page);
	mprotect(p, page, PROT_NONE);
	for (size_t pc = page + 1; pc <= page + 4; pc++) {
		ok(!code_keeps_frame((uintptr_t)p + pc, 0), "not set, and no page before it");
	}
	munmap(p, 2 * page);
}
/* ---- the forms of the machine code, byte by byte ---- */

/* Pages of "nop" in no object, AT in a page and with one of any size below; some in ours. */
static unsigned char *nops;
static unsigned char own_nops[64];

enum { AT = 3 * 65536 + 100, NOPS = 4 * 65536 };

static void
nops_clear(void) {
	memset(nops, 0x90, NOPS);
}

static void
nops_put(size_t at, size_t n, const char *bytes) {
	memcpy(nops + at, bytes, n);
}

static bool
keeps(size_t pc, size_t ra) {
	return code_keeps_frame((uintptr_t)nops + pc, ra == 0 ? 0 : (uintptr_t)nops + ra);
}

static void
test_setting_forms(void) {
	static const char *const forms[] = {"\x48\x89\xe5", "\x48\x8b\xec"};
	unsigned bad = 0;
	for (unsigned f = 0; f < ARRAY_LEN(forms); f++) {
		for (size_t d = 0; d < 20; d++) {
			nops_clear();
			nops[AT - d] = 0x55;
			nops_put(AT, 3, forms[f]);
			bad += wrong_if(keeps(AT + 3, 0) != (d >= 1 && d <= 16));
			bad += wrong_if(keeps(AT + 2, 0));
		}
		for (unsigned k = 0; k < 3; k++) {
			nops_clear();
			nops[AT - 1] = 0x55;
			nops_put(AT, 3, forms[f]);
			nops[AT + k] ^= 0x40;
			bad += wrong_if(keeps(AT + 8, 0));
		}
		nops_clear();
		nops[AT - 1] = 0x55;
		nops_put(AT, 3, forms[f]);
		bad += wrong_if(!keeps(AT + (16 << 10) - 1, 0)) || wrong_if(keeps(AT + (16 << 10), 0));
	}
	is_uint(bad, 0, "what sets a frame pointer, and how far before");
}

static void
test_ending_forms(void) {
	unsigned bad = 0;
	nops_clear();
	nops_put(AT, 4, "\x55\x48\x89\xe5");
	for (unsigned first = 0; first < 256; first++) {
		for (unsigned second = 0; second < 256; second++) {
			bool ends = (first == 0x5d || first == 0xc9) && (second == 0xc3 || second == 0xc2
			    || second == 0xf3 || second == 0xe9 || second == 0xeb);
			nops[AT + 8] = (unsigned char)first;
			nops[AT + 9] = (unsigned char)second;
			bad += keeps(AT + 16, 0) == ends;
		}
	}
	is_uint(bad, 0, "what ends a function, of all pairs of bytes");
}

/* A call at `ra` - n whose operand at ra - 4 leads to `to`. */
static void
nops_call(size_t ra, size_t n, const char *op, size_t to) {
	int32_t distance = (int32_t)((ptrdiff_t)to - (ptrdiff_t)ra);
	nops_put(ra - n, n - 4, op);
	memcpy(nops + ra - 4, &distance, sizeof(distance));
}

/* The call names a function `before` bytes before the setting at AT + 1; by which way? */
static bool
keeps_called(unsigned way, ptrdiff_t before) {
	static const char *const stubs[] = {"\xff\x25", "\xf3\x0f\x1e\xfa\xff\x25",
	    "\xf2\xff\x25", "\xf3\x0f\x1e\xfa\xf2\xff\x25"};
	const size_t ra = 4096, slot = 8192, stub = 2 * 8192;
	uintptr_t function = (uintptr_t)nops + AT + 1 - (size_t)before;
	nops_clear();
	nops_put(AT, 4, "\x55\x48\x89\xe5");
	memcpy(nops + slot, &function, sizeof(function));
	if (way == 0) {
		nops_call(ra, 5, "\xe8", function - (uintptr_t)nops);
	} else if (way == 1) {
		nops_call(ra, 6, "\xff\x15", slot);
	} else {
		size_t n = strlen(stubs[way - 2]);
		nops_call(ra, 5, "\xe8", stub);
		nops_call(stub + n + 4, n + 4, stubs[way - 2], slot);
	}
	return keeps(AT + 8, ra);
}

static void
test_calls_of(void) {
	unsigned bad = 0;
	for (unsigned way = 0; way < 6; way++) {
		for (ptrdiff_t before = -70; before < 140; before++) {
			bad += wrong_if(keeps_called(way, before) != (before >= 0 && before <= 64));
		}
	}
	is_uint(bad, 0, "a call names the function: directly, by a slot, by each kind of stub");
	nops_clear();
	nops_put(AT, 4, "\x55\x48\x89\xe5");
	nops_call(4096, 6, "\xff\x16", 8192);
	ok(keeps(AT + 8, 4096), "a call of another form names none");
}

static bool
is_call(size_t at) {
	return code_is_call_in_object((uintptr_t)own_nops + at);
}

static void
test_call_forms(void) {
	unsigned bad = 0;
	const size_t at = 32;
	memset(own_nops, 0x90, sizeof(own_nops));
	bad += wrong_if(is_call(at));
	for (size_t n = 1; n < 10; n++) {
		for (unsigned modrm = 0; modrm < 256; modrm++) {
			memset(own_nops, 0x90, sizeof(own_nops));
			own_nops[at - n] = 0xff;
			own_nops[at - n + 1] = (unsigned char)modrm;
			bool is_near = n >= 2 && n <= 7 && (modrm & 0x38) == 0x10;
			/* 0xe8 is a call of its own, and a second 0xff is followed by 0x90, which is /2 */
			is_near = is_near || (n == 6 && modrm == 0xe8);
			is_near = is_near || (n >= 3 && n <= 8 && modrm == 0xff);
			bad += wrong_if(is_call(at) != is_near);
		}
		memset(own_nops, 0x90, sizeof(own_nops));
		own_nops[at - n] = 0xe8;
		bad += wrong_if(is_call(at) != (n == 5));
	}
	is_uint(bad, 0, "what is a call, of all bytes before its end");
	memcpy(nops + AT - 5, "\xe8", 1);
	ok(!code_is_call_in_object((uintptr_t)nops + AT), "in no object there is none");
	ok(!code_is_call_in_object(0) && !code_is_call_in_object(1)
	    && !code_is_call_in_object(UINTPTR_MAX), "nor at the ends");
}

static void
test_forms(void) {
	nops = mmap(NULL, NOPS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	test_setting_forms();
	test_ending_forms();
	test_calls_of();
	test_call_forms();
	munmap(nops, NOPS);
}
#else
static void
test_setting_at_page(void) {}

static void
test_forms(void) {}
#endif

static
__attribute__((noinline)) unsigned
walk_from(unsigned depth, unsigned room) {
	void *frames[64];
	unsigned n = depth == 0 ? unwind(frames, room) : walk_from(depth - 1, room);
	__asm__ volatile("" : : "r"(frames) : "memory");
	return n;
}

/* How many walks of a stack with 20 frames or more ended for this reason; of one walk. */
static unsigned
ends_as(unwind_stop_t why, unsigned room) {
	struct unwind_stats_s before, after;
	unwind_stats_read(&before);
	walk_from(20, room);
	unwind_stats_read(&after);
	return (unsigned)(after.stops[why] - before.stops[why]);
}

static void
test_stops(void) {
	for (unsigned m = 0; m < N_METHODS; m++) {
		if (unwind_select(method_names[m]) != 0) {
			continue;
		}
		is_uint(ends_as(unwind_stop_full, 8), 1, "%s: little room: it is full", method_names[m]);
		is_uint(ends_as(unwind_stop_full, 16), 1, "%s: more room", method_names[m]);
		is_uint(ends_as(unwind_stop_full, 64), 0, "%s: room enough", method_names[m]);
	}
}

/* All counters but `moved` are the same. */
static bool
are_others_same(const struct unwind_stats_s *a, const struct unwind_stats_s *b,
    const uint64_t *moved) {
	bool are_same = &a->fallbacks == moved || a->fallbacks == b->fallbacks;
	for (unsigned i = 0; i < unwind_stop_count; i++) {
		are_same = are_same && (&a->stops[i] == moved || a->stops[i] == b->stops[i]);
	}
	for (unsigned i = 0; i < UNWIND_DEPTH_BUCKETS; i++) {
		are_same = are_same && (&a->depths[i] == moved || a->depths[i] == b->depths[i]);
	}
	return are_same;
}

/* Each counter is moved by itself, is told, and moves no other one. */
static void
test_counters(void) {
	struct unwind_stats_s before, after;
	for (unsigned i = 0; i < unwind_stop_count; i++) {
		unwind_stats_read(&before);
		unwind_count_stop((unwind_stop_t)i);
		unwind_stats_read(&after);
		ok(after.stops[i] == before.stops[i] + 1 && after.samples == before.samples
		    && are_others_same(&after, &before, &after.stops[i]), "ends as %s",
		    unwind_stop_name((unwind_stop_t)i));
	}
	unwind_stats_read(&before);
	unwind_count_fallback();
	unwind_stats_read(&after);
	ok(after.fallbacks == before.fallbacks + 1 && after.samples == before.samples
	    && are_others_same(&after, &before, &after.fallbacks), "fallbacks");
	/* No frame at all, and the least and the greatest number of frames of each bucket. */
	for (unsigned i = 0; i < 2 * UNWIND_DEPTH_BUCKETS + 2; i++) {
		unsigned n = i == 0 ? 0 : i % 2 != 0 ? 1u << i / 2 : (1u << i / 2) - 1;
		unsigned bucket = i == 0 ? 0 : min_zu((i - 1) / 2, UNWIND_DEPTH_BUCKETS - 1);
		unwind_stats_read(&before);
		unwind_count_sample(n);
		unwind_stats_read(&after);
		ok(after.depths[bucket] == before.depths[bucket] + 1
		    && after.samples == before.samples + 1
		    && are_others_same(&after, &before, &after.depths[bucket]), "%u frames", n);
	}
}

#if CONFIG_PROF_LIBGCC && !defined(__arm__)
#include <unwind.h>

/* The system's walk, which may call functions that set errno. */
static unsigned n_walks;

_Unwind_Reason_Code
_Unwind_Backtrace(_Unwind_Trace_Fn fn, void *ctx) {
	static _Unwind_Reason_Code (*walk)(_Unwind_Trace_Fn, void *);
	if (walk == NULL) {
		*(void **)&walk = dlsym(RTLD_NEXT, "_Unwind_Backtrace");
	}
	_Unwind_Reason_Code code = walk != NULL ? walk(fn, ctx) : _URC_FATAL_PHASE1_ERROR;
	n_walks++;
	errno = 4711;
	return code;
}

static void
test_libgcc_errno(void) {
	void *frames[8];
	is_int(unwind_select("libgcc"), 0, "libgcc");
	n_walks = 0;
	errno = 77;
	unwind(frames, 8);
	is_int(errno, 77, "errno is kept");
	ok(n_walks > 0, "whatever the walk does with it");
	unwind_select("auto");
}
#else
static void
test_libgcc_errno(void) {
}
#endif

static void
test_front(void) {
	is_int(unwind_select("nonsense"), ENOTSUP, "unknown method");
	is_int(unwind_select("none"), ENOTSUP, "none is no method");
	void *frame;
	is_int(unwind_select("auto"), 0, "auto");
	ok(unwind_has(unwind_name()) && strcmp(unwind_name(), "none") != 0, "a method runs: %s",
	    unwind_name());
	errno = 77;
	unwind(&frame, 1);
	is_int(errno, 77, "errno is kept");
	is_uint(unwind(&frame, 0), 0, "no room, no frames");
	for (unsigned i = 0; i < unwind_stop_count; i++) {
		ok(strlen(unwind_stop_name((unwind_stop_t)i)) > 0, "stop %u has a name", i);
	}
	struct unwind_stats_s s;
	unwind_stats_read(&s);
	ok(s.samples > 0 && s.stops[unwind_stop_full] > 0, "samples are counted");
}

static void
test_generation(void) {
	struct unwind_stats_s before, after;
	unwind_select("auto");
	module_history_try_look();
	unwind_stats_read(&before);
	module_history_try_look();
	unwind_stats_read(&after);
	uint64_t adds, subs;
	if (!unwind_has("fp") || !sys_module_changes(&adds, &subs)) {
		skip(3, "no unload counter");
		return;
	}
	is_uint(after.generations, before.generations, "nothing unloaded, same generation");
	void *handle = NULL;
	static const char *const names[] = {"libm.so.6", "libresolv.so.2", "libutil.so.1"};
	for (unsigned i = 0; i < 3 && handle == NULL; i++) {
		handle = dlopen(names[i], RTLD_NOW | RTLD_NOLOAD) == NULL ? dlopen(names[i], RTLD_NOW)
		    : NULL;
	}
	if (handle == NULL || dlclose(handle) != 0) {
		skip(2, "no library to load");
		return;
	}
	module_history_try_look();
	unwind_stats_read(&after);
	is_uint(after.generations, before.generations + 1, "an unload makes a new generation");
	recurse(5, capture_all);
	check_agree(7, "in the new generation");
}

/* ---- many threads against dlopen ---- */

static atomic_u32_t stop_threads;
static atomic_u32_t n_bad;

static void *
hammer(void *arg) {
	(void)arg;
	while (atomic_load_u32(&stop_threads, MO_RELAXED) == 0) {
		void *frames[64];
		if (unwind(frames, 64) < 2) {
			atomic_fetch_add_u32(&n_bad, 1, MO_RELAXED);
		}
	}
	return NULL;
}

static void
test_hammer(void) {
	pthread_t t[3];
	unwind_select("auto");
	for (unsigned i = 0; i < 3; i++) {
		pthread_create(&t[i], NULL, hammer, NULL);
	}
	int64_t until = test_now_ms() + 300;
	while (test_now_ms() < until) {
		void *handle = dlopen("libresolv.so.2", RTLD_NOW);
		if (handle != NULL) {
			dlclose(handle);
		}
		module_history_try_look();
	}
	atomic_store_u32(&stop_threads, 1, MO_RELAXED);
	for (unsigned i = 0; i < 3; i++) {
		pthread_join(t[i], NULL);
	}
	is_uint(atomic_load_u32(&n_bad, MO_RELAXED), 0, "stacks are whole while objects come and go");
}

int
main(void) {
	void *frame;

	is_uint(unwind(&frame, 1), 0, "without a method there are no frames");
	is_str(unwind_name(), "none", "it has a name");
	is_int(unwind_select("auto"), 0, "an unwinder is built in");
	test_ordinary();
	test_threads();
	test_signals();
	test_fiber();
	test_memo_same();
	test_memo_signed();
	test_memo_random();
	test_memo_again();
	test_memo_forget();
	test_memo_elsewhere();
	test_lies();
	test_odd_frame();
	test_jit();
	test_stack_shrunk();
	test_own_end();
	test_own_start();
	test_other_stack();
	test_moves();
	test_hint();
	test_generation();
	test_hammer();
	test_stops();
	test_counters();
	test_setting_at_page();
	test_forms();
	test_front();
	test_libgcc_errno();
	return done_testing();
}

#else

int
main(void) {
	plan_skip_all("no unwinder built in");
}

#endif
