#!/usr/bin/perl
# Real dumps of real programs: PIE, fixed addresses, stripped, shared library, C++, threads. Names
# are known, totals are Debian's jeprof's.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
our ($dir, $peer, $jeprof);

my @libraries = libraries();
plan skip_all => 'no libjemalloc.so.2 (package libjemalloc2)' unless @libraries;
plan skip_all => 'no gcc' unless which('gcc');

my $c = <<'C';
#include <stdlib.h>
#include <string.h>
#define KEEP __attribute__((noinline, noclone))
void *volatile sink;
KEEP void small_leaf(void) { sink = malloc(1000); memset(sink, 1, 1000); }
KEEP void small_path(int n) { for (int i = 0; i < n; i++) { small_leaf(); } }
KEEP static void large_path(int n) { for (int i = 0; i < n; i++) { sink = calloc(1, 100000); } }
int main(void) { small_path(20000); large_path(100); return 0; }
C
my $shared = <<'C';
#include <stdlib.h>
void *volatile sink;
void library_holds(int n) { for (int i = 0; i < n; i++) { sink = malloc(2000); } }
C
my $user = <<'C';
void library_holds(int n);
int main(void) { library_holds(10000); return 0; }
C
my $cc = <<'C';
#include <map>
#include <string>
#include <vector>
namespace { struct Holder { std::map<std::string, std::vector<int>> all;
	__attribute__((noinline)) void fill(int n) { for (int i = 0; i < n; i++) all[std::to_string(i)].resize(500); } }; }
template <class T> __attribute__((noinline)) T *make_many(int n) { T *p = new T[n]; p[0] = 1; return p; }
void *volatile sink;
int main() { auto *h = new Holder; h->fill(20000); sink = make_many<double>(500000); sink = h; return 0; }
C

sub shares {
	my ($dump, $options, @program) = @_;
	my ($code, $out, $err) = jeprof('--text', '--show_bytes', @$options, @program, $dump);
	is($code, 0, 'exit 0') or diag($err);
	return table($out);
}

