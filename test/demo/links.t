#!/usr/bin/env perl
# The texts agree with each other: links between them lead to a file and, behind "#", to a heading; what the summary of
# doc/PERFORMANCE.md and doc/PRODUCTION.md say of the profiler's cost is what the tables of doc/PERFORMANCE.md have.
use strict;
use warnings;

my $root = $ENV{JEMALLOC_SRC} // die "JEMALLOC_SRC is not set\n";
require "$root/test/demo/faults.pl";
chdir $root or die "$root: $!\n";

my @pages = split /\n/, `scripts/tracked '[.]md\$'`;
check('there are pages with links', @pages > 10 ? () : 'too few');
check('each link leads somewhere', map { links_broken($_) } @pages);

my $performance = slurp('doc/PERFORMANCE.md');
my ($summary) = $performance =~ /^(5\. The profiler.*)$/m;
my ($cost) = $performance =~ /^(## What the profiler costs\n.*?)^## /ms;
my (@small, @large, @budget);
for ($cost =~ /^\| `(.*)$/mg) {
	my ($name, $on, $on_budget) = split /`? \| */;
	my $is_large = $name =~ /^(?:hundred-64K|hundred-2M|server)$/;
	push @{ $is_large ? \@large : \@small }, $on if $name ne 'grow';
	push @budget, $on_budget if $is_large;
}
my ($most, $least_large, $most_large) = ((sort { $b <=> $a } @small)[0], (sort { $a <=> $b } @large)[0, -1]);
my ($least_budget, $most_budget) = (sort { $a <=> $b } @budget)[0, -1];
for my $part ("up to $most where blocks are small", "$least_large to $most_large where", "$least_budget to $most_budget with") {
	check("the summary: $part", index($summary, $part) < 0 ? $summary : ());
}
my $production = slurp('doc/PRODUCTION.md') =~ s/\n/ /gr;
for my $part ([$most, 'loops that do nothing but allocate small'], [$most_large, 'loops that do it with blocks of 64 KiB']) {
	my ($ratio, $where) = @$part;
	my $text = sprintf 'up to %.0f %%', 100 * ($ratio - 1);
	check("doc/PRODUCTION.md: $text", $production =~ /\Q$text\E [^.:]{0,40}\Q$where\E/ ? () : 'not there');
}
finish();

# The anchors of a page: its headings in small letters, with hyphens for spaces and no other marks.
sub anchors {
	my ($page) = @_;
	my $text = slurp($page) =~ s/^```.*?^```//gmsr;
	return map { lc($_) =~ s/[^\w\- ]//gr =~ tr/ /-/r } $text =~ /^#+ +(.*)$/mg;
}

# What is wrong with the links of a page; those that leave the tree are not looked at.
sub links_broken {
	my ($page) = @_;
	my ($directory) = $page =~ m{^(.*/)};
	my $text = slurp($page) =~ s/^```.*?^```//gmsr =~ s/`[^`\n]*`//gr;
	my @broken;
	for my $link ($text =~ /\]\(([^()\s]+)\)/g) {
		next if $link =~ /^[a-z]+:/;
		my ($file, $anchor) = split /#/, $link, 2;
		my $to = length $file ? ($directory // '') . $file : $page;
		push @broken, "$page: $link" if !-e $to || defined $anchor && !grep { $_ eq $anchor } anchors($to);
	}
	return @broken;
}
