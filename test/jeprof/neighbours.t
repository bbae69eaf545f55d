#!/usr/bin/perl
# Dumps with small changes: unknown lines of many shapes at each place, blanks and line ends where
# others write them, text in front of the header. The totals are those of the unchanged dump, and
# those of Debian's jeprof where it is installed; unknown lines are counted in one remark.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
no warnings 'portable';
our ($dir, $peer);
chdir $dir;

my $base = 0x555500000000;
elf_file('serve', symbols =>
	    [['main', 0x1100, 0x100], ['cache', 0x1200, 0x100], ['leak', 0x1300, 0x100]]);
my $maps = sprintf "MAPPED_LIBRARIES:\n%x-%x r-xp 00001000 08:01 9 %s\n", $base + 0x1000,
    $base + 0x3000, "$dir/serve";
my @frames = map { join ' ', map { sprintf '0x%x', $base + $_ } @$_ } [0x1210, 0x1111],
    [0x1310, 0x1111], [0x1320, 0x1211, 0x1111];
# The lines of the dump, each with the place that it ends: what is inserted is inserted there.
my @lines = (["heap_v2/4096\n", 'header'], ["  t*: 60: 90000 [0: 0]\n", 'total'],
	["  t0: 20: 30000 [0: 0]\n", 'thread'], ["  t1: 40: 60000 [0: 0] pool worker\n", 'threads'],
	["@ $frames[0]\n", 'frames'], ["  t*: 4: 40000 [9: 99999]\n", 'counts'],
	["  t0: 1: 10000 [2: 20000]\n", 'first'], ["  t1: 3: 30000 [7: 79999]\n", 'second'],
	["@ $frames[1]\n", 'frames'], ["  t*: 30: 900 [30: 900]\n", 'counts'],
	["  t1: 30: 900 [30: 900]\n", 'record'], ["@ $frames[2]\n", 'frames'],
	["  t*: 2: 65536 [3: 98304]\n", 'counts'], ["  t0: 2: 65536 [3: 98304]\n", 'last'],
	["\n", 'blank']);
my $plain = join '', map { $_->[0] } @lines;

# Shapes of lines that no reader of this form knows.
my @shapes = ('  f: 2000 60 64 4 0 1', 'frag_util: 0 4 64 4096 1 2 10 64 640', '  age: 12 15',
	'# a remark', '#', '  b0: 1: 2 [0: 0]', 'key=value', 'key: value', "\tx\ty\tz", '  t1: 7', '  t1.5: 1: 2 [3: 4]',
	'  t1: 1: 2 [3: 4] 5 6', '  t1: 1: 2', '  tx: 1: 2 [3: 4]', '  T*: 1: 2 [3: 4]', 'T1: 1: 2 [3: 4]', '  t-1: 1: 2 [3: 4]',
	'  s*: 1: 64 [0: 0]', '1: 64 [0: 0]', '1: 64 [1: 64] @ 0x1234', '@@ 0x1234', '@0', '%warn in the middle', '--- a mark', 'heap_v2/1',
	'0x1234 main', '<html>', '{"a": 1}', "\xc3\xa4\xff\x01", 'MAPPED', 'mapped_libraries:', ' MAPPED_LIBRARIES', 'end 5', 'x' x 5000);
my @blanks = ("\n", "   \n", "\t\n", "\r\n", "\n\n\n", " \t \r\n");

