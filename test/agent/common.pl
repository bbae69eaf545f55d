# What the tests of the agent's profiles share: the program convert, made here of the agent's files, and a decoder.
BEGIN { require Cwd; my $here = Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r; require "$here../jeprof/common.pl"; require "${here}decode.pl" }
use strict;
use warnings;
our ($dir, $source, $jeprof);
our $convert = "$dir/convert";
our $cc = $ENV{CC} || 'gcc';

# 0 where zlib or the compiler is missing.
sub make_convert {
	my @flags = @_;
	my @files = (glob("$source/bin/agent/pprof*.c $source/bin/agent/names/*.c"), "$source/bin/client/clock.c", map { "$source/bin/agent/$_.c" } qw(intern otlp_encode proto));
	my ($code, undef, $err) = run(split(' ', $cc), qw(-std=gnu11 -D_GNU_SOURCE -g -O1 -Wall -Wextra), @flags, "-I$source/src", "-I$source/bin", "-I$source/bin/agent", '-o', $convert, "$source/test/agent/convert.c",
		@files, qw(-lz -lm -lpthread));
	plan(skip_all => 'no zlib (package zlib1g-dev)') if $err =~ /zlib\.h|-lz/;
	die $err if $code;
}

# The decoded profile that convert makes; dies with what it says.
sub converted {
	my ($code, $out, $err) = run($convert, @_);
	die "convert @_: $code $err" if $code;
	return pprof_decode(unzip($out));
}

sub unzip { my ($packed) = @_; return (run('gzip', '-dc', spew("$dir/x.gz", $packed)))[1] }

sub sum_of { my $sum = 0; $sum += $_ for @_; return $sum }

# Sums of the four values.
sub totals { my ($profile) = @_; return map { my $at = $_; sum_of(map { $_->{values}[$at] } @{ $profile->{samples} }) } 0 .. 3 }

1;
