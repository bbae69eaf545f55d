/*
 * The program's stack: how little of it an allocation, a sample and a dump take, and stacks that
 * are deeper than prof_bt_max: cut, and counted in the dump.
 */
#include "ctl.h"

#include <pthread.h>
#include <sys/mman.h>

/* What has to work for the rest to mean anything. */
#define MUST(good) \
	do { \
		if (!(good)) \
			bail_out("not " #good); \
	} while (0)

#define STACK_SIZE ((size_t)256 << 10)
#define PAINT 0xa5
/* With asserts a little more. */
#define MOST ((size_t)(4096 << ctl_bool("config.debug")))

static const char *null_name = "/dev/null";

static void
work_allocate(void) {
	for (size_t i = 0; i < 3000; i++) {
		void *p = keep(malloc(i * 20 + 1));

		p = keep(realloc(p, i * 30 + 1));
		free(p);
	}
}

static void
work_dump(void) {
	MUST(ctl_write("prof.dump", null_name) == 0);
}

static struct {
	unsigned char *low;
	size_t used;
	void (*work)(void);
} painted;

/* Below the frame of this function all is painted; what is not so afterwards was used. */
static
__attribute__((noinline)) void *
measured(void *arg) {
	unsigned char *here = __builtin_frame_address(0), *at = painted.low;

	painted.work(); /* what is done once: the loader's, the thread's records */
	memset(at, PAINT, (size_t)(here - at) - 512);
	painted.work();
	while (at < here && *at == PAINT)
		at++;
	painted.used = (size_t)(here - at);
	return arg;
}

static void
run_measured(const char *name, void (*work)(void)) {
	pthread_attr_t attr;
	pthread_t t;

	painted.low = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
	    0);
	MUST(painted.low != MAP_FAILED && pthread_attr_init(&attr) == 0
	    && pthread_attr_setstack(&attr, painted.low, STACK_SIZE) == 0);
	painted.work = work;
	MUST(pthread_create(&t, &attr, measured, NULL) == 0 && pthread_join(t, NULL) == 0);
	printf("%s %zu\n", name, painted.used);
	MUST(painted.used > 0 && painted.used <= MOST);
	munmap(painted.low, STACK_SIZE);
}

static int
child_use(void) {
	run_measured("malloc", work_allocate);
	run_measured("dump", work_dump);
	return 0;
}

static
__attribute__((noinline)) void *
deep(unsigned depth) {
	void *p = depth == 0 ? malloc(100) : deep(depth - 1);

	__asm__ volatile("" : "+r"(p));
	return p;
}

/* The number in the line of that name. */
static int
cut_in(const char *path) {
	static char text[1 << 16];
	FILE *in = fopen(path, "r");

	MUST(in != NULL);
	text[fread(text, 1, sizeof(text) - 1, in)] = '\0';
	fclose(in);
	char *at = strstr(text, "\n# jemalloc.truncated_stacks=");
	return at == NULL ? -1 : atoi(strchr(at, '=') + 1);
}

static int
child_cut(void) {
	char path[] = "/tmp/stack_use.XXXXXX";
	const char *name = path;

	MUST(mkstemp(path) >= 0);
	MUST(ctl_write("prof.dump", name) == 0);
	int before = cut_in(path);
	for (int i = 0; i < 10; i++)
		keep(deep(50));
	MUST(ctl_write("prof.dump", name) == 0);
	printf("cut %d\n", cut_in(path) - before);
	unlink(path);
	return 0;
}

int
main(int argc, char **argv) {
	static const struct test_child children[] = {{"use", child_use}, {"cut", child_cut},
	    {NULL, NULL}};
	static struct test_result r;

	test_children(argc, argv, children);
	if (!ctl_bool("config.prof"))
		plan_skip_all("built without the profiler");
	run_child_conf(&r, "use", "prof:true,lg_prof_sample:0,prof_active:false");
	child_exits(&r, 0, "the stack that allocations and dumps take");
	run_child_conf(&r, "use", "prof:true,lg_prof_sample:0");
	child_exits(&r, 0, "with each allocation a sample");
	run_child_conf(&r, "cut", "prof:true,lg_prof_sample:0,prof_bt_max:20");
	contains(r.out, "cut 10\n", "stacks deeper than prof_bt_max are counted");
	run_child_conf(&r, "cut", "prof:true,lg_prof_sample:0,prof_bt_max:128");
	contains(r.out, "cut 0\n", "none where there is room");
	return done_testing();
}
