#!/usr/bin/env perl
# The examples of README.md and doc/GUIDE.md, and of the second part of doc/PRODUCTION.md ("console
# desk"), as they stand there (page.pl). A fence "console demo" or "console no-test" is left to
# others, one that asks running processes ("console control") to production.t.
use strict;
use warnings;

require "$ENV{JEMALLOC_SRC}/test/demo/page.pl";
type_pages(['README.md', 'console'], ['doc/GUIDE.md', 'console'],
	['doc/PRODUCTION.md', 'console desk']);
