#!/usr/bin/perl
# The JavaScript of the page, bin/page/: scripts/check_page finds no fault of types (tsc) or of eslint,
# and what a browser gets, without comments and spaces, is the same program. Skips what has no tool.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
our ($dir, $source);

my ($code, $out, $err) = run("$source/scripts/check_page");
my @said = split /\n/, $out;
is((grep { /^not ok/ } @said) + ($code ? 1 : 0), 0, 'no fault') or diag $out, $err;
is($said[-1], '1..5', 'types, eslint and what a browser gets, of both pages');
diag $_ for grep { /# SKIP/ } @said;
done_testing();
