/*
 * operator new and delete in all their forms: they come from the library, alignment
 * holds, failure throws or gives NULL, the new-handler is called until it gives up, and
 * thread_local objects may allocate to the very end of a thread.
 */
#include "ctl.h"
#include <malloc.h>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

/* Sized forms are declared here because clang does so only when it is asked to. */
void operator delete(void *, size_t) noexcept;
void operator delete[](void *, size_t) noexcept;
void operator delete(void *, size_t, std::align_val_t) noexcept;
void operator delete[](void *, size_t, std::align_val_t) noexcept;

static unsigned
owner(void *p) {
	unsigned arena = 0;
	size_t len = sizeof(arena);

	return mallctl("arenas.lookup", &arena, &len, &p, sizeof(p)) == 0 ? arena : UINT_MAX;
}

static void
test_forms() {
	size_t bad = 0;

	for (size_t n = 0; n < 200000; n = n * 2 + 7) {
		void *p = keep(::operator new(n));
		void *q = keep(::operator new[](n));
		void *r = keep(::operator new(n, std::nothrow));
		void *s = keep(::operator new[](n, std::nothrow));

		bad += wrong_if(owner(p) == UINT_MAX) || wrong_if(owner(q) == UINT_MAX)
		    || wrong_if(owner(r) == UINT_MAX) || wrong_if(owner(s) == UINT_MAX)
		    || wrong_if(malloc_usable_size(p) < n) || wrong_if(p == q) || wrong_if(r == s);
		::operator delete(p, n);
		::operator delete[](q, n);
		::operator delete(r, std::nothrow);
		::operator delete[](s, std::nothrow);
		p = keep(::operator new(n));
		q = keep(::operator new[](n));
		::operator delete(p);
		::operator delete[](q);
	}
	is_uint(bad, 0, "plain forms come from the library");
	::operator delete(nullptr);
	::operator delete[](nullptr);
	::operator delete(nullptr, (size_t)8);
	::operator delete[](nullptr, (size_t)8);
	::operator delete(nullptr, std::align_val_t(64));
	::operator delete(nullptr, (size_t)8, std::align_val_t(64));
	::operator delete(nullptr, std::nothrow);
	pass("delete of NULL");
}

static void
test_aligned_forms() {
	size_t bad = 0;

	for (size_t a = 1; a <= (size_t)1 << 20; a *= 2) {
		std::align_val_t al{a};

		for (size_t n = 0; n < 100000; n = n * 3 + 1) {
			void *p = keep(::operator new(n, al));
			void *q = keep(::operator new[](n, al));
			void *r = keep(::operator new(n, al, std::nothrow));
			void *s = keep(::operator new[](n, al, std::nothrow));

			bad += ((uintptr_t)p | (uintptr_t)q | (uintptr_t)r | (uintptr_t)s) & (a - 1);
			bad += wrong_if(owner(p) == UINT_MAX) || wrong_if(owner(s) == UINT_MAX);
			::operator delete(p, n, al);
			::operator delete[](q, n, al);
			::operator delete(r, al, std::nothrow);
			::operator delete[](s, al, std::nothrow);
			p = keep(::operator new(n, al));
			q = keep(::operator new[](n, al));
			::operator delete(p, al);
			::operator delete[](q, al);
		}
	}
	is_uint(bad, 0, "aligned forms are aligned");
}

static int handled;

static void
handler_that_gives_up() {
	if (++handled == 3)
		std::set_new_handler(nullptr);
}

static void
handler_that_throws() {
	handled++;
	throw std::bad_alloc();
}

static void
handler_of_another_kind() {
	handled++;
	throw std::runtime_error("not bad_alloc");
}

template <class F>
static const char *
thrown_by(F f) {
	try {
		f();
	} catch (const std::bad_alloc &) {
		return "bad_alloc";
	} catch (const std::exception &) {
		return "other";
	}
	return "nothing";
}

static void
test_failure() {
	size_t n = hide((size_t)1 << 62);
	std::align_val_t al{64};

	is_str(thrown_by([&] { keep(::operator new(n)); }), "bad_alloc", "new");
	is_str(thrown_by([&] { keep(::operator new[](n)); }), "bad_alloc", "new[]");
	is_str(thrown_by([&] { keep(::operator new(n, al)); }), "bad_alloc", "aligned new");
	is_str(thrown_by([&] { keep(::operator new[](n, al)); }), "bad_alloc", "aligned new[]");
	errno = 0;
	ok(keep(::operator new(n, std::nothrow)) == nullptr && errno == ENOMEM, "nothrow new, ENOMEM");
	errno = 0;
	ok(keep(::operator new[](n, std::nothrow)) == nullptr && errno == ENOMEM,
	    "nothrow new[], ENOMEM");
	ok(keep(::operator new(n, al, std::nothrow)) == nullptr, "nothrow aligned new");
	ok(keep(::operator new[](n, al, std::nothrow)) == nullptr, "nothrow aligned new[]");
	is_str(thrown_by([] { std::vector<char> v(hide((size_t)1 << 61)); }), "bad_alloc",
	    "a vector that is too large");
}

