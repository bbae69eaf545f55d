dnl What the compiler, the machine and the C library are. Compiles and links, never runs.

AC_DEFUN([JEM_PLATFORM], [
AC_CACHE_CHECK([for the machine], [je_cv_arch],
  [JEM_IS_DEFINED([__x86_64__], [])
   AS_IF([test $je_defined = 1], [je_cv_arch=x86_64],
     [JEM_IS_DEFINED([__aarch64__], [])
      AS_IF([test $je_defined = 1], [je_cv_arch=aarch64], [je_cv_arch=other])])])
je_arch=$je_cv_arch
AC_CACHE_CHECK([for the GNU C library], [je_cv_glibc],
  [JEM_IS_DEFINED([__GLIBC__], [#include <features.h>])
   je_cv_glibc=$je_defined])
je_have_glibc=$je_cv_glibc
AC_SUBST([je_have_glibc])

dnl Some compilers (gcc 12 for riscv64) call a library for atomic changes of one byte.
AC_CACHE_CHECK([for the library of atomic bytes], [je_cv_atomic],
  [AC_LINK_IFELSE([AC_LANG_PROGRAM([char c;], [return __atomic_exchange_n(&c, 1, __ATOMIC_SEQ_CST);])],
     [je_cv_atomic=none], [je_cv_atomic=-latomic])])
AS_IF([test $je_cv_atomic != none], [LIBS="$LIBS $je_cv_atomic"])

AC_CHECK_SIZEOF([void *])
AS_IF([test "$ac_cv_sizeof_void_p" != 8],
  [AC_MSG_ERROR([a 64-bit host is needed: pointers of "$CC" have $ac_cv_sizeof_void_p bytes])])
je_lg_sizeof_ptr=3
AC_SUBST([je_lg_sizeof_ptr])

JEM_HAVE_FUNC([secure_getenv], [je_have_secure_getenv])
JEM_HAVE_FUNC([memalign], [je_have_memalign])
JEM_HAVE_FUNC([valloc], [je_have_valloc])
JEM_HAVE_FUNC([pvalloc], [je_have_pvalloc])
JEM_HAVE_FUNC([malloc_usable_size], [je_have_malloc_usable_size])
JEM_HAVE_FUNC([sbrk], [je_have_sbrk])
JEM_HAVE_FUNC([utrace], [je_have_utrace])
AC_CACHE_CHECK([for PR_SET_VMA_ANON_NAME], [je_cv_prctl_vma],
  [JEM_IS_DEFINED([PR_SET_VMA_ANON_NAME], [#include <sys/prctl.h>
#include <linux/prctl.h>])
   je_cv_prctl_vma=$je_defined])
je_have_prctl_vma=$je_cv_prctl_vma
AC_SUBST([je_have_prctl_vma])
AS_IF([test $je_pageid = 1 && test $je_have_prctl_vma = 0],
  [JEM_NOTE([--enable-pageid: the system headers lack PR_SET_VMA_ANON_NAME])
   je_pageid=0])
AS_IF([test $je_have_sbrk = 0], [je_dss=0])
AS_IF([test $je_utrace = 1 && test $je_have_utrace = 0],
  [JEM_NOTE([--enable-utrace: the system has no utrace, switched off])
   je_utrace=0])

dnl A C++ compiler is used only if it compiles C++17 for the same machine and C library as the C compiler.
AS_IF([test $je_cxx = 1],
  [AC_CACHE_CHECK([whether $CXX can compile the C++ operators], [je_cv_cxx17],
    [AC_LANG_PUSH([C++])
     je_saved_CXXFLAGS=$CXXFLAGS
     CXXFLAGS="$CXXFLAGS -std=c++17"
     AC_COMPILE_IFELSE([AC_LANG_SOURCE([[#include <new>
void *f(std::size_t n, std::align_val_t a) { return ::operator new(n, a); }]])], [je_cv_cxx17=yes], [je_cv_cxx17=no])
     CXXFLAGS=$je_saved_CXXFLAGS
     AC_LANG_POP([C++])
     test "x`$CC -dumpmachine 2>/dev/null`" = "x`$CXX -dumpmachine 2>/dev/null`" || je_cv_cxx17=no
     case $CC in *musl*) case $CXX in *musl*) ;; *) je_cv_cxx17=no ;; esac ;; esac])
   AS_IF([test $je_cv_cxx17 = no],
     [je_cxx=0
      JEM_NOTE([no C++17 compiler for this target: C++ operators left out])])])

AC_MSG_CHECKING([for the huge page size])
AS_IF([test $je_lg_hugepage = 0],
  [je_kib=
   AS_IF([test $cross_compiling = no && test -r /proc/meminfo],
     [je_kib=`sed -n 's/^Hugepagesize: *\(@<:@0-9@:>@*\) kB/\1/p' /proc/meminfo`])
   je_lg_hugepage=21
   AS_IF([test "x$je_kib" != x],
     [je_lg_hugepage=10
      while test $je_kib -gt 1; do
        je_kib=`expr $je_kib / 2`
        je_lg_hugepage=`expr $je_lg_hugepage + 1`
      done])])
AC_MSG_RESULT([2^$je_lg_hugepage])
AS_IF([test $je_lg_page -lt 12 || test $je_lg_page -gt 16], [AC_MSG_ERROR([--with-lg-page takes 12 to 16])])
AS_IF([test $je_lg_hugepage -lt $je_lg_page], [AC_MSG_ERROR([a huge page cannot be smaller than a page])])
AS_IF([test $je_lg_quantum -lt 3 || test $je_lg_quantum -gt 4], [AC_MSG_ERROR([--with-lg-quantum takes 3 or 4])])
je_page_fixed=0
AS_IF([test $je_arch = x86_64 && test $je_debug = 0 && test $je_lg_page = 12], [je_page_fixed=1])
AC_SUBST([je_page_fixed])
])

dnl JEM_HEADER_FACTS - lines of the public header that are a #define or an #undef.
AC_DEFUN([JEM_HEADER_FACTS], [
JEM_FACT([je_macro_is_malloc], [$je_is_malloc], [JEMALLOC_IS_MALLOC], [1])
JEM_FACT([je_macro_memalign], [$je_have_memalign], [JEMALLOC_OVERRIDE_MEMALIGN])
JEM_FACT([je_macro_valloc], [$je_have_valloc], [JEMALLOC_OVERRIDE_VALLOC])
JEM_FACT([je_macro_pvalloc], [$je_have_pvalloc], [JEMALLOC_OVERRIDE_PVALLOC])
JEM_FACT([je_macro_frag_hint], [$je_defrag_hint], [JEMALLOC_FRAG_HINT])
JEM_FACT([je_macro_config_env], [$je_user_config], [JEMALLOC_CONFIG_ENV], [\"${je_upper_prefix}MALLOC_CONF\"])
JEM_FACT([je_macro_config_file], [$je_user_config], [JEMALLOC_CONFIG_FILE], [\"/etc/${je_prefix}malloc.conf\"])
])

dnl JEM_FACT(variable, 0 or 1, macro, value)
AC_DEFUN([JEM_FACT], [
AS_IF([test $2 = 1], [$1="#define $3 $4"], [$1='/* $3 is not defined in this build. */'])
AC_SUBST([$1])
])
