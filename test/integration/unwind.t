#!/bin/sh
# prof_unwind: each method that was built in runs, says so and gives whole stacks; one that was not is
# refused. A method that gives nothing but stumps is found out.
. "$JEMALLOC_SRC/test/include/tap.sh"
grep -q '^#define CONFIG_PROF 1' "$BUILD/src/config.h" || skip_all "no profiler"

cat >deep.c <<'END'
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <jemalloc/jemalloc.h>

static __attribute__((noinline)) void allocate(void)
{
	for (int i = 0; i < 100; i++) {
		void *volatile p = malloc(5000);
		(void)p;
	}
	__asm__ volatile("");
}

static __attribute__((noinline)) void recurse(int depth, void (*fn)(void))
{
	if (depth > 0)
		recurse(depth - 1, fn);
	else
		fn();
	__asm__ volatile("");
}

static void show(const char *name)
{
	const char *value = "";
	size_t len = sizeof(value);
	if (mallctl(name, &value, &len, NULL, 0) == 0)
		printf("%s %s\n", name, value);
}

/* A call out of code that no table describes and that has no frame pointer: the stack ends there. */
static void (*jit(void))(void (*)(void))
{
	static const unsigned char code[] = {0x55, 0xbd, 1, 0, 0, 0, 0xff, 0xd7, 0x5d, 0xc3};
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(p, code, sizeof(code));
	mprotect(p, 4096, PROT_READ | PROT_EXEC);
	return (void (*)(void (*)(void)))p;
}

static void active(_Bool on)
{
	mallctl("prof.active", NULL, NULL, &on, sizeof(on));
}

static void hook(void **vec, unsigned *len, unsigned max)
{
	(void)max;
	vec[0] = (void *)hook;
	*len = 1;
}

int main(int argc, char **argv)
{
	const char *file = argv[2];
	if (strcmp(argv[1], "stumps") == 0) {
		active(0);
		void (*f)(void (*)(void)) = jit();
		active(1);
		f(allocate);
		active(0);
	} else if (strcmp(argv[1], "hook") == 0) {
		void (*h)(void **, unsigned *, unsigned) = hook;
		mallctl("experimental.hooks.prof_backtrace", NULL, NULL, &h, sizeof(h));
		allocate();
	} else {
		recurse(20, allocate);
	}
	show("opt.prof_unwind");
	if (mallctl("prof.dump", NULL, NULL, &file, sizeof(file)) != 0)
		printf("no dump\n");
	return argc > 9;
}
END
$CC -w -O1 -I"$BUILD/include" -o deep deep.c "$LIB" -Wl,-rpath,"$LIBDIR" || exit 1

built() {
	case $1 in
	auto) return 0 ;;
	fp) grep -q '^#define CONFIG_PROF_FRAMEPTR 1' "$BUILD/src/config.h" ;;
	libgcc) grep -q '^#define CONFIG_PROF_LIBGCC 1' "$BUILD/src/config.h" ;;
	libunwind) grep -q '^#define CONFIG_PROF_LIBUNWIND 1' "$BUILD/src/config.h" ;;
	esac
}

# most addresses in one stack of a profile
depth() {
	awk '/^@/ { if (NF > max) max = NF } END { print max - 1 }' "$1"
}

unwinder() {
	sed -n 's/^# jemalloc.unwinder=//p' "$1"
}

for method in auto fp libunwind libgcc; do
	out=$(MALLOC_CONF=abort_conf:false,prof:true,lg_prof_sample:0,prof_unwind:$method ./deep whole $method.heap 2>&1)
	if built $method; then
		is "$out" "opt.prof_unwind $method" "$method: opt.prof_unwind names it, no complaint"
		is "$(unwinder $method.heap)" $method "$method: so does the profile"
		ok "$([ "$(depth $method.heap)" -ge 23 ]; echo $?)" "$method: a stack of $(depth $method.heap) frames"
	else
		has "$out" "<jemalloc>: Invalid conf value: prof_unwind:$method" "$method is not built in: refused with a message"
		has "$out" "opt.prof_unwind auto" "$method: the default runs"
		ok "$([ "$(depth $method.heap)" -ge 23 ]; echo $?)" "$method: and gives whole stacks"
	fi
done

out=$(MALLOC_CONF=abort_conf:false,prof:true,prof_unwind:magic ./deep whole x.heap 2>&1)
has "$out" "<jemalloc>: Invalid conf value: prof_unwind:magic" "no such method: refused"

