// The C++ server of scripts/soak: a constant amount of live memory, held in containers of four kinds, while threads come and go, each
// of which makes requests of many sizes, keeps some blocks for others, and ends. The argument is the number of threads (8). A line
// "fork" on standard input makes a child that allocates and ends; "quit" or the end of input ends the server.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <random>
#include <string>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

constexpr size_t live_bytes = size_t(64) << 20;
std::mutex lock;
std::map<unsigned, std::string> table; // about half of the live bytes
std::vector<std::unique_ptr<char[]>> buffers(256); // the other half
std::atomic<bool> ends;

size_t
some_size(std::mt19937 &random) {
	return size_t(16) << (random() % 12);
}

void
request(std::mt19937 &random) {
	std::vector<std::string> parts;
	for (unsigned i = 0, n = random() % 64; i < n; i++) {
		parts.emplace_back(some_size(random), 'x');
	}
	unsigned key = random() % 16384;
	std::string value(1024 + random() % 2048, 'v');
	std::unique_ptr<char[]> buffer(new char[live_bytes / 2 / buffers.size()]);
	std::memset(buffer.get(), 1, 4096);
	std::lock_guard<std::mutex> hold(lock);
	table[key].swap(value);
	buffers[random() % buffers.size()].swap(buffer);
}

// Needs new address space now and then, which the limit may refuse.
void
large_request(std::mt19937 &random) {
	std::unique_ptr<char[]> large(new char[(1 + random() % 96) << 20]);
	*const_cast<volatile char *>(large.get()) = 1;
}

// At the limit of address space that scripts/soak sets; it counts these lines.
void
say_refused(const char *what) {
	std::fprintf(stderr, "soak server: refused %s\n", what);
}

void
work(unsigned seed) {
	std::mt19937 random(seed);
	for (unsigned n = 200 + random() % 400; n > 0 && !ends; n--) {
		try {
			request(random);
			if (random() % 256 == 0) {
				large_request(random);
			}
		} catch (const std::bad_alloc &) {
			say_refused("a request");
		}
		usleep(500);
	}
}

// One of the places for threads: a new one begins when the one before has ended.
void
supply(unsigned place) {
	for (unsigned n = 0; !ends; n++) {
		try {
			std::thread(work, place * 1000003 + n).join();
		} catch (const std::system_error &) {
			say_refused("a thread");
			usleep(10000);
		}
	}
}

void
fork_one() {
	pid_t pid = fork();
	if (pid == 0) {
		try {
			std::vector<std::string> kept;
			for (unsigned i = 0; i < 2000; i++) {
				kept.emplace_back(i, 'f');
			}
		} catch (const std::bad_alloc &) {
			say_refused("a child");
		}
		_exit(0);
	}
	int status = -1;
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
		std::fprintf(stderr, "soak server: a forked child ended with status %d\n", status);
		std::exit(3);
	}
}

} // namespace

// The live bytes are there from the start, so that what grows later is something else.
static void
fill() {
	std::mt19937 random(1);
	for (unsigned key = 0; key < 16384; key++) {
		table[key] = std::string(1024 + random() % 2048, 'v');
	}
	for (std::unique_ptr<char[]> &buffer : buffers) {
		buffer.reset(new char[live_bytes / 2 / buffers.size()]());
	}
}

int
main(int argc, char **argv) {
	unsigned nplaces = argc > 1 ? unsigned(std::atoi(argv[1])) : 8;
	fill();
	std::vector<std::thread> places;
	for (unsigned i = 0; i < nplaces; i++) {
		places.emplace_back(supply, i);
	}
	char line[64];
	while (std::fgets(line, sizeof(line), stdin) != nullptr && std::strcmp(line, "quit\n") != 0) {
		if (std::strcmp(line, "fork\n") == 0) {
			fork_one();
		}
	}
	ends = true;
	for (std::thread &t : places) {
		t.join();
	}
	return 0;
}
