# slurp(FILE): the whole text of a file. Required by the tests of texts (faults.pl, page.pl, contributing.t, manual.t).
use strict;
use warnings;

sub slurp {
	open my $in, '<', $_[0] or die "$_[0]: $!\n";
	local $/;
	return <$in> // '';
}

1;