if [ "$(uname -m)" = x86_64 ]; then
	conf=prof:true,lg_prof_sample:0,prof_active:false
	out=$(MALLOC_CONF=$conf,prof_unwind:auto ./deep stumps s.heap 2>&1)
	is "$(echo "$out" | grep -c '^<jemalloc>: all of the first 64 backtraces are at most 2 deep (prof_unwind:auto)')" 1 \
		"nothing but stumps: one line says so"
	has "$(echo "$out" | grep -A1 'at most 2 deep')" "<jemalloc>: Hint: stacks are read from now on by " "the next line says what was done"
	has "$out" "compile the program with -fasynchronous-unwind-tables" "and what to do"
	if built libgcc || built libunwind; then
		is "$(echo "$out" | grep -c 'opt.prof_unwind lib')" 1 "auto takes another method, which opt.prof_unwind names"
		ok "$(unwinder s.heap | grep -q '^lib'; echo $?)" "and the profile" "$(unwinder s.heap)"
	else
		skip "no other method"
		skip "no other method"
	fi
	out=$(MALLOC_CONF=$conf,prof_unwind:fp ./deep stumps s.heap 2>&1)
	is "$(echo "$out" | grep -c 'at most 2 deep (prof_unwind:fp)')" 1 "with a method that was chosen: the line"
	has "$out" "opt.prof_unwind fp" "but the choice stays"
	has "$out" "<jemalloc>: Hint: prof_unwind:auto changes the method" "the next line says which other choice there is"
	if built libgcc && ! built libunwind; then
		out=$(MALLOC_CONF=$conf,prof_unwind:libgcc ./deep stumps s.heap 2>&1)
		has "$out" "<jemalloc>: Hint: compile the program" "with the only other method there is no other choice"
	else
		skip "libgcc is not the method that auto changes to"
	fi
	# A note such as Go's linker writes: calls from Go into C have short stacks by their nature.
	printf '%s\n' '.section .note.go.buildid,"a",@note' '.long 4,4,4' '.ascii "Go\0\0"' '.ascii "abcd"' \
	    '.section .note.GNU-stack,"",@progbits' >gonote.s
	$CC -w -O1 -I"$BUILD/include" -o godeep deep.c gonote.s "$LIB" -Wl,-rpath,"$LIBDIR" || exit 1
	out=$(MALLOC_CONF=$conf,prof_unwind:auto ./godeep stumps s.heap 2>&1)
	is "$out" "opt.prof_unwind auto" "a Go program's short stacks are not judged"
	out=$(MALLOC_CONF=prof:true,lg_prof_sample:0,prof_final:false ./deep hook h.heap 2>&1)
	is "$out" "opt.prof_unwind auto" "the stacks of a program's own hook are not judged"
fi
# Hand-written assembly whose rows are wrong: the stack ends there, the program goes on.
cat >wild.c <<'END'
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
#include <jemalloc/jemalloc.h>
#if defined(__x86_64__)
/* overwritten(fn, v): rbp = v without a row; its caller's row says CFA = rbp + 16. bogus: CFA = sp + v. endless: CFA = sp. */
__asm__(".text\n"
	".type overwritten,@function\noverwritten: .cfi_startproc\n"
	"push %rbp\n .cfi_def_cfa_offset 16\n mov %rsi,%rbp\n call *%rdi\n pop %rbp\n .cfi_def_cfa_offset 8\n ret\n .cfi_endproc\n"
	".type lying,@function\nlying: .cfi_startproc\n"
	"push %rbp\n .cfi_def_cfa %rbp, 16\n .cfi_offset %rbp,-16\n mov %rsi,%rbp\n call *%rdi\n pop %rbp\n .cfi_def_cfa %rsp, 8\n ret\n .cfi_endproc\n"
	".type bogus,@function\nbogus: .cfi_startproc\n"
	"push %rbp\n .cfi_def_cfa_offset 0x7ffff00\n call *%rdi\n pop %rbp\n .cfi_def_cfa_offset 8\n ret\n .cfi_endproc\n"
	".type endless,@function\nendless: .cfi_startproc\n"
	"push %rbp\n .cfi_def_cfa_offset 0\n call *%rdi\n pop %rbp\n .cfi_def_cfa_offset 8\n ret\n .cfi_endproc\n"
	".type deref,@function\nderef: .cfi_startproc\n"
	"push %rbp\n .cfi_escape 0x0f,3,0x76,0,0x06\n mov %rsi,%rbp\n call *%rdi\n pop %rbp\n .cfi_def_cfa %rsp, 8\n ret\n .cfi_endproc\n"
	".type expression,@function\nexpression: .cfi_startproc\n"
	"push %rbp\n .cfi_escape 0x0f,5,0x76,0,0x06,0x23,8\n mov %rsi,%rbp\n call *%rdi\n pop %rbp\n .cfi_def_cfa %rsp, 8\n ret\n .cfi_endproc\n"
	".type shifted,@function\nshifted: .cfi_startproc\n"
	"push %rbp\n push %rsi\n push %rsi\n call *%rdi\n pop %rsi\n pop %rsi\n pop %rbp\n ret\n .cfi_endproc\n");
