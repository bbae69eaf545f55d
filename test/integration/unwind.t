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
	out=$(MALLOC_CONF=prof:true,lg_prof_sample:0,prof_final:false ./deep hook h.heap 2>&1)
	is "$out" "opt.prof_unwind auto" "the stacks of a program's own hook are not judged"
fi
done_testing
