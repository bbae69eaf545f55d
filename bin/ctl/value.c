/*
 * Parses and prints sizes (bytes) and times (value.h). Invariant: a parsed number is exact in 64
 * bits if its unit has the factor 1 (bytes, ms), and then may have no fraction; otherwise it is
 * computed as a double and rounded; a value above 64 bits is refused. No locks, no state. Called by
 * words.c, answer.c, search.c and status.c.
 */
#include "ctl.h"

#include "value.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

const unit_t count_units[] = {{"", 1}, {NULL, 0}};
const unit_t size_units[] = {{"", 1}, {"B", 1}, {"K", 1024.0}, {"M", 1048576.0},
    {"G", 1073741824.0}, {"T", 1099511627776.0}, {NULL, 0}};
const unit_t ms_units[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000},
    {"d", 86400000}, {NULL, 0}};

bool
value_try_parse(const char *text, const unit_t *units, uint64_t *value) {
	char number[32];
	size_t digits = strspn(text, "0123456789");
	size_t length = digits;
	if (text[length] == '.') {
		length += 1 + strspn(text + length + 1, "0123456789");
	}
	if (digits == 0 || text[length - 1] == '.' || length >= sizeof(number)) {
		return false;
	}
	memcpy(number, text, length);
	number[length] = '\0';
	char suffix[8];
	snprintf(suffix, sizeof(suffix), "%s", text + length);
	size_t end = strlen(suffix);
	if (units == size_units && end == 3 && strcmp(suffix + 1, "iB") == 0) {
		suffix[1] = '\0';
	}
	for (const unit_t *u = units; u->suffix != NULL; u++) {
		if (strcasecmp(suffix, u->suffix) != 0) {
			continue;
		}
		errno = 0;
		if (u->factor == 1) {
			*value = strtoull(number, NULL, 10);
			return errno == 0 && length == digits;
		}
		double product = strtod(number, NULL) * u->factor;
		*value = product < 18446744073709549568.0 ? (uint64_t)(product + 0.5) : 0;
		return product < 18446744073709549568.0;
	}
	return false;
}

const char *
size_text(uint64_t bytes, char buf[24]) {
	static const char letters[] = " KMGTPE";
	double value = (double)bytes;
	int i = 0;
	for (; value >= 1024 && i < 6; i++) {
		value /= 1024;
	}
	snprintf(buf, 24, i == 0 ? "%.0f" : "%.4g%c", value, letters[i]);
	return buf;
}

const char *
time_text(uint64_t ns, char buf[40]) {
	time_t at = (time_t)((int64_t)ns / 1000000000), now = time(NULL);
	struct tm t, today;
	gmtime_r(&at, &t);
	gmtime_r(&now, &today);
	bool is_today = t.tm_year == today.tm_year && t.tm_yday == today.tm_yday;
	strftime(buf, 40, is_today ? "%H:%M:%SZ" : "%Y-%m-%d %H:%M:%SZ", &t);
	return buf;
}
