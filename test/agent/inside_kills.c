/*
 * Inside of dead_watch.c: each out-of-memory kill of a cgroup explains one end. Prints what is
 * wrong. Built by inside.t.
 */
#include "dead_watch.c"
#include "expect.h"

static uint64_t counter;
static held_t *ends_meanwhile; /* while a counter is read */

bool
read_usage(int pid, uint64_t start, figures_t *f) {
	(void)pid;
	(void)start;
	(void)f;
	return true;
}

bool
end_has_kill(const kills_t *before, const kills_t *now) {
	return now->of_group > before->of_group;
}

/* Whether a kill of its cgroup is left for this process. */
static bool
has_kill(const held_t *h) {
	kills_t now = end_kills(h->labels.cgroup);
	return end_has_kill(&h->kills, &now);
}

kills_t
end_kills(const char *cgroup) {
	(void)cgroup;
	kills_t now = {true, true, counter, counter};
	if (ends_meanwhile != NULL) {
		held_t *h = ends_meanwhile;
		ends_meanwhile = NULL;
		counter++;
		list = h->next;
		if (has_kill(h)) {
			spend_kill(h);
		}
	}
	return now;
}

static held_t one, two, three;

/* Three processes of a cgroup, seen alive when the counter was 0; `other` is in another one. */
static held_t other = {.labels.cgroup = "/other", .pid = 4, .kills = {true, true, 0, 0}};

static void
begin(void) {
	held_t *const all[] = {&one, &two, &three};
	counter = 0;
	list = &one;
	for (int i = 0; i < 3; i++) {
		*all[i] = (held_t){.pid = i + 1, .kills = {true, true, 0, 0}};
		all[i]->next = i < 2 ? all[i + 1] : &other;
		snprintf(all[i]->labels.cgroup, sizeof(all[i]->labels.cgroup), "/a");
	}
}

static bool
see(held_t *h) {
	bool has_other;
	jeprof_target_t t = {.pid = h->pid, .start = h->start};
	return note_kills(&t, h->opened, &has_other);
}

/* Whether a kill explains the end of the process, which is then the first of the list. */
static bool
end_is_kill(held_t *h) {
	bool is_kill = has_kill(h);
	list = h->next;
	if (is_kill) {
		spend_kill(h);
	}
	return is_kill;
}

int
main(void) {
	begin();
	counter = 1; /* the first is killed, and takes its time */
	see(&two);
	expect("seen alive after the kill: the first one's end is a kill", end_is_kill(&one), true);
	expect("the second one's is not, without another kill", has_kill(&two), false);
	counter = 2;
	expect("with another one it is", end_is_kill(&two), true);
	expect("which does not explain a third end", end_is_kill(&three), false);
	expect("nor counts elsewhere", other.kills.of_group != 0, false);
	begin();
	counter = 2; /* two at once */
	expect("two at once: the first", end_is_kill(&one), true);
	expect("two at once: the second", end_is_kill(&two), true);
	expect("two at once: not the third", end_is_kill(&three), false);
	begin();
	ends_meanwhile = &one;
	see(&two);
	expect("a kill that is told while the counter is read", end_is_kill(&two), false);
	return bad;
}
