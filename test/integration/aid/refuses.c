/*
 * A preloaded library whose syscall() serves nobody: torsocks waits in its own for its
 * initialization, which waits for memory, and then refuses most numbers.
 */
#include <stdlib.h>

long
syscall(long number, ...) {
	(void)number;
	abort();
}
