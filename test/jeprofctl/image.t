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
done_testing
