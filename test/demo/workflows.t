#!/usr/bin/env perl
# .github/workflows: each step named there is one of scripts/check, pushes run on gcc, clang, a
# debug build and aarch64, and the nightly run leaves out nothing but what it says.
use strict;
use warnings;

my $root = $ENV{JEMALLOC_SRC} // die "JEMALLOC_SRC is not set\n";
if (!-d "$root/.github/workflows") {
	print "1..0 # SKIP no workflows in this tree\n";
	exit 0;
}
my %known = map { $_ => 1 } split ' ', `'$root/scripts/check' --list`;
require "$root/test/demo/faults.pl";
check('scripts/check has steps', keys %known > 20 ? () : 'too few');
my %push = steps('check.yml', qr/^\s+step: (.+)$/m);
my %night = steps('nightly.yml', qr/^ {10}- ([\w -]+)$/m);
check('steps of a push exist', grep { !$known{$_} } sort keys %push);
check('steps of the night exist', grep { !$known{$_} } sort keys %night);
check('a push runs gcc, clang, a debug build and aarch64',
	grep { !$push{$_} } qw(release clang debug cross));
my ($left) = slurp("$root/.github/workflows/nightly.yml") =~ /Left out: (.*)/;
check('the night runs all other steps',
	grep { !$night{$_} && $left !~ /\b\Q$_\E\b/ } grep { $_ ne 'deps' } sort keys %known);
finish();

sub steps {
	my ($file, $pattern) = @_;
	my $text = slurp("$root/.github/workflows/$file");
	my %found;
	while ($text =~ /$pattern/g) {
		$found{$_} = 1 for split ' ', $1;
	}
	return %found;
}
