dnl Helpers for command line options.

dnl JEM_ENABLE(name, default yes|no, effect) - one --enable/--disable switch. Sets the shell variable je_NAME to 1 or 0
dnl (name with - as _), je_NAME_given to yes when the user spoke, and substitutes @je_NAME@.
AC_DEFUN([JEM_ENABLE], [
AC_ARG_ENABLE([$1],
  [AS_HELP_STRING([m4_if([$2], [yes], [--disable-$1], [--enable-$1])], [$3])],
  [AS_TR_SH([je_$1_given])=yes
   AS_CASE([$enableval], [no|0], [AS_TR_SH([je_$1])=0], [AS_TR_SH([je_$1])=1])],
  [AS_TR_SH([je_$1_given])=no
   AS_TR_SH([je_$1])=m4_if([$2], [yes], [1], [0])])
AC_SUBST(AS_TR_SH([je_$1]))
])

dnl JEM_ACCEPT_ENABLE(name, effect) - a switch of the baseline whose subject does not exist here: accepted, reported.
AC_DEFUN([JEM_ACCEPT_ENABLE], [
AC_ARG_ENABLE([$1], [AS_HELP_STRING([--enable-$1], [$2 (accepted, no effect)])],
  [JEM_NOTE([--enable-$1 and --disable-$1 have no effect in this implementation])])
])

dnl JEM_ACCEPT_WITH(name, value, effect) - the same for --with-name=value.
AC_DEFUN([JEM_ACCEPT_WITH], [
AC_ARG_WITH([$1], [AS_HELP_STRING([--with-$1=$2], [$3 (accepted, no effect)])],
  [JEM_NOTE([--with-$1 has no effect in this implementation])])
])

dnl JEM_WITH_NUMBER(name, variable, default, help) - --with-NAME=N, a small decimal number.
AC_DEFUN([JEM_WITH_NUMBER], [
AC_ARG_WITH([$1], [AS_HELP_STRING([--with-$1=N], [$4])],
  [AS_CASE([$withval],
    [yes|no|""], [$2=$3],
    [*@<:@!0-9@:>@*], [AC_MSG_ERROR([--with-$1 needs a decimal number, not "$withval"])],
    [$2=$withval])],
  [$2=$3])
AC_SUBST([$2])
])

dnl JEM_NOTE(text) - one more line under "Notes" of the summary.
AC_DEFUN([JEM_NOTE], [je_notes="${je_notes}
  note              : $1"])

dnl JEM_HAVE_FUNC(function, variable) - variable = 1 when the C library links it, else 0.
AC_DEFUN([JEM_HAVE_FUNC], [
AC_CHECK_FUNC([$1], [$2=1], [$2=0])
AC_SUBST([$2])
])

dnl JEM_TRY_CFLAG(flag, variable) - appends the flag to the variable when the C compiler takes it without a word.
AC_DEFUN([JEM_TRY_CFLAG], [
AS_VAR_PUSHDEF([cachevar], [je_cv_cflag_$1])
AC_CACHE_CHECK([whether $CC takes $1], [cachevar],
  [je_saved_CFLAGS=$CFLAGS
   CFLAGS="$CFLAGS -Werror $1"
   AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])], [AS_VAR_SET([cachevar], [yes])], [AS_VAR_SET([cachevar], [no])])
   CFLAGS=$je_saved_CFLAGS])
AS_VAR_IF([cachevar], [yes], [$2="$$2 $1"])
AS_VAR_POPDEF([cachevar])
])

dnl JEM_TRY_LDFLAG(flag, variable) - the same for a link flag of a shared object.
AC_DEFUN([JEM_TRY_LDFLAG], [
AS_VAR_PUSHDEF([cachevar], [je_cv_ldflag_$1])
AC_CACHE_CHECK([whether the linker takes $1], [cachevar],
  [je_saved_LDFLAGS=$LDFLAGS
   LDFLAGS="$LDFLAGS -shared -fPIC $1"
   AC_LINK_IFELSE([AC_LANG_SOURCE([int f(void) { return 0; }])], [AS_VAR_SET([cachevar], [yes])], [AS_VAR_SET([cachevar], [no])])
   LDFLAGS=$je_saved_LDFLAGS])
AS_VAR_IF([cachevar], [yes], [$2="$$2 $1"])
AS_VAR_POPDEF([cachevar])
])

dnl JEM_IS_DEFINED(macro, header text) - sets je_defined to 1 or 0; compiles, never runs.
AC_DEFUN([JEM_IS_DEFINED], [
AC_COMPILE_IFELSE([AC_LANG_SOURCE([$2
#ifndef $1
#error not defined
#endif
int x;])], [je_defined=1], [je_defined=0])
])

dnl JEM_MSG_RESULT(condition) - the answer to AC_MSG_CHECKING. AC_MSG_RESULT quotes backquotes, so it prints no command's output.
AC_DEFUN([JEM_MSG_RESULT], [AS_IF([$1], [AC_MSG_RESULT([yes])], [AC_MSG_RESULT([no])])])
