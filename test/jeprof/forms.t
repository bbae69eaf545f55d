#!/usr/bin/perl
# Output forms: collapsed, callgrind, dot, pictures, raw, list, disasm, symbols, files, top and its
# JSON.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
no warnings 'portable';
our ($dir, $peer, $data);

my ($code, $out, $err);
my $id = '44' x 20;
my $base = 0x555500000000;
my @symbols = (['main', 0x1100, 0x100], ['serve', 0x1200, 0x100], ['zmalloc', 0x1300, 0x100],
	['list_add', 0x1400, 0x100],
	['quo"te', 0x1500, 0x100], ['_ZN3app4Pool4growIiEEvm', 0x1600, 0x100],
	['_ZNSt6vectorIiSaIiEE6resizeEm', 0x1700, 0x100],
	['my_alloc', 0x1800, 0x100], ['_ZnwmFOO', 0x1900, 0x100]);
elf_file("$dir/server", id => $id, symbols => \@symbols);

sub frames { return [map { $base + $_ } @_] }

my $dump = our_dump("$dir/server.77.0.m0.heap",
	modules => [[$base + 0x1000, $base + 0x3000, $base, $id, "$dir/server"]],
	meta => { pid => 77, dump_time => '2026-01-02T03:04:05.678Z', exe => "$dir/server" },
	stacks => [[frames(0x1310, 0x1411, 0x1211, 0x1111), 10, 600000],
		[frames(0x1320, 0x1511, 0x1111), 5, 300000],
		[frames(0x1710, 0x1611, 0x1111), 2, 90000], [frames(0x1810, 0x1211, 0x1111), 1, 10000],
		[frames(0x1420, 0x1411, 0x1111), 1, 2048]]);

# collapsed
($code, $out) = jeprof('--collapsed', $dump);
like($out, qr/^main;serve;list_add;zmalloc 600000$/m, 'collapsed: root first');
like($out, qr/^main;app::Pool::grow;std::vector::resize 90000$/m, 'collapsed: plain C++ names');
my $sum = 0;
$sum += $_ for $out =~ / (\d+)$/mg;
is($sum, 1002048, 'collapsed: the lines add up to the total');
is(scalar(grep { !/^[^;]+(?:;[^;]+)* \d+$/ } split /\n/, $out), 0,
	'collapsed: every line as flame graph tools want it');

# callgrind
($code, $out) = jeprof('--callgrind', $dump);
like($out, qr/^events: Hits$/m, 'callgrind: events');
SKIP: {
	skip 'callgrind_annotate is not installed', 4 unless which('callgrind_annotate');
	spew("$dir/out.callgrind", $out);
	my ($annotate, $text) = run('callgrind_annotate', "$dir/out.callgrind");
	is($annotate, 0, 'callgrind_annotate reads it');
	like($text, qr/^1,002,048 .*PROGRAM TOTALS/m, 'its total');
	like($text, qr/^\s*900,000 .*zmalloc/m, 'its self cost');
	(undef, $text) = run('callgrind_annotate', '--inclusive=yes', "$dir/out.callgrind");
	like($text, qr/^\s*610,000 .*serve/m, 'its inclusive cost');
}

