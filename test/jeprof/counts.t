#!/usr/bin/perl
# The numbers: un-sampling, the text layout, base, threads, filters, collapsed stacks. The wanted
# values follow from n * 1/(1-exp(-(s/n)/R)) of each line; Debian's jeprof shows the same.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
our ($dir, $data, $peer);

my $dump = "$data/counts.heap";
my $other = "$data/counts2.heap";

sub text_is {
	my ($options, $want, $what) = @_;
	my (undef, $out) = jeprof('--text', '--show_bytes', @$options, $dump);
	is($out, $want, $what);
}

text_is([], <<'W', 'inuse_space: totals, order, percents, cumulative once per stack');
Total: 4760676 B
 2660520  55.9%  55.9%  2660520  55.9% 0x1200
 1573364  33.0%  88.9%  1573364  33.0% 0x1000
  526791  11.1% 100.0%   526791  11.1% 0x1100
       0   0.0% 100.0%  2100156  44.1% 0x1fff
       0   0.0% 100.0%  4760676 100.0% 0x2fff
W
text_is(['--cum'], <<'W', '--cum sorts by the cumulative value');
Total: 4760676 B
       0   0.0%   0.0%  4760676 100.0% 0x2fff
 2660520  55.9%  55.9%  2660520  55.9% 0x1200
       0   0.0%  55.9%  2100156  44.1% 0x1fff
 1573364  33.0%  88.9%  1573364  33.0% 0x1000
  526791  11.1% 100.0%   526791  11.1% 0x1100
W
text_is(['--inuse_objects'], <<'W', 'inuse_objects');
Total: 4996 objects
    4720  94.5%  94.5%     4720  94.5% 0x1000
     171   3.4%  97.9%      171   3.4% 0x1200
     105   2.1% 100.0%      105   2.1% 0x1100
       0   0.0% 100.0%     4825  96.6% 0x1fff
       0   0.0% 100.0%     4996 100.0% 0x2fff
W
text_is(['--alloc_space'], <<'W', 'alloc_space: the pair in brackets is scaled by itself');
Total: 7772270 B
 3674518  47.3%  47.3%  3674518  47.3% 0x1000
 2660520  34.2%  81.5%  2660520  34.2% 0x1200
 1437231  18.5% 100.0%  1437231  18.5% 0x1100
       0   0.0% 100.0%  5111749  65.8% 0x1fff
       0   0.0% 100.0%  7772270 100.0% 0x2fff
W
my ($code, $out, $err) = jeprof('--text', '--alloc_objects', $dump);
like($out, qr/^Total: 3032 objects$/m, 'alloc_objects');
($code, $out) = jeprof('--text', $dump);
like($out, qr/^Total: 4\.5 MB\n     2\.5  55\.9%  55\.9%      2\.5  55\.9% 0x1200$/m,
	'MB with one decimal');

text_is(["--base=$other"], <<'W', '--base: what is equal is gone, what shrank is negative');
Total: -48333 B
    2478  -5.1%  -5.1%     2478  -5.1% 0x1100
       0  -0.0%  -5.1%     2478  -5.1% 0x1fff
       0  -0.0%  -5.1%   -48333 100.0% 0x2fff
  -50812 105.1% 100.0%   -50812 105.1% 0x1200
W
text_is(["--base=$other", '--drop_negative'], <<'W', '--drop_negative clips');
Total: 2478 B
    2478 100.0% 100.0%     2478 100.0% 0x1100
       0   0.0% 100.0%     2478 100.0% 0x1fff
       0   0.0% 100.0%     2478 100.0% 0x2fff
W
text_is(["--base=$dump"], '', 'a profile minus itself is nothing');
# What only moved: the difference is 0, and there are no shares of it.
our_dump("$dir/$_->[0].heap", stacks => [[[$_->[1], 0x100], 3, 300000], [[0x40, $_->[2]], 1, 50000]])
    for ['from', 0x10, 0x200], ['to', 0x30, 0x300];
my @moved = ("--base=$dir/from.heap", "$dir/to.heap");
is((jeprof('--text', '--show_bytes', @moved))[1], <<'W', 'a difference of 0 has its total, and no shares');
Total: 0 B
  300000      -      -   300000      - 0x30
       0      -      -   -50000      - 0x1ff
       0      -      -    50000      - 0x2ff
       0      -      -        0      - 0x40
       0      -      -        0      - 0xff
 -300000      -      -  -300000      - 0x10
