dnl Directories with white space or a colon in their names: make cannot build there, and LD_PRELOAD, LD_LIBRARY_PATH and the flags that
dnl pkg-config prints are lists that split at these. DESTDIR may have them.

AC_DEFUN([JEM_PATHS], [
for je_directory in "`cd "$srcdir" && pwd`" "`pwd`" "$prefix" "$exec_prefix" "$libdir" "$includedir"; do
  AS_CASE([$je_directory], [*[[[:space:]:]]*],
    [AC_MSG_ERROR([white space or a colon in "$je_directory": build from, in and for directories without them])])
done
])
