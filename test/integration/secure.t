#!/bin/sh
# A set-user-id program takes no options from its environment.
. "$JEMALLOC_SRC/test/include/tap.sh"
[ "$(id -u)" = 0 ] || skip_all "not root"
command -v setpriv >/dev/null || skip_all "no setpriv"

cat >show.c <<'END'
#include <stdio.h>
#include <sys/auxv.h>
#include <jemalloc/jemalloc.h>
int main(void)
{
	unsigned n = 0;
	size_t len = sizeof(n);
	mallctl("opt.narenas", &n, &len, NULL, 0);
	printf("secure %lu narenas %u\n", getauxval(AT_SECURE), n);
	return 0;
}
END
cp "$LIB" ./libjemalloc.so.2
chmod 755 . libjemalloc.so.2
$CC -w -O1 -I"$BUILD/include" -o show show.c -Wl,--no-as-needed ./libjemalloc.so.2 -Wl,-rpath,"$W"
cp show setuid_show
chown 12345 setuid_show
chmod 4755 show setuid_show
chmod 755 show
out=$(MALLOC_CONF=narenas:7 setpriv --reuid 23456 --clear-groups ./show 2>&1)
is "$out" "secure 0 narenas 7" "an ordinary program reads MALLOC_CONF"
out=$(MALLOC_CONF=narenas:7 setpriv --reuid 23456 --clear-groups ./setuid_show 2>&1)
case $out in
"secure 0 "*) skip "set-user-id has no effect here" ;;
"secure 1 narenas 7") ok 1 "a set-user-id program does not" "$out" ;;
"secure 1 narenas "*) ok 0 "a set-user-id program does not" ;;
*) ok 1 "a set-user-id program runs" "$out" ;;
esac
done_testing
