#!/bin/sh
# What ./configure says: results are words, the tools tell the release, and directories in which nothing could be built or used are refused.
. "$JEMALLOC_SRC/test/include/tap.sh"

[ -x "$SRC/configure" ] || skip_all "no configure in the source tree"
is "$(grep 'result: .*`' "$BUILD/config.log")" "" "no result of a check is a command"

# The release, as each tool tells it: the one that configure found.
release=$(sed -n 's/^release=//p' "$BUILD/jemalloc.pc")
number=$(sed -n 's/^m4_define(\[JEM_RELEASE\], \[\(.*\)\])$/\1/p' "$SRC/configure.ac")
case $release in
"$number" | "$number"[+~]git[0-9]*.*) ok 0 "jemalloc.pc has the release" ;;
*) ok 1 "jemalloc.pc has the release" "$release" ;;
esac
is "$("$BUILD/bin/jemalloc-config" --release)" "$release" "jemalloc-config --release"
interface=$("$BUILD/bin/jemalloc-config" --version)
is "$("$BUILD/bin/jeprof" --version)" "jeprof $interface, release $release" "jeprof --version"
for tool in jeprofctl jeprofd; do
	[ -x "$BUILD/bin/$tool" ] || continue
	is "$("$BUILD/bin/$tool" --version)" "$tool $release, mailbox protocol 2" "$tool --version"
done
# A copy of configure in a tree of another kind: a release, and nothing at all.
mkdir tree tree/src && cp "$SRC/configure" tree/ && cp "$SRC/src/public_symbols.txt" tree/src/
found() { (cd tree && sed -n "/^je_release_name=\$/,/^: /p" configure >name.sh && srcdir=. && . ./name.sh && echo "$je_release_name"); }
is "$(found)" "$number" "without git and VERSION it is the number alone"
printf '%s\n' "5.3.1-7-gabc" "release 7.8.9" >tree/VERSION
is "$(found)" "7.8.9" "the tarball's VERSION names it"

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

# The static library of a build with link-time optimization: two objects suffice.
mkdir lto && cd lto || exit 1
if $CC -flto -x c -c /dev/null -o none.o 2>/dev/null; then
	configure "$SRC/configure" CC="$CC" CXX="$CXX" CFLAGS="-O1 -flto" CXXFLAGS="-O1 -flto"
	is "$status" 0 "-flto: configure"
	runs "-flto: a static library" make -s V=0 MAKEFLAGS= lib/libjemalloc.a C_OBJS="src/meta/sz.o src/cxx.o" CXX_OBJS=src/jemalloc_cpp.o
	is "$(nm lib/libjemalloc.a 2>/dev/null | awk '$2 == "T" && $3 !~ /^(_Z|je_)/' | wc -l)" 0 "-flto: its private names are local"
fi
done_testing
