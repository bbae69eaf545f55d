dnl jeprofd: built where libmicrohttpd and zlib are, and where jeprof-symbolize is, which finds its names.

AC_DEFUN([JEM_AGENT], [
JEM_ENABLE([agent], [yes], [do not build jeprofd, which needs libmicrohttpd, zlib and libdw])
je_curl=0
AS_IF([test $je_agent = 1 && test $je_prof = 1],
  [je_saved_LIBS=$LIBS
   je_agent_lacks=
   AC_MSG_CHECKING([for libmicrohttpd and zlib])
   LIBS="-lmicrohttpd"
   AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <microhttpd.h>]], [[return MHD_start_daemon(0, 0, 0, 0, 0, 0, MHD_OPTION_END) != 0]])],
     [], [je_agent_lacks="$je_agent_lacks libmicrohttpd (package libmicrohttpd-dev)"])
   LIBS="-lz"
   AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <zlib.h>]], [[return zlibVersion() == 0]])],
     [], [je_agent_lacks="$je_agent_lacks zlib (package zlib1g-dev)"])
   LIBS="-lcurl"
   je_curl=0
   AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <curl/curl.h>]], [[return curl_easy_init() == 0]])], [je_curl=1])
   LIBS=$je_saved_LIBS
   AS_IF([test $je_symbolize = 0], [je_agent_lacks="$je_agent_lacks libdw (package libdw-dev)"])
   JEM_MSG_RESULT([test -z "$je_agent_lacks"])
   AS_IF([test -n "$je_agent_lacks"],
     [je_agent=0
      JEM_NOTE([no$je_agent_lacks: jeprofd, which serves profiles of all processes over HTTP, is left out])])],
  [je_agent=0])
AS_IF([test $je_agent = 1 && test $je_curl = 0],
  [JEM_NOTE([no libcurl (package libcurl4-openssl-dev): jeprofd --push is left out])])
AC_SUBST([je_curl])
])
