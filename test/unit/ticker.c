/* util/ticker.h: when it fires. */
#include "test.h"

#include "util/ticker.h"

int
main(void) {
	ticker_t t;
	unsigned bad = 0;
	for (int32_t period = 1; period <= 50; period++) {
		ticker_init(&t, period);
		for (int32_t i = 1; i <= 10 * period; i++) {
			bad += ticker_tick(&t) != (i % period == 0);
		}
	}
	is_uint(bad, 0, "single ticks: every period-th one fires");

	ticker_init(&t, 10);
	ok(!ticker_ticks(&t, 0), "no ticks");
	is_int(ticker_read(&t), 10, "change nothing");
	ok(!ticker_ticks(&t, 9), "nine of ten");
	is_int(ticker_read(&t), 1, "one is left");
	ok(ticker_ticks(&t, 1), "the tenth fires");
	is_int(ticker_read(&t), 10, "and starts the next period");
	ok(ticker_ticks(&t, INT32_MAX), "many at once fire once");
	is_int(ticker_read(&t), 10, "without debt");
	ticker_expire(&t);
	ok(ticker_tick(&t), "an expired ticker fires on the next tick");
	ok(!ticker_tick(&t), "and not on the one behind");
	return done_testing();
}
