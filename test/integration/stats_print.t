#!/bin/sh
# malloc_stats_print: the frame of the text, JSON that a parser accepts whatever stands in
# the options, and the letters that leave parts out.
. "$JEMALLOC_SRC/test/include/tap.sh"

# stats OPTS [MORE]: what a preloaded program prints at its end
stats() {
	MALLOC_CONF="stats_print:true,stats_print_opts:$1${2:+,$2}" LD_PRELOAD="$LIB" ./asks version 2>&1 >/dev/null
}

# json PATH: the value at a path of the text in the file "json"; "error" if it is no JSON
json() {
	perl -MJSON::PP -e '
	local $/; open my $f, "<", "json" or die; my $d = eval { decode_json(<$f>) };
	if (!defined $d) { print "error $@"; exit }
	for my $k (split m{/}, $ARGV[0]) { $d = ref $d eq "ARRAY" ? $d->[$k] : $d->{$k}; }
	print ref $d eq "ARRAY" ? "array " . @$d : ref $d eq "HASH" ? "object" :
	    JSON::PP::is_bool($d) ? ($d ? "true" : "false") : $d // "none";' "$1"
}

has_stats=$(asks config.stats)
stats "" >text
is "$(head -n 1 text)" "___ Begin jemalloc statistics ___" "first line"
is "$(tail -n 1 text)" "--- End jemalloc statistics ---" "last line"
for part in 'Version: "5.3.1-' 'Build-time option settings' 'Run-time option settings' 'Arenas: ' \
    'Quantum size: 16' 'Page size: ' 'Number of bin size classes: '; do
	has "$(cat text)" "$part" "the text has: $part"
done
if [ "$has_stats" = true ]; then
	ok "$(grep -q '^Allocated: [0-9]*, active: [0-9]*, metadata: .*, resident: .*, mapped: .*, retained: ' text; echo $?)" \
	    "the line of sums"
	ok "$(grep -q '^bins:' text; echo $?)" "bins"
	stats bl >short
	ok "$(grep -q '^bins:' short; [ $? -ne 0 ]; echo $?)" "letter b leaves them out"
	stats g >short
	ok "$(grep -q 'Run-time option' short; [ $? -ne 0 ]; echo $?)" "letter g leaves the general part out"
fi
if ! perl -MJSON::PP -e 1 2>/dev/null; then
	skip "no JSON::PP"
	done_testing
fi
for conf in "" narenas:1 prof:true,lg_prof_sample:0 'prof_ctl_fd:true,prof_prefix:a"b\c	d' tcache:false; do
	stats J "$conf" >json
	is "$(json jemalloc)" object "JSON parses ($conf)"
done
stats J 'prof_ctl_fd:true,prof_prefix:a"b\c,prof_dump_mode:640' >json
case $(json jemalloc/version) in
5.3.1-*) ok 0 "jemalloc/version" ;;
*) ok 1 "jemalloc/version" "$(json jemalloc/version)" ;;
esac
is "$(json jemalloc/config/debug)" "$(asks config.debug)" "config/debug"
is "$(json jemalloc/opt/stats_print)" true "opt/stats_print"
is "$(json jemalloc/opt/stats_print_opts)" J "opt/stats_print_opts"
is "$(json jemalloc/arenas/quantum)" 16 "arenas/quantum"
nbins=$(json jemalloc/arenas/nbins)
is "$(json jemalloc/arenas/bin)" "array $nbins" "arenas/bin has nbins entries"
is "$(json jemalloc/arenas/bin/0/size)" 8 "arenas/bin/0/size"
if [ "$(asks config.prof)" = true ]; then
	is "$(json jemalloc/opt/prof_prefix)" 'a"b\c' "a string with quotes comes through whole"
	is "$(json jemalloc/prof/active)" false "prof/active"
	is "$(json jemalloc/opt/prof_dump_mode)" 640 "a mode as it was written"
fi
if [ "$has_stats" = true ]; then
	is "$(json jemalloc/stats)" object "stats"
	is "$(json jemalloc/stats.arenas)" object "stats.arenas"
	is "$(json jemalloc/stats.arenas/0/bins)" "array $nbins" "stats.arenas/0/bins"
	allocated=$(json jemalloc/stats/allocated)
	ok "$([ "$allocated" -gt 0 ]; echo $?)" "stats/allocated $allocated"
	stats Jg >json
	is "$(json jemalloc/opt)" none "letter g leaves opt out"
	is "$(json jemalloc/stats)" object "but not stats"
	stats Jx >json
	is "$(json jemalloc/stats.arenas/0/mutexes)" none "letter x leaves the mutexes out"
	stats Jbl >json
	is "$(json jemalloc/stats.arenas/0/bins)" none "letter b leaves the bins out"
	is "$(json jemalloc/stats.arenas/0/lextents)" none "letter l the large classes"
fi
done_testing