W
for my $case (['top'], ['top', '--stacks'], ['--list=.'], ['--dot'], ['flame', '-o', '-'], ['--callgrind'], ['top', '--json']) {
	unlike((jeprof(@$case, @moved))[1], qr/\b(?:nan|inf)\b|\d{4}(?:\.\d)?%/, "@$case: none either");
}
text_is(['--thread=1'], <<'W', '--thread=1');
Total (t1): 1051229 B
  526791  50.1%  50.1%   526791  50.1% 0x1100
  524438  49.9% 100.0%   524438  49.9% 0x1000
       0   0.0% 100.0%  1051229 100.0% 0x1fff
       0   0.0% 100.0%  1051229 100.0% 0x2fff
W
($code, $out) = jeprof('--text', '--show_bytes', '--thread=*', $dump);
is(join('|', $out =~ /^(Total.*)$/mg), 'Total (t0): 3709446 B|Total (t1): 1051229 B',
	'--thread=* shows each in turn');
($code, $out, $err) = jeprof('--text', '--thread=9', $dump);
is($code, 1, 'an unknown thread fails');

text_is(['--focus=0x1100'], <<'W', '--focus: the total stays, percents are of what is left');
Total: 4760676 B
  526791 100.0% 100.0%   526791 100.0% 0x1100
       0   0.0% 100.0%   526791 100.0% 0x1fff
       0   0.0% 100.0%   526791 100.0% 0x2fff
W
text_is(['--ignore=0x1200'], <<'W', '--ignore');
Total: 4760676 B
 1573364  74.9%  74.9%  1573364  74.9% 0x1000
  526791  25.1% 100.0%   526791  25.1% 0x1100
       0   0.0% 100.0%  2100156 100.0% 0x1fff
       0   0.0% 100.0%  2100156 100.0% 0x2fff
W
text_is(['--retain=0x1fff'], <<'W', '--retain');
Total: 4760676 B
 2100156 100.0% 100.0%  2100156 100.0% 0x1fff
W
text_is(['--exclude=0x1[012]00'], <<'W', '--exclude');
Total: 4760676 B
 2660520  55.9%  55.9%  4760676 100.0% 0x2fff
 2100156  44.1% 100.0%  2100156  44.1% 0x1fff
W
text_is(['--collapsed', '--notext'], <<'W', '--collapsed: root first, bytes');
0x1fff;0x2fff;0x1fff;0x1100 526791
0x2fff;0x1200 2660521
0x2fff;0x1fff;0x1000 1573364
W
($code, $out, $err) = jeprof('--text', '--focus=(', $dump);
is($code, 2, 'a bad regular expression is a usage error');
for my $text ('vector{2', 'x{', '\\q', '[[:alpha:]', 'a**?') {
	($code, $out, $err) = jeprof('--text', "--focus=$text", $dump);
	unlike($err, qr/ at \S+ line \d|HERE/, "a regular expression that Perl has remarks on: $text");
}

# The letters of a graph are at most as large as of one that is no difference.
for my $more (0, 1) {
	our_dump("$dir/to.heap", stacks => [[[0x30, 0x100], 3, 300000 + $more], [[0x40, 0x300], 1, 50000]]);
	my @sizes = sort { $a <=> $b } (jeprof('--dot', @moved))[1] =~ /^N.*fontsize=([\d.]+)/mg;
	is("@sizes[0, -1]", '8.0 58.0', "--dot of a difference of $more: its letters");
}

# Counts that could divide by zero, and 64-bit ones.
our_dump("$dir/odd.heap", rate => 524288,
	stacks => [[[0x10], 3, 0], [[0x20], 0, 0], [[0x30], 1, 18446744073709551615]]);
($code, $out, $err) = jeprof('--text', '--inuse_objects', "$dir/odd.heap");
like($out, qr/^Total: 4 objects$/m, 'zero bytes and the largest number are read');
unlike($err, qr/division|uninit|internal/i, 'without complaint');
is($code, 3, 'but not without doubt');
like($err, qr/^jeprof: \S+odd\.heap: damaged: it has counts that no process reaches$/m, 'which is told');

if (has_peer()) {
	my $program = build('any.c', 'int main(void) { return 0; }');
	for my $options (['--inuse_space'], ['--inuse_objects'], ['--alloc_space'], ['--alloc_objects'],
		["--base=$other"],
		["--base=$other", '--drop_negative'], ['--thread=1']) {
		my ($mine) = (jeprof('--text', '--show_bytes', @$options, $dump))[1] =~ /^(Total.*)/;
		my ($theirs) = (run($peer, '--text', '--show_bytes', @$options, $program,
				$dump))[1] =~ /^(Total.*)/;
		is($mine, $theirs, "Debian's jeprof has the same total: @$options");
	}
} else {
    SKIP: { skip "Debian's jeprof (libjemalloc-dev) is not installed", 7 }
}
done_testing();
