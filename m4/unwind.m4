dnl The unwinders of the profiler. Each is one file src/unwind/unwind_*.c, beside what they share; here it is decided which ones are compiled.

AC_DEFUN([JEM_UNWIND], [
AC_ARG_WITH([static_libunwind], [AS_HELP_STRING([--with-static-libunwind=FILE], [static libunwind archive])],
  [AS_CASE([$withval], [yes|no], [je_static_libunwind=], [je_static_libunwind=$withval])], [je_static_libunwind=])
AS_IF([test "x$je_static_libunwind" != x && test ! -f "$je_static_libunwind"],
  [AC_MSG_ERROR([static libunwind "$je_static_libunwind" does not exist])])

JEM_PROF_NEEDED([prof-libunwind], [$je_prof_libunwind$je_prof_libunwind_given])
JEM_PROF_NEEDED([prof-frameptr], [$je_prof_frameptr$je_prof_frameptr_given])
JEM_PROF_NEEDED([prof-libgcc], [$je_prof_libgcc$je_prof_libgcc_given])
AS_IF([test $je_prof = 0], [je_prof_libunwind=0 je_prof_frameptr=0 je_prof_libgcc=0 je_prof_probes=0])
AS_CASE([$je_arch], [x86_64|aarch64], [], [je_prof_probes=0])

JE_UNWIND_LIBS=
AS_IF([test $je_prof_libunwind = 1],
  [je_saved_LIBS=$LIBS
   JE_UNWIND_LIBS=${je_static_libunwind:--lunwind}
   LIBS="$JE_UNWIND_LIBS $LIBS"
   AC_MSG_CHECKING([for a usable libunwind])
   AC_LINK_IFELSE([AC_LANG_PROGRAM([[#define UNW_LOCAL_ONLY
#include <libunwind.h>]], [[void *v[4]; return unw_backtrace(v, 4);]])], [],
     [je_prof_libunwind=0
      JE_UNWIND_LIBS=])
   JEM_MSG_RESULT([test $je_prof_libunwind = 1])
   LIBS=$je_saved_LIBS
   AS_IF([test $je_prof_libunwind = 0], [JEM_NOTE([--enable-prof-libunwind: no usable libunwind, left out])])])
AS_IF([test $je_prof_libgcc = 1],
  [AC_CACHE_CHECK([for _Unwind_Backtrace], [je_cv_unwind_backtrace],
    [AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <unwind.h>
static _Unwind_Reason_Code step(struct _Unwind_Context *c, void *p) { (void)c; (void)p; return _URC_NO_REASON; }]],
      [[return _Unwind_Backtrace(step, 0);]])], [je_cv_unwind_backtrace=1], [je_cv_unwind_backtrace=0])])
   je_prof_libgcc=$je_cv_unwind_backtrace])
dnl libunwind has functions of the names of libgcc's too, and its walk reads its own tables: the first library in the link is taken.
dnl Not among the libraries of static programs, in which there is no libgcc_s.
JE_GCC_LIBS=
AS_IF([test $je_prof_libunwind$je_prof_libgcc = 11],
  [je_saved_LIBS=$LIBS
   LIBS="-lgcc_s $JE_UNWIND_LIBS $LIBS"
   AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [JE_GCC_LIBS=-lgcc_s])
   LIBS=$je_saved_LIBS])

JE_UNWIND_FILES=
je_unwinders=
AS_IF([test $je_prof_frameptr = 1], [JE_UNWIND_FILES="$JE_UNWIND_FILES unwind_fp" je_unwinders="$je_unwinders frame-pointer"])
AS_IF([test $je_prof_libunwind = 1], [JE_UNWIND_FILES="$JE_UNWIND_FILES unwind_libunwind" je_unwinders="$je_unwinders libunwind"])
AS_IF([test $je_prof_libgcc = 1], [JE_UNWIND_FILES="$JE_UNWIND_FILES unwind_libgcc" je_unwinders="$je_unwinders libgcc"])
AS_IF([test "x$JE_UNWIND_FILES" = x], [je_unwinders=" none"])
AC_SUBST([JE_UNWIND_FILES])
AC_SUBST([JE_UNWIND_LIBS])
AC_SUBST([JE_GCC_LIBS])
])

dnl JEM_PROF_NEEDED(name, value and yes/no) - error when an unwinder was asked for by name without the profiler.
AC_DEFUN([JEM_PROF_NEEDED], [
AS_IF([test $je_prof = 0 && test "x$2" = x1yes], [AC_MSG_ERROR([--enable-$1 needs --enable-prof])])
])
