#!/usr/bin/perl
# The margin of estimates: 95 of 100 intervals hold the truth. 1000 simulated runs of programs whose
# memory is known, the counts printed as the library prints them; and the library itself, which
# samples a known set anew 1000 times.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
our ($dir, $source);
load_jeprof();

use constant { RATE => 4096, RUNS => 1000 };

is(join(' ', map { Noise::hides(@$_) } [5, 5], [4.9, 5], [-5, 5], [-4.9, 5], [0, 0], [0, 1]), '0 1 0 1 0 1', 'a change as large as its margin is no chance');
is(join(' ', map { sprintf '%.2f', Noise::margin(@$_) } [100, 1], [100, 4], [0, 4], [-1, 4], [100, 0], [100, -1]), '27.72 21.91 0.00 0.00 0.00 0.00', 'margins');
is(join(' ', map { Noise::variance(@$_) } [4, 80, 2], [-4, -80, 2], [2, 80, 2], [1, 80, 2], [4, 80, 0], [4, 80, -1]), '1600 1600 0 0 0 0', 'variances');
is(join('|', map { Noise::column($_, "\xc2\xb15B") } 2, 3, 4, 5), "\xc2\xb15B|\xc2\xb15B| \xc2\xb15B|  \xc2\xb15B", 'a sign of two bytes is one column');

# What is sampled of $count objects of a size.
sub samples {
	my ($count, $size) = @_;
	my $miss = -$size / RATE; # log of the probability that one is not sampled
	my ($at, $n) = (0, 0);
	$n++ while ($at += 1 + int(log(1 - rand()) / $miss)) <= $count;
	return $n;
}

# [objects, bytes, samples as printed] of sizes and counts at one site.
sub estimated {
	my ($dump, @kinds) = @_;
	my ($objects, $bytes) = (0, 0);
	for my $kind (@kinds) {
		my ($count, $size) = @$kind;
		my $weight = samples($count, $size) / (1 - exp(-$size / RATE));
		$objects += $weight;
		$bytes += $weight * $size;
	}
	return [0, 0, 0] unless $objects;
	my $mean = $bytes / $objects;
	my $printed = int($bytes * (1 - exp(-$mean / RATE)) + 0.5);
	my $seen = int($printed / $mean + 0.5);
	return [$dump->estimate($seen, $printed), $seen];
}


my $dump = bless { rate => RATE, meta => {} }, 'Dump';
my %programs = (
	'small objects' => [[[50_000, 100]]],
	'objects as large as the interval' => [[[300, 4096]]],
	'few samples' => [[[100, 512]]],
	'a dozen samples' => [[[500, 96]]],
	'many sites' => [map { [[400, 64 * $_]] } 1 .. 12],
	'large objects' => [[[400, 12_000]]],
);
srand 20260102;
for my $name (sort keys %programs) {
	my @sites = @{ $programs{$name} };
	my $truth = 0;
	$truth += $_->[0] * $_->[1] for map { @$_ } @sites;
	my ($inside, $inside_diff, $before) = (0, 0);
	for my $run (1 .. RUNS) {
		my @got = map { estimated($dump, @$_) } @sites;
		my ($bytes, $variance, $seen) = (0, 0, 0);
		for my $site (@got) {
			$bytes += $site->[1];
			$variance += Noise::variance(@$site);
			$seen += $site->[2];
		}
		$inside++ if abs($bytes - $truth) <= Noise::margin($variance, $seen);
		$inside_diff++ if $before && Noise::hides($bytes - $before->[0],
			Noise::margin($variance + $before->[1], $seen + $before->[2]));
		$before = [$bytes, $variance, $seen];
	}
	my ($share, $share_diff) = (100 * $inside / RUNS, 100 * $inside_diff / (RUNS - 1));
	ok($share >= 93 && $share <= 97, "$name: the margin holds in $share %");
	ok($share_diff >= 93 && $share_diff <= 98, sprintf '%s: no change is noise in %.1f %%', $name, $share_diff);
}
my $mixed = 0;
for my $run (1 .. RUNS) {
	my $got = estimated($dump, [40_000, 64], [60, 30_000], [400, 3000]);
	$mixed++ if abs($got->[1] - 40_000 * 64 - 60 * 30_000 - 400 * 3000) <= Noise::margin(Noise::variance(@$got), $got->[2]);
}
ok($mixed >= 0.93 * RUNS, 'sizes mixed at one site: the margin is an upper bound, and holds in ' . $mixed / 10 . ' %');
is(Noise::margin(0, 5), 0, 'what is exact has no margin');
is(Noise::margin(Noise::variance(0, 0, 0), 0), 0, 'nor has nothing');

# ---- the library itself ----
SKIP: {
	my $library = $ENV{JEMALLOC_LIB};
	skip 'no library or gcc', 3 unless $library && -e $library && which('gcc');
	my $program = build('known.c', <<'C');
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
static void *kept[12000];
__attribute__((noinline)) static void hold(int from, int to, size_t size) { for (int i = from; i < to; i++) kept[i] = malloc(size); }
__attribute__((noinline)) static void hold_small(void) { hold(0, 10000, 160); __asm__ volatile(""); }
__attribute__((noinline)) static void hold_large(void) { hold(10000, 12000, 1280); __asm__ volatile(""); }
int main(int argc, char **argv) {
	int (*ctl)(const char *, void *, size_t *, void *, size_t) = (int (*)(const char *, void *, size_t *, void *, size_t))dlsym(RTLD_DEFAULT, "mallctl");
	for (int run = 0; run < atoi(argv[1]); run++) {
		static char name[4096];
		const char *at = name;
		ctl("prof.reset", NULL, NULL, NULL, 0);
		hold_small();
		hold_large();
		snprintf(name, sizeof(name), "%s/k%d.heap", argv[2], run);
		if (ctl("prof.dump", NULL, NULL, &at, sizeof(at)) != 0) return 1;
		for (int i = 0; i < 12000; i++) free(kept[i]);
	}
	return 0;
}
C
	{
		local $ENV{LD_PRELOAD} = $library;
		local $ENV{MALLOC_CONF} = 'prof:true,lg_prof_sample:13';
		is(system($program, RUNS, $dir), 0, 'a known set, sampled 1000 times');
	}
	my %inside = (all => 0, small => 0, large => 0);
	my %truth = (all => 10_000 * 160 + 2000 * 1280, small => 10_000 * 160, large => 2000 * 1280);
	for my $run (0 .. RUNS - 1) {
		my $known = Dump::read_file("$dir/k$run.heap");
		my %sum = map { $_ => [0, 0, 0] } keys %truth;
		for my $stack (@{ $known->{stacks} }) {
			my ($objects, $bytes) = $known->estimate(@$stack[1, 2]);
			for my $sum ($sum{all}, $sum{ $bytes < 600 * $objects ? 'small' : 'large' }) {
				$sum->[0] += $bytes;
				$sum->[1] += Noise::variance($objects, $bytes, $stack->[1]);
				$sum->[2] += $stack->[1];
			}
		}
		for my $key (keys %truth) {
			$inside{$key}++ if abs($sum{$key}[0] - $truth{$key}) <= Noise::margin(@{ $sum{$key} }[1, 2]);
		}
		unlink "$dir/k$run.heap";
	}
	# 94.5 % of many runs are inside, less 4 standard errors of a share of 1000 runs (0.7 %): chance does not fail it
	ok($inside{$_} >= 0.915 * RUNS && $inside{$_} <= 0.98 * RUNS, "$_: the margin holds in " . $inside{$_} / 10 . ' %') for sort keys %inside;
}
done_testing();
