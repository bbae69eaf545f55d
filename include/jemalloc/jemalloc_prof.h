/*
 * Labels of the heap profiler: a thread says what it works for, a tenant, a request, a phase, and a profile tells
 * how much of its live memory was allocated for each ("jeprof top --by label").
 *
 *   uint32_t id = jemalloc_prof_label_intern("tenant-7");     once for each text
 *   uint32_t old = jemalloc_prof_label_switch(id);            two instructions and a test
 *   serve(request);
 *   jemalloc_prof_label_switch(old);
 *
 * or, in C++, which puts back what was there when the scope ends:
 *
 *   jemalloc_prof_label_scope scope("tenant-7");              or (id)
 *
 * For C99 and later, C++11 and later. A program that includes this header is not linked with the library by it:
 * it finds mallctl() when it runs, as when the library is preloaded; only a program that is not position-independent
 * (-no-pie) has to be linked with it. With another allocator, or a library without the profiler, the calls do
 * nothing. Experimental, see jemalloc(3), thread.prof.label.
 *
 * A label belongs to the thread; a new thread has none. Texts have at most 255 bytes and are kept until the
 * process ends: 65535 of them, or 4 MiB.
 */
#ifndef JEMALLOC_PROF_H_
#define JEMALLOC_PROF_H_

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

/* The name of the symbol; define it before, if the library was configured with --with-jemalloc-prefix. */
#ifndef JEMALLOC_PROF_MALLCTL
#define JEMALLOC_PROF_MALLCTL "mallctl"
#endif

#ifdef __cplusplus
extern "C" {
#endif

static int jemalloc_prof_mallctl_(const char *, void *, size_t *, void *, size_t)
    __attribute__((weakref(JEMALLOC_PROF_MALLCTL)));

/* Where the number of this thread's label lies, NULL: not asked yet; and a word to write to if there is no such place. */
static __thread uint32_t *jemalloc_prof_label_at_;
static __thread uint32_t jemalloc_prof_label_unused_;

static __inline__ int
jemalloc_prof_ctl_(const char *name, void *old, size_t old_bytes, void *in, size_t in_bytes) {
	int (*ctl)(const char *, void *, size_t *, void *, size_t) = jemalloc_prof_mallctl_;
	return ctl == NULL ? ENOENT : ctl(name, old, old == NULL ? NULL : &old_bytes, in, in_bytes);
}

/*
 * The word with the number of the calling thread's label, 0 for none. The thread itself may read and write it
 * while it lives; keep the address where a switch has to cost least.
 */
static __inline__ uint32_t *
jemalloc_prof_label_word(void) {
	if (__builtin_expect(jemalloc_prof_label_at_ == NULL, 0)) {
		uint32_t *at = NULL;
		if (jemalloc_prof_ctl_("thread.prof.labelp", &at, sizeof(at), NULL, 0) != 0) {
			at = &jemalloc_prof_label_unused_;
		}
		jemalloc_prof_label_at_ = at;
	}
	return jemalloc_prof_label_at_;
}

/* The number of a text; 0: it is empty, NULL or too long, a limit is reached, or there is no such library. */
static __inline__ uint32_t
jemalloc_prof_label_intern(const char *text) {
	uint32_t id = 0;
	int err = jemalloc_prof_ctl_("prof.label_id", &id, sizeof(id), &text, sizeof(text));
	return err == 0 ? id : 0;
}

/* Makes that the thread's label and returns the number of the one before. */
static __inline__ uint32_t
jemalloc_prof_label_switch(uint32_t id) {
	uint32_t *at = jemalloc_prof_label_word();
	uint32_t old = *at;
	*at = id;
	return old;
}

/*
 * Sets the label by its text, at the cost of a look-up. 0, or an errno, and the thread keeps its label: EINVAL:
 * NULL, or too long; EAGAIN: a limit is reached; ENOENT: there is no such library.
 */
static __inline__ int
jemalloc_prof_label_set(const char *text) {
	return jemalloc_prof_ctl_("thread.prof.label", NULL, 0, &text, sizeof(text));
}

static __inline__ void
jemalloc_prof_label_clear(void) {
	(void)jemalloc_prof_label_switch(0);
}

#ifdef __cplusplus
}

/* The label of a scope: one thread makes and ends it. A text that is refused leaves the label as it is. */
class jemalloc_prof_label_scope {
public:
	explicit jemalloc_prof_label_scope(uint32_t id) noexcept
	    : word(jemalloc_prof_label_word()), old(*word) {
		*word = id;
	}
	explicit jemalloc_prof_label_scope(const char *text) noexcept
	    : word(jemalloc_prof_label_word()), old(*word) {
		(void)jemalloc_prof_label_set(text);
	}
	~jemalloc_prof_label_scope() {
		*word = old;
	}
	jemalloc_prof_label_scope(const jemalloc_prof_label_scope &) = delete;
	jemalloc_prof_label_scope &operator=(const jemalloc_prof_label_scope &) = delete;

private:
	uint32_t *word;
	uint32_t old;
};
#endif

#endif /* JEMALLOC_PROF_H_ */
