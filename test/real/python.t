#!/bin/sh
# Fifty modules of Python's own test suite, every allocation by malloc. What fails is run again without the library: only what
# then goes well is a fault of ours. But no run of any of its processes may end in an abort() of the library, an assertion that
# fails in a debug build too, whatever the suite makes of it. At last a Python program is profiled.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/real/aid"
$PYTHON -c 'import test.test_dict' 2>/dev/null || skip_all "no test suite of Python"
export PYTHONMALLOC=malloc

MODULES="test_array test_ast test_augassign test_base64 test_bigmem test_binascii test_bisect test_bool test_buffer test_bytes test_bz2
 test_call test_cmath test_collections test_compile test_complex test_contextlib test_copy test_coroutines test_csv test_ctypes
 test_dataclasses test_decimal test_deque test_dict test_difflib test_dynamic test_enumerate test_exceptions test_fork1 test_format
 test_fractions test_gc test_generators test_heapq test_html test_int test_io test_itertools test_json test_list test_long
 test_lzma test_marshal test_memoryio test_memoryview test_mmap test_ordered_dict test_pickle test_queue test_random test_re
 test_set test_sort test_functools test_codecs test_struct test_subprocess test_textwrap test_thread test_threading test_tuple
 test_str test_typing test_unicode test_unpack test_weakref test_xml_etree test_zipfile test_zlib"

# The suite keeps the output of the processes that it starts, and some of them are meant to die. So abort(), when the library
# calls it, leaves its stack in the file "aborts". The unwinder is loaded before: at the call locks may be held.
cat >abort.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void *frames[50];
__attribute__((constructor)) static void load(void) { backtrace(frames, 1); }
void abort(void) {
	Dl_info from;
	if (dladdr(__builtin_return_address(0), &from) != 0 && strstr(from.dli_fname, "libjemalloc") != NULL) {
		int file = open(ABORTS, O_WRONLY | O_APPEND | O_CREAT, 0666);
		write(file, "abort:\n", 7);
		backtrace_symbols_fd(frames, backtrace(frames, 50), file);
		close(file);
	}
	((void (*)(void))dlsym(RTLD_NEXT, "abort"))();
	_exit(134);
}
C
$CC -w -O1 -shared -fPIC -DABORTS="\"$W/aborts\"" -o abort.so abort.c -ldl
MALLOC_CONF=abort_conf:true,unknown:1 LD_PRELOAD=$LIB:$W/abort.so /bin/true >true.out 2>&1
has "$(head -n 1 aborts 2>&1)" "abort:" "an abort of the library would be seen" "$(cat true.out)"
rm -f aborts

# suite LIBRARY MODULE: runs one, leaves its output in MODULE.LIBRARY
suite() {
	mkdir -p "tmp.$2"
	case $1 in
	with) preload=$LIB:$W/abort.so ;;
	without) preload= ;;
	esac
	env ${preload:+LD_PRELOAD=$preload} TMPDIR="$W/tmp.$2" timeout "${REAL_PYTHON_SECONDS:-900}" \
	    $PYTHON -m test -q "$2" >>"$2.$1" 2>&1 </dev/null
}
n=0
for module in $MODULES; do
	$PYTHON -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('test.$module') is None)" || {
		skip "no $module"
		continue
	}
	n=$((n + 1))
	suite with "$module" || suite with "$module"
	rc=$?
	is "$(cat aborts 2>/dev/null; grep '<jemalloc>' "$module.with" | head -n 5)" "" "$module: no message and no abort of the library"
	rm -f aborts
	if [ $rc -eq 0 ]; then
		ok 0 "$module"
	elif suite without "$module"; then
		ok 1 "$module" "$(tail -n 30 "$module.with")"
	else
		skip "$module fails without the library too: $(tail -n 1 "$module.without")"
	fi
done

[ $n -ge 50 ]
ok $? "$n modules have run"

# A program to look into: objects of all kinds come and go in four threads until it is told to end.
cat >work.py <<'PY'
import collections, json, re, signal, sys, threading
ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())
def work(n):
    kept = collections.OrderedDict(); turn = 0
    while not ended.is_set():
        turn += 1
        data = {str(i): [i * n] * (i % 40) for i in range(turn % 700)}
        assert json.loads(json.dumps(data)) == data
        kept[turn] = re.sub("1", "one ", str(data))
        if len(kept) > 50: kept.popitem(last=False)
threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
for t in threads: t.start()
open("ready", "w").write("ready\n")
ended.wait()
for t in threads: t.join()
print("ended"); sys.exit(7)
PY
launch python $PYTHON work.py
served_by $pid [ -s ready ]
ok $? "a program of four threads runs" "$(cat python.err)"
on_library $pid python
profile_begins $pid python
profile_goes_on $pid python
profile_ends $pid python
stops $pid TERM 7 python
is "$(cat python.out)" ended "python ended by itself"
done_testing
