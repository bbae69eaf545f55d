#!/bin/sh
# configure refuses a host whose pointers are not 8 bytes long, with one sentence, and makes no Makefile.
. "$JEMALLOC_SRC/test/include/tap.sh"

ac_cv_sizeof_void_p=4 CC="$CC" "$SRC/configure" -q >said 2>&1
status=$?
[ $status -ne 0 ]
ok $? "configure fails on a 32-bit host" "status $status"
grep -q '^configure: error: a 64-bit host is needed: pointers of ".*" have 4 bytes$' said
ok $? "it says why" "$(cat said)"
[ "$(grep -c . said)" -eq 1 ]
ok $? "in one line" "$(cat said)"
[ ! -e Makefile ]
ok $? "there is no Makefile" "$(ls)"

echo "1..$tests"
exit $((failures != 0))
