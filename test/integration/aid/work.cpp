// Containers and exceptions in threads, for links with the static library.
#include <cstdio>
#include <map>
#include <new>
#include <string>
#include <thread>
#include <vector>

int
main() {
	std::vector<std::thread> threads;
	int caught = 0;

	for (int t = 0; t < 3; t++) {
		threads.emplace_back([] {
			std::map<std::string, std::string> m;

			for (int i = 0; i < 2000; i++)
				m[std::to_string(i)] = std::string((size_t)i, 'x');
		});
	}
	for (auto &t : threads)
		t.join();
	try {
		volatile size_t n = (size_t)1 << 62;

		std::string s(n, 'x');
		std::printf("%zu\n", s.size());
	} catch (const std::bad_alloc &) {
		caught = 1;
	} catch (const std::exception &) {
		caught = 2;
	}
	try {
		volatile size_t n = (size_t)1 << 62;

		::operator delete(::operator new(n));
	} catch (const std::bad_alloc &) {
		caught += 10;
	}
	std::printf("caught %d\n", caught);
	return caught != 11 && caught != 12;
}
