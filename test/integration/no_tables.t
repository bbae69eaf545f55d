#!/bin/sh
# Stacks through objects that were linked without .eh_frame_hdr, and through code without any unwind information: no caller is
# lost that can be known, and no word that an earlier call left on the stack is taken for one.
. "$JEMALLOC_SRC/test/include/tap.sh"

[ "$(asks config.prof)" = true ] || skip_all "built without the profiler"
grep -q '^#define CONFIG_PROF_FRAMEPTR 1' "$BUILD/src/config.h" || skip_all "built without the walk"
case $(uname -m) in x86_64 | aarch64) ;; *) skip_all "no walk for this machine" ;; esac
cat >stacks.c <<'C'
#include <jemalloc/jemalloc.h>
#include <stdlib.h>
#include <string.h>
#define APART __attribute__((noinline, noclone))
void *volatile kept[8];
APART void *leaf(int n) { void *p = malloc(n); kept[0] = p; return p; }
APART int middle(int n) { volatile char buf[64]; buf[0] = n; void *p = leaf(n); return p != 0 && buf[0]; }
APART int upper(int n) { volatile int x = middle(n) + 1; return x; }
APART int dirty(int n) { volatile char big[300]; memset((void *)big, 0, sizeof(big)); return n == 0 ? 1 : dirty(n - 1) + big[7]; }
APART int older(int n) { volatile int x = dirty(n) + upper(n); return x; }
APART int sized(int n) { volatile char room[n]; room[n - 1] = 1; void *p = leaf(n); return p != 0 && room[n - 1]; }
APART int called(int (*f)(int), int n) { volatile int x = f(n) + 1; return x; }
int
main(void) {
	int n = older(60);
	for (int i = 0; i < 3; i++)
		n += upper(5000 + i) + sized(700 + i) + called(upper, 90 + i);
	mallctl("prof.dump", NULL, NULL, NULL, 0);
	return n < 0;
}
C
cat >names.pl <<'P'
# The stacks of a profile, by the symbols of the program; what is in no function of ours is "-", several in a row are one.
my ($program, $dump) = @ARGV;
my @symbols = map { /^([0-9a-f]+) ([0-9a-f]+) t (\S+)/i ? [hex $1, hex $2, $3] : () } `nm -S $program`;
open my $f, '<', $dump or die;
my @lines = <$f>;
my ($bias) = map { m{^# module \S+ ([0-9a-f]+) \S+ .*/\Q$program\E$} ? hex $1 : () } @lines;
for (grep { /^@/ } @lines) {
	my @names;
	for my $at (map { hex } /0x([0-9a-f]+)/g) {
		$at -= $bias + (@names > 0);
		my ($s) = grep { $at >= $_->[0] && $at < $_->[0] + $_->[1] } @symbols;
		push @names, $s && $s->[2] =~ /^(?:leaf|middle|upper|older|dirty|sized|called|main|through|planted|framed|inner|hold)$/ ? $s->[2] : '-';
	}
	print join(' ', grep { $_ ne '-' } @names), "\n";
}
P
profile() {
	rm -f ./*.heap
	MALLOC_CONF=prof:true,lg_prof_sample:0,prof_prefix:"$W"/x "$@" && perl names.pl "$(basename "$1")" x.*.heap | grep . | sort -u
}
want=$(printf '%s\n' 'leaf middle upper called main' 'leaf middle upper main' 'leaf middle upper older main' 'leaf sized main')

# told PROGRAM: what the profile says of its tables
told() { sed -n 's/^# jemalloc.unwinder_tables=//p' x.*.heap; }

# A program without the table, of each kind.
for level in -O0 -O2; do
	for frame in -fomit-frame-pointer -fno-omit-frame-pointer; do
		for kind in "-pie -fPIE" -no-pie "-no-pie -Wl,-z,noseparate-code"; do
			# shellcheck disable=SC2086
			compile_linked stacks stacks.c $level $frame $kind -fno-optimize-sibling-calls -Wl,--no-eh-frame-hdr || exit 1
			is "$(profile ./stacks)" "$want" "$level $frame $kind"
			is "$(told)" "without_hdr:1 scanned:1" "the profile tells that its table was searched for"
			is "$(grep -c 'end:0' x.*.heap)" 0 "to the outermost frame"
		done
	done
done
compile_linked stacks stacks.c -fno-optimize-sibling-calls -Wl,--eh-frame-hdr
is "$(profile ./stacks)" "$want" "with the table"
is "$(told)" "without_hdr:0 scanned:0" "nothing was searched for"
for level in -O0 -O2; do
	for kind in -static -static-pie; do
		if compile stacks stacks.c $level $kind -fno-optimize-sibling-calls -Wl,--no-eh-frame-hdr "$LIBDIR"/libjemalloc$([ $kind = -static ] || echo _pic).a -lm 2>/dev/null; then
			is "$(profile ./stacks)" "$want" "$level $kind"
		else
			skip "no $kind"
		fi
	done
done

# A library without the table, loaded later.
cat >plugin.c <<'C'
#include <stdlib.h>
void *volatile got;
__attribute__((noinline)) void *inner(int n) { void *p = malloc(n); got = p; return p; }
void *hold(int n) { void *volatile p = inner(n); return p; }
C
cat >loads.c <<'C'
#include <dlfcn.h>
#include <jemalloc/jemalloc.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int
main(void) {
	free(malloc(1));
	for (int i = 0; i < 3; i++) {
		void *library = dlopen("./plugin.so", RTLD_NOW);
		void *(*hold)(int) = (void *(*)(int))dlsym(library, "hold");
		/* New objects are looked at once in a second, and at each dump. */
		mallctl("prof.dump", NULL, NULL, NULL, 0);
		for (int k = 0; k < 300; k++)
			hold(3000);
		if (i < 2)
			dlclose(library);
	}
	mallctl("prof.dump", NULL, NULL, NULL, 0);
	return 0;
}
C
compile_linked loads loads.c
# Also one whose first program header is the segment with the code, where its table lies.
for layout in separate-code noseparate-code; do
	$CC -g -O1 -fno-builtin -fomit-frame-pointer -shared -fPIC -Wl,--no-eh-frame-hdr -Wl,-z,$layout -o plugin.so plugin.c
	rm -f ./*.heap
	MALLOC_CONF=prof:true,lg_prof_sample:0,prof_prefix:"$W"/x ./loads
	last=$(ls x.*.heap | sort -t . -k 5 -n | tail -n 1)
	perl "$BUILD/bin/jeprof" top "$last" >table 2>/dev/null
	has "$(cat table)" "inner " "a library that was loaded later, $layout"
	is "$(perl "$BUILD/bin/jeprof" --collapsed "$last" 2>/dev/null | grep -c 'main;hold;inner ')" 1 "its callers, $layout"
done

# A library in the place of one that is gone, before it was looked at: where the old one had its table, it has other bytes.
cat >place.c <<'C'
#include <stdlib.h>
__attribute__((used)) const unsigned char front[FRONT] = {[0 ... FRONT - 1] = 0x11};
__attribute__((used)) unsigned char back[BACK] = {1};
void *volatile got;
__attribute__((noinline)) void *inner(int n) { void *p = malloc(n); got = p; return p; }
void *hold(int n) { void *volatile p = inner(n); return p; }
__attribute__((noinline)) void *deeper(int n) { void *p = malloc(n + 1); got = p; return p; }
void *later(int n) { void *volatile p = deeper(n); return p; }
C
cat >places.c <<'C'
#include <dlfcn.h>
#include <jemalloc/jemalloc.h>
#include <stdio.h>
int
main(void) {
	void *library = dlopen("./old.so", RTLD_NOW);
	void *(*hold)(int) = (void *(*)(int))dlsym(library, "hold");
	char *old = dlsym(library, "later");
	mallctl("prof.dump", NULL, NULL, NULL, 0);
	for (int k = 0; k < 300; k++)
		hold(3000);
	dlclose(library);
	library = dlopen("./new.so", RTLD_NOW);
	void *(*later)(int) = (void *(*)(int))dlsym(library, "later");
	for (int k = 0; k < 300; k++)
		later(3000);
	puts((char *)later == old ? "same" : "other");
	return 0;
}
C
for part in old:0x10000:0x8000 new:0x14000:0x4000; do
	name=${part%%:*} sizes=${part#*:}
	$CC -g -O1 -fno-builtin -fomit-frame-pointer -shared -fPIC -Wl,--no-eh-frame-hdr -DFRONT="${sizes%:*}" -DBACK="${sizes#*:}" \
		-o "$name.so" place.c
done
compile_linked places places.c
is "$(MALLOC_CONF=prof:true,lg_prof_sample:0,prof_prefix:"$W"/x ./places)" same "samples in a library in the place of another one"

# A library that is back at its place, after a smaller one was in a part of that. New objects are looked at a second later.
cat >back.c <<'C'
#include <dlfcn.h>
#include <jemalloc/jemalloc.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
static void
call(void *library, const char *name) {
	void *(*f)(int) = (void *(*)(int))dlsym(library, name);
	usleep(1100000);
	for (int k = 0; k < 300; k++)
		f(3000);
}
static char *
load(const char *path, void **library) {
	*library = dlopen(path, RTLD_NOW);
	call(*library, "hold");
	return dlsym(*library, "hold");
}
int
main(void) {
	void *library;
	size_t page = sysconf(_SC_PAGESIZE);
	/* Gaps for what is mapped meanwhile, so that it leaves that of the library free. */
	char *gaps = mmap(NULL, 65 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 1; i < 65; i += 2)
		munmap(gaps + i * page, page);
	char *first = load("./whole.so", &library);
	dlclose(library);
	char *less = load("./less.so", &library);
	dlclose(library);
	char *again = load("./whole.so", &library);
	call(library, "later");
	mallctl("prof.dump", NULL, NULL, NULL, 0);
	puts(first < less && less - first <= 65536 && again == first ? "back" : "elsewhere");
	return 0;
}
C
page=$(getconf PAGESIZE)
for part in whole:0x8000 less:$((0x8000 - page)); do
	$CC -g -O1 -fno-builtin -fomit-frame-pointer -shared -fPIC -Wl,--no-eh-frame-hdr -DFRONT=0x10000 -DBACK="${part#*:}" \
		-o "${part%%:*}.so" place.c
