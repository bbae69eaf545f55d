#!/usr/bin/env perl
# The recipes of doc/PRODUCTION.md and those of README.md that ask a running process, as they stand
# there (page.pl); those that need root only as root. Three quarters of a minute of waiting, so not
# in "make check": "make check_production", scripts/check-long.
use strict;
use warnings;

require "$ENV{JEMALLOC_SRC}/test/demo/page.pl";
type_pages(['README.md', 'console control'],
	['doc/PRODUCTION.md', 'console', $> == 0 ? 'console root' : ()]);
