/* operator delete[] is told the size of an array of fewer. */
#include "crime.h"

/* operator new[](size_t) and operator delete[](void *, size_t) */
extern void delete_sized(void *, size_t) __asm__("_ZdaPvm");
extern void *new_plain(size_t) __asm__("_Znam");

int
main(void) {
	delete_sized(releasing(new_plain(800)), 400);
	return 0;
}
