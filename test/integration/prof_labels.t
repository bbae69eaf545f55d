#!/bin/sh
# Labels from a program to its readers: jemalloc_prof.h with all compilers, in programs that the library is only preloaded to; a
# server whose tenants hold what is known (doc/examples/tenants.c), in jeprof's table, in pprof and OTLP; what a switch costs.
. "$JEMALLOC_SRC/test/include/tap.sh"
[ "$(asks config.prof)" = true ] || skip_all "no profiler"
INCLUDE=$SRC/include
JEPROF=$BUILD/bin/jeprof

cat >use.c <<'END'
#include <jemalloc/jemalloc_prof.h>
#include <stdio.h>

int
main(void) {
	uint32_t a = jemalloc_prof_label_intern("a"), b = jemalloc_prof_label_intern("b");
	uint32_t old = jemalloc_prof_label_switch(a), in_a = *jemalloc_prof_label_word();
	int err = jemalloc_prof_label_set("b"), bad = jemalloc_prof_label_set(NULL);
	uint32_t in_b = jemalloc_prof_label_switch(old);
	jemalloc_prof_label_clear();
	printf("%d %d %d %d %d %d %u\n", a != 0, b != 0, in_a == a, in_b == b, err, bad,
	    (unsigned)*jemalloc_prof_label_word());
	return 0;
}
END
cat >use.cc <<'END'
#include <jemalloc/jemalloc_prof.h>
#include <cstdio>

static unsigned
label() {
	return *jemalloc_prof_label_word();
}

int
main() {
	uint32_t a = jemalloc_prof_label_intern("a"), b = jemalloc_prof_label_intern("b");
	unsigned seen[5] = {0, 0, 0, 0, 0};
	seen[0] = label();
	{
		jemalloc_prof_label_scope outer(a);
		seen[1] = label();
		try {
			jemalloc_prof_label_scope inner("b");
			seen[2] = label();
			throw 1;
		} catch (int) {
			seen[3] = label();
		}
	}
	seen[4] = label();
	std::printf("%d\n", a != 0 && b != 0 && a != b && seen[0] == 0 && seen[1] == a && seen[2] == b && seen[3] == a && seen[4] == 0);
	return 0;
}
END
echo '#include <jemalloc/jemalloc_prof.h>' >bare.c

# compiled SOURCE COMMAND...: without a warning, also where nothing of it is used; the program does nothing by itself and works with the library.
compiled() {
	source=$1
	shift
	case $source in *.cc) want=1 none=0 ;; *) want="1 1 1 1 0 22 0" none="0 0 1 1 2 2 0" ;; esac
	runs "$*: $source" "$@" -Wall -Wextra -pedantic -Wundef -Werror -I"$INCLUDE" -o use "$source"
	case $source in
	*.cc) runs "$*: the header alone" "$@" -x c++ -Wall -Wextra -pedantic -Werror -I"$INCLUDE" -c -o bare.o bare.c ;;
	*) runs "$*: the header alone" "$@" -Wall -Wextra -pedantic -Werror -I"$INCLUDE" -c -o bare.o bare.c ;;
	esac
	is "$(./use)" "$none" "$*: without the library it does nothing"
	is "$(LD_PRELOAD=$LIB ./use)" "$want" "$*: with the library preloaded"
}

compiled use.c $CC -std=c99
compiled use.c $CC -O2
compiled use.cc $CXX -std=c++11
compiled use.cc $CXX -O2 -std=c++17
if command -v clang >/dev/null; then
	compiled use.c clang -O2 -std=c99
	compiled use.cc clang++ -std=c++11
else
	skip "no clang"
fi

# ---- four tenants ----
runs "tenants.c" $CC -g -O1 -Wall -Wextra -Werror -I"$INCLUDE" -pthread -o tenants "$SRC/doc/examples/tenants.c"

# by_label DUMP: a line "LABEL BYTES OBJECTS" each
by_label() {
	"$JEPROF" top --by label --json "$1" 2>err |
		perl -MJSON::PP -0777 -ne 'printf "%s %.0f %.0f\n", @$_{qw(label self objects)} for @{ decode_json($_)->{rows} }'
}