done
compile_linked back back.c
# The kernel chooses the places: in about 1 of 100 runs the second library comes elsewhere.
got='' tries=5
until [ "$got" = back ] || [ "$tries" = 0 ]; do
	rm -f ./*.heap
	got=$(MALLOC_CONF=prof:true,lg_prof_sample:0,prof_prefix:"$W"/x ./back)
	[ "$(uname -m)" = x86_64 ] && tries=$((tries - 1)) || tries=0
done
# On other machines the place depends on the alignment of segments.
[ "$(uname -m)" != x86_64 ] || is "$got" back "a library is back at its place"
is "$(perl "$BUILD/bin/jeprof" --collapsed x.*.heap 2>/dev/null | grep -c 'main;call;later;deeper ')" 1 "its stacks are whole"

# A library without any unwind information, which has protected a page of its data: that page is not read.
cat >shut.c <<'C'
#include <stdlib.h>
#include <sys/mman.h>
__attribute__((aligned(65536))) char pages[3 * 65536] = {1};
void *volatile got;
void *hold(int n) { void *volatile p = malloc(n); got = p; return p; }
int shut(void) { return mprotect(pages + 65536, 65536, PROT_NONE); }
C
cat >shuts.c <<'C'
#include <dlfcn.h>
#include <jemalloc/jemalloc.h>
#include <stdio.h>
int
main(void) {
	void *library = dlopen("./shut.so", RTLD_NOW);
	int (*shut)(void) = (int (*)(void))dlsym(library, "shut");
	void *(*hold)(int) = (void *(*)(int))dlsym(library, "hold");
	puts(shut() == 0 && hold(3000) != NULL ? "shut" : "open");
	fflush(stdout);
	mallctl("prof.dump", NULL, NULL, NULL, 0);
	for (int k = 0; k < 300; k++)
		hold(3000);
	mallctl("prof.dump", NULL, NULL, NULL, 0);
	return 0;
}
C
$CC -O1 -fno-builtin -shared -fPIC -nostartfiles -fno-asynchronous-unwind-tables -fno-unwind-tables -Wl,--no-eh-frame-hdr -o shut.so shut.c
compile_linked shuts shuts.c
rm -f ./*.heap
is "$(MALLOC_CONF=prof:true,lg_prof_sample:0,prof_prefix:"$W"/x ./shuts; echo $?)" "$(printf 'shut\n0')" "a library with a page that cannot be read"
is "$(sed -n 's/^# jemalloc.unwinder_tables=//p' x.*.heap | tail -n 1)" "without_hdr:1 scanned:0" "it was searched"

# Code without any unwind information.
case $(uname -m) in
x86_64)
	through='.globl through
.type through, @function
through: push %rbp
	mov %rsi, %rbp
	call *%rdi
	pop %rbp
	ret
.size through, . - through'
	;;
*)
	through='.globl through
.type through, @function
through: stp x29, x30, [sp, #-16]!
	mov x29, x1
	blr x0
	ldp x29, x30, [sp], #16
	ret
.size through, . - through'
	;;
esac
printf '%s\n.section .note.GNU-stack,"",%%progbits\n' "$through" >through.s
cat >trap.c <<'C'
/* A function without a table and without a frame pointer has in that register what looks like a frame: an old return address. */
#include <jemalloc/jemalloc.h>
#include <stdlib.h>
void through(void (*)(void), void *);
void framed(void (*)(void));
void *volatile kept;
void *volatile old;
__attribute__((noinline)) void hold(void) { kept = malloc(3000); __asm__ volatile(""); }
__attribute__((noinline)) void note(void) { old = __builtin_return_address(0); __asm__ volatile(""); }
__attribute__((noinline)) void planted(void) { note(); __asm__ volatile(""); }
int
main(void) {
	void *volatile words[2];
	planted();
	words[0] = (void *)(words + 2);
	words[1] = old;
	through(hold, (void *)words);
	framed(hold);
	mallctl("prof.dump", NULL, NULL, NULL, 0);
	return 0;
}
C
cat >framed.c <<'C'
/* Compiled without tables, with frame pointers. */
static void __attribute__((noinline)) inner(void (*f)(void)) { f(); __asm__ volatile(""); }
void framed(void (*f)(void)) { inner(f); __asm__ volatile(""); }
C
for level in -O0 -O2; do
	for kind in --eh-frame-hdr --no-eh-frame-hdr; do
		$CC -c $level -fno-asynchronous-unwind-tables -fno-unwind-tables -fno-omit-frame-pointer -fno-optimize-sibling-calls framed.c
		compile_linked trap $level -fno-optimize-sibling-calls trap.c through.s framed.o -Wl,$kind || exit 1
		profile ./trap >got
		ok "$(grep -q planted got; [ $? -ne 0 ]; echo $?)" "no caller is invented ($level $kind)" "$(cat got)"
		has "$(cat got)" "hold through" "the frame before it is there"
		has "$(cat got)" "hold inner framed main" "where a frame pointer is kept the walk goes on"
	done
done
done_testing
