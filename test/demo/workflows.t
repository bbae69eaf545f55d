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
my ($tests, $failures) = (0, 0);
check('scripts/check has steps', keys %known > 20 ? () : 'too few');
my %push = steps('check.yml', qr/^\s+step: (.+)$/m);
my %night = steps('nightly.yml', qr/^ {10}- ([\w -]+)$/m);
check('steps of a push exist', grep { !$known{$_} } sort keys %push);
check('steps of the night exist', grep { !$known{$_} } sort keys %night);
check('a push runs gcc, clang, a debug build and aarch64',
	grep { !$push{$_} } qw(release clang debug cross));
my ($left) = slurp('nightly.yml') =~ /Left out: (.*)/;
check('the night runs all other steps',
	grep { !$night{$_} && $left !~ /\b\Q$_\E\b/ } grep { $_ ne 'deps' } sort keys %known);
print "1..$tests\n";
exit($failures != 0);

sub slurp {
	my ($file) = @_;
	open my $in, '<', "$root/.github/workflows/$file" or die "$file: $!\n";
	local $/;
	return <$in> // '';
}

sub steps {
	my ($file, $pattern) = @_;
	my $text = slurp($file);
	my %found;
	while ($text =~ /$pattern/g) {
		$found{$_} = 1 for split ' ', $1;
	}
	return %found;
}

sub check {
	my ($name, @faults) = @_;
	$tests++;
	$failures++ if @faults;
	print @faults ? 'not ok' : 'ok', " $tests - $name\n";
	# prove shows standard error only.
	print STDERR "not ok $tests - $name\n", map { "#   $_\n" } @faults if @faults;
}
