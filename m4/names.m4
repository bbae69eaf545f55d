dnl Public names: prefix, mangling, export. All lists come from src/public_symbols.txt.

AC_DEFUN([JEM_NAMES], [
AC_ARG_WITH([jemalloc_prefix], [AS_HELP_STRING([--with-jemalloc-prefix=P], [prefix of all public C names])],
  [AS_CASE([$withval], [yes], [je_prefix=je_], [no], [je_prefix=], [je_prefix=$withval])], [je_prefix=])
AC_ARG_WITH([mangling], [AS_HELP_STRING([--with-mangling=a:b,c:d], [public name a becomes b])],
  [AS_CASE([$withval], [yes|no], [je_mangling=], [je_mangling=$withval])], [je_mangling=])
AC_ARG_WITH([export], [AS_HELP_STRING([--without-export], [hide all public names (static use)])],
  [AS_CASE([$withval], [no], [je_export=0], [je_export=1])], [je_export=1])
AC_ARG_WITH([private_namespace], [AS_HELP_STRING([--with-private-namespace=P], [prefix of internal names that stay global])],
  [AS_CASE([$withval], [yes|no], [je_private_namespace=je_], [je_private_namespace=${withval}je_])], [je_private_namespace=je_])
AC_ARG_WITH([install_suffix], [AS_HELP_STRING([--with-install-suffix=S], [suffix of library, header and documentation names])],
  [AS_CASE([$withval], [yes|no], [install_suffix=],
    [*" "*|*"	"*], [AC_MSG_ERROR([--with-install-suffix: no blanks, please])],
    [install_suffix=$withval])], [install_suffix=])

for je_form in rename unlogged mangle demangle list; do
  je_text=`$AWK -v form=$je_form -v prefix="$je_prefix" -v mangling="$je_mangling" -v cxx=$je_cxx -v export=$je_export \
    -v smallocx=$je_experimental_smallocx -v defrag=$je_defrag_hint -v gid=$je_version_gid -f "$srcdir/m4/names.awk" "$srcdir/src/public_symbols.txt"` ||
    AC_MSG_ERROR([src/public_symbols.txt cannot be read])
  eval "je_names_$je_form=\$je_text"
done
je_upper_prefix=`echo "$je_prefix" | tr 'abcdefghijklmnopqrstuvwxyz' 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'`
je_export_attr='__attribute__((visibility("default")))'
test $je_export = 1 || je_export_attr='__attribute__((visibility("hidden")))'
je_is_malloc=0
test "x$je_prefix" = x && je_is_malloc=1
AC_SUBST([je_prefix])
AC_SUBST([je_upper_prefix])
AC_SUBST([je_private_namespace])
AC_SUBST([install_suffix])
AC_SUBST([je_export_attr])
AC_SUBST([je_is_malloc])
AC_SUBST([je_names_rename])
AC_SUBST([je_names_unlogged])
AC_SUBST([je_names_mangle])
AC_SUBST([je_names_demangle])

AC_CONFIG_COMMANDS([src/exports.map],
  [mkdir -p src
   echo "$je_names_list" >src/exports.list
   { echo '{'
     if test -n "$je_names_list" && test $je_export = 1; then
       echo 'global:'
       echo "$je_names_list" | sed 's/.*/	&;/'
     fi
     echo 'local: *;'
     echo '};'; } >src/exports.map],
  [je_names_list='$je_names_list' je_export=$je_export])
])