# [name, text, number of unknown lines or undef]
my @cases = (['unchanged', $plain . $maps, 0]);
for my $at (0 .. $#lines) {
	my ($before, $after) = map { join '', map { $_->[0] } @$_ } [@lines[0 .. $at]],
	    [@lines[$at + 1 .. $#lines]];
	my $unknown = sub { my ($shape) = @_;
		# Before the first stack such a line is a thread, behind counts in a stack it is none.
		return $shape =~ /^  t1: 1: 2 \[3: 4\]/ && $at < 4 ? 0 : 1 };
	for my $number (0 .. $#shapes) {
		next if ($at + $number) % 3; # each shape at a third of the places
		push @cases, ["$lines[$at][1] + '" . substr($shapes[$number], 0, 30) =~ tr/ -~/?/cr . "'",
			"$before$shapes[$number]\n$after$maps", $unknown->($shapes[$number])];
	}
	push @cases, ["$lines[$at][1] + blank $_", "$before$blanks[$_]$after$maps", 0] for 0 .. $#blanks;
}
# All at once, many times: still one remark.
my $all = join '', map { ("$_->[0]", map { "$_\n" } @shapes[0 .. 8]) } @lines;
push @cases, ['all at once', $all . $maps, 9 * @lines];
# Blanks in lines, line ends, the last line.
my %spaced = (
	'trailing blanks' => $plain =~ s/\n/ \t\n/gr, 'CR LF' => $plain =~ s/\n/\r\n/gr,
	'CR' => $plain =~ s/\n/\r\n/r, 'tabs' => $plain =~ s/^  t/\tt/gmr,
	'no indent' => $plain =~ s/^  t/t/gmr, 'deep indent' => $plain =~ s/^(?=[t @])/      /gmr,
	'tabs after colons' => $plain =~ s/: /:\t/gr, 'wide columns' => $plain =~ s/: /:    /gr,
	'wide brackets' => $plain =~ s/\[/[   /gr, 'wide before brackets' => $plain =~ s/ \[/    [/gr,
	'wide frames' => $plain =~ s/ 0x/   0x/gr, 'tabs in frames' => $plain =~ s/ 0x/\t0x/gr,
	'blanks after the header' => $plain =~ s/\n/   \n/r, 'words after the header' => $plain =~ s/\n/ sampled\n/r,
	'capital digits' => $plain =~ s/0x(\w+)/'0x' . uc $1/ger,
);
push @cases, map { [$_, $spaced{$_} . $maps, 0] } sort keys %spaced;
push @cases, ['CR LF in all', ($plain . $maps) =~ s/\n/\r\n/gr, 0],
    ['no last newline', ($plain . $maps) =~ s/\n\z//r, 0],
    ['no last newline, CR', ($plain . $maps) =~ s/\n\z/\r/r, 0],
    ['no empty line before the maps', ($plain =~ s/\n\n\z/\n/r) . $maps, 0],
    ['words behind the heading', $plain . $maps =~ s/:\n/: of pid 5\n/r, 0],
    ['Memory map', $plain . $maps =~ s/MAPPED_LIBRARIES:/--- Memory map: ---/r, 0],
    ['two counts of one stack', $plain =~ s/(  t\*: 30.*\n)/$1$1/r . $maps, 0];
my @fronts = (["%warn low on memory\n", 0], ["--- heap\n", 0], ["--- heap ---\n", 0], ["--- growth\n", 0],
	["%warn a\n%warn b\n--- heap\n%warn c\n", 0], ["%unknown command\n", 1]);
push @cases, map { ["front $fronts[$_][0]" =~ tr/\n/|/r, "$fronts[$_][0]$plain$maps", $fronts[$_][1]] }
    0 .. $#fronts;
my $peers = @cases;
# What Debian's jeprof does not read.
push @cases, ['blank lines in front', "\n\n$plain$maps", 0], ['a byte order mark', "\xef\xbb\xbf$plain$maps", 0],
    ['an answer of HTTP', "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n$plain$maps", 2],
    ['more behind counts', $plain =~ s/(t\*: 30.*)/$1 77 8/r . $maps, 0];

# "=BYTES" of the total, or "tN=BYTES" of each thread.
sub totals {
	my ($text) = @_;
	my %total = map { /^Total(?: \((t\d+)\))?: (\d+) B/ ? (($1 // '') => $2) : () } split /\n/, $text;
	return %total ? join ' ', map { "$_=$total{$_}" } sort keys %total : 'none';
}
my @views = (['--inuse_space'], ['--alloc_space'], ['--thread=*']);
my @options = ('--text', '--show_bytes');
my @want = map { my ($code, $out) = in_child(@options, @$_, spew('plain.heap', $plain . $maps)); totals($out) } @views;
like($want[0], qr/^=\d{6}$/, 'the unchanged dump');
my (@wrong, @remarks, @codes, @unlike, %seen);
for my $number (0 .. $#cases) {
	my ($name, $text, $unknown) = @{ $cases[$number] };
	my $file = spew("case.$number.heap", $text);
	my $view = $number % 4 ? 0 : 1 + $number / 4 % 2;
	my $want = $name eq 'two counts of one stack' ? undef : $want[$view];
	my ($code, $out, $err) = in_child(@options, @{ $views[$view] }, $file);
	my $got = totals($out);
	push @wrong, "$name: $got, not $want" if defined $want && $got ne $want;
	push @codes, "$name: $code: $err" if $code;
	my @said = $err =~ /skipped (\d+) unknown line/g;
	push @remarks, "$name: @said, not $unknown" if "@said" ne ($unknown || '');
	# Debian's takes a third of a second for each: every fifth, all with TEST_FULL.
	next if $number >= $peers || !has_peer() || ($number % 5 && !$ENV{TEST_FULL});
	my $theirs = totals((run($peer, peer_nameless(), @options, @{ $views[$view] }, '/bin/true', $file))[1]);
	push @unlike, "$name: $got, Debian's $theirs" if $got ne $theirs;
}
cmp_ok(scalar(@cases), '>', 250, scalar(@cases) . ' neighbours');
is(scalar(@wrong), 0, 'each has the totals of the dump') or diag join "\n", @wrong;
is(scalar(@remarks), 0, 'unknown lines are counted in one remark') or diag join "\n", @remarks;
is(scalar(@codes), 0, 'no doubt about any: exit 0') or diag join "\n", @codes;
SKIP: {
	skip "Debian's jeprof is not installed (package libjemalloc-dev)", 1 unless has_peer();
	is(scalar(@unlike), 0, "the totals of Debian's jeprof") or diag join "\n", @unlike;
}

# Names and maps are there behind unknown lines.
my ($code, $out, $err) = jeprof('top', spew('names.heap', $all . $maps));
like($out, qr/ leak .*\n.* cache .*\n/, 'names');
like($err, qr/^jeprof: names\.heap: skipped 135 unknown lines, the first is "  f: 2000 60 64 4 0 1"$/m,
	'the remark names the first');

# A record that is not complete is told as ever.
for my $case (['in frames', "$lines[0][0]$lines[1][0]\@ $frames[0]", qr/truncated/],
	['after frames', $plain =~ s/\A(.*\@ \S+ \S+ \S+\n).*/$1/sr, qr/truncated/],
	['in counts', $plain =~ s/65536 \[3.*/6/sr, qr/truncated/],
	['in a thread', $plain =~ s/(\n  t0: 2: 6).*/$1/sr, qr/truncated/],
	['in the maps', substr($plain . $maps, 0, length($plain) + 40), qr/truncated/],
	['counts are damaged', $plain =~ s/t\*: 30: 900/t*: 30; 900/r . $maps, qr/damaged: stacks without counts: 1;/],
	['counts are missing', $plain =~ s/  t\*: 30: .*\n//r . $maps, qr/damaged: stacks without counts: 1;/]) {
	my ($name, $text, $like) = @$case;
	($code, $out, $err) = jeprof('--text', spew('cut.heap', $text));
	is($code, 3, "$name: exit 3");
	like($err, $like, 'said');
}
chdir '/';
done_testing();
