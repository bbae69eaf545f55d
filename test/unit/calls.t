#!/bin/sh
# Every way from the library to the system is one that a test lets fail: what its objects want from the C library is
# in calls.txt, each number of a system call in the source is in fault_calls.c, and what calls.txt calls injected is
# injected there.
. "$JEMALLOC_SRC/test/include/tap.sh"
list=$SRC/test/unit/calls.txt
test=$SRC/test/unit/fault_calls.c
objects=$(find "$JEMALLOC_BUILD/src" -name '*.o' ! -name '*.pic.o' ! -name '*cpp*')
nm $objects >names 2>/dev/null
awk 'NF == 3 && $2 ~ /[A-Z]/ { print $3 }' names | sort -u >defined
# Not of the C library: what the compiler and its tools add, and the runtime of C++. Strings and bytes reach no system.
awk 'NF == 2 && $1 == "U" { print $2 }' names | sort -u | comm -23 - defined |
	grep -vE '^(_GLOBAL_OFFSET_TABLE_|__.*|_Z.*|_ITM.*|bcmp|(str|mem)[a-z]*)$' >wanted
ok "$([ "$(wc -l <wanted)" -gt 20 ]; echo $?)" "$(wc -l <wanted) functions of the C library are called"
grep -v '^#' "$list" | cut -f1 | sort -u >listed
missing=$(comm -23 wanted listed | tr '\n' ' ')
ok "$([ -z "$missing" ]; echo $?)" "each is in calls.txt: $missing"
odd=$(grep -v '^#' "$list" | grep -vE '^[_A-Za-z]+	(injected|pure|boot)$')
ok "$([ -z "$odd" ]; echo $?)" "which says of each what is done about it: $odd"
missing=
for name in $(awk '!/^#/ && $2 == "injected" { print $1 }' "$list"); do
	grep -qE "WRAP\\($name,|__wrap_$name\\(" "$test" || missing="$missing $name"
done
ok "$([ -z "$missing" ]; echo $?)" "what is injected is so in fault_calls.c: $missing"
missing=
for number in $(grep -rhoE 'SYS_[a-z0-9_]+\b' "$SRC"/src --include='*.[ch]' --exclude-dir=client | sort -u | sed 's/^SYS_//'); do
	grep -qE "X\\($number\\)|SYS_$number\\b" "$test" || missing="$missing $number"
done
ok "$([ -z "$missing" ]; echo $?)" "calls by number are all known there: $missing"
done_testing
