// The C++ operators new and delete, on the same paths as malloc and free.
//
// Invariant: the library does not depend on libstdc++. What a failure needs (std::get_new_handler
// and the function that throws bad_alloc) is reached through weak references and, if those are not
// bound, looked up in the C++ runtime that the program has loaded. This code throws nothing itself;
// exceptions of a new-handler pass through, so the file is compiled with -fexceptions.
// Each operator is a jump to cxx.c, which has the fast paths and calls back the function that
// serves other requests.
// Locks: none. Called by C++ programs; calls cxx.c.
#include <cstddef>
#include <cstdlib>
#include <dlfcn.h>
#include <new>

extern "C" {
#pragma GCC visibility push(hidden)
typedef void *cxx_slow_t(std::size_t size);
typedef void *cxx_aligned_slow_t(std::size_t size, std::size_t alignment);
void *cxx_new(std::size_t size, cxx_slow_t *slow);
void *cxx_new_aligned(std::size_t size, std::size_t alignment, cxx_aligned_slow_t *slow);
void *cxx_alloc(std::size_t size, std::size_t alignment) noexcept;
void cxx_free(void *ptr) noexcept;
void cxx_free_sized(void *ptr, std::size_t size) noexcept;
void cxx_free_sized_aligned(void *ptr, std::size_t size, std::size_t alignment) noexcept;
void cxx_no_memory(std::size_t size) noexcept;
bool cxx_is_infallible(void) noexcept;
#pragma GCC visibility pop
}

// Only C++ programs, which have the runtime, link this member of the static library. In it, which
// is compiled with -fPIE, the references are strong, so that the linker includes the runtime.
#ifdef __PIE__
#define RUNTIME
#else
#define RUNTIME __attribute__((weak))
__asm__(".weak __gxx_personality_v0\n.weak __cxa_begin_catch\n.weak __cxa_end_catch\n"
    ".weak _ZSt9terminatev");
#endif

#define EXPORT __attribute__((visibility("default")))
#define LIKELY(x) __builtin_expect(!!(x), 1)

// Itanium ABI names of std::get_new_handler() and libstdc++'s std::__throw_bad_alloc().
extern "C" RUNTIME std::new_handler get_new_handler_weak(void) __asm__("_ZSt15get_new_handlerv");
extern "C" RUNTIME void throw_bad_alloc_weak(void) __asm__("_ZSt17__throw_bad_allocv");
extern "C" __attribute__((weak)) void throw_bad_alloc_weak_libcxx(void)
    __asm__("_ZNSt3__117__throw_bad_allocEv");

