#!/usr/bin/perl
# What jeprof reads besides our dumps: upstream's of several versions, gzipped, gperftools' text,
# collapsed stacks, pprof; and 200 broken, truncated and hostile inputs, each of which ends with one
# clear line and exit 0, 1 or 3, and leaves terminal and HTML clean.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
use Socket ();
no warnings 'portable';
use JSON::PP ();
our ($dir, $jeprof, $source);

my ($code, $out, $err);
my $base = 0x555500000000;
my $id = '48' x 20;
chdir $dir;
elf_file('serve', id => $id, symbols =>
	    [['main', 0x1100, 0x100], ['cache', 0x1200, 0x100], ['leak', 0x1300, 0x100],
		['zmalloc', 0x1400, 0x100]]);
my @stacks = ([[map { $base + $_ } 0x1410, 0x1211, 0x1111], 4, 40000],
	[[map { $base + $_ } 0x1410, 0x1311, 0x1111], 3, 9000]);
my $ours = our_dump('ours.heap', rate => 4096,
	modules => [[$base + 0x1000, $base + 0x3000, $base, $id, "$dir/serve"]],
	meta => { pid => 77, dump_time => '20260102T030405.000Z', exe => "$dir/serve",
		version => '5.3.1' }, stacks => \@stacks);
sub rows { my ($code, $out, $err) = jeprof('top', '--json', @_);
	return "exit $code: $err" if $code == 1;
	return join ' ',
	    map { "$_->{function}=$_->{self}/$_->{objects}" } @{ JSON::PP::decode_json($out)->{rows} } }
my $want = rows($ours);
like($want, qr/^cache=\d+\/\d+ leak=\d+\/\d+$/, 'ours');

# The same stacks in other forms. Upstream's: counts of one thread, mappings; 5.1 wrote no thread
# names; gperftools: text.
my $maps = sprintf "%x-%x r-xp 00001000 08:01 9 %s\n", $base + 0x1000, $base + 0x3000, "$dir/serve";
my $frames = sub { join ' ', map { sprintf '0x%x', $_ } @{ $_[0] } };
my $upstream = "heap_v2/4096\n  t*: 7: 49000 [0: 0]\n  t0: 7: 49000 [0: 0]\n"
    . join('', map { "@ @{[$frames->($_->[0])]}\n  t*: $_->[1]: $_->[2] [0: 0]\n  t0: $_->[1]: $_->[2] [0: 0]\n" } @stacks) . "\nMAPPED_LIBRARIES:\n";
is(rows(spew('upstream.heap', $upstream . $maps)), $want, 'jemalloc 5.x');
is(rows(spew('named.heap', $upstream =~ s/(  t0: 7.*)/$1 a thread/r . $maps)), $want,
	'jemalloc with thread names');
is(rows(spew('mac.heap', $upstream . sprintf "%016x-%016x: %s\n", $base, $base + 0x3000,
			"$dir/serve")), $want, 'mappings as macOS has them');
is(rows(spew('crlf.heap', ($upstream . $maps) =~ s/\n/\r\n/gr)), $want,
	'line ends of another system');
is(rows(spew('cr.heap', ($upstream . $maps) =~ s/\n/\r/gr)), $want, 'and of an old one');
is(rows(spew('cr.heap', ($upstream . $maps) =~ s/\n/\r/gr . "\n")), $want, 'of an old one, with a last newline');
is(rows(spew('crcrlf.heap', ($upstream . $maps) =~ s/\n/\r\r\n/gr)), $want, 'line ends converted twice');
for my $mark ('', '0X') {
	is(rows(spew('hex.heap', ($upstream =~ s/\b0x/$mark/gr) . $maps)), $want, "addresses with '$mark' for 0x");
}
is(rows(spew('near.heap', ($upstream =~ s/^\@ 0x/\@0X/mgr) . $maps)), $want, 'and close to their sign');
my $text = "heap profile:      7:    49000 [   7: 49000] \@ heap_v2/4096\n"
    . join('', map { sprintf "%6d: %8d [%6d: %8d] @ %s\n", @$_[1, 2, 1, 2],
		    $frames->($_->[0]) } @stacks) . "\nMAPPED_LIBRARIES:\n$maps";
