# TAP for test scripts, to be sourced: . "$JEMALLOC_SRC/test/include/tap.sh"
#
# JEMALLOC_SRC is the source tree, JEMALLOC_BUILD the build directory, JEMALLOC_LIB the
# shared library. The script works in a directory of its own, $W, that goes away at its end.

: "${JEMALLOC_SRC:?}" "${JEMALLOC_BUILD:?}" "${JEMALLOC_LIB:?}"
LIB=$(cd "$(dirname "$JEMALLOC_LIB")" && pwd)/$(basename "$JEMALLOC_LIB")
SRC=$(cd "$JEMALLOC_SRC" && pwd)
BUILD=$(cd "$JEMALLOC_BUILD" && pwd)
LIBDIR=$(dirname "$LIB")
CC=${CC:-gcc}
CXX=${CXX:-g++}
W=$(mktemp -d "${TMPDIR:-/tmp}/jetest.XXXXXX") || exit 1
trap 'cd /; rm -rf "$W"' EXIT
trap 'exit 1' HUP INT TERM PIPE
cd "$W" || exit 1
unset MALLOC_CONF LD_PRELOAD
tests=0
failures=0

# forget_git: settings of the user's git, and of a hook that may run this test, do not count
forget_git() {
	for name in $(git rev-parse --local-env-vars 2>/dev/null); do unset "$name"; done
	export GIT_CONFIG_GLOBAL=/dev/null
}

# ok STATUS NAME: one result; further arguments are remarks if it failed. A failure goes to standard error too: prove shows that.
ok() {
	tests=$((tests + 1))
	if [ "$1" -eq 0 ]; then
		printf "ok %d - %s\n" "$tests" "$2"
		return 0
	fi
	failures=$((failures + 1))
	printf "not ok %d - %s\n" "$tests" "$2"
	printf "not ok %d - %s\n" "$tests" "$2" >&2
	shift 2
	for remark; do
		diag "$remark"
		diag "$remark" >&2
	done
	return 1
}

diag() {
	printf '%s\n' "$1" | head -n 40 | sed 's/^/# /'
}

# is GOT WANT NAME
is() {
	[ "$1" = "$2" ]
	ok $? "$3" "got:  $1" "want: $2"
}

# has TEXT PART NAME: PART is a fixed string
has() {
	case $1 in
	*"$2"*) ok 0 "$3" ;;
	*) ok 1 "$3" "no \"$2\" in:" "$1" ;;
	esac
}

# runs NAME COMMAND...: the command exits 0; its output is shown if not, and left in out
runs() {
	name=$1
	shift
	"$@" >out 2>&1
	rc=$?
	ok $rc "$name" "exit status $rc: $*" "$(head -c 3000 out)"
}

skip() {
	tests=$((tests + 1))
	echo "ok $tests # SKIP $1"
}

skip_all() {
	echo "1..0 # SKIP $1"
	exit 0
}

done_testing() {
	echo "1..$tests"
	[ "$failures" -eq 0 ]
	exit $?
}

# can_unshare: a mount namespace of its own can be had; not in a plain chroot, nor without rights
can_unshare() {
	unshare -m true 2>/dev/null
}

# shows_others PID: another user sees the process in /proc; not where /proc is mounted with hidepid
shows_others() {
	setpriv --reuid=65534 --regid=65534 --clear-groups cat "/proc/$1/stat" >/dev/null 2>&1
}

# until_true COMMAND...: waits until it succeeds, five minutes at most, but at least for twenty turns: a machine may be slow. Once
# that was in vain, something is wrong, and nothing else is waited for that long.
patience=300
until_true() {
	turns=0
	give_up=$(($(date +%s) + patience))
	until "$@" >/dev/null 2>&1; do
		[ $turns -lt 20 ] || [ "$(date +%s)" -lt $give_up ] || { patience=5; return 1; }
		sleep 0.05
		turns=$((turns + 1))
	done
}

# preloaded COMMAND...: with the library
preloaded() {
	LD_PRELOAD="$LIB${LD_PRELOAD:+:$LD_PRELOAD}" "$@"
}

# compile OUT SOURCE... [FLAGS]: a C program with the public header, not linked to the library
compile() {
	target=$1
	shift
	$CC -std=gnu11 -O1 -g -w -fno-builtin-malloc -fno-builtin-free \
	    -I"$BUILD/include" -I"$SRC/test/include" -o "$target" "$@" -pthread -ldl
}

# compile_linked OUT SOURCE...: linked to the shared library
compile_linked() {
	target=$1
	shift
	compile "$target" "$@" -Wl,--no-as-needed "$LIB" -Wl,-rpath,"$LIBDIR"
}

# asks NODE: prints a boolean node of the preloaded library as true or false
asks() {
	printf '%s\n' '#include <stdio.h>' '#include <stdbool.h>' '#include <dlfcn.h>' \
	    'int main(int c, char **v) { bool b = false; size_t n = sizeof(b);' \
	    'int (*f)(const char *, void *, size_t *, void *, size_t) = dlsym(RTLD_DEFAULT, "mallctl");' \
	    '(void)c; if (f) f(v[1], &b, &n, NULL, 0); puts(b ? "true" : "false"); }' >asks.c
	[ -x ./asks ] || $CC -D_GNU_SOURCE -w -o asks asks.c -ldl
	preloaded ./asks "$1"
}
