#!/bin/sh
# Readers of images against a model: image.c, with the rooms of bin/client.
. "$JEMALLOC_SRC/test/include/tap.sh"
# What the library calls and image.c stands before.
wraps=
for name in pread64 lseek64 malloc calloc realloc strdup strndup; do
	wraps=$wraps,--wrap=$name
done
# shellcheck disable=SC2086
$CC -std=gnu11 -O0 -Wall -Wextra -Werror -I"$SRC/src" -I"$SRC/bin" -Wl$wraps -o image "$SRC/test/jeprofctl/image.c" "$SRC"/bin/client/*.c || exit 1
./image >out 2>err
ok $? "it ends" "$(cat err)"
grep -v '^1\.\.' out | sed "s/^\(not \)\{0,1\}ok [0-9]* - /\1/" >said
is "$(grep -c '^not \|^#' said)" 0 "a reader writes what the model says" "$(grep '^not \|^#' said | head -20)"
[ "$(grep -vc '^#' said)" -gt 280 ]
ok $? "in more than 280 cases"

# what an image lacks, in the words of jeprofctl: a sentence for each number that is not 0, and none for the others
says() {
	[ "$1" = 0 ] || echo "jeprofctl: $2$1$3"
}
for kind in box whole core bare; do
	./image $kind file >lacks
	ok $? "$kind: it is written, with damaged objects" "$(cat lacks)"
	read -r torn no_room cut bare lacking <lacks
	"$BUILD/bin/jeprofctl" dump --core file -o got.heap >out 2>err
	ok $? "$kind: it is read" "$(cat err)"
	{
		says "$torn" '' ' damaged objects of the tables were left out'
		says "$no_room" '' ' samples have no stack: the box was full'
		says "$cut" 'the file is cut off: it lacks ' ' bytes'
		[ "$bare" = 0 ] || echo 'jeprofctl: the core does not tell all files that were mapped: its note of them (NT_FILE) is not there, is cut off or takes more than 32M'
		says "$lacking" 'the core lacks the headers of ' ' loaded files: their build ids are not known'
	} >want
	is "$(grep ^jeprofctl: err)" "$(cat want)" "$kind: and what it lacks is said: $torn, $no_room, $cut, $lacking"
	has "$(cat got.heap)" "# jemalloc.torn=$torn" "$kind: the profile has the number"
done

# a process, of which only damage is told: it changes while it is read, and its files are there
mkfifo go ready
./image alive - <go >ready &
pid=$!
exec 9>go
read -r _ <ready
"$BUILD/bin/jeprofctl" dump "$pid" --outside -o got.heap >out 2>err 9>&-
ok $? "a process: it is read" "$(cat err)"
is "$(grep ^jeprofctl: err | sed 's/[0-9][0-9]*/N/')" "jeprofctl: N damaged objects of the tables were left out; the list of stacks ends at one of them: those behind it are missing" "a process: and what is damaged is said"
exec 9>&-
wait "$pid"

# counted N: instructions for the profile of a core of N mappings
counted() {
	./image "$1" many
	valgrind --tool=callgrind --callgrind-out-file=/dev/null "$BUILD/bin/jeprofctl" dump --core many -o got.heap 2>&1 |
		sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}
if command -v valgrind >/dev/null; then
	few=$(counted 2000)
	many=$(counted 4000)
	is "$(grep -c '^1.* r--p .*/lib/object' got.heap)" 4000 "the mappings of a core are in the profile"
	[ "${few:-0}" -gt 0 ] && [ $((many * 10)) -lt $((few * 22)) ]
	ok $? "twice as many cost twice as much" "2000: $few instructions, 4000: $many"
else
	skip "no valgrind"
fi
done_testing