sub percent { my ($row, $column) = @_; my ($value) = ($row->[$column] // '0') =~ /([0-9.]+)/;
	return $value }

sub same_total {
	my ($program, $dump) = @_;
    SKIP: {
		skip "Debian's jeprof is not installed", 4 unless has_peer();
		for my $index (qw(inuse_space inuse_objects alloc_space alloc_objects)) {
			my ($mine) = (jeprof('--text', '--show_bytes', "--$index", $program,
					$dump))[1] =~ /^(Total.*)/;
			my ($theirs) = (run($peer, peer_nameless(), '--text', '--show_bytes', "--$index",
					$program, $dump))[1] =~ /^(Total.*)/;
			# Debian's cuts a sum of fractions, added in the order of its hash, to a whole number:
			# one may be missing.
			my ($ours, $its) = map { ($_ // '') =~ /^Total: (\d+)/ ? $1 : undef } $mine, $theirs;
			$mine = $theirs if defined $ours && defined $its && abs($ours - $its) <= 1;
			is($mine // '', $theirs // '', "$index: the total is Debian's jeprof's");
		}
	}
}

for my $library (@libraries) {
	my $rate = 'lg_prof_sample:15,prof_accum:true';
	for my $kind (['PIE', '-pie', '-fPIE'], ['fixed addresses', '-no-pie']) {
		my ($title, @flags) = @$kind;
		my $program = build('plain.c', $c, @flags);
		my $dump = dump_of($library, $rate, $program);
		note("$library $title");
		my $row = shares($dump, [], $program);
		cmp_ok(percent($row->{small_leaf}, 1), '>', 40, "$title: small_leaf holds what it holds");
		cmp_ok(percent($row->{large_path}, 1), '>', 20, "$title: large_path too");
		is($row->{small_path}[0], 0, "$title: small_path holds nothing itself");
		is($row->{small_path}[3], $row->{small_leaf}[0], "$title: but all through small_leaf");
		ok(!grep({ /alloc|prof_/ } keys %$row), "$title: no frame of the allocator is left");
		cmp_ok(abs($row->{''} - 20000 * 1024 - 100 * 102400), '<', 0.25 * 30720000,
			"$title: the total is near the truth");
		is_deeply(shares($dump, []), $row, "$title: PROGRAM is not needed");
		same_total($program, $dump);
	    SKIP: {
			skip 'no line tool', 1 unless line_tool();
			$row = shares($dump, ['--lines'], $program);
			ok((grep { m{^small_leaf .*/plain\.c:5$} } keys %$row), "$title: --lines");
		}
	}

	my $program = build('stripped.c', $c, '-rdynamic');
	system('strip', $program) == 0 or die 'strip failed';
	my $dump = dump_of($library, $rate, $program);
	my $row = shares($dump, [], $program);
	cmp_ok(percent($row->{small_leaf}, 1), '>', 40,
		'stripped: exported names are found in the dynamic table');
	ok(!$row->{large_path}, 'stripped: a static function has no name');
	my ($bare) = grep { /^stripped\+0x[0-9a-f]+$/ } keys %$row;
	ok($bare && percent($row->{$bare}, 1) > 20,
		'stripped: it is shown as object+offset, not under a neighbour');
	same_total($program, $dump);

	build('libholder.c', $shared, '-shared', '-fPIC');
	$program = build('user.c', $user, "$dir/libholder.so", "-Wl,-rpath,$dir");
	$dump = dump_of($library, $rate, $program);
	$row = shares($dump, [], $program);
	cmp_ok(percent($row->{library_holds}, 1), '>', 90, 'shared library: its function is named');
	same_total($program, $dump);

    SKIP: {
		skip 'no g++', 10 unless which('g++');
		$program = build('holder.cc', $cc);
		$dump = dump_of($library, $rate, $program);
		$row = shares($dump, [], $program);
		skip 'no c++filt', 9 unless which('c++filt');
		cmp_ok(percent($row->{'(anonymous namespace)::Holder::fill'}, 4), '>', 60,
			'C++: a method, without parameters');
		cmp_ok(percent($row->{make_many}, 1), '>', 5, 'C++: a template, without type');
		ok(!grep({ /malloc_usable_size|operator new|fallback/ } keys %$row),
			'C++: nothing is charged to the allocator');
		same_total($program, $dump);
		my (undef, $out) = jeprof('top', $dump);
		like((split /\n/, $out)[2], qr/\(anonymous namespace\)::Holder::fill\s+main$/,
			'top: std:: and operator new are folded');
	}

	# Two runs of one program lie at different addresses; --base must see that they are equal.
	$program = build('plain.c', $c, '-pie', '-fPIE');
	my @pair = map { dump_of($library, 'lg_prof_sample:0', $program) } 1, 2;
	$row = shares($pair[1], ["--base=$pair[0]"], $program);
	ok(!grep({ abs($row->{$_}[0]) > 1000 } grep { length } keys %$row),
		'--base across two runs: nothing grew');
	(undef, my $out) = jeprof('--text', '--addresses', '--show_bytes', "--base=$pair[0]", $pair[1]);
	ok(!grep({ /small_leaf|large_path/ } split /\n/, $out),
		'--base across two runs, by address: the same');

	# An empty PATH: the names must still be there.
	{
		mkdir "$dir/alone";
		local $ENV{PATH} = '/nonexistent';
		$row = shares($pair[0], []);
		cmp_ok(percent($row->{small_leaf}, 1), '>', 40, 'no other program is needed for names');
		# without jeprof-symbolize beside it
		my $alone = spew("$dir/alone/jeprof", slurp($jeprof));
		my ($code, undef, $err) = run($^X, $alone, '--lines', '--text', $pair[0]);
		is($code, 3, 'lines without a tool: a doubt');
		like($err, qr/neither jeprof-symbolize nor llvm-symbolizer nor addr2line/, 'that is said');
	}
}
done_testing();
