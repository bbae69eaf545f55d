/*
 * Sizes and times as a person writes and reads them. The tables of units say what a number without
 * a unit means: bytes, or seconds. Called by words.c and the verbs.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

typedef struct unit_s {
	const char *suffix;
	double factor;
} unit_t;

extern const unit_t size_units[], ms_units[];

/* Parses "1.5G" or "30s": a decimal number and a unit. False if it is none or does not fit. */
bool value_try_parse(const char *text, const unit_t *units, uint64_t *value);

const char *size_text(uint64_t bytes, char buf[24]);

/* 09:15:31Z, with the day before it unless it is today. */
const char *time_text(uint64_t ns, char buf[40]);
