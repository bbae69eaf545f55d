dnl jeprof-symbolize: built where libdw of elfutils is; jeprof does without it too.

AC_DEFUN([JEM_SYMBOLIZE], [
JEM_ENABLE([symbolize], [yes], [do not build jeprof-symbolize, which needs libdw of elfutils])
AS_IF([test $je_symbolize = 1],
  [je_saved_LIBS=$LIBS
   LIBS="-ldw -lelf"
   AC_MSG_CHECKING([for libdw])
   AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <elfutils/libdwelf.h>
#include <dwarf.h>]], [[return elf_version(EV_CURRENT) == EV_NONE || dwarf_begin(0, DWARF_C_READ) != NULL
         || dwarf_cu_info(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) != DW_UT_skeleton]])],
     [], [je_symbolize=0])
   JEM_MSG_RESULT([test $je_symbolize = 1])
   LIBS=$je_saved_LIBS
   AS_IF([test $je_symbolize = 0], [JEM_NOTE([no libdw (package libdw-dev): jeprof-symbolize, which reads DWARF for jeprof, is left out])])])
])
