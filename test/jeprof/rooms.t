#!/usr/bin/perl
# The rooms of jeprof, bin/jeprof.d/: each compiles alone under strict and warnings, so none reads the
# lexicals of another; a package that shares its room with others does not read theirs; perlcritic,
# where it is installed, finds none of the faults that perlcriticrc leaves to it. With TEST_FULL, which
# takes a minute: all Perl of the tree is as perltidy writes it (.perltidyrc).
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
our ($dir, $source);

my @rooms = glob "$source/bin/jeprof.d/*.pl";
cmp_ok(scalar @rooms, '>', 30, 'the rooms');
my ($bad, $shared, $native) = ('', '', '');
# Numbers in the order of this machine's bytes: what stays in memory, the answer of an ioctl, one
# number taken for another.
my %may_be_native = map { $_ => 1 } qw[LFF (LFF)* (Cd)* S4 q Q];
for my $room (@rooms) {
	$native .= " $room:$_" for grep { /[sSlLqQjJiIfFdD](?![<>])/ && !$may_be_native{$_} } slurp($room) =~ /\b(?:un)?pack[ (]+'([^']*)'/g;
	my ($code, undef, $err) = run($^X, '-Mstrict', '-Mwarnings', '-M-warnings=once', '-c', $room);
	$bad .= $err if $code || $err !~ /\A\S+ syntax OK\n\z/;
	my (%text, %own);
	for my $part (split /^(?=package \w+;)/m, slurp($room)) {
		my ($package) = $part =~ /^package (\w+);/ or next;
		$text{$package} = $part =~ s/^\s*#.*//gmr;
		$own{$package} = [map { /([\$\@%])(\w+)/g } $part =~ /^(?:my|our) \(?([^)=;]*)/mg];
	}
	for my $package (keys %own) {
		my @names = @{ $own{$package} };
		while (my ($sigil, $name) = splice @names, 0, 2) {
			# $name, @name, %name, $name[..], $name{..}, but not $Package::name and not a sub's own
			my $use = $sigil eq '$' ? qr/\$$name\b(?![\[\{:])/ : qr/(?:\Q$sigil\E$name\b(?!:)|\$$name${\ ($sigil eq '@' ? '\\[' : '\\{') })/;
			$shared .= " $package/$_:$sigil$name" for grep { $_ ne $package && $text{$_} =~ $use && $text{$_} !~ /\bmy (?:\([^)]*)?\Q$sigil\E$name\b/ } keys %text;
		}
	}
}
is($bad, '', 'each compiles alone');
is($native, '', 'what is packed for a file has an order of bytes');
is($shared, '', 'no package reads the lexicals of another in its room');
SKIP: {
	skip 'no perlcritic (package libperl-critic-perl)', 1 unless which('perlcritic');
	my ($code, $out, $err) = run('perlcritic', '--profile', "$source/test/jeprof/perlcriticrc", '--quiet', '--verbose', "%f:%l: %m\n", @rooms);
	is($out . $err, '', 'perlcritic at severity 4');
}
SKIP: {
	skip 'a part of the full run (TEST_FULL)', 2 unless $ENV{TEST_FULL};
	skip 'no perltidy (package perltidy)', 2 unless which('perltidy');
	my @perl = grep { /\.p[lm]$/ || slurp("$source/$_") =~ m{\A#!.*\bperl\b} }
	    split /\n/, (run("$source/scripts/tracked", '^(?:bin|scripts|test)/(?:[^.]*|.*\.(?:pl|pm|t))$'))[1];
	cmp_ok(scalar @perl, '>', 100, 'files of Perl');
	my @profile = ("--profile=$source/.perltidyrc", '--standard-output', '--standard-error-output');
	is(join(' ', grep { (run('perltidy', @profile, "$source/$_"))[1] ne slurp("$source/$_") } @perl),
		'', 'perltidy changes nothing');
}
done_testing();
