#!/bin/sh
# What the shared library shows to others: names, SONAME, needed libraries, static TLS.
. "$JEMALLOC_SRC/test/include/tap.sh"

cat >want <<'END'
_ZdaPv
_ZdaPvRKSt9nothrow_t
_ZdaPvSt11align_val_t
_ZdaPvSt11align_val_tRKSt9nothrow_t
_ZdaPvm
_ZdaPvmSt11align_val_t
_ZdlPv
_ZdlPvRKSt9nothrow_t
_ZdlPvSt11align_val_t
_ZdlPvSt11align_val_tRKSt9nothrow_t
_ZdlPvm
_ZdlPvmSt11align_val_t
_Znam
_ZnamRKSt9nothrow_t
_ZnamSt11align_val_t
_ZnamSt11align_val_tRKSt9nothrow_t
_Znwm
_ZnwmRKSt9nothrow_t
_ZnwmSt11align_val_t
_ZnwmSt11align_val_tRKSt9nothrow_t
aligned_alloc
calloc
dallocx
free
free_aligned_sized
free_sized
mallctl
mallctlbymib
mallctlnametomib
malloc
malloc_conf
malloc_conf_2_conf_harder
malloc_message
malloc_stats_print
malloc_usable_size
mallocx
memalign
nallocx
posix_memalign
pvalloc
rallocx
realloc
sallocx
sdallocx
valloc
xallocx
END
nm -D --defined-only "$LIB" | awk '$2 != "A" { print $3 }' | sed 's/@.*//' | LC_ALL=C sort >got
LC_ALL=C sort want >want.sorted
ok "$(diff want.sorted got >names; echo $?)" "exactly the 46 public names" "$(cat names)"
is "$(wc -l <got | tr -d ' ')" 46 "46 of them"
for name in malloc_conf malloc_conf_2_conf_harder; do
	is "$(nm -D "$LIB" | awk -v n=$name '$3 == n { print $2 }' | tr -d '\n')" V "$name is weak data"
done
readelf -dW "$LIB" >dynamic
has "$(cat dynamic)" "Library soname: [libjemalloc.so.2]" "SONAME"
needed=$(sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p' dynamic | grep -v '^libc\.so\|^ld-linux' | tr '\n' ' ')
is "$needed" "" "needs libc only"
readelf -lW "$LIB" >segments
tls=$(awk '$1 == "TLS" { print $6 }' segments)
ok "$([ $((${tls:-0})) -le 512 ]; echo $?)" "static TLS is at most 512 bytes (${tls:-none})"
ok "$(grep -q 'TEXTREL' dynamic; [ $? -ne 0 ]; echo $?)" "no text relocations"
ok "$(awk '$1 == "GNU_STACK" { exit $7 ~ /E/ }' segments; echo $?)" "no executable stack"
ok "$(nm -D --undefined-only "$LIB" | grep -q " U _ZSt\| U __cxa_[betg]"; [ $? -ne 0 ]; echo $?)" \
    "no strong reference into a C++ library"
for archive in libjemalloc.a libjemalloc_pic.a; do
	if [ ! -f "$LIBDIR/$archive" ]; then
		skip "$archive is not built"
		continue
	fi
	nm -g --defined-only "$LIBDIR/$archive" 2>/dev/null | awk 'NF == 3 { print $3 }' |
	    grep -v "^__libc_\|^__posix_memalign$\|^je_cxx_\|^__clang_call_terminate$\|^DW[.]ref[.]\|^_[.]stapsdt[.]base$" | LC_ALL=C sort -u >got
	extra=$(LC_ALL=C comm -13 want.sorted got | tr '\n' ' ')
	missing=$(LC_ALL=C comm -23 want.sorted got | tr '\n' ' ')
	is "$extra|$missing" "|" "$archive: nothing else is global, nothing is missing"
done
done_testing