static void
test_handlers() {
	size_t n = hide((size_t)1 << 62);

	std::set_new_handler(handler_that_gives_up);
	handled = 0;
	is_str(thrown_by([&] { keep(::operator new(n)); }), "bad_alloc", "a handler that gives up");
	is_int(handled, 3, "was called until then");
	std::set_new_handler(handler_that_throws);
	handled = 0;
	is_str(thrown_by([&] { keep(::operator new[](n)); }), "bad_alloc", "a handler that throws");
	is_int(handled, 1, "was called once");
	handled = 0;
	ok(keep(::operator new(n, std::nothrow)) == nullptr && handled == 1,
	    "the nothrow form gives NULL when the handler throws");
	ok(keep(::operator new(n, std::align_val_t(64), std::nothrow)) == nullptr && handled == 2,
	    "the aligned one too");
	std::set_new_handler(handler_of_another_kind);
	is_str(thrown_by([&] { keep(::operator new(n)); }), "other", "what it throws goes through");
	std::set_new_handler(nullptr);
}

static void
remember(const char *message) {
	printf("heard %s", message);
}

/* With a function in place of abort, new gives NULL when that returns. */
static int
child_infallible() {
	size_t n = hide((size_t)1 << 62);
	void (*hook)(const char *) = remember;

	if (ctl_write("experimental.hooks.safety_check_abort", hook) != 0)
		return 1;
	printf("%s %s\n", keep(::operator new(n)) == nullptr ? "null" : "other",
	    keep(::operator new[](n, std::nothrow)) == nullptr ? "null" : "other");
	return 0;
}

static int
child_infallible_end() {
	return keep(::operator new(hide((size_t)1 << 62))) == nullptr ? 1 : 2;
}

static void
test_infallible() {
	static const char words[] = "<jemalloc>: Allocation of size 4611686018427387904 failed. "
	    "opt.experimental_infallible_new is true. Aborting.\n";
	static struct test_result r;

	run_child_conf(&r, "infallible_end", "experimental_infallible_new:true");
	ok(died_of(&r, SIGABRT), "experimental_infallible_new ends the process");
	is_str(r.out, words, "its message");
	run_child_conf(&r, "infallible", "experimental_infallible_new:true");
	child_exits(&r, 0, "a hook in place of abort");
	contains(r.out, words, "hears it");
	contains(r.out, "null null\n", "and new gives NULL");
}

static struct rlimit no_limit = {RLIM_INFINITY, RLIM_INFINITY};

static void
handler_that_helps() {
	handled++;
	setrlimit(RLIMIT_AS, &no_limit);
}

/* The second try, after the handler made room, must still be aligned. */
static void
retry_now(void *) {
	struct rlimit r = {proc_status_bytes("VmSize") + (4 << 20), RLIM_INFINITY};
	void *p;

	handled = 0;
	std::set_new_handler(handler_that_helps);
	setrlimit(RLIMIT_AS, &r);
	p = keep(::operator new((size_t)64 << 20, std::align_val_t(1 << 21)));
	_exit(handled == 1 && ((uintptr_t)p & ((1 << 21) - 1)) == 0 ? 0 : 1);
}

static void
test_retry() {
	static struct test_result r;

	run_forked(&r, retry_now, nullptr);
	child_exits(&r, 0, "a retry of an aligned form is aligned");
}

struct last_words {
	std::string *text = new std::string("kept to the end, longer than the small buffer");
	~last_words()
	{
		std::map<int, std::string> m;

		for (int i = 0; i < 100; i++)
			m[i] = std::string((size_t)i * 50, 'x');
		delete text;
	}
};

static thread_local last_words words;
static thread_local std::vector<std::string> lines;

static void
test_thread_local() {
	for (int i = 0; i < 30; i++) {
		std::thread t([i] {
			for (int j = 0; j < 200; j++)
				lines.push_back(*words.text + std::to_string(i * j));
		});

		t.join();
	}
	pass("thread_local objects allocate in their destructors");
}

struct
alignas(128) wide {
	char c[200];
};

static void
test_containers() {
	std::vector<std::thread> threads;
	size_t bad = 0;

	for (int t = 0; t < 4; t++) {
		threads.emplace_back([&bad, t] {
			std::map<std::string, std::vector<int>> m;

			for (int i = 0; i < 3000; i++)
				m[std::to_string(i * 7919 % 1000 + t)].push_back(i);
			std::vector<wide> w(100);
			if (((uintptr_t)w.data() & 127) != 0)
				__atomic_fetch_add(&bad, 1, __ATOMIC_RELAXED);
			wide *one = new wide;
			if (((uintptr_t)keep(one) & 127) != 0)
				__atomic_fetch_add(&bad, 1, __ATOMIC_RELAXED);
			delete one;
		});
	}
	for (auto &t : threads)
		t.join();
	is_uint(bad, 0, "containers in four threads, over-aligned types");
}

static const struct test_child children[] = {
	{"infallible", child_infallible},
	{"infallible_end", child_infallible_end},
	{nullptr, nullptr},
};

int
main(int argc, char **argv) {
	test_children(argc, argv, children);
	test_forms();
	test_aligned_forms();
	test_failure();
	test_handlers();
	test_infallible();
	test_retry();
	test_thread_local();
	test_containers();
	return done_testing();
}