# Every object a sample: exact, but for what classes and canaries add to a request (at most a quarter and 32 bytes).
MALLOC_CONF=prof:true,lg_prof_sample:0,prof_final:true,prof_prefix:all LD_PRELOAD=$LIB ./tenants 4 >known
by_label all.*.heap >got
is "$(cut -d' ' -f1 got | LC_ALL=C sort | tr '\n' ' ')" "(no acme globex initech umbrella " "four labels, and the rest has none" "$(cat got)"
is "$(awk 'NR == FNR { bytes[$1] = $2; n[$1] = $5; next } $1 in n && n[$1] == $3 && $2 >= bytes[$1] && $2 <= bytes[$1] * 1.25 + 32 * $3 { good++ } END { print good + 0 }' known got)" 4 \
    "each tenant's objects, exactly, and bytes by their classes" "$(cat known got)"
is "$(awk '$1 == "(no" { print ($3 < 100000) }' got)" 1 "what has no label is what the program was started with"

# At 16 KiB: each estimate within five standard errors; the variance is at most bytes * (interval + mean size).
MALLOC_CONF=prof:true,prof_sample_interval:16384,prof_final:true,prof_prefix:some LD_PRELOAD=$LIB ./tenants 100 >known
by_label some.*.heap >got
is "$(awk 'NR == FNR { bytes[$1] = $2; next } $1 in bytes { low = bytes[$1]; high = low * 1.25; e = 5 * sqrt(high * (16384 + 34000)); if ($2 >= low - e && $2 <= high + e) good++ } END { print good + 0 }' known got)" 4 \
    "each tenant's bytes within the error" "$(cat known got)"

# One label, and the other forms.
heap=$(ls some.*.heap)
runs "top --label" "$JEPROF" top --label '^acme$' "$heap"
has "$(cat out)" "cache_page" "has its functions"
total=$("$JEPROF" top --json --label '^acme$' "$heap" | perl -MJSON::PP -0777 -ne 'printf "%.0f", decode_json($_)->{total}{bytes}')
is "$(awk -v t="$total" '$1 == "acme" { print (t - $2 < 2 && $2 - t < 2) }' got)" 1 "and its sum, $total"
runs "to pprof" "$JEPROF" export --to pprof -o p.pb.gz "$heap"
is "$(gzip -dc p.pb.gz | grep -aoE 'acme|globex|initech|umbrella' | sort -u | wc -l | tr -d ' ')" 4 "with the labels"
runs "to OTLP" "$JEPROF" export --to otlp -o p.otlp "$heap"
is "$(grep -aoE 'acme|globex|initech|umbrella' p.otlp | sort -u | wc -l | tr -d ' ')" 4 "with the labels"
if command -v go >/dev/null; then
	runs "go tool pprof" go tool pprof -tags p.pb.gz
	has "$(cat out)" "umbrella" "shows them"
fi

# ---- what a switch costs ----
cat >switches.c <<'END'
#include <jemalloc/jemalloc_prof.h>
#include <stdlib.h>

int
main(int argc, char **argv) {
	uint32_t id[2] = {jemalloc_prof_label_intern("a"), jemalloc_prof_label_intern("b")};
	const char *text[2] = {"a", "b"};
	long n = argc > 1 ? atol(argv[1]) : 0;
	for (long i = 0; i < n; i++) {
		if (argc > 2) {
			jemalloc_prof_label_set(text[i & 1]);
		} else {
			jemalloc_prof_label_switch(id[i & 1]);
		}
	}
	return *jemalloc_prof_label_word() == 0;
}
END
# instructions ARGUMENT...: of one of 20000 switches, by the difference of two runs
instructions() {
	for n in 20000 40000; do
		LD_PRELOAD=$LIB valgrind --tool=callgrind --callgrind-out-file=/dev/null ./switches $n "$@" 2>&1 | sed -n 's/.*Collected : //p'
	done | tr '\n' ' ' | awk '{ print ($2 - $1) / 20000 }'
}
if command -v valgrind >/dev/null && [ "$(asks config.debug)" = false ]; then
	$CC -O2 -I"$INCLUDE" -o switches switches.c
	cost=$(instructions)
	ok "$(awk -v c="$cost" 'BEGIN { print !(c > 0 && c <= 20) }')" "a switch takes $cost instructions with its loop, at most 20"
	cost=$(instructions text)
	ok "$(awk -v c="$cost" 'BEGIN { print !(c > 0 && c <= 2000) }')" "by text $cost, at most 2000"
else
	skip "no valgrind, or a debug build"
fi
done_testing
