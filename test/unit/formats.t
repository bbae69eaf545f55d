#!/usr/bin/env perl
# Every format in the library's source uses only what util/fmt.h offers; the compiler accepts all of printf. Looks at all
# strings, as many functions and macros take formats.
use strict;
use warnings;

my $root = $ENV{JEMALLOC_SRC} // die "JEMALLOC_SRC is not set\n";
require "$root/test/demo/faults.pl";
chdir $root or die "$root: $!\n";

my $known = qr/%(?:%|0?(?:\d+|\*)?(?:\.\*s|[scp]|(?:z|ll)?[dux]))/;
# Of assembly: a register, a type of a section or symbol; of sentences: a percentage.
my $other = qr/%(?:r[a-z]{2}\b|(?:note|nobits|object|function)\b|[ :])/;
my ($formats, @faults) = (0);

for my $file (grep { $_ ne 'src/util/fmt.c' } split /\n/, `scripts/tracked '^src/.*[.](c|h|cpp)\$'`) {
	my $text = slurp($file);
	while ($text =~ m{/\*.*?\*/|'(?:\\.|[^'\\])+'|("(?:\\.|[^"\\])*")}gs) {
		my $string = $1 // next;
		$formats += $string =~ s/$known//g;
		push @faults, "$file: $string" if $string =~ s/$other//gr =~ /%/;
	}
}
check("there are conversions ($formats)", $formats > 200 ? () : 'too few');
check('util/fmt.c can do each of them', @faults);
finish();
