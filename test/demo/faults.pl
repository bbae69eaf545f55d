# For tests of texts that look for faults: check(NAME, FAULT...) passes if there is no fault; the last line of a test is
# finish(). Required by house.t, links.t and workflows.t.
use strict;
use warnings;

require "$ENV{JEMALLOC_SRC}/test/demo/slurp.pl";

my ($tests, $failures) = (0, 0);

sub check {
	my ($name, @faults) = @_;
	$tests++;
	$failures++ if @faults;
	print @faults ? 'not ok' : 'ok', " $tests - $name\n";
	# prove shows standard error only.
	print STDERR "not ok $tests - $name\n", map { "#   $_\n" } @faults if @faults;
}

# Prints the plan and ends the test.
sub finish {
	print "1..$tests\n";
	exit($failures != 0);
}

1;
