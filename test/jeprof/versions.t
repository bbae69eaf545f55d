#!/usr/bin/perl
# Old readers read new profiles, and this one reads old ones: each with the same totals. The files in
# data/versions are named by who wrote them: debian-5.3.0 is Debian's jemalloc, ours-COMMIT this
# library at that commit, ours-ages the first with ages, ours-labels one of 1.0.0 with
# labels and `# frag_heap`. The same program wrote all: 3500 objects of
# 1000 bytes and 500 of 20000, each fourth freed, prof_accum:true, lg_prof_sample:13. One more comes
# from the library that is tested. Readers: this jeprof; that of commit 418091e, where this is a
# repository; Debian's; the legacy parser of google/pprof (package golang-github-google-pprof-dev), which
# knows no stacks of two lines, neither of jemalloc's files nor of these: it gets each stack on one
# line, and all other lines as they are.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
use JSON::PP ();
our ($dir, $source, $data, $peer);

# By the file: live bytes and objects, and those ever allocated, as this version reads them.
my %known = (
	'debian-5.3.0' => [10341779, 2969, 13796731, 3948],
	'ours-418091e' => [10453570, 2984, 14058594, 4041],
	'ours-c42bfca' => [9733342, 2674, 13086322, 3630],
	'ours-ages' => [10278906, 2999, 13729848, 3968],
	'ours-labels' => [10179212, 2881, 13697090, 3853],
);
my %file = map { $_ => "$data/versions/$_.heap" } keys %known;
is(join(' ', sort map { s{.*/|\.heap$}{}gr } glob "$data/versions/*.heap"), join(' ', sort keys %known), 'each file is known');

SKIP: {
	my ($library) = grep { defined && -e } $ENV{JEMALLOC_LIB};
	skip 'no library or gcc', 1 unless $library && which('gcc');
	my $program = build('serve.c', <<'C');
#include <stdlib.h>
int mallctl(const char *, void *, size_t *, void *, size_t) __attribute__((weak));
static void *volatile kept[4000];
static void label(const char *text) { if (mallctl != NULL) mallctl("thread.prof.label", NULL, NULL, &text, sizeof(text)); }
__attribute__((noinline)) static void hold(int i) { kept[i] = malloc(1000); __asm__ volatile(""); }
__attribute__((noinline)) static void large(int i) { kept[i] = malloc(20000); __asm__ volatile(""); }
int main(void) {
	for (int i = 0; i < 3500; i++) { if (i % 500 == 0) label(i % 1000 == 0 ? "7f0000000000-7f0000001000 r-xp @ 0x1" : "b\\n"); hold(i); }
	for (int i = 3500; i < 4000; i++) large(i);
	for (int i = 0; i < 4000; i += 4) free(kept[i]);
	return 0;
}
C
	$file{now} = dump_of($library, 'prof_accum:true,lg_prof_sample:13', $program);
	like(slurp($file{now}), qr/^# age 1 \d:\d+/m, 'the new one has ages');
	like(slurp($file{now}), qr/^# label 1 7f0000000000-.*\n# label 2 b.x5cn\n# age 1 .*\n# labeled 1 .*\d+:\d+:\d+/m, 'and labels');
}

# [live bytes, live objects, allocated bytes, allocated objects] by this jeprof.
sub ours {
	my ($path) = @_;
	my @all;
	for my $index ('inuse_space', 'alloc_space') {
		my (undef, $out) = jeprof('top', '--json', "--$index", $path);
		my $total = eval { JSON::PP::decode_json($out)->{total} } or return [0];
		push @all, @$total{qw(bytes objects)};
	}
	return \@all;
}

# The same in the form of gperftools.
sub on_one_line {
	my ($path, $to) = @_;
	my $text = slurp($path);
	$text =~ s{\Aheap_v2/(\d+)\n.*?(?=^@)}{heap profile: 1: 1 [2: 2] \@ heap_v2/$1\n}ms;
	$text =~ s/^@(.*)\n  t\*: (.*)\n(?:  t\d.*\n)*/$2 \@$1\n/mg;
	return spew($to, $text);
}

my @indices = qw(inuse_space inuse_objects alloc_space alloc_objects);
sub by_text {
	my ($path, @command) = @_;
	return [map { (run(@command, '--text', '--show_bytes', "--$_", $path))[1] =~ /^Total: (\d+)/m ? $1 : 'none' } @indices];
}

# Do all four agree, but for the cut of each of some stacks to a whole number?
sub is_same {
	my ($got, $want, $what) = @_;
	my $stacks = 12;
	ok(@$got == 4 && !grep({ $got->[$_] !~ /^\d+$/ || abs($got->[$_] - $want->[$_]) > $stacks } 0 .. 3), $what)
	    or diag "got @$got, expected @$want";
}

my %want = map { $_ => ours($file{$_}) } keys %file;
is("@{ $want{$_} }", "@{ $known{$_} }", "$_ by this jeprof") for sort keys %known;
SKIP: {
	skip "no $peer (package libjemalloc-dev)", scalar keys %file unless has_peer();
	for my $name (sort keys %file) {
		is_same(by_text($file{$name}, $peer, peer_nameless(), '/bin/true'), $want{$name}, "$name by Debian's jeprof");
	}
}
SKIP: {
	my $commit = '418091e';
	skip "no repository with $commit", scalar keys %file if !which('git')
	    || (run('git', '-C', $source, 'cat-file', '-e', "$commit^{commit}"))[0] != 0;
	mkdir "$dir/old";
	system("git -C '$source' archive $commit bin scripts | tar x -C '$dir/old' && '$dir/old/scripts/join-jeprof' '$dir/old.jeprof'") == 0
	    or die 'cannot make the old one';
	for my $name (sort keys %file) {
		is_same(by_text($file{$name}, $^X, "$dir/old.jeprof"), $want{$name}, "$name by ours at $commit");
	}
}
SKIP: {
	my $packages = '/usr/share/gocode';
	skip 'no go or no package golang-github-google-pprof-dev', 1 + keys %file
	    unless which('go') && -d "$packages/src/github.com/google/pprof/profile";
	spew("$dir/totals.go", <<'GO');
package main

import (
	"fmt"
	"os"

	"github.com/google/pprof/profile"
)

func main() {
	for _, path := range os.Args[1:] {
		file, err := os.Open(path)
		if err == nil {
			var p *profile.Profile
			if p, err = profile.Parse(file); err == nil {
				sums := map[string]int64{}
				for _, s := range p.Sample {
					for i, t := range p.SampleType {
						sums[t.Type] += s.Value[i]
					}
				}
				fmt.Println(sums["inuse_space"], sums["inuse_objects"], sums["alloc_space"], sums["alloc_objects"])
				continue
			}
		}
		fmt.Println(err)
	}
}
GO
	local @ENV{qw(GO111MODULE GOPATH GOCACHE GOFLAGS)} = ('off', $packages, "$dir/go", '');
	my @names = sort keys %file;
	my ($code, $out, $err) = run('go', 'run', "$dir/totals.go", map { on_one_line($file{$_}, "$dir/$_.one") } @names);
	my @lines = split /\n/, $out;
	is($code, 0, 'a program with the legacy parser') or diag $err;
	is_same([split ' ', shift(@lines) // ''], $want{$_}, "$_ by google/pprof") for @names;
}
done_testing();
