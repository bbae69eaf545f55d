#!/bin/sh
# Values, reasons of a refusal, answers: units.c, with the rooms of bin/ctl, slots.c and filters.c; then that no build is larger than promised.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/jeprofctl/rooms"
$CC -std=gnu11 -O1 -Wall -Wextra -Werror -I"$SRC/src" -I"$SRC/bin" -I"$SRC/bin/ctl" -Wl,--wrap=client_write_memory,--wrap=syscall,--wrap=opendir,--wrap=jeprof_check_same -o units "$SRC/test/jeprofctl/units.c" $rooms || exit 1
./units >units.out
ok $? "units of jeprofctl" "$(grep -v ^ok units.out)"
$CC -std=gnu11 -O1 -Wall -Wextra -Werror -fno-pie -no-pie -Wl,--unresolved-symbols=ignore-all -I"$SRC/src" -I"$SRC/bin" -o slots "$SRC/test/jeprofctl/slots.c" || exit 1
runs "which slot of a mailbox is taken" ./slots
$CC -std=gnu11 -O1 -Wall -Wextra -Werror -I"$SRC/src" -I"$SRC/bin" -Wl,--wrap=client_read_proc,--wrap=readlink,--wrap=opendir,--wrap=readdir,--wrap=readdir64,--wrap=closedir -o filters "$SRC/test/jeprofctl/filters.c" $rooms || exit 1
runs "whose filter of system calls it is" ./filters
$CC -O2 -Wall -Wextra -Wshadow -Wundef -Werror -I"$SRC/src" -I"$SRC/bin" -o ctl "$SRC"/bin/ctl/*.c "$SRC"/bin/client/*.c
[ "$(wc -c <ctl)" -lt 180000 ]
ok $? "less than 180 KB" "$(ls -l ctl)"
if command -v readelf >/dev/null; then
	needed=$(readelf -d ctl | grep NEEDED | grep -vc 'libc\.')
	is "$needed" 0 "needs libc only"
else
	skip "no readelf"
fi
if command -v musl-gcc >/dev/null; then
	runs "musl, static" musl-gcc -static -s -Os -Wall -Wextra -Werror -I"$SRC/src" -I"$SRC/bin" -o ctl.musl "$SRC"/bin/ctl/*.c "$SRC"/bin/client/*.c
	[ "$(wc -c <ctl.musl)" -lt 200000 ]
	ok $? "static: less than 200 KB" "$(ls -l ctl.musl)"
	runs "it runs" ./ctl.musl --version
else
	skip "no musl-gcc"
fi
done_testing
