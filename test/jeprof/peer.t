#!/usr/bin/perl
# The same dumps read by Debian's jeprof and by ours: totals, the rows of the program, the totals of
# threads. Where Debian's is wrong the reason is checked: what it charges to a function of the
# allocator is, byte for byte, what ours gives to the callers. A few dumps; with JEPROF_PEER=all
# (scripts/check-jeprof) thirty: C, C++, threads, a shared library, fixed addresses; three rates;
# two libraries.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
our ($dir, $peer);

my @libraries = libraries();
plan skip_all => 'no libjemalloc.so.2 (package libjemalloc2)' unless @libraries;
plan skip_all => "Debian's jeprof is not installed (package libjemalloc-dev)" unless has_peer();
plan skip_all => 'no g++, nm or c++filt' if grep { !which($_) } qw(gcc g++ nm c++filt);
my $all = ($ENV{JEPROF_PEER} // '') eq 'all';

my $head = "#include <stdlib.h>\n#include <string.h>\n#define KEEP __attribute__((noinline, noclone))\nvoid *volatile sink;\n";
my $c = $head . <<'C';
static char *kept;
KEEP static void leaf(size_t n) { sink = malloc(n); memset(sink, 1, n); }
KEEP static void table(int n) { for (int i = 0; i < n; i++) { sink = calloc(3, 700); } }
KEEP static void grow(int n) { for (int i = 1; i <= n; i++) { kept = realloc(kept, 9000 * i); } sink = kept; }
KEEP static void freed(int n) { for (int i = 0; i < n; i++) { void *volatile p = malloc(5000); free(p); } }
KEEP static void aligned(int n) { for (int i = 0; i < n; i++) { void *p; sink = aligned_alloc(256, 2048); if (posix_memalign(&p, 64, 300) == 0) { sink = p; } } }
KEEP static void deep(int depth, int n) {
	if (depth > 0) { deep(depth - 1, n); sink = malloc(16); return; }
	for (int i = 0; i < n; i++) { leaf(100 + i % 3000); }
}
KEEP static void left(int n) { deep(5, n); leaf(70000); }
KEEP static void right(int n) { deep(12, n); sink = strdup("a text that is copied"); }
int main(void) { left(3000); right(4000); table(5000); grow(60); freed(3000); aligned(2000); return 0; }
C
my $cc = <<'C';
#include <map>
#include <string>
#include <unordered_map>
#include <vector>
#define KEEP __attribute__((noinline))
struct Shape { virtual ~Shape() {} virtual void fill(int n) = 0; };
void *volatile sink;
namespace app {
struct Circle : Shape { std::vector<int *> all; KEEP void fill(int n) override { for (int i = 0; i < n; i++) all.push_back(new int[200]); } };
struct Square : Shape { KEEP void fill(int n) override { for (int i = 0; i < n; i++) sink = new char[3000 + i % 500]; } };
template <class T> KEEP T *make(int n) { T *p = new T[n]; p[0] = T(); return p; }
KEEP static void index(std::map<int, std::string> &m, int n) { for (int i = 0; i < n; i++) m[i] = std::string(100 + i % 50, 'x'); }
KEEP static void hash(std::unordered_map<int, double> &m, int n) { for (int i = 0; i < n; i++) m[i] = i; }
}
int main() {
	auto *c = new app::Circle; auto *s = new app::Square;
	Shape *all[] = {c, s};
	for (Shape *p : all) p->fill(4000);
	auto *m = new std::map<int, std::string>; app::index(*m, 20000);
	auto *h = new std::unordered_map<int, double>; app::hash(*h, 30000);
	sink = app::make<double>(200000); sink = app::make<long>(100000); sink = m; sink = h; sink = c;
	return 0;
}
C
my $threads = "#include <pthread.h>\n#include <stdint.h>\n" . $head . <<'C';
KEEP static void keep_a(int n) { for (int i = 0; i < n; i++) { sink = malloc(1500); } }
KEEP static void keep_b(int n) { for (int i = 0; i < n; i++) { sink = malloc(64); } }
KEEP static void pass(int n) { for (int i = 0; i < n; i++) { void *volatile p = malloc(4096); free(p); } }
static void *work(void *arg) { int n = (int)(intptr_t)arg; keep_a(1000 + 100 * n); keep_b(2000 * n); pass(500); return NULL; }
int main(void) {
	pthread_t t[8];
	for (int i = 0; i < 8; i++) { pthread_create(&t[i], NULL, work, (void *)(intptr_t)(i + 1)); }
	for (int i = 0; i < 8; i++) { pthread_join(t[i], NULL); }
	keep_a(50);
	return 0;
}
C
my $shared = $head
    . "KEEP void holds(int n) { for (int i = 0; i < n; i++) { sink = malloc(2000); } }\nKEEP void fills(int n) { holds(n); sink = malloc(1 << 20); }\n";
my $user = $head
    . "void holds(int n);\nvoid fills(int n);\nKEEP static void own(int n) { for (int i = 0; i < n; i++) { sink = malloc(500); } }\nint main(void) { holds(3000); fills(2000); own(9000); return 0; }\n";

sub programs {
	build('libholder.c', $shared, '-shared', '-fPIC');
	return (
		['C', build('many.c', $c)],
		# Without lines: with them Debian's shows inlined functions, ours does where --inlines asks
		# for them.
		['C++', build('app.cc', $cc, '-g0')],
		['threads', build('threads.c', $threads, '-pthread')],
		['shared library', build('user.c', $user, "$dir/libholder.so", "-Wl,-rpath,$dir"),
			"$dir/libholder.so"],
		['fixed addresses', build('fixed.c', $c, '-no-pie')],
	);
}

# The functions of files, as a table calls them.
sub functions {
	my @files = @_;
	my %own;
	for my $file (@files) {
		my $names = join "\n", map { / [TtWw] (\S+)$/ ? $1 : () } split /\n/,
		    (run(which('nm'), $file))[1];
		my ($code, $plain) = run(\$names, which('c++filt'));
		for my $name (split /\n/, $plain) {
			1 while $name =~ s/\([^()]*\)(?: const)?// || $name =~ s/<[^<>]*>//;
			$own{ $name =~ s/^.*\s+//r } = 1;
		}
	}
	delete @own{ grep { /^_|^std::|frame_dummy|tm_clones|^$/ } keys %own };
	return %own;
}

my $is_allocator =
    qr/^(?:malloc_usable_size|[a-z]*allocx|(?:prof|imalloc|je)_\w+|.*fallbackNewImpl.*|.*newImpl.*|operator new.*|malloc|calloc|realloc|posix_memalign|aligned_alloc)$/;

sub both {
	my ($program, $dump, @options) = @_;
	my $mine = (jeprof('--text', '--show_bytes', @options, $program, $dump))[1];
	return ($mine, (run($peer, '--text', '--show_bytes', @options, $program, $dump))[1]);
}

sub near { return abs($_[0] - $_[1]) <= ($_[2] // 1) }

# Names of the program's functions whose sums in one column are not the same; a sum of fractions is
# cut, so one byte may be missing.
sub unlike_in {
	my ($column, $own, $mine, $theirs) = @_;
	return join ' ', map { my $row = $mine->{$_}; my $other = $theirs->{$_};
		my ($a, $b) = ($row ? $row->[$column] : 0, $other ? $other->[$column] : 0);
		near($a, $b) ? () : "$_: $a, Debian's $b" } sort keys %$own;
}

sub sum { my $sum = 0; $sum += $_ for @_; return $sum }

sub compare {
	my ($title, $program, $dump, %own) = @_;
	my ($mine, $theirs) = map { table($_) } both($program, $dump);
	ok(near($mine->{''} // 0, $theirs->{''} // -9), "$title: total")
	    or diag "$mine->{''}, Debian's $theirs->{''}";
	cmp_ok(scalar(grep { $own{$_} } keys %$mine), '>', 1, "$title: the program has rows");
	is(unlike_in(3, \%own, $mine, $theirs), '', "$title: cumulative sums");
	my @charged = grep { $_ =~ $is_allocator && $theirs->{$_}[0] } grep { !$own{$_}
		    && length } keys %$theirs;
	is(join(' ', grep { $_ =~ $is_allocator && !$own{$_} } keys %$mine), '',
		"$title: ours has no row of the allocator");
	if (!@charged) {
		is(unlike_in(0, \%own, $mine, $theirs), '', "$title: flat sums");
	} else {
		# Rule 1: Debian's has no name for frames of the library, takes a neighbour's, and does not
		# cut it.
		my @common = grep { length && $mine->{$_} } keys %$theirs;
		my $moved = sum(map { $mine->{$_}[0] - $theirs->{$_}[0] } @common);
		my $charged = sum(map { $theirs->{$_}[0] } @charged);
		is(join(' ', grep { $mine->{$_}[0] < $theirs->{$_}[0] - 1 } @common), '',
			"$title: no function has less here");
		ok(near($moved, $charged, scalar @common),
			"$title: what Debian's charges to @charged is with its callers here")
		    or diag "$moved, $charged";
	}
	my $rest = sub { my ($table) = @_; sum(map { $table->{$_}[0] } grep { length } keys %$table) };
	ok(near($rest->($mine), $rest->($theirs), 20), "$title: all flat sums together");
}

sub compare_others {
	my ($title, $program, $dump) = @_;
	for my $index (qw(inuse_objects alloc_space alloc_objects)) {
		my ($mine, $theirs) = map { table($_)->{''} // 0 } both($program, $dump, "--$index");
		ok(near($mine, $theirs), "$title: total of $index") or diag "$mine, Debian's $theirs";
	}
}

# Debian's prints the threads in the order of its hash.
sub compare_threads {
	my ($title, $program, $dump) = @_;
	my ($mine, $theirs) = map { my %total = /^Total \((t\d+)\): (\d+)/mg;
		\%total } both($program, $dump, '--thread=*');
	cmp_ok(scalar(keys %$mine), '>', 7, "$title: there are threads");
	is(join(' ', map { "$_: $mine->{$_} "
				    . ($theirs->{$_} // '-') } grep { !near($mine->{$_},
					$theirs->{$_} // -9) } sort keys %$mine), '', "$title: the total of each");
}

my $dumps = 0;
my @programs = programs();
for my $library (@libraries) {
	my $is_debian = $library =~ m{^/usr/};
	for my $row (@programs) {
		my ($kind, $program, @objects) = @$row;
		next if !$all && $is_debian && $kind =~ /shared|fixed|threads/;
		next if !$all && !$is_debian && $kind =~ /^C$|fixed/;
		my %own = functions($program, @objects);
		for my $rate ($all ? (0, 12, 17) : 12) {
			my $title = ($is_debian ? "Debian's" : 'ours') . ", $kind, rate 2^$rate";
			my $dump = dump_of($library, "lg_prof_sample:$rate,prof_accum:true", $program);
			$dumps++;
			compare($title, $program, $dump, %own);
			compare_others($title, $program, $dump) if $all;
			compare_threads($title, $program, $dump) if $kind eq 'threads' && $all;
		}
	}
}
is($dumps, $all ? 15 * @libraries : $dumps, "$dumps dumps");
done_testing();
