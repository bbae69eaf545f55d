dnl The version string: --with-version, else git, else the file VERSION, else "no revision". And the name of our release, as scripts/dist
dnl names the tarball: 1.0.0 for its commit, 1.0.0+gitN.COMMIT after it; 1.0.0 alone also where there is neither git nor VERSION.

AC_DEFUN([JEM_VERSION], [
AC_ARG_WITH([version], [AS_HELP_STRING([--with-version=M.m.b-nrev-gGID], [version string; VERSION takes the file VERSION])],
  [je_version=$withval], [je_version=])
AS_CASE([$je_version], [yes|no], [je_version=])
if test "x$je_version" = xVERSION; then
  test -r "$srcdir/VERSION" || AC_MSG_ERROR([--with-version=VERSION, but there is no file VERSION])
  je_version=`sed -n 1p "$srcdir/VERSION"`
fi
if test "x$je_version" = x && test -e "$srcdir/.git"; then
  je_gid=`(cd "$srcdir" && git rev-parse HEAD) 2>/dev/null`
  je_nrev=`(cd "$srcdir" && git rev-list --count HEAD) 2>/dev/null`
  case $je_gid in
    @<:@0-9a-f@:>@*@<:@0-9a-f@:>@) test "x$je_nrev" != x && je_version=JEM_BASE_VERSION-$je_nrev-g$je_gid ;;
  esac
fi
if test "x$je_version" = x && test -r "$srcdir/VERSION"; then
  je_version=`sed -n 1p "$srcdir/VERSION"`
fi
if test "x$je_version" = x; then
  je_version=JEM_BASE_VERSION-0-g0000000000000000000000000000000000000000
  JEM_NOTE([neither git nor a file VERSION: the revision is not known (--with-version tells it)])
fi
if echo "$je_version" | grep -E '^@<:@0-9@:>@+\.@<:@0-9@:>@+\.@<:@0-9@:>@+-@<:@0-9@:>@+-g@<:@0-9a-zA-Z_@:>@+$' >/dev/null; then :; else
  AC_MSG_ERROR([version "$je_version" is not of the form M.m.b-nrev-gGID])
fi
je_version_major=`echo "$je_version" | sed 's/\..*//'`
je_version_minor=`echo "$je_version" | sed 's/^@<:@0-9@:>@*\.\(@<:@0-9@:>@*\).*/\1/'`
je_version_bugfix=`echo "$je_version" | sed 's/^@<:@0-9@:>@*\.@<:@0-9@:>@*\.\(@<:@0-9@:>@*\).*/\1/'`
je_version_nrev=`echo "$je_version" | sed 's/^@<:@^-@:>@*-\(@<:@0-9@:>@*\)-g.*/\1/'`
je_version_gid=`echo "$je_version" | sed 's/^.*-g//'`
je_release_name=
if test -e "$srcdir/.git"; then
  je_release_name=`"$srcdir/scripts/dist" --name 2>/dev/null | sed 's/^jemalloc-prof-//'`
elif test -r "$srcdir/VERSION"; then
  je_release_name=`sed -n 's/^release //p' "$srcdir/VERSION"`
fi
: ${je_release_name:=JEM_RELEASE}
AC_SUBST([je_release_name])
AC_SUBST([je_version])
AC_SUBST([je_version_major])
AC_SUBST([je_version_minor])
AC_SUBST([je_version_bugfix])
AC_SUBST([je_version_nrev])
AC_SUBST([je_version_gid])
])
