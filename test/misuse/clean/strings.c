/* What the C library allocates for strings and streams. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int
by_name(const void *a, const void *b) {
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int
main(void) {
	char *words[2000], *text = NULL, *line = NULL;
	size_t len = 0, room = 0;
	unsigned long sum = 0;
	FILE *f = open_memstream(&text, &len);

	for (int i = 0; i < 2000; i++) {
		if (asprintf(&words[i], "%d-%*d", i * 7919 % 2000, i % 60, i) < 0)
			return 1;
	}
	qsort(words, 2000, sizeof(words[0]), by_name);
	for (int i = 0; i < 2000; i++) {
		fprintf(f, "%s\n", words[i]);
		free(words[i]);
	}
	fclose(f);
	f = fmemopen(text, len, "r");
	while (getline(&line, &room, f) > 0) {
		char *copy = strndup(line, strlen(line) / 2);

		sum += strlen(copy);
		free(copy);
	}
	fclose(f);
	free(line);
	free(text);
	printf("%lu\n", sum);
	return 0;
}
