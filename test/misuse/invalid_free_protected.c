/* Memory that mmap gave, without access, is freed. */
#include "crime.h"
#include <sys/mman.h>

int
main(void) {
	free(keep(mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
	return 0;
}
