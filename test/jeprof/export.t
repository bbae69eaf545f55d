#!/usr/bin/perl
# jeprof export: each form is read back by a small reader here, which knows the form and not jeprof:
# the sums are those of top, names and stacks are there. What foreign programs say of them is asked
# by scripts/check-exports; here by those that are installed anyway.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
no warnings 'portable';
use JSON::PP ();
our ($dir, $source, $peer);

my ($code, $out, $err);
my $id = '46' x 20;
my $base = 0x555500000000;
my @names = ('main', 'serve', 'cache', 'leak', '_ZN3app4Pool4growIiEEvm', 'a;b"<&\\#{1}',
	'zmalloc');
elf_file("$dir/serve", id => $id, symbols =>
	    [map { [$names[$_], 0x1100 + 0x100 * $_, 0x100] } 0 .. $#names]);

# Dump number $n; sizes are such that no estimate is a whole number.
sub one {
	my ($n) = @_;
	my $frames = sub { [map { $base + 0x1111 + 0x100 * $_ } @_] };
	return our_dump(sprintf("%s/serve.77.20260102T03%02d00.000Z.%d.i%d.heap", $dir, $n, $n, $n),
		rate => 4096, modules => [[$base + 0x1000, $base + 0x3000, $base, $id, "$dir/serve"]],
		meta => { pid => 77, dump_time => sprintf('20260102T03%02d00.000Z', $n),
			exe => "$dir/serve", sample_interval => 4096, version => '5.3.1' },
		stacks => [[$frames->(6, 2, 1, 0), 13, 1313],
			[$frames->(6, 3, 1, 0), 7 + $n, 713 * (7 + $n)], [$frames->(6, 4, 0), 3, 100001],
			[$frames->(5, 1, 1, 0), 11, 1777], [$frames->(0), 1, 17]]);
}
my @dump = map { one($_) } 0 .. 3;
my $top = JSON::PP::decode_json((jeprof('top', '--json', $dump[3]))[1]);
my ($bytes, $objects) = @{ $top->{total} }{qw(bytes objects)};
sub exported { my ($code, $out, $err) = jeprof('export', '--to', @_);
	is($code, 0, "export --to $_[0]") or diag $err; return $out }
SKIP: {
	skip 'no program script', 1 unless which('script');
	chdir $dir;
	system("script -qec \"'$^X' '$main::jeprof' export --to collapsed '$dump[3]' '$dump[0]'\" /dev/null </dev/null >/dev/null 2>&1");
	is(join(' ', glob '*.collapsed.txt'), ($dump[3] =~ s{.*/}{}r) =~ s/\.heap$//r . '.collapsed.txt',
		'on a terminal: a file with the name of the profile that is in it');
	chdir $source;
}
sub sum_of { my $sum = 0; $sum += $_ for @_; return $sum }

# ---- pprof: fields of protobuf as [number, value], by the wire alone
sub fields {
	my ($text) = @_;
	my @list;
	my $number = sub {
		my ($value, $shift) = (0, 0);
		while (1) {
			$text =~ s/\A(.)//s or die 'the message ends in a number';
			$value |= (ord($1) & 127) << $shift;
			return $value if ord $1 < 128;
			$shift += 7;
		}
	};
	while (length $text) {
		my $key = $number->();
		die "wire type of $key" if ($key & 7) != 0 && ($key & 7) != 2;
		my $value = $number->();
		if ($key & 7) {
			die 'length' if $value > length $text;
			$value = substr $text, 0, $value, '';
		}
		push @list, [$key >> 3, $value];
	}
	return @list;
}
sub packed { my ($text) = @_; my @list;
	while (length $text) { $text =~ s/\A([\x80-\xff]*[\0-\x7f])//s; my $at = 0; my $value = 0;
		$value |= (ord($_) & 127) << 7 * $at++ for split //, $1;
		push @list, unpack 'q', pack 'Q', $value } return @list }

# { rows: "leaf<...<root" => [four values], ... } of an unpacked profile.
sub pprof {
	my @all = fields($_[0]);
	my @strings = map { $_->[1] } grep { $_->[0] == 6 } @all;
	my $part = sub { my %part; push @{ $part{ $_->[0] } }, $_->[1] for fields($_[0]);
		return \%part };
	my %function = map { ($_->{1}[0] =>
			    $strings[$_->{2}[0]]) } map { $part->($_->[1]) } grep { $_->[0] == 5 } @all;
	my %mapping = map { ($_->{1}[0] => join ' ', $strings[$_->{5}[0]],
			$strings[$_->{6}[0]]) } map { $part->($_->[1]) } grep { $_->[0] == 3 } @all;
	my %location = map { my $l = $part->($_->[1]);
		($l->{1}[0] => [map { $function{ $part->($_)->{1}[0] } } @{ $l->{4} }]) } grep { $_->[0]
		    == 4 } @all;
	my %of = map { $part->($_->[1])->{2}[0] => 1 } grep { $_->[0] == 4 } @all;
	my %rows;
	for my $sample (map { $part->($_->[1]) } grep { $_->[0] == 2 } @all) {
		my @values = packed($sample->{2}[0]);
		my $row = $rows{ join '<', map { @{ $location{$_} } } packed($sample->{1}[0]) } //=
		    [0, 0, 0, 0];
		$row->[$_] += $values[$_] for 0 .. 3;
	}
	my ($period) = map { $_->[1] } grep { $_->[0] == 12 } @all;
	my ($time) = map { $_->[1] } grep { $_->[0] == 9 } @all;
	my ($default) = map { $strings[$_->[1]] } grep { $_->[0] == 14 } @all;
	my $types = join ' ', map { my $t = $part->($_->[1]);
		"$strings[$t->{1}[0]]/$strings[$t->{2}[0]]" } grep { $_->[0] == 1 } @all;
	return { rows => \%rows, first => $strings[0], period => $period, time => $time,
		default => $default, types => $types, mappings => \%mapping };
}
sub unzip { my ($packed) = @_; my $file = spew("$dir/x.gz", $packed);
	return (run(\'', 'gzip', '-dc', $file))[1] }
my $zipped = exported('pprof', $dump[3]);
is(unpack('H4', $zipped), '1f8b', 'pprof: gzipped');
my $p = pprof(unzip($zipped));
is(sum_of(map { $_->[3] } values %{ $p->{rows} }), $bytes, 'pprof: bytes');
is(sum_of(map { $_->[2] } values %{ $p->{rows} }), $objects, 'pprof: objects');
is($p->{types}, 'alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes',
	'pprof: types, in the order of Go');
is("$p->{first}|$p->{period}|$p->{time}|$p->{default}", '|4096|1767322980000000000|inuse_space',
	'pprof: period, time, default');
is(join(' ', sort keys %{ $p->{rows} }),
	'a;b"<&\\#{1}<serve<serve<main main zmalloc<app::Pool::grow<main zmalloc<cache<serve<main zmalloc<leak<serve<main', 'pprof: whole stacks');
is($p->{mappings}{1}, "$dir/serve $id", 'pprof: mapping 1 is the program, with its build-id');
{
	local $ENV{JEPROF_TOOLS} = 'gzip:/bin/false';
	my $stored = exported('pprof', $dump[3]);
	is(unzip($stored), unzip($zipped), 'pprof: without gzip the same, stored')
	    or diag length $stored;
	is((run('gzip', '-t', spew("$dir/s.gz", $stored)))[0], 0, 'pprof: its checksum is right');
}
is(sum_of(map { $_->[3] } values %{ pprof(unzip(exported('pprof', '--base', $dump[0],
						$dump[3])))->{rows} }),
	$bytes - JSON::PP::decode_json((jeprof('top', '--json', $dump[0]))[1])->{total}{bytes},
	'pprof --base: the difference');
is(join(' ', keys %{ pprof(unzip(exported('pprof', '--focus=leak', $dump[3])))->{rows} }),
	'zmalloc<leak<serve<main', 'pprof --focus');
is(join(' ', sort keys %{ pprof(unzip(exported('pprof', '--exclude=serve', '--focus=leak',
						$dump[3])))->{rows} }), 'zmalloc<leak<main', 'pprof --exclude');

# ---- speedscope
my $s = JSON::PP::decode_json(exported('speedscope', $dump[3]));
is($s->{'$schema'}, 'https://www.speedscope.app/file-format-schema.json', 'speedscope: schema');
for my $case ([0, 'bytes', $bytes], [1, 'none', $objects]) {
	my ($at, $unit, $want) = @$case;
	my $profile = $s->{profiles}[$at];
	is("$profile->{type} $profile->{unit} $profile->{startValue} $profile->{endValue} "
		    . sum_of(@{ $profile->{weights} }), "sampled $unit 0 $want $want",
		"speedscope: $profile->{name}");
	is(scalar @{ $profile->{samples} }, scalar @{ $profile->{weights} },
		'speedscope: a weight for each');
}
is(join(' ',
		sort map { join '>',
			    map { $s->{shared}{frames}[$_]{name} } @$_ } @{ $s->{profiles}[0]{samples} }),
	'main main>app::Pool::grow>zmalloc main>serve>cache>zmalloc main>serve>leak>zmalloc main>serve>serve>a;b"<&\\#{1}', 'speedscope: stacks, root first');
{
	my ($counted, $grown) = map { spew("$dir/counted$_", "heap_v2/0\n@ 0x10\n  t*: 2: 200 [5: 700]\n@ 0x20\n  t*: $_: ${_}00 [$_: ${_}00]\nMAPPED_LIBRARIES:\n") } 3, 8;
	my $all = JSON::PP::decode_json((jeprof('export', '--to', 'speedscope', '--alloc_space', '-o', '-', $counted))[1]);
	is(join(', ', map { "$_->{name} $_->{endValue}" } @{ $all->{profiles} }),
		'live bytes 500, live objects 5, allocated bytes 1000, allocated objects 8', 'speedscope: all that the dump counts');
	is($all->{activeProfileIndex}, 2, 'and first what was asked for');
	like((jeprof('export', '--to', 'speedscope', '-o', '-', "--base=$grown", $counted))[2],
		qr/stacks that shrank are left out, 1 of them$/m, 'speedscope --base: what shrank is said');
}

# ---- DHAT
my $d = JSON::PP::decode_json(exported('dhat', $dump[3]));
is("$d->{dhatFileVersion} $d->{ftbl}[0] $d->{pid}", '2 [root] 77', 'dhat: head');
# What valgrind's description of the form demands of a profile with lifetimes; the Firefox Profiler,
# which is not to be had here, reads no other.
is(join(' ', grep { !defined $d->{$_} } qw(dhatFileVersion mode verb bklt bkacc tu Mtu tuth cmd pid
		    te tg pps ftbl)), '', 'dhat: nothing is missing');
is(scalar(grep { my $point = $_; grep { !defined $point->{$_} } qw(tb tbk tl mb mbk gb gbk eb ebk
			    fs) } @{ $d->{pps} }), 0, 'dhat: nor in a point');
is(scalar(grep { !/^0x[0-9A-F]+: .+ \((?:in .+|.+:\d+)\)$/ } @{ $d->{ftbl} }[1 .. $#{ $d->{ftbl} }]), 0, 'dhat: each frame is ADDRESS: NAME (FILE:LINE) or (in OBJECT)');
is(sum_of(map { $_->{eb} } @{ $d->{pps} }), $bytes, 'dhat: bytes');
is(sum_of(map { $_->{ebk} } @{ $d->{pps} }), $objects, 'dhat: blocks');
my %seen;
is(scalar(grep { $seen{"@{ $_->{fs} }"}++ } @{ $d->{pps} }), 0, 'dhat: no stack twice');
like(join('|', map { $d->{ftbl}[$_] } @{ $d->{pps}[1]{fs} }),
	qr{^0x\w+: zmalloc \(in $dir/serve\)\|0x\w+: leak \(.*\|0x\w+: main \(},
	'dhat: frames, leaf first');

# ---- collapsed, callgrind
my $text = exported('collapsed', $dump[3]);
is(sum_of($text =~ / (\d+)$/mg), $bytes, 'collapsed: bytes');
is((jeprof('--collapsed', $dump[3]))[1], $text, 'collapsed: as --collapsed');
like($text, qr/^main;serve;serve;a:b"<&\\#\{1\} \d+$/m, 'collapsed: a name that has its separator');
$text = exported('callgrind', $dump[3]);
is(sum_of($text =~ /^fn=.*\n\d+ (\d+)$/mg), $bytes, 'callgrind: self bytes');
is($text =~ /^summary: (\d+)/m ? $1 : '', $bytes, 'callgrind: summary');

# ---- massif
sub totals { return map { JSON::PP::decode_json((jeprof('top', '--json',
					$_))[1])->{total}{bytes} } @_ }
my $massif = exported('massif', @dump[2, 0, 3, 1]);
is(join(' ', $massif =~ /^mem_heap_B=(\d+)/mg), join(' ', totals(@dump)),
	'massif: each dump of the series');
is(join(' ', $massif =~ /^time=(\d+)/mg), '0 60000 120000 180000', 'massif: times');
is(join(' ', $massif =~ /^heap_tree=(\w+)/mg), 'detailed detailed detailed peak',
	'massif: the peak');
my @open;
for my $line (grep { /^ *n\d+:/ } split /\n/, $massif) {
	my ($children, $sum) = $line =~ /n(\d+): (\d+)/;
	$open[-1][1] -= $sum if @open;
	push @open, [$children, $sum] if $children;
	if (@open && !$children) {
		while (@open && !--$open[-1][0]) {
			is($open[-1][1], 0, 'massif: children add up') if $open[-1][1];
			pop @open;
		}
	}
}
is(scalar(@open), 0, 'massif: as many children as are told');
unlike($massif =~ s/^#-+$//gmr, qr/#/, 'massif: no comment in a name');
mkdir "$dir/small";
for my $small (1, 2) {
	my $many = (jeprof('export', '--to', 'massif', spew("$dir/small/x.heap", join '',
				"heap_v2/1\n  t*: 1: 9000 [0: 0]\n",
				(map { "@ 0x${_}000 0x9000\n  t*: 1: 5 [0: 0]\n" } 1 .. $small),
				"@ 0x5000 0x9000\n  t*: 1: 8000 [0: 0]\n\nMAPPED_LIBRARIES:\n")))[1];
	my $told = $small == 1 ? '5 in 1 place, below' : '10 in 2 places, all below';
	like($many, qr/^ n0: $told massif's threshold \(1\.00%\)$/m, "massif: $small small");
}
SKIP: {
	skip 'ms_print and callgrind_annotate are not installed', 2
	    unless which('ms_print') && which('callgrind_annotate');
	($code, $out) = run('ms_print', spew("$dir/m", $massif));
	like($out =~ tr/,//dr, qr/^\s+3\s+180000\s+$bytes\s+$bytes\s/m, 'ms_print reads it');
	like((run('callgrind_annotate', spew("$dir/c", $text)))[1] =~ tr/,//dr,
		qr/^$bytes .*PROGRAM TOTALS/m, 'callgrind_annotate reads it');
}

# ---- heap
my $heap = spew("$dir/names.symbolized", exported('heap', $dump[3]));
rename "$dir/serve", "$dir/away";
is((totals($heap))[0], $bytes, 'heap: the program is away, and the sum is the same');
like((jeprof('top', $heap))[1], qr/ leak +serve$/m, 'heap: and the names are there');
SKIP: {
	skip "Debian's jeprof is not installed", 1 unless has_peer();
	like((run($peer, '--text', '--show_bytes', $heap))[1], qr/^Total: $bytes B\n(?=.* leak$)/ms,
		"heap: Debian's jeprof reads it");
}
rename "$dir/away", "$dir/serve";

# ---- the verb
chdir $dir;
($code, $out, $err) = jeprof('export', '--to', 'pprof', '-o', 'p.pb.gz', $dump[3]);
is("$code|$out", "0|p.pb.gz\n", '-o: the file is named');
like($err, qr/next: go tool pprof -top p\.pb\.gz/, 'and what opens it');
like((jeprof('export', '--to', 'collapsed'))[2],
	qr/4 profiles: the last one is exported.*\.3\.i3\.heap/,
	'of the series of the directory: the last');
cmp_ok(abs(sum_of((jeprof('export', '--to', 'collapsed', '--sum',
					@dump))[1] =~ / (\d+)$/mg) - sum_of(totals(@dump))), '<', 4, '--sum adds them');
is((jeprof('export', '--to', 'symbolized', $dump[3]))[1], slurp($heap), 'symbolized is heap');
for my $bad ([], ['--to', 'xml'], ['--to']) {
	($code, $out, $err) = jeprof('export', @$bad, $dump[3]);
	is("$code|$out", '2|', "export @$bad: exit 2");
}
like((jeprof('export', '--to', 'x', $dump[3]))[2], qr/--to pprof\|otlp\|speedscope/,
	'and the forms are named');
for my $form (qw(pprof otlp speedscope dhat collapsed massif callgrind)) {
	($code, $out, $err) = jeprof('export', '--to', $form, '-o', '-', '--thread=*', $dump[3]);
	is("$code|$out", '2|', "$form --thread=*: exit 2");
}
for my $words (['export', '--to', 'massif'], ['export', '--to', 'heap'], ['symbolize'], ['--raw']) {
	my @out = $words->[0] eq '--raw' ? () : ('-o', '-');
	my $plain = (jeprof(@$words, @out, $dump[3]))[1];
	my @idle = ("--base=$dump[0]", $words->[-1] eq 'massif' ? () : ('--thread=*', '--focus=leak'));
	($code, $out, $err) = jeprof(@$words, @out, @idle, $dump[3]);
	is("$code|$out", "0|$plain", "@$words @idle: as without");
	is(join(' ', $err =~ /^jeprof: (--\w+) has no effect here/mg), join(' ', map { /(--\w+)/ } @idle), 'and it is said')
	    or diag $err;
}
for my $form (qw(pprof otlp speedscope dhat collapsed massif callgrind heap)) {
	($code, $out, $err) = jeprof('export', '--to', $form,
		our_dump("$dir/nothing.heap", stacks => [],
			modules => [[$base + 0x1000, $base + 0x3000, $base, $id, "$dir/serve"]]));
	is($code, 0, "$form of nothing") or diag $err;
	unlike($err, qr/ line \d+|internal/, 'without noise');
}
# Nameless frames: a doubt where they hold most of the bytes, in all forms; none where they hold
# little.
{
	elf_file('half', id => '77' x 20, symbols => [['named', 0x1100, 0x100]]);
	my $half = sub { our_dump("half$_[0].heap",
			modules => [[$base + 0x1000, $base + 0x3000, $base, '77' x 20, "$dir/half"]],
			stacks => [[[$base + 0x1110], 1, 1000], [[$base + 0x1a10], 1, $_[0]]]) };
	for my $case ([100, 0], [9000, 3]) {
		my %code = map { $_ => (jeprof('export', '--to', $_, $half->($case->[0])))[0] } qw(pprof otlp
		    speedscope dhat collapsed massif callgrind heap);
		is(join(' ', grep { $code{$_} != $case->[1] } sort keys %code), '',
			"nameless frames of $case->[0] bytes: exit $case->[1] in all forms");
	}
}
# As large as a count may be: the estimates are cut to what 64 bits with a sign hold.
{
	my $file = our_dump('large.heap', rate => 524288, modules => [[$base + 0x1000, $base + 0x3000, $base, $id, "$dir/serve"]],
		stacks => [[[$base + 0x1110], ('18446744073709551615') x 2], [[$base + 0x1210], 5, 500]]);
	for my $form (qw(speedscope dhat collapsed massif callgrind)) {
		($code, $out, $err) = jeprof('export', '--to', $form, '-o', '-', $file);
		unlike($out, qr/\de[+]\d|[ :,]-\d|\d{20}/, "$form of large counts");
	}
}
# As deep as a stack may be.
our_dump('deep.heap', modules => [[$base + 0x1000, $base + 0x3000, $base, $id, "$dir/serve"]],
	stacks => [[[map { $base + 0x1000 + $_ } 1 .. 4096], 1, 100]]);
($code, $out, $err) = jeprof('export', '--to', 'massif', 'deep.heap');
is(scalar(() = $out =~ /^ *n\d+: 100 /mg), 4097, 'massif: a stack of 4096 frames');
unlike($err, qr/recursion/, 'without noise');
chdir $source;
done_testing();
