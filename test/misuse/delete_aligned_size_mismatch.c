/* The aligned operator delete is told the size of another type. */
#include "crime.h"

/* operator new(size_t, align_val_t) and operator delete(void *, size_t, align_val_t) */
extern void delete_sized(void *, size_t, size_t) __asm__("_ZdlPvmSt11align_val_t");
extern void *new_aligned(size_t, size_t) __asm__("_ZnwmSt11align_val_t");

int
main(void) {
	delete_sized(releasing(new_aligned(64, 64)), 256, 64);
	return 0;
}