namespace {

typedef std::new_handler (*get_handler_t)(void);
typedef void (*thrower_t)(void);

// The address of a symbol of the C++ runtime; NULL if no loaded library has it.
void *
runtime_symbol(const char *name) {
	void *sym = dlsym(RTLD_DEFAULT, name);
	static const char *const runtimes[] = {"libstdc++.so.6", "libc++.so.1"};
	for (unsigned i = 0; sym == nullptr && i < 2; i++) {
		void *lib = dlopen(runtimes[i], RTLD_LAZY | RTLD_NOLOAD);
		if (lib != nullptr) {
			sym = dlsym(lib, name);
			dlclose(lib);
		}
	}
	return sym;
}

std::new_handler
current_handler() {
	get_handler_t get = get_new_handler_weak;
	if (get == nullptr) {
		get = reinterpret_cast<get_handler_t>(runtime_symbol("_ZSt15get_new_handlerv"));
	}
	return get != nullptr ? get() : nullptr;
}

// Throws std::bad_alloc. Without a runtime ends the process; size, in bytes, is for the message.
void
throw_bad_alloc(std::size_t size) {
	thrower_t thrower = throw_bad_alloc_weak;
	if (thrower == nullptr) {
		thrower = throw_bad_alloc_weak_libcxx;
	}
	if (thrower == nullptr) {
		thrower = reinterpret_cast<thrower_t>(runtime_symbol("_ZSt17__throw_bad_allocv"));
	}
	if (thrower == nullptr) {
		thrower = reinterpret_cast<thrower_t>(runtime_symbol("_ZNSt3__117__throw_bad_allocEv"));
	}
	if (thrower != nullptr) {
		thrower();
	}
	cxx_no_memory(size);
	std::abort();
}

// Calls the handler until there is memory, or it gives up by throwing or by being removed (then
// NULL). If new is infallible, ends the process by cxx_no_memory() instead; NULL if that returns.
__attribute__((noinline, cold)) void *
new_after_failure(std::size_t size, std::size_t alignment) {
	if (cxx_is_infallible()) {
		cxx_no_memory(size);
		return nullptr;
	}
	for (;;) {
		std::new_handler handler = current_handler();
		if (handler == nullptr) {
			return nullptr;
		}
		handler();
		void *p = cxx_alloc(size, alignment);
		if (p != nullptr) {
			return p;
		}
	}
}

void *
new_throwing(std::size_t size, std::size_t alignment) {
	void *p = cxx_alloc(size, alignment);
	if (LIKELY(p != nullptr)) {
		return p;
	}
	p = new_after_failure(size, alignment);
	if (p == nullptr && !cxx_is_infallible()) {
		throw_bad_alloc(size);
	}
	return p;
}

void *
new_nothrow(std::size_t size, std::size_t alignment) noexcept {
	void *p = cxx_alloc(size, alignment);
	if (LIKELY(p != nullptr)) {
		return p;
	}
	try {
		return new_after_failure(size, alignment);
	} catch (...) {
		return nullptr;
	}
}

void *
new_plain(std::size_t size) {
	return new_throwing(size, 0);
}

void *
new_plain_nothrow(std::size_t size) noexcept {
	return new_nothrow(size, 0);
}

inline std::size_t
align_of(std::align_val_t a) {
	return static_cast<std::size_t>(a);
}

} // namespace

EXPORT void *operator new(std::size_t size) { return cxx_new(size, new_plain); }
EXPORT void *operator new[](std::size_t size) { return cxx_new(size, new_plain); }
EXPORT void *operator new(std::size_t size, const std::nothrow_t &) noexcept {
	return cxx_new(size, new_plain_nothrow);
}
EXPORT void *operator new[](std::size_t size, const std::nothrow_t &) noexcept {
	return cxx_new(size, new_plain_nothrow);
}
EXPORT void *operator new(std::size_t size, std::align_val_t a) {
	return cxx_new_aligned(size, align_of(a), new_throwing);
}
EXPORT void *operator new[](std::size_t size, std::align_val_t a) {
	return cxx_new_aligned(size, align_of(a), new_throwing);
}
EXPORT void *
operator new(std::size_t size, std::align_val_t a, const std::nothrow_t &) noexcept {
	return cxx_new_aligned(size, align_of(a), new_nothrow);
}
EXPORT void *
operator new[](std::size_t size, std::align_val_t a, const std::nothrow_t &) noexcept {
	return cxx_new_aligned(size, align_of(a), new_nothrow);
}

EXPORT void operator delete(void *p) noexcept { cxx_free(p); }
EXPORT void operator delete[](void *p) noexcept { cxx_free(p); }
EXPORT void operator delete(void *p, const std::nothrow_t &) noexcept { cxx_free(p); }
EXPORT void operator delete[](void *p, const std::nothrow_t &) noexcept { cxx_free(p); }
EXPORT void operator delete(void *p, std::align_val_t) noexcept { cxx_free(p); }
EXPORT void operator delete[](void *p, std::align_val_t) noexcept { cxx_free(p); }
EXPORT void operator delete(void *p, std::align_val_t, const std::nothrow_t &) noexcept {
	cxx_free(p);
}
EXPORT void operator delete[](void *p, std::align_val_t, const std::nothrow_t &) noexcept {
	cxx_free(p);
}
EXPORT void operator delete(void *p, std::size_t size) noexcept { cxx_free_sized(p, size); }
EXPORT void operator delete[](void *p, std::size_t size) noexcept { cxx_free_sized(p, size); }
EXPORT void
operator delete(void *p, std::size_t size, std::align_val_t a) noexcept {
	cxx_free_sized_aligned(p, size, align_of(a));
}
EXPORT void
operator delete[](void *p, std::size_t size, std::align_val_t a) noexcept {
	cxx_free_sized_aligned(p, size, align_of(a));
}
