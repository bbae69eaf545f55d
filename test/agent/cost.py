# What a scrape costs: CPU of jeprofd, and of the profiler's thread in the process. usage: cost.py URL AGENT PID COUNT
# Prints for both, in microseconds, the least and the median of COUNT scrapes. What else the machine does (shared caches, a host that
# takes time) only adds, so the least is what the work itself takes. Page faults of jeprofd come third.
import glob, statistics, sys, time, urllib.request

url, agent, pid, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
threads = [path.rsplit("/", 1)[0] + "/schedstat" for path in glob.glob("/proc/%d/task/*/comm" % pid) if open(path).read() == "jemalloc_prof\n"]


def of_agent():
    return time.clock_gettime_ns((~agent << 3) | 2)  # CPUCLOCK_SCHED of a process


def of_process():
    return sum(int(open(path).read().split()[0]) for path in threads)


ours, theirs = [], []
for _ in range(count):
    before = of_agent(), of_process()
    with urllib.request.urlopen(url, timeout=60) as answer:
        answer.read()
    ours.append((of_agent() - before[0]) // 1000)
    theirs.append((of_process() - before[1]) // 1000)
print(min(ours), int(statistics.median(ours)), min(theirs), int(statistics.median(theirs)), len(threads))
