// A program whose memory is held by containers: orders by customer, and an index of words. Most of it is allocated by
// operator new inside std::string, std::vector and std::map, on behalf of two functions.
#include <map>
#include <string>
#include <vector>

struct Order {
	std::string text;
	std::vector<int> items;
};

// Never destroyed, as a server's: the profile at the end has them.
static auto &orders = *new std::map<std::string, std::vector<Order>>;
static auto &words = *new std::map<std::string, std::vector<int>>;

__attribute__((noinline)) void take_order(int n) {
	Order order{"order number " + std::to_string(n) + " of this very long day", std::vector<int>(200, n)};
	orders["customer " + std::to_string(n % 5000)].push_back(order);
}

__attribute__((noinline)) void index_words(int n) {
	words["word number " + std::to_string(n % 3000) + " of the index"].push_back(n);
}

int main() {
	for (int n = 0; n < 40000; n++) {
		take_order(n);
		for (int k = 0; k < 5; k++) {
			index_words(n * 7 + k);
		}
	}
	return 0;
}
