/*
 * Parses and prints sizes and times in the form for people. The first row of a table of units is
 * for numbers without a unit: a count, bytes, or seconds. Called by words.c, answer.c, search.c and
 * status.c.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

typedef struct unit_s {
	const char *suffix; /* case does not matter; NULL ends a table */
	double factor;      /* bytes or milliseconds in the unit */
} unit_t;

extern const unit_t count_units[], size_units[], ms_units[];

/*
 * Parses "1.5G" or "30s": a decimal number and a unit of the table, with size_units also "KiB".
 * Sets *value in bytes or milliseconds. False if malformed or above 64 bits; then *value is
 * undefined if the form was right, else unchanged.
 */
bool value_try_parse(const char *text, const unit_t *units, uint64_t *value);

/* "1.5G", with four digits at most, in units of 1024; below 1024 the number itself. Returns buf. */
const char *size_text(uint64_t bytes, char buf[24]);

/* "09:15:31Z" (UTC) of a time in ns since 1970, with the date unless it is today. Returns buf. */
const char *time_text(uint64_t ns, char buf[40]);
