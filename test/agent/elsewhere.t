#!/bin/sh
# Memory that is not malloc's: the page of a process and the list say so, in the words of jeprof, and whose heap it may be: by
# the name of the program, by an object, by a section. Not where the memory is malloc's.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/agent/aid"
agent
work
own=$pid

# A program with 64 MiB of its own mapping; it allocates too.
cat >far.c <<'C'
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef SECTION
__attribute__((section(SECTION), used)) static const char mark[] = "Go";
#endif
int main(void) {
	size_t bytes = 64 << 20;
	char *far = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (far == MAP_FAILED) { return 1; }
	memset(far, 1, bytes);
	char *kept[16] = {0};
	for (unsigned i = 0;; i++) {
		free(kept[i % 16]);
		kept[i % 16] = malloc(3000);
		usleep(1000);
	}
}
C
$CC -O1 -o far far.c && cp far java && $CC -O1 -DSECTION='".note.go.buildid"' -o goes far.c &&
	echo 'int libphp;' >php.c && $CC -shared -fPIC -o libphp.so php.c &&
	$CC -O1 -o embeds far.c -Wl,--no-as-needed ./libphp.so || { echo "Bail out! the programs do not compile"; exit 1; }

# The sentence of the page of a process, without its numbers; "" if there is none
sentence() {
	curl -s --max-time 60 "$URL/p/$1/" | sed -n 's/^<p id="elsewhere">\(.*\)<\/p>$/\1/p' | sed 's/[0-9][0-9.]*[BKMGT] /N /g'
}
has_sentence() { [ -n "$(sentence "$1")" ]; }
is_answered() { curl -s --max-time 10 "$URL/p/$1/" | grep -q '<td class="t">resident</td>'; }

plain="N in memory, N of it through malloc; the rest is not malloc's: N of code and mapped files, N of data, stacks and other mappings"
quoted=$(echo "$plain" | sed "s/'/\&#39;/g")

# says PROGRAM WORDS NAME: said_of are the processes that were asked
says() {
	work "./$1"
	said_of="$said_of $pid"
	until_true has_sentence "$pid"
	is "$(sentence "$pid")" "$quoted$2" "$3"
}
says far '' "a program without a name for it"
far=$pid
says java ' (the Java heap, code and metadata are the JVM&#39;s own mappings; to see them: jcmd PID GC.heap_info, VM.native_memory; here is its native memory)' \
	"by its name; it is quoted"
says embeds ' (PHP maps a heap of its own; to see it: USE_ZEND_ALLOC=0)' "by an object"
says goes ' (Go&#39;s runtime maps the heap of Go itself; to see it: net/http/pprof; here is what cgo allocates)' "by a section"
goes=$pid

until_true is_answered "$own"
is "$(sentence "$own")" '' "not where the memory is malloc's"
get /
is "$(for p in $said_of; do grep "/p/$p/" answer; done | grep -c 'not malloc&#39;s: .*">not malloc.s</abbr>')" 4 "the list has a short form, four times"
grep "/p/$own/" answer | grep -q abbr
[ $? = 1 ]
ok $? "and not for the other"
for number in 16 32 64; do curl -s --max-time 10 "$URL/p/$far/"; done | grep -o '<p id="elsewhere">[0-9.]*M in memory, [0-9.]*[BKM] of it .* [0-9.]*M of data' >figures
is "$(wc -l <figures | tr -d ' ')" 3 "with figures"
perl -ne 'm{>([\d.]+)M in .*, ([\d.]+)M of data} && $1 >= 64 && $2 >= 62 && $2 <= $1 or die $_' figures
ok $? "of 64M elsewhere" "$(cat figures)"

# jeprof says the same
"$BUILD/bin/jeprof" doctor "$goes" >doctor.out 2>&1
tr -s ' \n' ' ' <doctor.out | sed 's/[0-9][0-9.]*[BKMGT] /N /g' >said
grep -qF "$plain (Go's runtime maps the heap of Go itself; to see it: net/http/pprof; here is what cgo allocates)" said
ok $? "doctor says the same" "$(cat doctor.out)"

# A program that maps memory later and calls malloc no more: the next looks see it, though the library counts nothing.
cat >still.c <<'C'
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
	char go, *volatile kept = malloc(3000);
	for (int i = 0; i < 2000; i++) {
		free(malloc(20000 + (size_t)i));
	}
	kept[0] = read(0, &go, 1) == 1;
	size_t bytes = 64 << 20;
	memset(mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, bytes);
	for (;;) {
		pause();
	}
}
C
$CC -O1 -o still still.c || { echo "Bail out! still.c does not compile"; exit 1; }
mkfifo go
exec 9<>go
LD_PRELOAD=$LIB ./still <go >/dev/null 2>&1 &
still=$!
children="$children $still"
points() { curl -s --max-time 60 "$URL/" | grep "/p/$still/" | grep -o 'points="[^"]*"' | head -n 1 | wc -w; }
has_points() { [ "$(points)" -ge "$1" ]; }
is_resident() { [ "$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$still/status")" -ge 65536 ]; }
until_true has_points 3
ok $? "a process that waits is looked at"
echo >&9
until_true is_resident
until_true has_points $(($(points) + 3))
[ "$(curl -s "$URL/p/$still/metrics" | sed -n 's/^jeprof_rss_bytes //p')" -ge 67108864 ]
ok $? "what it maps without malloc shows in the next looks" "$(curl -s "$URL/p/$still/metrics" | grep rss)"
exec 9>&-

# CPython's small objects
cat >hold.py <<'PY'
import time
kept = [(i, str(i)) for i in range(500000)]
while True:
    bytes(3000)
    time.sleep(0.001)
PY
unset PYTHONMALLOC
if [ "$(/usr/bin/python3 -c 'import sys; print(sys.implementation.name)' 2>/dev/null)" = cpython ]; then
	LD_PRELOAD=$LIB /usr/bin/python3 hold.py &
	python=$!
	LD_PRELOAD=$LIB PYTHONMALLOC=malloc /usr/bin/python3 hold.py &
	served=$!
	children="$children $python $served"
	until_true has_sentence "$python"
	is "$(sentence "$python")" "$quoted (CPython has an allocator of its own for objects up to 512 bytes; to see it: PYTHONMALLOC=malloc)" "python"
	until_true is_answered "$served"
	is "$(sentence "$served")" '' "not where malloc serves it"
else
	skip "no CPython"
	skip "no CPython"
fi
done_testing
