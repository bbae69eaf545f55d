/* Who a process is, for people and scrapers: read from /proc, bounded, whatever it claims there. */
#pragma once
#include "table.h"

void read_labels(const jeprof_target_t *t, labels_t *l);

/* RSS and number of threads; false if the process has ended or is another one by now. */
bool read_usage(int pid, uint64_t start, figures_t *f);

/* Memory of its cgroup, and the limit. */
void read_cgroup_memory(const char *cgroup, figures_t *f);
