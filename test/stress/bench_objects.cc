// Code for run-bench-jeprof: functions whose calls are inlined three deep, types and lines for a debugger to have much to read. Compiled
// once for each size; the copies of the object, with another ENTRY each, make a program of any size.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

#define BLOCK(id) \
struct Record##id { long key; std::string name; std::vector<Record##id *> links; }; \
inline long weigh(const Record##id &r) { long sum = r.key; for (Record##id *link : r.links) sum += link->key; return sum; } \
inline long weigh_all(const std::vector<Record##id> &all) { long sum = 0; for (const Record##id &r : all) sum += weigh(r); return sum; } \
inline Record##id made##id(long k) { Record##id r; r.key = k; r.name = std::to_string(k); return r; } \
__attribute__((noinline)) long work##id(long n) { \
	std::vector<Record##id> all; \
	for (long k = 0; k < n; k++) all.push_back(made##id(k * n)); \
	std::sort(all.begin(), all.end(), [](const Record##id &a, const Record##id &b) { return a.name < b.name; }); \
	std::map<std::string, long> index; \
	for (const Record##id &r : all) index[r.name] += weigh(r); \
	return weigh_all(all) + static_cast<long>(index.size()); \
}
#define TEN(n) BLOCK(n##0) BLOCK(n##1) BLOCK(n##2) BLOCK(n##3) BLOCK(n##4) BLOCK(n##5) BLOCK(n##6) BLOCK(n##7) BLOCK(n##8) BLOCK(n##9)
TEN(1) TEN(2) TEN(3) TEN(4)

}

#define CALL(n) sum += work##n(n);
#define CALLS(n) CALL(n##0) CALL(n##1) CALL(n##2) CALL(n##3) CALL(n##4) CALL(n##5) CALL(n##6) CALL(n##7) CALL(n##8) CALL(n##9)
extern "C" long ENTRY(long n) {
	long sum = n;
	CALLS(1) CALLS(2) CALLS(3) CALLS(4)
	return sum;
}