is(rows(spew('gperf.heap', $text)), $want, 'gperftools, sampled');
is(rows(spew('hex.heap', $text =~ s/\b0x//gr)), $want, 'the same, addresses without 0x');
is(rows(spew('exact.heap', $text =~ s/heap_v2\/4096/heapprofile/r)), 'cache=40000/4 leak=9000/3',
	'gperftools, exact');
is(rows(spew('v1.heap', $text =~ s/heap_v2\/4096/heap\/8192/r)), $want,
	"Go's form: the interval is half of its number");
is(rows(spew('z2.heap', $text =~ s/heap_v2/heapz_v2/r)), $want, 'the name of the web page');
is(rows(spew('v0.heap', $text =~ s/heap_v2\/4096/heap\/2/r)), 'cache=40000/4 leak=9000/3',
	"Go's form: each allocation is sampled");
like((jeprof('top', spew('odd.heap', $text =~ s/heap_v2/strange/r)))[2], qr/not scaled/,
	'an unknown kind: told');
for my $kind ('growthz', 'growth') {
	is(rows(spew('growth.heap', $text =~ s/heap_v2\/4096/$kind/r)), 'cache=40000/4 leak=9000/3',
		"$kind: exact");
}
# Go's, with debug=1: names stand in comments, and there is no list of mapped objects. An address has
# several if calls were inlined, and is told again for each call of a recursion.
my $go = "%s\n%s\@ 0x1201 0x1301 0x1301 0x1401\n"
    . join('', map { "#\t0x$_\t\t/src/a.go:7\n" } '1200	main.leak+0x9b', '1300	main.(*S[...]).inner+0x1',
	'1300	main.outer+0x1', '1300	main.(*S[...]).inner+0x1', '1300	main.outer+0x1')
    . "\n%s@ 0x1501 0x1301\n#\t0x1500\tmain.b+0x1\t/src/a.go:8\n#\t0x1300\tmain.outer+0x1\t/src/a.go:8\n\n# runtime.MemStats\n# Alloc = 5\n";
for my $case (['heap', 'heap profile: 3: 30 [3: 30] @ heap/2', '1: 10 [1: 10] ', '2: 20 [2: 20] '],
	['mutex', "--- mutex:\ncycles/second=1000000000\nsampling period=1", '10 1 ', '20 2 '],
	['block', "--- contention:\ncycles/second=1000000000", '10 1 ', '20 2 ']) {
	my ($what, @parts) = @$case;
	my ($code, $out, $err) = jeprof('--collapsed', '--inlines', spew("go.$what", sprintf $go, @parts));
	is("$code $out", "0 0x1400;main.outer;main.(*S[...]).inner;main.outer;main.(*S[...]).inner;main.leak 10\n"
		    . "main.outer;main.(*S[...]).inner;main.b 20\n", "Go's text with names: $what");
}

# Many names of one address: the time grows with their number, not with its square.
my $many = "heap profile: 1: 10 [1: 10] @ heap/2\n1: 10 [1: 10] @ 0x1201\n"
    . join '', map { "#\t0x1200\tmain.f$_+0x1\t/src/a.go:7\n" } 1 .. 80_000;
my @bounded = ('sh', '-c', 'ulimit -t 20; exec "$@"', 'sh'); # of processor time, which the machine's load does not change
is((run(@bounded, $^X, $jeprof, 'top', spew('many.heap', $many)))[0], 0, '80000 names of one address: soon read');

# The list of mapped objects as gperftools writes it: indented, with names for parts of paths.
my $cooked = sprintf "--- Memory map: ---\n\tbuild=$dir\n\tsource=/nowhere\n  %x-%x: \$build/serve\n",
    $base, $base + 0x3000;
is(rows(spew('cooked.heap', $text =~ s/MAPPED_LIBRARIES:.*/$cooked/sr)), $want,
	'gperftools: Memory map with $build');
is(rows(spew('cooked2.heap', $upstream =~ s/MAPPED_LIBRARIES:\n/$cooked/r)), $want,
	'the same behind a heap_v2');
is(rows(spew('front.heap', "%warn slow\n--- growth\n" . ($text =~ s/heap_v2\/4096/growthz/r
				    =~ s/MAPPED_LIBRARIES:.*/$cooked/sr))), 'cache=40000/4 leak=9000/3', 'the same of a growth');
# What stands behind that list is told, not dropped in silence: two dumps in one file.
for my $case (['heap_v2', $upstream . $maps], ['gperftools', $text]) {
	my ($what, $one) = @$case;
	my ($code, $out, $err) = jeprof('top', spew('two.heap', $one . $one));
	like("$code $err", qr/^3 jeprof: two\.heap: damaged, or several profiles in one file: stacks behind its list of mapped objects: 2; they are left out$/m,
		"$what: two in one file");
}
my $symbolized = (jeprof('symbolize', $ours))[1];
is(rows(spew('symbolized', $symbolized)), $want, 'with its names');
for my $case (['no 0x', qr/^0x/m, ''], ['a tab', qr/^0x\w+\K /m, "\t"], ['an empty line for its program', qr/^binary=.*/m, ''],
	['a comment for it', qr/^binary=.*/m, '# none'], ['neither', qr/^binary=.*\n/m, ''],
	['empty lines and comments between', qr/\n(?=0x)/, "\n\n# more\n"]) {
	my ($what, $from, $to) = @$case;
	my ($names, $rest) = $symbolized =~ /\A(.*?\n)(---\n.*)\z/s;
	is(rows(spew('symbolized', ($names =~ s/$from/$to/gr) . $rest =~ s/^# end.*\n//mr)), $want, "with its names, and $what");
}
for my $none ('', '--', '----') {
	my $text = $symbolized =~ s/^(0x[0-9a-f]+) [^\n]+$/$1 $none/mgr;
	like((jeprof('--text', spew('nameless', $text)))[1], qr/^Total: /, "its names are '$none': none");
}
# Operators whose names hold the mark between inlined names, here "inner" inlined in each.
for my $case (['T::operator--(int)', 'T::operator--'], ['operator--', 'operator--'], ['T::operator-', 'T::operator-'],
	['T::operator->() const', 'T::operator->'], ['T::operator-=(int)', 'T::operator-='], ['my_operator', 'my_operator']) {
	my ($full, $short) = @$case;
	my $file = spew('operators', "--- symbol\n0x10 inner--$full--outer\n0x1f main\n---\n--- heap\nheap_v2/0\n"
		    . "\@ 0x10 0x20\n  t*: 2: 200 [0: 0]\nMAPPED_LIBRARIES:\n");
	my $line = "main;outer;$short;inner 200\n";
	is((jeprof('--collapsed', $file))[1], $line, "a name $full of another writer");
	jeprof('symbolize', '-o', 'again', $file);
	is((jeprof('--collapsed', 'again'))[1], $line, 'and of ours');
}
SKIP: {
	skip 'no gzip', 3 unless which('gzip');
	system('gzip', '-kf', 'ours.heap');
	is(rows('ours.heap.gz'), $want, 'gzipped');
	rename 'ours.heap.gz', 'again';
	system('gzip', '-k', 'again');
	is(rows('again.gz'), $want, 'gzipped twice');
	rename 'again', 'ours.heap.gz';
	my ($code, $out) = run('sh', '-c', '(ulimit -f 0; exec "$@") 2>&1 | cat', 'sh', $^X, $jeprof, 'top', 'ours.heap.gz');
	like($out, qr/cache/, 'where no file can be written: no temporary one is needed') or diag $out;
}
for my $case (['xz', 'xz'], ['zstd', 'zst'], ['bzip2', 'bz2']) {
	my ($program, $suffix) = @$case;
	my $file = "serve.77.20260102T030405.000Z.3.m0.heap.$suffix";
    SKIP: {
		skip "no $program", 4 unless which($program);
		spew($file, (run($program, '-c', 'ours.heap'))[1]);
		is(rows($file), $want, "$program");
		like((jeprof('ls', $file))[1], qr/^ +3  2026-01-02 03:04:05Z manual |^ +3  2026-01-02 03:04:05Z m /m,
			"$program: what its name says");
		is((jeprof('--text', $file))[0], 0, "$program: not taken for a program");
		spew('cut.heap', substr slurp($file), 0, 150);
		is((jeprof('top', 'cut.heap'))[0] % 2, 1, "$program, cut off: exit 1 or 3");
	}
	my $magic = { xz => "\xfd7zXZ\0", zstd => "\x28\xb5\x2f\xfd", bzip2 => 'BZh' }->{$program};
	my ($code, $out, $err) = do { local $ENV{PATH} = '/nonexistent';
		jeprof('top', spew('packed.heap', $magic . 'x' x 50)) };
	is("$code|$out|$err", "1||jeprof: packed.heap: compressed by $program, and $program is not installed\n",
		"$program that is not installed is named");
}
my %exported = map { $_ => spew("export.$_", (jeprof('export', '--to', $_, $ours))[1]) } qw(pprof
    collapsed);
is(rows($exported{pprof}) =~ s/\/\d+//gr, $want =~ s/\/\d+//gr, 'pprof');
like(rows($exported{collapsed}), qr/^cache=\d+\/0 leak=\d+\/0$/, 'collapsed: no objects');
my ($sum, $sum_of_pprof, $sum_of_collapsed) =
    map { JSON::PP::decode_json((jeprof('top', '--json', $_))[1])->{total}{bytes} } $ours,
    @exported{qw(pprof collapsed)};
is("$sum_of_pprof $sum_of_collapsed", "$sum $sum", 'their sums');
like((jeprof('ls', $exported{pprof}))[1], qr/2026-01-02 03:04:05Z pprof/, 'pprof: its time');
is((jeprof('--collapsed', $exported{collapsed}))[1], slurp($exported{collapsed}),
	'collapsed there and back');

# Collapsed stacks whose bytes could be fields of protobuf, some of them of fixed width.
is(rows(spew('fixed.collapsed', "eabc 5\nfoo 1\n" . 'g' x 101 . " 7\n")), 'g' x 101 . '=7/0 eabc=5/0 foo=1/0',
	'collapsed: not taken for pprof');

# One message of protobuf by hand: no names, values of processor time.
sub field { my ($number, $value) = @_;
	return ref $value ? chr($number << 3 | 2) . chr(length $$value) . $$value
	    : chr($number << 3) . chr $value }
sub text_field { my ($number, $value) = @_; return field($number, \$value) }
my $cpu = text_field(1, field(1, 1) . field(2, 2)) . text_field(6, '') . text_field(6, 'cpu')
    . text_field(6, 'nanoseconds');
like((jeprof('top', spew('cpu.pb', $cpu)))[2],
	qr/^jeprof: cpu\.pb: not a profile of a heap: it counts cpu$/m,
	'a profile of something else is refused');

# One without functions, as writers have it that leave names to the reader: those of the mapped object
# with that build-id; of another build, of an address outside of all, and of a relative path: none.
sub wide { my ($number, $value) = @_;
	my $out = chr($number << 3);
	for (; $value > 127; $value >>= 7) { $out .= chr($value & 127 | 128) }
	return $out . chr $value }
for my $case (['the mapped object', $id, "$dir/serve", 'main;cache 40000'], ['of no build-id', '', "$dir/serve", 'main;cache 40000'],
	['another build', '49' x 20, "$dir/serve", 'serve+0x1110;serve+0x1210 40000'],
	['a relative path', $id, 'serve', '0x555500001110;0x555500001210 40000']) {
	my ($what, $known, $path, $line) = @$case;
	my $bare = text_field(1, field(1, 1) . field(2, 2)) . text_field(2, text_field(1, "\1\2") . text_field(2, "\xc0\xb8\2"))
	    . text_field(3, field(1, 1) . wide(2, $base + 0x1000) . wide(3, $base + 0x3000) . wide(4, 0x1000) . field(5, 3) . field(6, 4))
	    . join('', map { text_field(4, field(1, $_) . field(2, 1) . wide(3, $base + 0x1310 - 0x100 * $_)) } 1, 2)
	    . join '', map { text_field(6, $_) } '', 'inuse_space', 'bytes', $path, $known;
	is((jeprof('--collapsed', spew('bare.pb', $bare)))[1], "$line\n", "pprof without names: $what");
}

# Units, counts below 0 (of a difference), and as many values as types, which two files in one do not have.
sub counted { my ($unit, @values) = @_;
	return text_field(1, field(1, 1) . field(2, 2)) . text_field(2, text_field(1, "\1") . text_field(2, join '', @values))
	    . text_field(4, field(1, 1) . text_field(4, field(1, 1))) . text_field(5, field(1, 1) . field(2, 3))
	    . join '', map { text_field(6, $_) } '', 'inuse_space', $unit, 'main' }
my $below = "\xfe" . "\xff" x 8 . "\1"; # -2
for my $case (['bytes', 3, "\3"], ['', 3, "\3"], ['kilobytes', 3072, "\3"], ['MiB', 3 << 20, "\3"], ['gb', 3 << 30, "\3"]) {
	my ($unit, $bytes, @values) = @$case;
	is(rows(spew('unit.pb', counted($unit, @values))), "main=$bytes/0", "pprof in units of '$unit'");
}
($code, $out, $err) = jeprof('--text', spew('less.pb', counted('bytes', $below)));
like("$code $err", qr/^3 jeprof: less\.pb: the difference of two profiles: counts below 0: 1; they are taken as 0$/m, 'pprof: counts below 0');
($code, $out, $err) = jeprof('--collapsed', spew('less.collapsed', "main;leak -5\nmain;cache 7\n"));
like("$code $out$err", qr/^3 main;cache 7\njeprof: less\.collapsed: the difference .* below 0: 1;/, 'collapsed: counts below 0');
is(rows(spew('twice.pb', counted('bytes', "\3") x 2)), "exit 1: jeprof: twice.pb: a damaged profile of pprof\n", 'pprof: two in one file');

is(rows(spew('typed.pb', counted('bytes', "\3") . text_field(5, text_field(1, 'id') . field(2, 3)))), "exit 1: jeprof: typed.pb: a damaged profile of pprof\n", 'pprof: bytes for a number');

# Names of interpreters stay as they are; those of compilers get their short form.
my $script = "main;GET /a 3\nmain;POST /a 4\nmain;a---b;x 5\nmain;slot[1];f (a.py:1) 1\nmain;slot[2];f (b.py:1) 2\n";
is((jeprof('--collapsed', spew('script.collapsed', $script)))[1], $script =~ s/a---b/a- - -b/r, 'names that are no C++');
is((jeprof('--collapsed', spew('cxx.collapsed', "std::vector<int>::push_back(int const&);operator new(unsigned long) 5\nhold.isra.0 6\n")))[1], "hold 6\nstd::vector::push_back;operator new 5\n", 'names of C++');
my $odd = JSON::PP::decode_json((jeprof('top', '--json', spew('odd.collapsed', "a\xed\xa0\x80b 1\n")))[1]);
is($odd->{rows}[0]{function}, "a\xed\xa0?b", 'a surrogate is no character');

# What a later version of the form may have: fields of fixed width; and many comments.
my $later = "\xa1\1" . 'x' x 8 . "\xad\1" . 'x' x 4 . field(13, 1) x 1500;
is(rows(spew('later.pb', counted('bytes', "\3") . $later)), 'main=3/0', 'pprof: fields of fixed width, 1500 comments');

# Contention, as Go writes it: the form of a heap with other types. The unit of the delay counts; types
# of a heap go before those of contention.
sub waited { my (@pairs) = @_; # type, unit
	my @values = ("\3", "\xe8\7", "\5", "\6");
	return join('', map { text_field(1, field(1, 2 * $_ + 1) . field(2, 2 * $_ + 2)) } 0 .. $#pairs / 2)
	    . text_field(2, text_field(1, "\1") . text_field(2, join '', @values[0 .. $#pairs / 2]))
	    . text_field(4, field(1, 1) . text_field(4, field(1, 1))) . text_field(5, field(1, 1) . field(2, @pairs + 1))
	    . join '', map { text_field(6, $_) } '', @pairs, 'main.hold' }
for my $case (['nanoseconds', '0.000s'], ['ns', '0.000s'], ['microseconds', '0.001s'], ['us', '0.001s'],
	["\xc2\xb5s", '0.001s'], ['milliseconds', '1.000s'], ['ms', '1.000s'], ['millisecond', '1.000s'], ['seconds', '1000.000s'], ['s', '1000.000s'],
	['fortnights', '0.000s', 'fortnights'], ['', '0.000s', '']) {
	my ($unit, $seconds, $doubt) = @$case;
	my ($code, $out, $err) = jeprof('top', spew('mutex.pb', waited('contentions', 'count', 'delay', $unit)));
	like($out, qr/waited \Q$seconds\E in 3 contentions\n.*\n.* 3  main\.hold$/m, "pprof: contention in '$unit'");
	$err =~ s/^jeprof: next: .*\n//m;
	is("$code $err", defined $doubt ? "3 jeprof: mutex.pb: the unit '$doubt' of its delays is not known; they are taken as nanoseconds\n" : '0 ',
		'and what is said');
}
is(rows(spew('both.pb', waited(qw(inuse_objects count inuse_space bytes contentions count delay nanoseconds)))), 'main.hold=1000/3',
	'pprof: types of a heap, then of contention');
is(rows(spew('both.pb', waited(qw(contentions count inuse_space bytes)))), 'main.hold=1000/0', 'pprof: contentions in front');
like((jeprof('top', spew('often.pb', waited(qw(contentions count)))))[1], qr/waited 0.000s in 3 contentions$/m, 'pprof: contentions alone');

# ---- 200 inputs ----
my $escape =
    "\x1b]0;x\x07\x1b[2J\x9b31m\xc2\x9b31m\xe2\x80\xae<script>alert(1)</script>'\"&`\$(touch pwned);";
my $packed = do { my ($c, $o) = run('gzip', '-dc', $exported{pprof}); $o };
my $frame = sprintf ' 0x%x', $base + 0x1210;
my @hostile = ('', "\n", "\0" x 100, 'heap_v2/', "heap_v2/\n", "heap_v2/1", "heap_v2/-1\n",
	"heap_v2/99999999999999999999999999\n", 'heap_v2/524288' . "\n" x 1000, "\x1f\x8b",
	"\x1f\x8bnot gzip",
	"\x7fELF", "%PDF-1.4\n", "<html>\n", "{\"a\":1}\n", '--- symbol', "--- symbol\n",
	"--- symbol\nbinary=\n---\n", "--- symbol\n0x1 \n---\n--- heap\n",
	"--- symbol\n---\n--- heap\nheap_v2/1\n", "--- contention\n",
	"heap profile: ", "heap profile: x\n",
	"heap profile: 1: 1 [1: 1] @ heap_v2/0\n 1: 1 [1: 1] @ 0x1\n",
	"heap profile: 0: 0 [0: 0] @ heapprofile\n 0: 5 [0: 5] @ 0x1\n",
	"heap profile: 1: 1 [1: 1] \@\n 1: 1 [ 1: 1] @ 0x0 0xffffffffffffffff\n",
	"a;b;c 1\n", "a;b;c 1\nbroken\n", "a 99999999999999999999\n", ";;; 5\n", "a;$escape 7\n", ' 5',
	'a;' x 50000 . "b 5\n", ('x' x 10_000_000) . " 5\n", ('y' x 10_000_000) . "\n",
	'heap_v2/1' . ' ' x 100_000 . "\n",
	"heap_v2/1\n@" . ' 0x1' x 2_000_000 . "\n  t*: 1: 1 [0: 0]\n",
	"heap_v2/1\n@" . $frame x 5000 . "\n  t*: 1: 100 [0: 0]\n\nMAPPED_LIBRARIES:\n$maps",
	(map { "heap_v2/$_->[0]\n@ 0x1 0x2\n  t*: $_->[1]\n\nMAPPED_LIBRARIES:\n" } [0, '1: 1 [0: 0]'],
		[1, '0: 0 [0: 0]'], [1, '0: 5 [0: 0]'], [1, '5: 0 [0: 0]'],
		[1, '18446744073709551615: 18446744073709551615 [0: 0]'],
		[1, '99999999999999999999: 1 [0: 0]'], ['9' x 19, '1: 1 [0: 0]'], [1, '-5: -5 [0: 0]'],
		[1, '1: 1'], [1, ' 1: 1 [0: 0]'], [1, '1e3: 1e3 [0: 0]'],
		[1, ('9' x 500) . ': 1 [0: 0]'], [1, '1: ' . ('9' x 20) . ' [0: 0]']),
	(map { "heap_v2/1\n$_\n  t*: 1: 1 [0: 0]\n\nMAPPED_LIBRARIES:\n" } '@', '@ ', '@ 0x', '@ 0xg',
		'@ 1', '@ 0x' . 'f' x 17, "@ 0x1 $escape", '@ 0x0'),
	(map { $upstream . $_ } "$maps$maps", "ffffffffffffffff-0 r-xp 0 0:0 0 /x\n",
		sprintf("%x-%x r-xp 00001000 08:01 9 %s\n", $base + 0x1000, $base + 0x3000, "/x/$escape"),
		"# module 0-ffffffffffffffff 0 - /dev/zero\n",
		sprintf("# module %x-%x 0 %s /etc\n", $base, $base + 0x9999, $id),
		sprintf("%x-%x r-xp 00000000 08:01 9 /dev/stdin\n", $base, $base + 0x9999),
		sprintf("%x-%x r-xp 0 08:01 9 /proc/self/mem\n", $base, $base + 0x9999),
		sprintf("%x-%x r-xp 00000000 08:01 9 |touch pwned\n", $base, $base + 0x9999),
		sprintf("%x-%x r-xp 00000000 08:01 9 /%s\n", $base, $base + 0x9999, 'a' x 100_000)),
	(map { my $key = $_; "heap_v2/1\n# jemalloc.$key=$escape\n# jemalloc.$key=\n"
			    . substr($upstream, 13) . $maps } qw(exe pid dump_time kind seq library sample_interval
			    allocated rss version)),
	"jeprof_pack/1\n", "jeprof_pack/1\npart dump 9999999 x\n",
	"jeprof_pack/1\npart elf 0 a\n\nend 1\n",
	"jeprof_pack/1\npart dump 5 ../../$escape\nabcde\nend 1\n",
	$cpu, $packed . $packed, text_field(1, '') . text_field(6, ''), text_field(6, '') x 1000,
	"\x0a" . "\xff" x 20, "\x0a\x05abc", "\x0a\0\x32\0" . "\x12\x04\x0a\x02\xff\x01",
	substr($packed, 0, 50), slurp('export.pprof') =~ s/.{9}\z//sr);
srand 40;
my @sources = ($packed, $text, slurp($exported{collapsed}), $symbolized, $upstream . $maps);
while (@hostile < 200) {
	my $bad = $sources[@hostile % @sources];
	if (@hostile % 3 == 0) { substr($bad, int rand length $bad) = '' } elsif (@hostile % 3
		== 1) { substr($bad, int rand length $bad, 1) = chr int rand 256
		    for 1 .. 1 + int rand 8 } else { substr($bad, int rand length $bad, 0) = $escape }
	push @hostile, $bad;
}
my @verbs = (['top'], ['ls'], ['--text'], ['export', '--to', 'speedscope'], ['report'],
	['top', '--json'], ['flame'], ['export', '--to', 'pprof'], ['export', '--to', 'massif'],
	['--callgrind'], ['export', '--to', 'dhat'], ['diff', 'ours.heap'], ['pack'], ['--dot']);
my (@wrong, %codes);
for my $number (0 .. $#hostile) {
	my $verb = $verbs[$number % @verbs];
	my ($code, $out, $err) = in_child(@$verb, spew('bad.input', $hostile[$number]));
	$codes{$code}++;
	diag "$number @$verb " . (time - $^T) if $ENV{TIMES};
	my @said = grep { /^jeprof: / } split /\n/, $err;
	my $what = $code !~ /^[0123]$/ ? 'exit' : $code == 1 && @said != 1 ? 'not one line'
	    : $err =~ /internal|uninit|isn't numeric| at \S+ line \d+/ ? 'noise'
	    : "@$verb" !~ /pprof|pack/
	    && "$out$err" =~ /[^\n\x20-\x7e\x80-\xff\t]|\xc2[\x80-\x9f]|\xe2\x80[\xaa-\xae]/
	    ? 'terminal' : "@$verb" eq 'report' && $out =~ /<script>alert/ ? 'HTML'
	    : "@$verb" =~ /json|speedscope|dhat/ && $out =~ /^\{/
	    && !eval { JSON::PP->new->utf8->decode($out) } ? 'JSON' : '';
	push @wrong, sprintf "%d (%s; %s): %s: exit %d: %s", $number, "@$verb",
	    substr($hostile[$number], 0, 60) =~ s/[^ -~]/?/gr, $what, $code, substr $err, 0, 300
	    if length $what;
}
is(scalar(@hostile), 200, '200 inputs');
is(scalar(@wrong), 0, 'each ends well') or diag join "\n", @wrong;
ok($codes{1} && $codes{3} && $codes{1} + $codes{3} > 100, 'most are refused or doubted')
    or diag join ' ', %codes;
ok(!-e 'pwned', 'and no shell has run');

# A fifo is opened once: its writer ends with the first reader.
for my $verb (['top'], ['ls'], ['export', '--to', 'collapsed'], ['symbolize'], ['report']) {
	POSIX::mkfifo('fifo', 0600);
	my $pid = fork // die "fork: $!";
	if (!$pid) {
		spew('fifo', slurp($ours));
		POSIX::_exit(0);
	}
	my ($code, $out) = run('timeout', 60, $^X, $jeprof, @$verb, 'fifo');
	kill 'TERM', $pid;
	waitpid $pid, 0;
	is($code, 0, "@$verb: reads a fifo");
	like($out, $verb->[0] eq 'ls' ? qr/^ .*fifo$/m : qr/cache/, 'and all of it');
	unlink 'fifo';
}
# A fifo that nobody writes, a socket and the like do not hold the command.
POSIX::mkfifo('fifo', 0600);
socket my $socket, Socket::PF_UNIX(), Socket::SOCK_STREAM(), 0;
bind $socket, Socket::pack_sockaddr_un('socket');
for my $case (['top', 'fifo', 'nobody writes this pipe'], ['open', 'fifo', 'is no regular file'],
	['top', 'socket', 'is a socket'], ['open', 'socket', 'is a socket'], ['ls', '.', 'is a directory']) {
	my ($code, $out, $err) = run('timeout', 60, $^X, $jeprof, @$case[0, 1]);
	is("$code $err", "1 jeprof: $case->[1]: $case->[2]\n", "@$case[0, 1]: ends and says why");
}
rename 'fifo', 'fifo.html';
is((run('timeout', 60, $^X, $jeprof, 'open'))[0], 2, 'open does not look into a fifo');
my @late = run('bash', '-c', "$^X '$jeprof' top <(sleep 1; cat '$ours')");
like("@late[0, 1]", qr/^0 .*cache/s, 'a pipe of the shell is waited for');
chdir $source;
done_testing();
