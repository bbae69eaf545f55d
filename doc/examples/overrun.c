/* Writes one entry more than its table holds. */
#include <stdio.h>
#include <stdlib.h>

#define ENTRIES 131072

void
record(long *table, int i) {
	table[i] = i;
}

int
main(void) {
	long *table = malloc(ENTRIES * sizeof(*table));
	for (int i = 0; i <= ENTRIES; i++) {
		record(table, i);
	}
	printf("%ld recorded\n", table[ENTRIES - 1] + 1);
	free(table);
	return 0;
}