#elif defined(__aarch64__)
#define FUNCTION(name, row, body) \
	".type " #name ",%function\n" #name ": .cfi_startproc\n stp x29,x30,[sp,#-16]!\n" row body "blr x0\n ldp x29,x30,[sp],#16\n ret\n .cfi_endproc\n"
#define SAVED ".cfi_offset 29,-16\n .cfi_offset 30,-8\n"
__asm__(".text\n"
	FUNCTION(overwritten, ".cfi_def_cfa_offset 16\n .cfi_offset 30,-8\n", "mov x29,x1\n")
	FUNCTION(lying, ".cfi_def_cfa 29,16\n" SAVED, "mov x29,x1\n")
	FUNCTION(bogus, ".cfi_def_cfa_offset 0x7ffff00\n" SAVED, "")
	FUNCTION(endless, ".cfi_def_cfa_offset 0\n .cfi_offset 30,0\n", "")
	FUNCTION(deref, ".cfi_escape 0x0f,3,0x8d,0,0x06\n" SAVED, "mov x29,x1\n")
	FUNCTION(expression, ".cfi_escape 0x0f,5,0x8d,0,0x06,0x23,8\n" SAVED, "mov x29,x1\n")
	FUNCTION(shifted, ".cfi_def_cfa_offset 8\n .cfi_offset 30,-8\n", ""));
#endif
typedef void odd_t(void (*fn)(void), uintptr_t value);
odd_t overwritten, lying, bogus, endless, deref, expression, shifted;

static int n_done;

static __attribute__((noinline)) void allocate(void)
{
	void *volatile p = malloc(100);
	free(p);
	n_done++;
	__asm__ volatile("");
}

/* A frame pointer here, that the callee has to keep: so is a caller of an overwritten one. */
static __attribute__((noinline)) void in_frame(odd_t *odd, uintptr_t value)
{
	volatile char *p = __builtin_alloca(value % 7 + 32);
	p[0] = 1;
	odd(allocate, value);
	p[1] = 2;
}

static char *high, *low;

static void all(void)
{
	static odd_t *const odds[] = {overwritten, lying, bogus, endless, deref, expression, shifted};
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), here = (uintptr_t)__builtin_frame_address(0);
	uintptr_t values[] = {0, 1, 8, 4096, UINTPTR_MAX, UINTPTR_MAX - 15, (uintptr_t)1 << 46, (uintptr_t)1 << 63,
		(uintptr_t)0x7fffffffe000, here + 3, here + 16, here + (1 << 20), here - 4096, here & -page, (uintptr_t)high + page,
		(uintptr_t)high + 2 * page - 8, (uintptr_t)high, (uintptr_t)low + 16, (uintptr_t)all, (uintptr_t)values};
	for (unsigned o = 0; o < sizeof(odds) / sizeof(odds[0]); o++) {
		for (unsigned i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
			in_frame(odds[o], values[i]);
			in_frame(odds[o], values[i]);
		}
	}
}

static void *on_thread(void *arg)
{
	all();
	return arg;
}

/* Memory above a thread's stack is there, is led to by a frame pointer, is gone the next time. */
static void *above(void *arg)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	char *end = arg;
	for (int i = 0; i < 3; i++)
		in_frame(overwritten, (uintptr_t)end + page);
	munmap(end, 2 * page);
	for (int i = 0; i < 3; i++)
		in_frame(overwritten, (uintptr_t)end + page);
	return NULL;
}

int main(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size = 1 << 20;
	pthread_t t;
	pthread_attr_t attr;
	high = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(high + page, page, PROT_NONE);
	low = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* A chain that comes back to itself. */
	((void **)low)[2] = low + 16;
	((void **)low)[3] = (void *)(uintptr_t)main;
	all();
	pthread_create(&t, NULL, on_thread, NULL);
	pthread_join(t, NULL);
	char *stack = mmap(NULL, size + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, stack, size);
	pthread_create(&t, &attr, above, stack + size);
	pthread_join(t, NULL);
	printf("%d\n", n_done);
	return 0;
}
END
if $CC -w -O1 -fno-omit-frame-pointer -I"$BUILD/include" -o wild wild.c "$LIB" -Wl,-rpath,"$LIBDIR" -lpthread 2>cc.err; then
	for method in auto fp libunwind libgcc; do
		built $method || continue
		out=$(MALLOC_CONF=prof:true,lg_prof_sample:0,prof_final:false,prof_unwind:$method ./wild 2>&1)
		is "$?" 0 "$method: no wild address is read" "$out"
		is "$(echo "$out" | tail -n 1)" 566 "$method: the program comes to its end"
	done
else
	skip "no such assembly for this processor"
fi
done_testing
