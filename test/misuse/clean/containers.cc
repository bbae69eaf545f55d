// Containers, strings, shared pointers, aligned types and polymorphic memory: sized and aligned delete.
#include <cstdio>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

struct alignas(64) wide {
	char room[100];
};

struct base {
	virtual ~base() = default;
	int a = 1;
};

struct derived : base {
	char more[77];
};

int
main() {
	std::map<std::string, std::vector<int>> byName;
	std::unordered_map<int, std::string> byNumber;
	std::deque<std::unique_ptr<base>> owned;
	std::list<std::shared_ptr<wide>> shared;
	std::pmr::unsynchronized_pool_resource pool;
	std::pmr::vector<std::pmr::string> pooled(&pool);
	std::vector<std::function<int()>> calls;
	size_t sum = 0;

	for (int i = 0; i < 20000; i++) {
		std::ostringstream text;
		text << "name of " << i % 700 << std::string(i % 90, 'x');
		byName[text.str()].push_back(i);
		byNumber[i % 5000] += text.str().substr(0, 30);
		owned.emplace_back(i % 2 ? new base : new derived);
		shared.push_back(std::make_shared<wide>());
		pooled.emplace_back(text.str());
		calls.push_back([i, text = text.str()] { return i + static_cast<int>(text.size()); });
		if (i % 3 == 0) {
			owned.pop_front();
			shared.pop_front();
		}
		delete[] new wide[i % 5];
		delete[] new char[i % 300];
	}
	for (const auto &each : byName)
		sum += each.first.size() + each.second.size();
	for (const auto &call : calls)
		sum += static_cast<size_t>(call());
	printf("%zu\n", sum);
	return 0;
}
