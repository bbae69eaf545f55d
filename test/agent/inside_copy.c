/*
 * Inside of dead_store.c: a copy of a box that grows meanwhile. Prints what is wrong. Built by
 * inside.t with checks of the sizes of buffers.
 */
#include "dead_store.c"

static int bad;

/* Copies the first `size` bytes of a box of `all` bytes with data in its last piece. */
static void
try_size(off_t size, off_t all) {
	char piece[PIECE];
	struct stat st;
	memset(piece, 1, sizeof(piece));
	int box = memfd_create("box", 0), to = memfd_create("to", 0);
	if (ftruncate(box, all) != 0 || ftruncate(to, size) != 0
	    || pwrite(box, piece, PIECE, all - PIECE) != PIECE) {
		printf("no memory\n");
		bad = 1;
	}
	bool is_copied = try_copy(to, box, size);
	if (!is_copied || fstat(to, &st) != 0 || st.st_size != size) {
		printf("%ld of %ld bytes: copied %d\n", (long)size, (long)all, is_copied);
		bad = 1;
	}
	close(box);
	close(to);
}

int
main(void) {
	try_size(8 * PIECE, 8 * PIECE);
	try_size(2 * PIECE, 8 * PIECE);
	try_size(2 * PIECE + 100, 3 * PIECE);
	try_size(2 * PIECE + 100, 4 * PIECE);
	try_size(3 * PIECE, 4 * PIECE);
	return bad;
}
