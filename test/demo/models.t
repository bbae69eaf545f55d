#!/bin/sh
# The small configurations of test/models, with as many states as they say, and the mutants that must be found there.
. "$JEMALLOC_SRC/test/include/tap.sh"

command -v spin >/dev/null || skip_all "no spin: scripts/install-deps models"
CHECK_DIR=$W runs "no small configuration has an error, each of their mutants has one" "$SRC/scripts/check-models" --fast
diag "$(grep -v MUTANT out)"
[ "$(grep -c MUTANT out)" -ge 20 ]
ok $? "$(grep -c MUTANT out) mutants"
done_testing