# dot and pictures
($code, $out) = jeprof('--dot', $dump);
like($out, qr/\Adigraph "\Q$dir\E\/server; 1\.0 MB" \{\nnode \[width=0\.375,height=0\.25\];\nLegend \[shape=box/, 'dot: head');
like($out, qr/label="quo\\"te\\n/, 'dot: a quote in a name is escaped');
my %node = reverse $out =~ /^(N\d+) \[label="([^\\"]+)/mg;
like($out, qr/^$node{list_add} -> $node{zmalloc} \[label=0\.6, weight=\d+/m,
	'dot: an edge from the caller to the callee');
is($out =~ tr/{//, $out =~ tr/}//, 'dot: braces match');
($code, $out) = jeprof('--dot', '--nodecount=2', $dump);
is(scalar(() = $out =~ /^N\d+ \[/mg), 2, 'dot: --nodecount');
($code, $out) = jeprof('--dot', '--nodefraction=.5', $dump);
unlike($out, qr/my_alloc/, 'dot: --nodefraction');
{
	mkdir "$dir/tools";
	spew("$dir/tools/dot", "#!/bin/sh\necho \"picture \$1\"\ncat >/dev/null\n");
	chmod 0755, "$dir/tools/dot";
	for my $case (['svg=graph', 'svg'], ['gif', 'gif'], ['ps', 'ps2'], ['pdf', 'pdf']) {
		($code, $out) = jeprof("--$case->[0]", "--tools=$dir/tools/", $dump);
		is($out, "picture -T$case->[1]\n", "--$case->[0] runs dot");
	}
	local $ENV{TMPDIR} = $dir;
	spew("$dir/tools/$_",
		"#!/bin/sh\nprintf '%s ' \"\$@\" >'$dir/seen'\ncat \"\$1\" >'$dir/shown' 2>&1\n")
	    && chmod 0755, "$dir/tools/$_" for qw(gv evince browser);
	for my $case (['--evince', qr{^\S+\.pdf $}, "picture -Tpdf\n"],
		['--gv', qr{^\S+\.ps $}, "picture -Tps2\n"]) {
		($code, $out, $err) = jeprof($case->[0], "--tools=$dir/tools/", $dump);
		is("$code|$out", '0|', "$case->[0]") or diag $err;
		like(slurp("$dir/seen"), $case->[1], 'the viewer has a file');
		is(slurp("$dir/shown"), $case->[2], 'the picture');
	}
	jeprof('--gv', '--scale=3', "--tools=$dir/tools/", $dump);
	like(slurp("$dir/seen"), qr/^--scale=3 /, '--scale');
	local $ENV{BROWSER} = "$dir/tools/browser";
	is((jeprof('--web', $dump))[0], 0, '--web');
	like(slurp("$dir/shown"), qr{<title>all: .*</svg>}s, 'the flame graph in a browser');
	jeprof(\"web\nweblist main\n", '--interactive', $dump);
	like(slurp("$dir/shown"), qr{^<!DOCTYPE html>.*<pre>.*main.*</pre>}s, 'weblist: a page');
	unlink glob "$dir/jeprof.*";
	is((jeprof('--svg', $dump))[1], (jeprof('flame', $dump))[1],
		'--svg: a flame graph, without dot');
	spew("$dir/tools/dot", "#!/bin/sh\nexit 1\n");
	($code, $out, $err) = jeprof('--svg=graph', "--tools=dot:$dir/tools/dot", $dump);
	is($code, 1, 'a failing dot fails');
	local $ENV{PATH} = '/nonexistent';
	($code, $out, $err) = jeprof('--svg=graph', $dump);
	is("$code|$out", '1|', 'no dot: exit 1, nothing written');
	like($err, qr/--svg=graph needs .*dot/, 'and said');
	($code, $out, $err) = jeprof('--disasm=main', $dump);
	is($code, 1, 'no objdump: exit 1');
	like($err, qr/--disasm needs objdump/, 'and said');
	($code, $out) = jeprof('--text', $dump);
	like($out, qr/ app::Pool::grow$/m, 'no c++filt: C++ names all the same');
}

# raw: reads back alike, here and by Debian's jeprof
($code, $out, $err) = jeprof('--raw', $dump);
is($code, 0, 'raw on a local profile');
like($out, qr/\A--- symbol\nbinary=\Q$dir\E\/server\n0x[0-9a-f]{16} main\n/, 'raw: head');
my $raw = spew("$dir/raw.prof", $out);
rename "$dir/server", "$dir/server.away";
my (undef, $again) = jeprof('--text', '--show_bytes', $raw);
rename "$dir/server.away", "$dir/server";
my (undef, $first) = jeprof('--text', '--show_bytes', $dump);
is($again, $first, 'raw: the same table without the program');
SKIP: {
	skip "Debian's jeprof is not installed", 1 unless has_peer();
	my $theirs = table((run($peer, '--text', '--show_bytes', $raw))[1]);
	is("$theirs->{''} $theirs->{zmalloc}[0] $theirs->{serve}[3]", '1002048 900000 610000',
		"raw: Debian's jeprof reads it");
}
SKIP: {
	skip 'gzip is not installed', 1 unless which('gzip');
	system("gzip -c '$dump' > '$dir/zipped.heap.gz'");
	is((jeprof('--text', '--show_bytes', "$dir/zipped.heap.gz"))[1], $first, 'a gzipped dump');
}
is((jeprof(\slurp($dump), '--text', '--show_bytes', '-'))[1], $first, 'a dump from stdin');

# top
($code, $out, $err) = jeprof('top', $dump);
is($code, 0, 'top');
my @line = split /\n/, $out;
is($line[0], 'server pid 77 at 2026-01-02T03:04:05.678Z: live 978.6K in 19 objects',
	'top: head line');
like($line[2], qr/^\s+587\.9K\s+60\.1%\s+587\.9K\s+60\.1%\s+11\s+list_add\s+serve 100%, main 0%$/,
	'top: zmalloc is folded into list_add');
like($out, qr/quo"te\s+main$/m, 'top: each caller is credited');
unlike($out, qr/zmalloc/, 'top: the wrapper has no line');
like($out, qr/app::Pool::grow\s+main$/m, 'top: std::* is folded');
like($out, qr/my_alloc/, 'top: an unknown wrapper has its line');
like($err, qr/next: \S*jeprof --text /, 'top: the next command');
($code, $out) = jeprof('top', '--wrapper', '^my_alloc$', '-n', 2, $dump);
unlike($out, qr/my_alloc/, 'top: --wrapper');
is((jeprof('top', '--wrapper', '', $dump))[1], (jeprof('top', $dump))[1], 'top: an empty --wrapper folds nothing');
like($out, qr/in \d+ more functions \(-n \d+\)$/m, 'top: -n says what is left out');
is(scalar(() = $out =~ /^.*%.*%.* (?:main|serve).*$/mg), 2, 'top: -n 2');
($code, $out) = jeprof('top', '--json', $dump);
like($out, qr/"total":\{"bytes":1002048,"error":0,"objects":19\}/, 'top --json: total');
like($out, qr/\{"function":"quo\\"te","self":300000,"error":0,"age":null,"ages":null,"percent":29\.94,"cumulative":300000,"objects":5,"callers":\[\{"function":"main","bytes":300000\}\]\}/, 'top --json: a row, escaped');
SKIP: {
	skip 'JSON::PP is not installed', 1 unless eval { require JSON::PP; 1 };
	my $tree = eval { JSON::PP->new->decode($out) };
	is($tree && $tree->{rows}[0]{function}, 'list_add', 'top --json: valid JSON');
}

like((jeprof('top', '--by=function', '-n', 1, $dump))[1], qr/in \d+ more functions \(-n \d+\)$/m, 'top --by=function: and these are functions');
is((jeprof('flame', @$_, '--thread=*', $dump))[0], 2, "flame @$_ --thread=*: exit 2") for [], ['--json'];

# Columns stay straight beside a long name, and --json has all of it.
my $long = 'a_very' . '_long' x 20 . '_name';
elf_file("$dir/long", id => '55' x 20,
	symbols => [['main', 0x1100, 0x100], [$long, 0x1200, 0x100], ['f', 0x1300, 0x100]]);
my @map = (modules => [[$base + 0x1000, $base + 0x3000, $base, '55' x 20, "$dir/long"]]);
our_dump("$dir/long.heap", @map, stacks =>
	    [[frames(0x1210, 0x1111), 1, 5000], [frames(0x1310, 0x1111), 1, 4000]]);
($code, $out) = jeprof('top', "$dir/long.heap");
my @at = map { index $_, 'main' } grep { /main$/ } split /\n/, $out;
is("$at[0]", "$at[1]", 'top: a long name keeps the columns straight') or diag $out;
like($out, qr/ a_very\S*\.\.\.\S*_name /, 'top: its beginning and its end are shown');
like((jeprof('top', '--json', "$dir/long.heap"))[1], qr/"\Q$long\E"/, 'top --json: all of it');

# Nothing is left alive.
our_dump("$dir/none.heap", @map, stacks => [], meta => { version => '5.3.1', kind => 'session' });
($code, $out, $err) = jeprof('top', "$dir/none.heap");
like($err, qr/nothing allocated in this session is still alive/, 'no samples: said in words');

# Functions of a stripped object are passed over, up to the next caller with a name; a start of the
# C library is none.
my @thin = (['shown', 0x1100, 0x40], ['zmalloc', 0x1300, 0x10]);
elf_file("$dir/thin", id => '66' x 20, symbols => \@thin, dynamic => 1);
elf_file("$dir/libc.so.6", id => '77' x 20, symbols => [['__libc_start_call_main', 0x1100, 0x40]],
	dynamic => 1);
my $libc = 0x7f0000000000;
sub thin { return [(map { $base + $_ } @_), $libc + 0x1111] }
@map = (modules => [[$base + 0x1000, $base + 0x3000, $base, '66' x 20, "$dir/thin"],
		[$libc + 0x1000, $libc + 0x3000, $libc, '77' x 20, "$dir/libc.so.6"]]);
my $thin = our_dump("$dir/thin.heap", @map,
	stacks => [[thin(0x1305, 0x1901, 0x1801, 0x1111), 1, 8000], [thin(0x1901, 0x1111), 1, 1000],
		[thin(0x1701), 1, 500]]);
($code, $out, $err) = jeprof('top', $thin);
is($code, 0, 'stripped: a table of names has exit 0') or diag $err;
like($out, qr/^\s+8\.8K .* shown\s+__libc_start_call_main$/m,
	'stripped: nameless frames are folded into the next named caller');
like($out, qr/^\s+500B .* thin\+0x1701/m, 'stripped: not into the start of the program');
like($err, qr/^jeprof: 8\.8K lie in functions without a name of thin \(build-id (?:66){20}\), .*-dbgsym.*\.build-id\/66\/.*DEBUGINFOD_URLS$/m, 'stripped: one line says how much and what is missing');
{
	my @thin = map { my $id = sprintf '%02x', 0x70 + $_;
		[0x7f0000000000 + ($_ << 20), $id x 20, elf_file("$dir/thin$_", id => $id x 20, symbols => [['exported', 0x1100, 0x10]], dynamic => 1)] } 1 .. 6;
	elf_file("$dir/whole", id => '88' x 20, symbols => [['main', 0x1100, 0x100]]);
	for my $count (4, 6) {
		our_dump("$dir/many.heap", stacks => [map { [[$thin[$_ - 1][0] + 0x1800, 0x550000001111], 1, 10000 - 1000 * $_] } 1 .. $count],
			modules => [map { [$_->[0] + 0x1000, $_->[0] + 0x3000, $_->[0], $_->[1], $_->[2]] } @thin, [0x550000000000, '88' x 20, "$dir/whole"]]);
		($code, $out, $err) = jeprof('top', '--show_bytes', "$dir/many.heap");
		my $rest = $count == 4 ? '21000 more in thin2, thin3, thin4;' : '30000 more in thin2, thin3, thin4, 2 more;';
		like($err, qr/^jeprof: 9000 lie .* callers; \Q$rest\E/m, "$count objects without names: the sum is that of the list");
	}
}
is(scalar(() = $err =~ /without a name/g), 1, 'stripped: once');
like((jeprof('top', '--json', $thin))[1],
	qr/"nameless":\[\{"object":"[^"]*thin","build_id":"(?:66)+","bytes":9000\}\]/,
	'stripped: --json has it');
($code, $out, $err) = jeprof('top', our_dump("$dir/bare.heap", @map,
		stacks => [[thin(0x1305, 0x1701), 1, 8000], [thin(0x1305, 0x1111), 1, 1000]]));
is($code, 3, 'stripped: a table of hex has exit 3') or diag $out;
($code, $out, $err) = jeprof('--text',
	our_dump("$dir/hex.heap", @map, stacks =>
		    [[thin(0x1110, 0x1701), 1, 8000], [thin(0x1701, 0x1111), 1, 1000]]));
is($code, 0, 'the legacy output modes are judged by their rows too') or diag $err;

# debuginfod-find is asked where its variable is set, for names and for whole programs.
elf_file("$dir/thin.debug", id => '66' x 20, symbols => [@thin, ['hidden', 0x1900, 0x40]]);
spew("$dir/debuginfod-find",
	"#!/bin/sh\necho \"\$@\" >>'$dir/asked'\n[ \$2 = ${\('66' x 20)} ] && echo '$dir/thin.debug'\n");
chmod 0755, "$dir/debuginfod-find";
{
	local @ENV{qw(DEBUGINFOD_URLS JEPROF_TOOLS)} =
	    ('http://localhost:1', "debuginfod-find:$dir/debuginfod-find");
	($code, $out, $err) = jeprof('top', $thin);
	like($out, qr/^\s+8\.8K .* hidden/m, 'debuginfod: the name is found') or diag $err;
	unlike($err, qr/lie in functions/, 'debuginfod: nothing is missing then');
	rename "$dir/thin", "$dir/thin.away";
	($code, $out, $err) = jeprof('top', $thin);
	like($out, qr/^\s+8\.8K .* hidden/m, 'debuginfod: a program that is not here');
	like(slurp("$dir/asked"), qr/^debuginfo 66.*^executable 66/ms,
		'debuginfod: both are asked for by build-id');
	rename "$dir/thin.away", "$dir/thin";
}
unlink "$dir/asked";
jeprof('top', $thin);
ok(!-e "$dir/asked", 'debuginfod: not asked where the variable is not set');

# Wrappers of servers, interpreters and languages.
my @wrappers =
    qw(palloc palloc0 repalloc MemoryContextAlloc MemoryContextAllocZeroAligned pstrdup AllocSetAlloc my_malloc my_realloc ngx_alloc ngx_palloc
    ngx_pcalloc ngx_create_pool apr_palloc apr_pstrdup apr_pool_create_ex CRYPTO_malloc CRYPTO_zalloc CRYPTO_strdup PyMem_RawMalloc PyMem_Malloc _PyObject_Malloc
    _PyObject_GC_New PyObject_Malloc Perl_safesysmalloc Perl_safesyscalloc __rust_alloc __rdl_realloc
    _ZN5alloc7raw_vec19RawVec$LT$T$C$A$GT$14grow_amortized17h0123456789abcdefE _ZN5alloc5alloc15exchange_malloc17h0123456789abcdefE
    _ZN9hashbrown3raw21RawTable$LT$T$C$A$GT$14reserve_rehash17h0123456789abcdefE
    strdup __strndup wcsdup asprintf __vasprintf_internal getline _IO_getdelim _obstack_newchunk
    _ZN3app4PoolnwEm _ZN3app4PoolnaEm _ZN2os6mallocEm8MEMFLAGSRK15NativeCallStack _ZN2os7reallocEPvm8MEMFLAGS _ZN2os6strdupEPKc8MEMFLAGS
    _Z12AllocateHeapm8MEMFLAGSRK15NativeCallStackN17AllocFailStrategy13AllocFailEnumE _Z14ReallocateHeapPcm8MEMFLAGS _ZN5Arena4growEm
    _ZN9ChunkPool14allocate_chunkEmN17AllocFailStrategy13AllocFailEnumE _ZN20NMTPreInitAllocation8do_allocEm
    _ZN2v88internal21AlignedAllocWithRetryEmm _ZN4node15UncheckedMallocIcEEPT_m __gnat_malloc __gnat_realloc _gfortrani_xmalloc ruby_xmalloc2
    objspace_xrealloc rb_alloc_tmp_buffer _emalloc _emalloc_56 _safe_emalloc _estrndup __zend_malloc zend_mm_alloc_large luaM_malloc_ luaM_growaux_
    sqlite3_malloc64 sqlite3DbMallocRawNN sqlite3MemMalloc uprv_malloc_72 uv__malloc av_mallocz event_mm_malloc_ talloc_strdup _talloc_zero
    isc__mem_get xmlStrdup PyDataMem_UserNEW _ZN10QArrayData8allocateEPPS_xxxNS_16AllocationOptionE);
my @not = qw(pallocate MemoryUser my_mallocator ngx_http_init app_palloc_user PyDict_New
    Perl_sv_setsv leak_malloc test_realloc strdup_all getline_loop os_malloc_user uv_loop_init sqlite3Prepare zend_hash_init rb_ary_push
    luaH_resize _ZN3app5Arena4grewEm _ZN4node5StartEv);
my @given = (@wrappers, @not, '_ZN3app4work17h0123456789abcdefE');
elf_file("$dir/many", id => '88' x 20,
	symbols => [['main', 0x1100, 0x100],
		map { [$given[$_], 0x1200 + 0x40 * $_, 0x40] } 0 .. $#given]);
our_dump("$dir/many.heap", modules =>
	    [[$base + 0x1000, $base + 0x3000, $base, '88' x 20, "$dir/many"]],
	stacks => [map { [frames(0x1210 + 0x40 * $_, 0x1111), 1, 1000 + $_] } 0 .. $#given]);
for my $tool ('c++filt', 'none') {
	local $ENV{JEPROF_TOOLS} = $tool eq 'none' ? 'c++filt:/bin/false,llvm-cxxfilt:/bin/false' : '';
	($code, $out) = jeprof('top', '-n', 99, "$dir/many.heap");
	my @rows = sort map { (split ' ')[5] } grep { /%.*%/ && !/self/ } split /\n/, $out;
	is("@rows", join(' ', sort((map { my $name = $_; $name =~ s/^_ZN3app.*/app::Arena::grew/; $name =~ s/^_ZN4node.*/node::Start/; $name } @not), 'app::work', 'main')),
		"top: wrappers are known ($tool), others keep their rows, Rust's hashes go");
}

# What is given and does nothing is named; what can act does.
for my $case ([['--text', '--nodecount=5'], 'nodecount'], [['--text', '--scale=2'], 'scale'],
	[['--text', '--seconds=3'], 'seconds'], [['--dot', '--wrapper=x'], 'wrapper'],
	[['--text', '--contentions'], 'contentions'], [['--text', '--json'], 'json'],
	[['top', '--maxdegree=2'], 'maxdegree'], [['--text', '--drop_negative'], 'drop_negative'],
	[['top', '--text'], 'text'], [['top', '--svg=graph'], 'svg=graph'], [['ls', '--list=x'], 'list'],
	[['ls', '--lines'], 'lines'], [['diff', '--contentions', $dump], 'contentions'],
	(map { [['pack', '-o', "$dir/whole.jepack", "--$_"], $_ =~ s/=.*//r] } qw(focus=x ignore=x retain=x exclude=x alloc_space)),
	[['symbolize', '--alloc_space'], 'alloc_space'], [['--raw', '--inuse_objects'], 'inuse_objects']) {
	my ($arguments, $name) = @$case;
	($code, $out, $err) = jeprof(@$arguments, $dump);
	like($err, qr/--$name has no effect/, "@$arguments: said to do nothing");
	is($code, 0, 'and the answer is given');
}
for my $case (['live', $$], ['doctor', $$], ['completion', 'bash'], ['salvage', '-o', "$dir/salvaged", $dump]) {
	$err = (jeprof($case->[0], '--thread=1', '--ignore=x', '--lines', @$case[1 .. $#$case]))[2];
	my @said = $err =~ /--(\w+) has no effect/g;
	is(join(' ', sort @said), $case->[0] eq 'live' ? 'lines thread' : $case->[0] eq 'salvage' ? 'ignore thread'
		: 'ignore lines thread', "$case->[0]: what it does not use is said") or diag $err;
}
unlike((jeprof('--collapsed', '--alloc_space', '--focus=.', '--thread=1', '--lines', $dump))[2], qr/no effect/, 'what acts is not');
($code, $out, $err) = jeprof('--dot', '--heapcheck', '--nodecount=5', '--cum', $dump);
like($out, qr/style=filled,fillcolor=gray/, '--heapcheck marks what is held');
unlike($err, qr/nodecount has no/, 'an option where it acts is not complained of');
like((jeprof('top', '--focus=^serve$', $dump))[1], qr/ \(--focus=\^serve\$\): live 595\.7K in 11 objects/,
	'top: --focus acts');
like((jeprof('top', '--cum', '-n', 1, $dump))[1], qr/ list_add /, 'top: --cum acts');
like((jeprof('top', '--files', '-n', 1, $dump))[1], qr/\[server\]/, 'top: --files acts');
like((jeprof('--text', "--diff_base=$dump", $dump))[1], qr/\A\z/, '--diff_base is --base');

# What needs real code: list, disasm, symbols, files, inlined functions
SKIP: {
	my ($library) = libraries();
	skip 'no libjemalloc.so.2 or gcc', 19 unless $library && which('gcc');
	my $program = build('lines.c', <<'C', '-no-pie', '-fno-pie');
#include <stdlib.h>
void *volatile sink;
static inline __attribute__((always_inline)) void folded(int n) {
	sink = malloc(n);
}
__attribute__((noinline)) void holder(void) {
	folded(100000);
	sink = malloc(300000);
}
int main(void) { for (int i = 0; i < 50; i++) { holder(); } return 0; }
C
	my $real = dump_of($library, 'lg_prof_sample:0', $program);
    SKIP: {
		skip 'no line tool', 10 unless line_tool();
		($code, $out) = jeprof('--list=^holder$', $program, $real);
		like($out, qr/^ROUTINE =+ holder in .*lines\.c$/m, '--list: head');
		like($out, qr/^\s+\d+\.\d\s+\d+\.\d\s+8: \tsink = malloc\(300000\);$/m,
			'--list: the sum beside its line');
		my $text = slurp("$dir/lines.c");
		spew("$dir/lines.c", join "\n", (split /\n/, $text)[0 .. 7]);
		like((jeprof('--list=^holder$', $program, $real))[1], qr/8: \tsink = malloc\(300000\);\n\z/, '--list: a last line without its end');
		spew("$dir/lines.c", join "\n", (split /\n/, $text)[0 .. 6]);
		($code, $out, $err) = jeprof('--list=^holder$', $program, $real);
		like("$code $err", qr/^3 .*lines\.c: is another version: it has no line 8$/ms, '--list: a file that is shorter');
		spew("$dir/lines.c", $text);
		($code, $out) = jeprof('--files', '--text', $program, $real);
		like($out, qr/^\s+\d+\.\d\s+\d+\.\d%.*lines\.c$/m, '--files');
		($code, $out) = jeprof('--inlines', '--text', $program, $real);
		like($out, qr/ folded$/m, '--inlines');
		my $file = "$dir/shell.callgrind";
		($code, $out) = jeprof(\"callgrind $file\ntop\ntop --lines\ntop\nlist holder\ntop\n", '--interactive', $program, $real);
		my @tables = split /^(?=Total)/m, $out;
		like($tables[2], qr/ folded \S+:4$/m, 'interactive: top --lines') or diag $out;
		is($tables[$_], $tables[1], 'top behind it, and behind list, is as before') for 3, 5;
		like(slurp($file), qr{^fl=\S* \S*lines\.c$}m, 'callgrind FILE has files, as --callgrind');
	}
    SKIP: {
		skip 'no objdump', 1 unless which('objdump');
		($code, $out) = jeprof('--disasm=^holder$', $program, $real);
		like($out, qr/^\s+\d+\.\d\s+\d+\.\d\s+[0-9a-f]+:\s+(?:call|bl|jal)/m,
			'--disasm: the sum beside the call');
		($code, $out, $err) = jeprof('--tools=objdump:/bin/false', '--disasm=^holder$', $program, $real);
		is($code, 3, '--disasm where objdump fails: a doubt');
		like($err, qr/^jeprof: \Q$program\E: objdump failed: no instructions$/m, 'which is told');
		($code, $out, $err) = jeprof('--tools=objdump:/bin/true', '--disasm=^holder$', $program, $real);
		like("$code $err", qr/^3 .*: no instructions: it has no symbol holder \(stripped\?\)$/ms, '--disasm of a stripped file');
	}
	{
		my $text = <<'C';
#include <stdlib.h>
static __attribute__((noinline)) void *hold(size_t n) {
	void *volatile block = malloc(n); return block;
}
void *one(void) { void *volatile block = hold(3 << 20); return block; }
C
		my $shared = build('one.c', $text, '-shared', '-fPIC');
		my $two = build('two.c', "void *one(void);\n\n" . $text =~ s/3 << 20/5 << 20/r =~ s/\bone\b/two/r
			    . "int main(void) { return !one() + !two(); }\n", $shared, '-no-pie', '-fno-pie');
		my $both = dump_of($library, 'lg_prof_sample:0', $two);
	    SKIP: {
			skip 'no line tool', 3 unless line_tool();
			($code, $out, $err) = jeprof('--list=^hold$', $two, $both);
			is(join(' ', $out =~ m{^ROUTINE =+ hold in .*/(\w+\.c)\n +(\S+) +\S+ Total}mg), 'one.c 3.0 two.c 5.0',
				'--list: functions of one name in two files are two') or diag $out;
			is(join(' ', $out =~ /^ +(\d\S*) +\S+ +(\d+): .*malloc\(n\)/mg), '3.0 3 5.0 5', 'each beside its own line') or diag $out;
			$out = (jeprof('--callgrind', $two, $both))[1]; # which tells a name once, then its number
			my %file = $out =~ m{^(?:fl|cfi)=\((\d+)\) \S*/(\w+\.c)$}mg;
			my ($hold, @found) = $out =~ /fn=\((\d+)\) hold$/m;
			push @found, "$file{$1} $2" while $out =~ /^fl=\((\d+)\).*\nfn=\($hold\).*\n(\d+ \d+)$/mg;
			is(join(', ', sort @found), 'one.c 3 3145728, two.c 5 5242880', '--callgrind: and so are they here') or diag $out;
		}
	    SKIP: {
			skip 'no objdump', 1 unless which('objdump');
			($code, $out) = jeprof('--disasm=^hold$', $two, $both);
			is(join(' ', sort $out =~ /^ +(\d\S*) +\S+ +[0-9a-f]+:/mg), '3.0 5.0', '--disasm: the instructions of both') or diag $out;
		}
	}
	my ($address) = `nm '$program'` =~ /^([0-9a-f]+) T holder$/m;
	skip 'no nm', 2 unless $address;
	my ($maps) = slurp($real) =~ /MAPPED_LIBRARIES:\n(.*)/s;
	($code, $out) = jeprof(\"${maps}0x$address\n0x1\n", '--symbols', $program);
	is($out, "holder\n??\n", '--symbols');
	($code, $out, $err) = jeprof(\"${maps}0x$address\n0x1${\ ('0' x 16)}\n", '--symbols', $program);
	is("$out$err", "holder\n", 'an address of 65 bits is none');
	my @both = map { dump_of($library, 'lg_prof_sample:0', $program) } 1, 2;
	($code, $out, $err) = jeprof('--text', '--show_bytes', $program, @both);
	my ($two) = $out =~ /^Total: (\d+)/;
	my ($one) = (jeprof('--text', '--show_bytes', $program, $both[0]))[1] =~ /^Total: (\d+)/;
	cmp_ok(abs($two - 2 * $one), '<', 2000, 'several profiles are added');
}
($code, $out, $err) = jeprof('--text', $dump, $dump);
like($err, qr/profiles of one process are added up/, 'several dumps of one process: a warning');
($code, $out, $err) = jeprof('--text', '--sum', $dump, $dump);
unlike($err, qr/added up/, '--sum: no warning');
($code, $out, $err) = jeprof('top', "$data/counts.heap", $dump);
like($out, qr/978\.6K/, 'top of several: the last');
like($err, qr/2 profiles: the last one is shown/, 'and that is said');
# The script of a flame graph of nothing: no share of 0, and what a search without a word says.
SKIP: {
	skip 'no node', 1 unless which('node');
	my ($script) = (jeprof('flame', '-o', '-', $dump))[1] =~ /<script><!\[CDATA\[\n(.*)\]\]><\/script>/s;
	spew("$dir/flame.js", <<'JS' . $script . <<'END');
var acts = {}, words = ['a', ''], told = { textContent: 'usual', style: {}, addEventListener(kind, act) { acts.search = act; } };
var part = { getAttribute() { return '0'; }, textContent: 'all: 0B, 0.0%' };
var box = { dataset: { v: '0' }, getElementsByTagName() { return [part]; }, getAttribute() { return 'f'; }, setAttribute() {}, addEventListener() {} };
globalThis.document = { getElementById() { return told; }, querySelectorAll() { return [box]; }, addEventListener() {} };
globalThis.prompt = () => words.shift();
JS
acts.search(); console.log(told.textContent); acts.search(); console.log(told.textContent);
END
	is((run('node', "$dir/flame.js"))[1], "/a/: 0.0%\nusual\n", 'flame: a search');
}

# --list: a stack counts once in a routine that is on it twice, by two calls.
{
	my $at = 0x7f1200000000;
	elf_file("$dir/recurs", id => '12' x 20, symbols => [['leaf', 0x1100, 0x100],
			['again', 0x1200, 0x100], ['main', 0x1300, 0x100]]);
	our_dump("$dir/recurs.heap", modules => [[$at + 0x1000, $at + 0x3000, $at, '12' x 20, "$dir/recurs"]],
		stacks => [[[map { $at + $_ } 0x1111, 0x1211, 0x1221, 0x1311], 1, 1000],
			[[map { $at + $_ } 0x1211, 0x1311], 1, 200]]);
	my $out = (jeprof('--list=.', '--show_bytes', "$dir/recurs.heap"))[1];
	is(join(' ', $out =~ /^ROUTINE =+ (\w+) in .*\n +(\d+) +(\d+) Total/mg),
		'again 200 1200 leaf 1000 1000 main 0 1200', '--list of what calls itself') or diag $out;
}
done_testing();
