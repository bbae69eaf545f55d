#!/bin/sh
# The targets of make for who changes the library: one test by its name, the compilation database, the sums of coverage.
. "$JEMALLOC_SRC/test/include/tap.sh"

unset MAKEFLAGS MFLAGS MAKELEVEL
command -v python3 >/dev/null || skip_all "no python3"

runs "make one runs a program" make -s -C "$BUILD" one TEST=integration/sizes
has "$(cat out)" "Result: PASS" "and says that it passes"
runs "make one runs a script" make -s -C "$BUILD" one TEST=unit/calls.t
has "$(cat out)" "Files=1," "alone"
make -s -C "$BUILD" one TEST=unit/no_such_test >out 2>&1
[ $? -ne 0 ]
ok $? "a test that does not exist is an error"
has "$(cat out)" 'there is no test "unit/no_such_test"' "which names it"

runs "make compdb" make -s -C "$BUILD" compdb
cat >read.py <<'PYTHON'
import json, os, subprocess, sys
entries = {os.path.realpath(e["file"]): e for e in json.load(open(sys.argv[1]))}
src = os.path.realpath(sys.argv[2])
wanted = [src + "/" + f for f in sys.argv[3:]]
missing = [f for f in wanted if f not in entries]
assert not missing, "no entry for %s" % missing
for name in wanted:
    entry = entries[name]
    subprocess.run(entry["command"] + " -fsyntax-only", shell=True, cwd=entry["directory"], check=True)
print(len(entries))
PYTHON
# The tools whose libraries are not there have entries too, which cannot be compiled here.
tools="bin/client/process.c bin/ctl/main.c bin/deepbind.c"
[ ! -x "$BUILD/bin/jeprofd" ] || tools="$tools bin/agent/main.c bin/agent/names/table.c"
[ ! -x "$BUILD/bin/jeprof-symbolize" ] || tools="$tools bin/symbolize/main.c"
runs "its commands compile the library, the tools, tests of both kinds" python3 read.py "$BUILD/compile_commands.json" "$SRC" \
    src/imalloc.c src/os/gate.c $tools test/unit/sz.c test/integration/sizes.c
python3 -c 'import json, sys; print("\n".join(e["file"] for e in json.load(open(sys.argv[1]))))' "$BUILD/compile_commands.json" | sort >entries
is "$(uniq -d entries)" "" "each file has one entry"
# Left out: unwinders that this build does not have, C++ without a file of its own, what scripts compile by themselves.
"$SRC/scripts/tracked" '^(src|bin)/.*[.]c$|^test/(unit|integration|misuse|cross)/[^/]*[.]c$' | grep -v '/unwind_' | sed "s|^|$SRC/|" >sources
is "$(comm -13 entries sources)" "" "and each source of the library, the tools and the tests has one"

# Two objects: each runs a line and a branch that the other does not; a header of the system is not counted.
for first in 1 '#####'; do
	[ "$first" = 1 ] && second='#####' || second=1
	printf '%s\n' "        -:    0:Source:src/os/a.c" "    $first:    1:x" "branch  0 taken ${first%#####}" "branch  1 never executed" \
	    "    $second:    2:y" "    #####:    3:z" "        -:    4:}" "        -:    0:Source:/usr/include/b.h" "    #####:    9:w"
done | sed 's/taken $/taken 0/' >gcov.txt
"$SRC/scripts/coverage-sum" 60 50 missed.txt <gcov.txt >out 2>&1
is "$?" 0 "enough coverage"
has "$(tr -s ' ' <out)" "all 1 2 of 3 66.7% 1 of 2 50.0%" "lines and branches of two objects are one"
is "$(tr -s ' ' <missed.txt)" "src/os/a.c 66.7% 3" "the line that none runs is listed"
"$SRC/scripts/coverage-sum" 67 50 missed.txt <gcov.txt >out 2>&1
is "$?" 1 "too little is an error"
done_testing
