#!/usr/bin/env perl
# The examples of README.md, as they stand there (page.pl). A fence "console demo" or "console no-test" is left to others, one
# that asks running processes ("console control") to production.t.
use strict;
use warnings;

require "$ENV{JEMALLOC_SRC}/test/demo/page.pl";
type_pages(['README.md', 'console']);
