#!/usr/bin/perl
# Samples without a stack, which writers tell by a bare @ or by the address 0 alone: a row "(no
# stack)" in each view and each export, and all views have the same sum.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
no warnings 'portable';
use JSON::PP ();
our ($dir, $source, $peer);
chdir $dir;

my $base = 0x555500000000;
my $id = '77' x 20;
elf_file('serve', id => $id, symbols => [['main', 0x1100, 0x100], ['cache', 0x1200, 0x100]]);
my $maps = sprintf "\nMAPPED_LIBRARIES:\n%x-%x r-xp 00001000 08:01 9 %s\n", $base + 0x1000,
    $base + 0x3000, "$dir/serve";
my $frames = sprintf ' 0x%x 0x%x', $base + 0x1210, $base + 0x1111;

# Dump number $n of pid 77: two stacks without frames of $n + 1 times 5000 bytes each, in the order
# given, and one with frames. Rate 0: counts are exact.
sub one {
	my ($n, @none) = @_;
	my $size = 5000 * ($n + 1);
	my $text = "heap_v2/0\n  t*: 9: 9 [0: 0]\n  t0: 1: 1 [0: 0] first\n  t1: 1: 1 [0: 0]\n";
	for my $stack ([$none[0], 5, $size], [$frames, 2, 3000], [$none[1], 7, $size]) {
		$text .= "\@$stack->[0]\n  t*: $stack->[1]: $stack->[2] [9: 9999]\n  t1: $stack->[1]: $stack->[2] [9: 9999]\n";
	}
	return spew(sprintf('serve.77.20260102T03%02d00.000Z.%d.i%d.heap', $n, $n, $n), $text . $maps);
}
my @forms = (['', ''], [' 0x0', ' 0x0'], [' ', ''], [' 0x0000', '']);
my @dump = map { one($_, @{ $forms[$_] }) } 0 .. 3;
sub json { my ($code, $out, $err) = jeprof(@_, '--json');
	is($code, 0, "@_[0, 1]: exit 0") or diag $err; return JSON::PP->new->utf8->decode($out) }
sub sum_of { my $sum = 0; $sum += $_ for @_; return $sum }

for my $n (0 .. 3) {
	my $top = json('top', $dump[$n]);
	is(join(' ', map { "$_->{function}=$_->{self}/$_->{objects}" } @{ $top->{rows} }),
		sprintf('(no stack)=%d/12 cache=3000/2', 10000 * ($n + 1)), "top, form '$forms[$n][0]'");
	is($top->{total}{bytes}, 3000 + 10000 * ($n + 1), 'its total');
}
my $all = 43000;
my $file = $dump[3];

# Each view of one dump.
is(sum_of(map { $_->{bytes} } @{ json('top', '--stacks', $file)->{stacks} }), $all, 'top --stacks');
is(json('top', '--thread=1', $file)->{total}{bytes}, $all, 'top --thread');
is(join(' ', map { $_->{function} } @{ json('top', '--focus=no stack', $file)->{rows} }), '(no stack)',
	'top --focus');
my $flame = json('flame', $file);
is($flame->{value}, $all, 'flame');
is(sum_of(map { $_->{value} } grep { $_->{name} eq '(no stack)' } @{ $flame->{children} }), 40000,
	'flame: the box');
like((jeprof('flame', $file))[1], qr/data-v="40000"><title>\(no stack\): 39\.1K, 93\.0%/, 'flame: drawn');
my $report = json('report', @dump)->{processes}[0];
is($report->{snapshots}[3]{bytes}, $all, 'report');
is("$report->{owners}[0]{function} $report->{owners}[0]{bytes}", '(no stack) 40000', 'report: owners');
is(json('ls', $file)->{dumps}[0]{bytes}, $all, 'ls');
for my $form (['--text', '--show_bytes'], ['--text', '--show_bytes', '--lines'],
	['--text', '--show_bytes', '--addresses'], ['--text', '--show_bytes', '--files']) {
	my $rows = table((jeprof(@$form, $file))[1]);
	is($rows->{''}, $all, "@$form: total");
	is(sum_of(map { $rows->{$_}[0] } grep { length } keys %$rows), $all, "@$form: rows");
}
like((jeprof('--dot', $file))[1], qr/label="\(no stack\)\\n/, '--dot');
like((jeprof(\"top\n", '--interactive', $file))[1], qr/ \(no stack\)$/m, 'interactive');

# Series.
is(join(' ', map { "$_->{stack}[0]=$_->{bytes}" } @{ json('diff', @dump)->{rows} }),
	'(no stack)=30000', 'diff');
my ($suspect) = @{ json('leaks', @dump)->{series}[0]{suspects} };
is("$suspect->{stack}[0] $suspect->{grown}", '(no stack) 30000', 'leaks');

# Exports.
my %text = map { $_ => (jeprof('export', '--to', $_, $file))[1] }
    qw(pprof otlp speedscope dhat collapsed callgrind heap);
$text{massif} = (jeprof('export', '--to', 'massif', @dump))[1];
is($text{collapsed}, "(no stack) 40000\nmain;cache 3000\n", 'collapsed');
my $speedscope = JSON::PP::decode_json($text{speedscope});
is($speedscope->{profiles}[0]{endValue}, $all, 'speedscope');
is(scalar(grep { $_->{name} eq '(no stack)' } @{ $speedscope->{shared}{frames} }), 1,
	'speedscope: the frame');
my $dhat = JSON::PP::decode_json($text{dhat});
is(sum_of(map { $_->{eb} } @{ $dhat->{pps} }), $all, 'dhat');
is(sum_of(map { $_->{eb} } grep { $dhat->{ftbl}[$_->{fs}[0]] =~ /\(no stack\)/ } @{ $dhat->{pps} }),
	40000, 'dhat: the frame');
like($text{massif}, qr/mem_heap_B=$all\n.*heap_tree=peak\nn2: $all .*\n n0: 40000 0x0: \(no stack\)\n/s, 'massif');
like($text{callgrind}, qr/^summary: $all\n/m, 'callgrind');
like($text{callgrind}, qr/fn=\(\d+\) \(no stack\)\n0 40000\n/, 'callgrind: the function');
is(json('top', spew('named.heap', $text{heap}))->{rows}[0]{self}, 40000, 'symbolized');
like((run($peer, '--text', '--show_bytes', 'named.heap'))[1], qr/^Total: $all B$/m,
	"symbolized: Debian's jeprof") if has_peer();
jeprof('pack', '-o', 'p.jepack', $file);
is(json('top', 'p.jepack')->{rows}[0]{self}, 40000, 'pack');
is(json('top', spew('p.pb.gz', $text{pprof}))->{rows}[0]{self}, 40000, 'pprof, read back');
# A pprof profile whose sample has no location.
my $bare = join '', map { pack('CC', $_->[0] << 3 | 2, length $_->[1]) . $_->[1] } [6, ''],
    [6, 'inuse_space'], [1, "\x08\x01"], [2, "\x12\x01\x64"];
is(json('top', spew('bare.pb', $bare))->{rows}[0]{self}, 100, 'pprof without a location');
chdir $source;
done_testing();
