#!/usr/bin/env bash
# scripts/demo on the library of this build: it must say the truth, and its last line must be a command that works.
. "$JEMALLOC_SRC/test/include/tap.sh" || exit 1
for tool in redis-server redis-cli redis-benchmark; do
	command -v $tool >/dev/null || skip_all "no $tool here"
done
[ "$(asks config.prof)" = true ] || skip_all "no profiler in this build"

DEMO_NO_DEPS=1 DEMO_BUILD=$BUILD DEMO_DIR=$W/demo DEMO_REQUESTS=${DEMO_REQUESTS:-20000} timeout 400 "$SRC/scripts/demo" >said 2>errors </dev/null
ok $? "scripts/demo" "$(tail -n 20 said)" "$(tail -n 20 errors)" || { done_testing; exit 1; }
is "$(cat errors)" "" "it complains of nothing"
is "$(realpath "$(sed -n "s/^process [0-9]* runs on //p" said)")" "$(realpath "$LIB")" "redis-server ran on this library"

# section TITLE: the lines after the heading that begins so, up to the next empty one
section() {
	awk -v title="== $1" 'index($0, title) == 1 { on = 1; next } on && $0 == "" { exit } on' said
}
dump=$(section "the profile" | head -n 1)
is "$(printf '%s' "$dump" | sed -E 's/[0-9]+\.[0-9]{8}T[0-9]{6}\.[0-9]{3}Z\.[0-9]+/NAME/')" "demo/dumps/redis.NAME.f.heap" "the dump has a time in its name"
has "$(head -n 1 "$dump")" "heap_v2/" "it is a profile"
has "$(tail -n 1 "$dump")" "# end " "that is complete"

table=$(section "the ten functions" | awk '$3 ~ /[0-9]%$/ && $5 ~ /[0-9]%$/')
is "$(printf '%s\n' "$table" | wc -l)" 10 "ten functions"
is "$(printf '%s\n' "$table" | awk '{ print $8 }' | grep -c 'redis[^ ]*+0x')" 0 "all of redis-server have names"
# dictInsertAtPosition: since redis 7.4
for name in _sdsnewlen lpInsert 'dictAddRaw\|dictInsertAtPosition' zslInsert; do
	printf '%s\n' "$table" | grep -q " \($name\) "
	ok $? "$name of redis is one of them" "$table"
done
share=$(printf '%s\n' "$table" | awk '{ sum += $3 } END { print int(sum + 0.5) }')
ok "$([ "$share" -ge 95 ] && [ "$share" -le 101 ]; echo $?)" "they hold nearly all: $share %"
# What redis counts is what it asked for and rounds up; the profile must come near.
counted=$(sed -n 's/^== the ten functions.*itself counted \([0-9.]*\)M)$/\1/p' said)
live=$(sed -n 's/.* live \([0-9.]*\)M .*in .*/\1/p' said | head -n 1)
ok "$(awk -v a="$live" -v b="$counted" 'BEGIN { exit !(b > 0 && a > 0.85 * b && a < 1.15 * b) }'; echo $?)" "live $live M is near the $counted M that redis counts"

has "$(section "the report")" " open demo/report.html, or copy this one file" "it says how to open the report"
has "$(head -c 4000 "$W/demo/report.html")" "Most is held by" "which has its words"
# The page's own parts (47 000 bytes) are test/jeprof/report.t's; what redis adds to them is looked at here. The profiles
# have 50 000 bytes and more; which stacks are sampled is chance, so the bound follows them (15 636 bytes were seen of 55 266).
own=$({ "$SRC/scripts/join-page" model; "$SRC/scripts/join-page" report; cat "$SRC"/bin/page/style.css "$SRC"/bin/page/body.html; } | wc -c)
size=$(wc -c <"$W/demo/report.html")
dumps=$(cat "$W"/demo/dumps/*.heap | wc -c)
ok "$([ "$size" -gt "$own" ] && [ $(((size - own) * 2)) -le "$dumps" ]; echo $?)" "and its data are small" \
	"$size bytes, $own of them the page's own, of profiles of $dumps bytes"

commands=$(section "the commands that did it")
for word in LD_LIBRARY_PATH= MALLOC_CONF=prof:true redis-server redis-benchmark shutdown jeprof; do
	has "$commands" "$word" "the commands are there: $word"
done
next=$(tail -n 1 said)
runs "the next command works: ${next%% *} ..." bash -c "$next"
has "$(cat out)" "Total: " "and prints a table"
is "$(ls "$W/demo")" "$(printf '%s\n' benchmark.out dumps jeprof.err redis.log report.html)" "nothing else is left behind"
done_testing
