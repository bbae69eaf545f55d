/* operator delete is told the size of another type. */
#include "crime.h"

/* operator new(size_t) and operator delete(void *, size_t) */
extern void delete_sized(void *, size_t) __asm__("_ZdlPvm");
extern void *new_plain(size_t) __asm__("_Znwm");

int
main(void) {
	delete_sized(releasing(new_plain(16)), 200);
	return 0;
}
