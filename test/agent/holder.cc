// A service for scripts/demo-fleet and scripts/check-fleet that was not prepared for profiling: when it gets a first line on
// standard input it holds 64 MiB in hold_index and says "holds"; then it takes 1 MiB more in grow_cache each 100 ms, at most
// MAX MiB. The blocks are written, so resident memory follows.
// usage: holder [MAX]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

static std::map<int, std::string> index_of_all;
static std::vector<std::vector<char>> cache;

__attribute__((noinline)) static void
hold_index(int entries) {
	for (int i = 0; i < entries; i++) {
		index_of_all[i] = std::string(1024 - 32, 'x');
	}
}

__attribute__((noinline)) static void
grow_cache() {
	cache.emplace_back(1 << 20, 'c');
}

int
main(int argc, char **argv) {
	int most = argc > 1 ? std::atoi(argv[1]) : 64;
	char line[16];
	if (std::fgets(line, sizeof(line), stdin) == nullptr) {
		return 1;
	}
	hold_index(64 << 10);
	std::puts("holds");
	std::fflush(stdout);
	for (;;) {
		if (static_cast<int>(cache.size()) < most) {
			grow_cache();
		} else {
			cache[0] = std::vector<char>(1 << 20, 'c'); // a sign of life for the profiler: it allocates
		}
		std::this_thread::sleep_for(std::chrono::milliseconds(100));
	}
}
