#!/bin/sh
# What ./configure says: results are words, and directories in which nothing could be built or used are refused.
. "$JEMALLOC_SRC/test/include/tap.sh"

[ -x "$SRC/configure" ] || skip_all "no configure in the source tree"
is "$(grep 'result: .*`' "$BUILD/config.log")" "" "no result of a check is a command"

# refuses DIRECTORY NAME: the last configure did, and told which it was
refuses() {
	[ "$status" -ne 0 ] && ok 0 "$2" || ok 1 "$2" "$(cat "$W/said")"
	has "$(cat "$W/said")" "white space or a colon in \"$1\"" "and told"
}
configure() { "$@" -q >"$W/said" 2>&1; status=$?; }
for name in "a b" "a	b" "a:b"; do
	mkdir "$name" "$name/src" build || exit 1
	cp "$SRC/configure" "$name/"
	cp "$SRC/src/public_symbols.txt" "$name/src/"
	cd "$name" || exit 1
	configure "$SRC/configure"
	refuses "$W/$name" "a build in \"$name\""
	cd ../build || exit 1
	configure "../$name/configure"
	refuses "$W/$name" "a source in it"
	configure "$SRC/configure" --prefix="/opt/$name"
	refuses "/opt/$name" "a prefix"
	configure "$SRC/configure" --libdir="/opt/$name"
	refuses "/opt/$name" "a libdir"
	cd .. || exit 1
	rm -rf build
done
done_testing
