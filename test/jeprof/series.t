#!/usr/bin/perl
# Series of dumps: ls and diff; the forms of top that show stacks and callers; the flame graph.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
no warnings 'portable';
our ($dir, $source);

my ($code, $out, $err);
my $id = '44' x 20;
my $base = 0x555500000000;
elf_file("$dir/serve", id => $id, symbols =>
	    [['main', 0x1100, 0x100], ['cache', 0x1200, 0x100], ['leak', 0x1300, 0x100],
		['zmalloc', 0x1400, 0x100], ['gone', 0x1500, 0x100]]);

# One dump of pid 77, or of another at another address: bytes of the stacks cache, leak and gone.
sub one {
	my ($file, $time, $cache, $leak, $gone, %more) = @_;
	my $at = $more{base} // $base;
	my $frames = sub { [map { $at + $_ } @_] };
	return our_dump("$dir/$file", rate => $more{rate} // 1,
		modules => [[$at + 0x1000, $at + 0x3000, $at, $id, "$dir/serve"]],
		meta => { pid => $more{pid} // 77, dump_time => $time, kind => 'interval',
			exe => "$dir/serve", sample_interval => $more{rate} // 1 },
		stacks => [grep { $_->[2] } [$frames->(0x1410, 0x1211, 0x1111), 4, $cache],
			[$frames->(0x1410, 0x1311, 0x1111), $leak / 1000, $leak],
			[$frames->(0x1510, 0x1211, 0x1111), 2, $gone]]);
}
my @file = map { sprintf 'serve.77.20260102T03%02d00.000Z.%d.i%d.heap', $_, $_, $_ } 0 .. 3;
my @dump = map { one($file[$_], sprintf('20260102T03%02d00.000Z', $_), 40000, 1000 + 1000 * $_,
		$_ < 2 ? 5000 : 0) } 0 .. 3;

# ls
chdir $dir;
($code, $out, $err) = jeprof('ls');
is($code, 0, 'ls') or diag $err;
my @row = grep { /\.heap$/ } split /\n/, $out;
is(scalar(@row), 4, 'ls: the series of the directory');
like($row[0], qr/^\s+0  2026-01-02 03:00:00Z interval\s+44\.9K\s+7\s+#+ +\Q$file[0]\E$/,
	'ls: seq, time, reason, live, objects, file');
like($row[2], qr/^\s+2 .* 42\.0K\s+-3\.9K /, 'ls: the change since the one before');
like($err, qr/next: \S+ diff \Q$file[0]\E \Q$file[3]\E/, 'ls: the next command');
unlike($out, qr/[\x80-\xff]/, 'ls: ASCII where the locale is not UTF-8');
{
	local $ENV{LC_ALL} = 'C.UTF-8';
	like((jeprof('ls', @dump))[1], qr/^(?:\xe2\x96[\x81-\x88]){4}$/m, 'ls: the course in one line');
}
my ($text) = (jeprof('ls', '--json', reverse @dump))[1];
my @bytes = $text =~ /"bytes":(\d+)/g;
is("@bytes", '46000 47000 43000 44000', 'ls --json: sums, in the order of time');
my ($total) = (jeprof('top', '--json', $dump[2]))[1] =~ /"total":\{"bytes":(\d+)/;
is($total, $bytes[2], 'ls: the sums of top');
one('other.99.20250101T000000.000Z.0.i0.heap', '20250101T000000.000Z', 1000, 1000, 0);
utime 1, 1, "$dir/other.99.20250101T000000.000Z.0.i0.heap";
is(scalar(() = (jeprof('ls'))[1] =~ /\.heap$/mg), 4, 'ls: the newest series only');
unlink "$dir/other.99.20250101T000000.000Z.0.i0.heap";

# What was added since a mark is no point of the course: ls shows it, the others leave it out.
my $delta = one('serve.77.20260102T030130.000Z.4.d0.heap', '20260102T030130.000Z', 1000, 1000, 0);
{
	open my $in, '<', $delta or die;
	local $/;
	my $text = <$in> =~ s/kind=interval/kind=delta\n# jemalloc.mark_time=20260102T030100.000Z/r;
	$text =~ s/^# end .*/"# shrunk 3 3072 @ 0x1\n# shrunk 1 1024 @ 0x2\n"/me;
	open my $to, '>', $delta or die;
	print $to $text, '# end ', length $text, "\n";
}
@row = grep { /\.heap$/ } split /\n/, (jeprof('ls'))[1];
like($row[4], qr/^\s+4 .*Z delta +2\.0K +5 /, 'ls: a delta, without a change');
($code, $out, $err) = jeprof('diff');
is($code, 0, 'diff: beside a delta');
like($err, qr/1 of 5 profiles is left out/, 'which is left out, as is said');
like((jeprof('top', $delta))[1], qr/: grown by 2\.0K in 5 objects since 20260102T030100\.000Z, 2 stacks shrunk by 4\.0K$/m,
	'top of a delta');
unlink $delta;

# diff
($code, $out, $err) = jeprof('diff', @dump[0, 3]);
is($code, 0, 'diff') or diag $err;
my @line = split /\n/, $out;
is($line[0], '2026-01-02 03:00:00Z -> 2026-01-02 03:03:00Z: 44.9K -> 43.0K, -2.0K, -666B/min',
	'diff: head line');
like($line[2], qr/^\s+\+2\.9K\s+\xc2\xb10B\s+\+1000B\/min\s+\+3  leak < main$/,
	'diff: growth, error, rate, objects, stack');
like($line[3], qr/^\s+-4\.9K .* gone < cache < main$/, 'diff: what shrank');
unlike($out, qr/^.*% .*|  cache < main/m, 'diff: what stayed is not there');
like($err, qr/next: \S+ top --stacks --focus=leak /, 'diff: the next command');
{
	# A profile and its symbolized form, which has the inlined calls too: no difference.
	my ($plain, $named) = ("$dir/raw.one", "$dir/raw.two");
	spew($plain, slurp($dump[0]));
	spew($named, sprintf("--- symbol\nbinary=$dir/serve\n%s---\n--- heap\n", join '',
			map { sprintf "0x%016x %s\n", $base + $_->[0], $_->[1] }
			    [0x1410, 'zmalloc'], [0x1210, 'put--insert--cache'], [0x1310, 'leak'], [0x1110, 'main'],
			[0x1510, 'gone']) . slurp($dump[0]));
	($code, $out, $err) = jeprof('diff', $plain, $named);
	is($code, 0, 'diff of a profile and its symbolized form') or diag $err;
	is($out =~ tr/\n//, 1, 'the same stack is the same: no rows') or diag $out;
	# What changed lies at nameless places, but it is little of what is held.
	my @bare = map { our_dump("$dir/bare$_",
			modules => [[$base + 0x1000, $base + 0x3000, $base, $id, "$dir/serve"]],
			stacks => [[[$base + 0x1310], 1, 100000], [[$base + 0x1b10], 1, $_]]) } 100, 300;
	($code, $out, $err) = jeprof('diff', @bare);
	is("$code|" . ($out =~ /serve\+0x1b10/ ? 1 : 0), '0|1',
		'diff: a nameless place that changed is no doubt about all bytes') or diag $err;
	unlike($err, qr/without a name/, 'nor said to be most of them');
}
{
	($code, $out) = jeprof('diff', '--focus=leak', @dump[0, 3]);
	like($out, qr/ \(--focus=leak\): 1000B -> 3\.9K, \+2\.9K, \+1000B\/min\n(?:.*\n)+.* leak < main\n\z/, 'diff --focus: the head line is of the rows');
	my ($json) = (jeprof('diff', '--json', '--ignore=gone', $dump[0], $dump[3]))[1];
	is(join(' ', $json =~ /"(?:before|after|bytes)":(-?\d+)/g), '41000 44000 3000', 'diff --json --ignore: after less before is the rows');
	my $all = (jeprof('ls', @dump))[1];
	($code, $out, $err) = jeprof('ls', '--focus=leak', '--exclude=main', @dump);
	is("$code|$out", "0|$all", 'ls --focus: the table of all');
	is(scalar(() = $err =~ /^jeprof: --(?:focus|exclude) has no effect here/mg), 2, 'and it is said');
	like($err, qr/next: \S+ diff \S+ \S+$/m, 'nor does the next command have it');
}
sub grown { return join ' ', map { my ($bytes, $stack) = /"bytes":(-?\d+).*"stack":\["(\w+)"/;
		defined $bytes ? "$stack=$bytes" : () } split /\n/, (jeprof('diff', '--json', @_))[1] }
is(grown(@dump), 'leak=3000 gone=-5000', 'diff of a series: the first and the last');
is(grown('--last', '1m', @dump), 'leak=1000', 'diff --last');
is(grown('--from', '03:01', '--to', '03:02', @dump), 'leak=1000 gone=-5000',
	'diff --from --to: times of the day');
is(grown('--from', '2026-01-02T03:02:00Z'), 'leak=1000',
	'diff: of the series of the directory, from a whole time');
is(grown(@dump[3, 0]), 'gone=5000 leak=-3000', 'diff A B: in the order given');
like((jeprof('diff', @dump[3, 0]))[2], qr/is later than/, 'and that is said');
my $again = one('again.heap', '20260102T041000.000Z', 41000, 9000, 0, base => 0x555577770000,
	pid => 78);
is(grown($dump[0], $again), 'leak=8000 cache=1000 gone=-5000',
	'diff: across a restart, to the byte');
like((jeprof('diff', $dump[0], $again))[1], qr/\(pid 77 -> pid 78\)/, 'and that is said');
my $coarse = one('coarse.heap', '20260102T041000.000Z', 40000, 9000, 0, rate => 4096);
($code, $out, $err) = jeprof('diff', $dump[0], $coarse);
like($err, qr/different rates \(1 and 4096 bytes\): estimates are compared/,
	'diff: two rates: said');
like($out, qr/^\s+\+\S+K\s+\xc2\xb1[1-9]\S*K\s.* leak < main$/m, 'diff: an estimate has its error');
for my $case ([['diff', $dump[0]], qr/compares two/],
	[['diff', '--last', 'x', @dump], qr/--last takes/],
	[['diff', '--from', 'noon', @dump], qr/not a time/],
	[['diff', '--from', '24:01', @dump], qr/not a time: \S+T24:01 /],
	[['diff', '--to', '12:60', @dump], qr/not a time/],
	[['diff', '--to', '2026-13-01T10:00', @dump], qr/not a time/],
	[['diff', '--from', '24:00', @dump], qr/none are left/],
	[['diff', '--from', '05:00', @dump], qr/none are left/]) {
	($code, $out, $err) = jeprof(@{ $case->[0] });
	is("$code$out", '2', "usage: @{ $case->[0] }[0, 1]: exit 2");
	like($err, $case->[1], 'and why');
}
mkdir "$dir/empty";
chdir "$dir/empty";
($code, $out, $err) = jeprof('ls');
is($code, 2, 'ls of nothing: exit 2');
chdir $source;

# top --stacks, --callers
($code, $out) = jeprof('top', '--stacks', '-n', 2, $dump[0]);
like($out, qr/^    39\.1K  87\.0%          4 objects\n +zmalloc\n +cache\n +main\n/m,
	'top --stacks: the heaviest whole stack first');
like($out, qr/^1 more stacks \(-n 3\)$/m, 'top --stacks: -n');
my $sum = 0;
$sum += $_ for (jeprof('top', '--stacks', '--json',
		$dump[0]))[1] =~ /"bytes":(\d+),"objects":\d+,"stack"/g;
is($sum, 46000, 'top --stacks --json: the sum');
my $many = our_dump("$dir/many.heap",
	modules => [[$base + 0x1000, $base + 0x3000, $base, $id, "$dir/serve"]],
	stacks => [map { [[$base + 0x1410, $base + 0x1510, $base + $_], 1, $_] } 0x1211, 0x1311,
		0x1111]);
like((jeprof('top', $many))[1], qr/gone\s+\w+ \d+%, \w+ \d+%, 1 more$/m, 'top: two callers');
like((jeprof('top', '--callers=3', $many))[1], qr/gone\s+\w+ \d+%, \w+ \d+%, \w+ \d+%$/m,
	'top --callers=3');
is((jeprof('top', $_, $many))[0], 2, "top $_: exit 2") for '-n=-1', '--callers=-1';
like((jeprof('top', '-o', 'x', $many))[2], qr/^jeprof: -o has no effect here/m, 'an option of one letter is told as it is written');
my $before = our_dump("$dir/before.heap",
	modules => [[$base + 0x1000, $base + 0x3000, $base, $id, "$dir/serve"]],
	stacks => [map { [[$base + 0x1410, $base + 0x1510, $base + $_], 1, 9000] } 0x1211]);
like((jeprof('top', "--base=$before", $many))[1], qr/gone\s+\w+, \w+, 1 more$/m,
	'top --base: callers that grew and one that shrank have no shares');

# flame
($code, $out, $err) = jeprof('flame', '-o', "$dir/f.svg", $dump[0]);
is("$code|$out", "0|$dir/f.svg\n", 'flame -o: the file is named') or diag $err;
my $svg = slurp("$dir/f.svg");
is((jeprof('flame', $dump[0]))[1], $svg, 'flame: to a pipe without -o');
my %box = map { /data-v="(\d+)"><title>([^:]+)/ ? ($2 => $1) : () } split /\n/, $svg;
is($box{all}, 46000, 'flame: the total of top');
is($box{leak} + $box{cache}, $box{main}, 'flame: callees add up to their caller');
like($svg, qr/<title>cache: 43\.9K, 97\.8%<\/title>/, 'flame: name, size and share on hover');
unlike($svg =~ s/xmlns="[^"]*"//r, qr/https?:|href|src=/, 'flame: it refers to nothing outside');
my ($js) = $svg =~ /<!\[CDATA\[(.*)\]\]>/s;
SKIP: {
	skip 'no node', 1 unless which('node');
	is((run('node', '--check', spew("$dir/f.js", $js)))[0], 0, 'flame: its script is one');
}
elf_file("$dir/serve", id => $id, symbols =>
	    [['main', 0x1100, 0x100], [qq{a>&"'\xff}, 0x1200, 0x100]]);
($code, $out) = jeprof('flame', $dump[0]);
like($out, qr/<title>a&#62;&#38;&#34;&#39;\?: /, 'flame: names are text, whatever is in them');
SKIP: {
	skip 'no xmllint', 1 unless which('xmllint');
	is((run('xmllint', '--noout', spew("$dir/g.svg", $out)))[0], 0, 'flame: well-formed');
}
($code, $out, $err) = jeprof('flame', '-o', "$dir/none/f.svg", $dump[0]);
is($code, 1, 'flame: a file that cannot be written: exit 1');
($code, $out, $err) = jeprof('flame', our_dump("$dir/nothing.heap", stacks => []));
is($err =~ /is still alive/ && $out =~ /<\/svg>/ ? 1 : 0, 1, 'flame of nothing') or diag $err;
# Names in UTF-8 are cut and aligned by characters, others by bytes.
{
	my %name = (0x11 => 'x' . "\xc3\xb6" x 45, 0x21 => 'x' . "\xe5\x87\xbd" x 50, 0x31 => "\xff" x 60, 0x41 => "m\xc3\xa4in");
	my $file = spew("$dir/utf8.heap", "--- symbol\n" . join('', map { sprintf "0x%x %s\n", $_, $name{$_} } sort keys %name)
		    . "---\n--- heap\nheap_v2/0\n" . join('', map { sprintf "@ 0x%x 0x42\n  t*: 2: %d [0: 0]\n", $_, 100 * $_ } 0x11, 0x21, 0x31)
		    . "@ 0x41\n  t*: 2: 900 [0: 0]\nMAPPED_LIBRARIES:\n");
	my @names = (jeprof('top', '--callers=0', $file))[1] =~ /%  +2  (\S+)/g;
	is(join(' ', map { my $text = $_; (utf8::decode($text) ? 'whole ' : 'bytes ') . length $text } @names),
		'bytes 40 whole 40 whole 40 whole 4', 'top: each name is cut to whole characters') or diag "@names";
	my @shown = (jeprof('flame', $file))[1] =~ /<text x="[\d.]+" y="\d+">([^<]+)</g;
	is(join(' ', map { /^\?+$/ ? 'bytes' : /\.\.$/ ? 'cut' : 'whole' } @shown), 'whole whole bytes whole cut',
		'flame: and in its boxes') or diag "@shown";
}
# What shrank has no box: it is told.
my ($old, $new) = map { our_dump("$dir/flame$_->[0].heap", stacks => [[[0x1000], 3, $_->[1]], [[0x2000], 5, $_->[2]]]) }
    [1, 7000, 900], [2, 3000, 950];
for my $case ([[$old, $new], 50, '1 stack shrunk by 3.9K'], [[$new, $old], 4000, '1 stack shrunk by 50B'],
	[[$new, $old, '--ignore=0x1fff|0x1000'], 0, '1 stack shrunk by 50B'], [[$new, $new], 0, '']) {
	my ($base, @words) = @{ $case->[0] };
	($code, $out, $err) = jeprof('flame', "--base=$base", @words);
	my ($title) = $out =~ m{<text x="6" y="16".*?: (\d.*)</text>};
	is($title, ($case->[1] == 4000 ? '3.9K' : "$case->[1]B") . ($case->[2] ? "; not shown: $case->[2]" : ''), "flame --base: $case->[1] grown") or diag $err;
	like($err, $case->[2] ? qr/went away has no box: \Q$case->[2]\E$/m : qr/\A(?!.*went away)/s, 'and the note');
	unlike($out, qr/nan|inf/, 'no share of nothing');
	is((jeprof('flame', '--json', "--base=$base", @words, '-o', '-'))[1], (jeprof('flame', '--json', "--base=$base", @words))[1],
		'--json -o - is --json');
}
done_testing();
