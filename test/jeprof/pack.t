#!/usr/bin/perl
# jeprof pack and symbolize: profiles that are read where nothing of the program is; also of other
# machines, byte orders and widths. What is missing is told with its build-id and where it is to be
# had. Damaged packs end in one line.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
no warnings 'portable';
use JSON::PP ();
our ($dir, $source, $peer);

my ($code, $out, $err);
my $base = 0x555500000000;
my $id = '47' x 20;
my @symbols = (['main', 0x1100, 0x100], ['cache', 0x1200, 0x100], ['_ZN3app4leakEv', 0x1300, 0x100],
	['zmalloc', 0x1400, 0x100], ['unused', 0x1500, 0x100]);

# The forms of an answer that two sources of names must agree in.
sub answers { my @files = @_; return join "\n", map { (jeprof(@$_, @files))[1] } ['top', '--json'],
	    ['top', '--stacks'], ['--collapsed'], ['--callgrind'], ['--dot'] }
sub same_names {
	my ($what, $dump, $pack, @gone) = @_;
	my $want = answers($dump);
	like($want, qr/app::leak/, "$what: names");
	my ($code, $out, $err) = jeprof('pack', '-o', $pack, $dump);
	is("$code|$out", "0|$pack\n", "$what: packed") or diag $err;
	rename $_, "$_.away" for @gone;
	my $member = "$pack/" . $dump =~ s{.*/}{}r;
	is(answers($pack) =~ s/\Q$member\E/$dump/gr, $want =~ s/\Q$member\E/$dump/gr,
		"$what: from the pack alone the same");
	is((jeprof('top', $pack))[0], 0, "$what: without a doubt");
	is((jeprof('top', $dump))[0], 3, "$what: without the pack there are no names");
	rename "$_.away", $_ for @gone;
}

sub serve_dump {
	my ($name, $program, %more) = @_;
	my $frames = sub { [map { $base + $_ } @_] };
	return our_dump("$dir/$name", modules => $more{maps} ? []
		: [[$base + 0x1000, $base + 0x3000, $base, $more{id} // $id, $program]],
		maps => $more{maps} // '',
		meta => { pid => 77, exe => $program, version => '5.3.1', %{ $more{meta} // {} } },
		stacks => [[$frames->(0x1410, 0x1211, 0x1111), 4, 40000],
			[$frames->(0x1410, 0x1311, 0x1111), $more{leak} // 3, 1000 * ($more{leak} // 3)]]);
}
for my $kind (['64 bits', {}], ['32 bits', { wide => 0, machine => 3 }],
	['big end first', { order => '>', machine => 22 }],
	['32 bits, big end first', { order => '>', wide => 0, machine => 20 }],
	['dynamic symbols', { dynamic => 1 }]) {
	elf_file("$dir/serve", id => $id, symbols => \@symbols, %{ $kind->[1] });
	same_names($kind->[0], serve_dump('serve.heap', "$dir/serve"), "$dir/serve.jepack",
		"$dir/serve");
}
elf_file("$dir/serve", symbols => \@symbols);
my $maps = sprintf "%x-%x r-xp 00001000 08:01 9 %s\n", $base + 0x1000, $base + 0x3000, "$dir/serve";
same_names('mappings without a build-id', serve_dump('serve.heap', "$dir/serve", maps => $maps),
	"$dir/serve.jepack", "$dir/serve");
elf_file("$dir/serve", id => $id, link => 'serve.debug', symbols => undef);
elf_file("$dir/serve.debug", id => $id, symbols => \@symbols);
same_names('a separate debug file', serve_dump('serve.heap', "$dir/serve"), "$dir/serve.jepack",
	"$dir/serve", "$dir/serve.debug");
elf_file("$dir/serve", id => $id, symbols => \@symbols);
mkdir "$dir/root";
mkdir "$dir/root/bin";
rename "$dir/serve", "$dir/root/bin/serve";
my $far = serve_dump('far.heap', '/bin/serve');
is((jeprof('pack', "--sysroot=$dir/root", '-o', "$dir/far.jepack", $far))[0], 0, 'pack --sysroot');
rename "$dir/root/bin/serve", "$dir/serve";
like((jeprof('top', "$dir/far.jepack"))[1], qr/^ .* app::leak /m, 'and its names are there');

# A series in a pack is a series; each of it has a name.
chdir $dir;
unlink glob '*.heap *.jepack';
my @dump = map { serve_dump(sprintf('serve.77.20260102T03%02d00.000Z.%d.i%d.heap', $_, $_, $_),
		"$dir/serve", leak => 1 + $_, meta =>
		    { dump_time => sprintf '20260102T03%02d00.000Z', $_ }) } 0 .. 4;
my $first = $dump[0] =~ s{.*/}{}r;
($code, $out, $err) = jeprof('pack');
like("$code|$out", qr/^0\|\x1f\x8b/, 'pack: the series of the directory, packed into the pipe')
    or diag $err;
spew('serve.77.jepack', $out);
like((jeprof('pack', '-o', 'again.jepack'))[2], qr/next, on any machine: jeprof top again\.jepack/,
	'and what is next');
is(slurp('again.jepack'), $out, '-o: the same');
spew('-p.jepack', $out);
is((jeprof('top', "--$_", '--', '-p.jepack'))[1], (jeprof('top', "--$_", 'again.jepack'))[1] =~ s/again\.jepack/-p.jepack/r,
	"a pack whose name begins with a hyphen, behind --") for qw(stacks json);
unlink '-p.jepack';
my $want = (jeprof('leaks', @dump))[1];
rename 'serve', 'away';
is((jeprof('leaks', 'serve.77.jepack'))[1], $want, 'leaks of the pack');
like((jeprof('ls', 'serve.77.jepack'))[1], qr{^ +0 .* serve\.77\.jepack/\Q$first\E$}m,
	'ls names its profiles');
like((jeprof('top', "serve.77.jepack/$first"))[1], qr/live 40\.0K in 5/, 'one of them by its name');
like((jeprof('diff', '--last', '2m', 'serve.77.jepack'))[1], qr/^ +\+2\.0K .* app::leak < main/m,
	'diff of the pack');
like((jeprof('report', 'serve.77.jepack'))[1], qr/app::leak/, 'report of the pack');
like((jeprof('--text', '--base', "serve.77.jepack/$first",
			'serve.77.jepack/' . $dump[4] =~ s{.*/}{}r))[1], qr/ zmalloc$/m, '--base of the pack');
is((jeprof('top', 'serve.77.jepack/none.heap'))[0], 1, 'a name that it has not: exit 1');
is((jeprof('top', '--base', 'serve.77.jepack', $dump[0]))[0], 1,
	'a pack is no profile to subtract');
rename 'away', 'serve';
{
	local $ENV{JEPROF_TOOLS} = 'gzip:/bin/false';
	($code, $out, $err) = jeprof('pack', '-o', 'plain.jepack', @dump, $dump[1]);
	is($code, 0, 'without gzip') or diag $err;
}
rename 'serve', 'away';
like(slurp('plain.jepack'), qr/\Ajeprof_pack\/1\npart dump \d+ serve\.77/, 'it is plain');
like((jeprof('ls', 'plain.jepack'))[1], qr{plain\.jepack/2/serve\.77},
	'two profiles of one name are both there');
spew('plain.bin', slurp('plain.jepack'));
like((jeprof('ls', 'plain.bin'))[1], qr{plain\.bin/2/serve\.77}, 'also of a pack with another name');
rename 'away', 'serve';
for my $from ('-', '/dev/stdin') {
	($code, $out, $err) = run('sh', '-c', "exec cat '$dump[0]' | '$^X' '$main::jeprof' pack -o in.jepack $from");
	is("$code|$out", "0|in.jepack\n", "pack $from: a profile that can be read once") or diag $err;
	like((jeprof('top', 'in.jepack'))[1], qr/live 40\.0K in 5/, 'is in it');
}
for my $bad (['pack', '-o', 'x.tar', @dump], ['pack', 'nothing.heap']) {
	($code, $out, $err) = jeprof(@$bad);
	cmp_ok($code, '>', 0, "@$bad[0, 1]: refused");
	is($out, '', 'nothing is written');
}

# What is missing, and where it is to be had.
rename 'serve', 'away';
my $foo = our_dump('foo.heap', modules =>
	    [[$base + 0x1000, $base + 0x3000, $base, $id, '/usr/lib/libnosuch_thing2.so.3.1']],
	stacks => [[[map { $base + 0x1111 + $_ } 0, 16], 1, 100]]);
for my $verb ('pack', 'symbolize') {
	($code, $out, $err) = jeprof($verb, '-o', 'foo.jepack', $foo);
	is($code, 3, "$verb: names are missing: exit 3");
	like($err, qr{missing: /usr/lib/libnosuch_thing2\.so\.3\.1 \(build-id $id\): 2 of 2 calls without a name; https://debuginfod\.debian\.net/buildid/$id/executable, or package libnosuch-thing2-3 \(by its name\), or from where it ran: --sysroot},
		"$verb: with its build-id and where it is to be had");
}
{
	local $ENV{DEBUGINFOD_URLS} = 'https://example.org/d/ https://b';
	local $ENV{JEPROF_TOOLS} = 'debuginfod-find:/bin/false';
	like((jeprof('pack', '-o', 'foo.jepack', $foo))[2],
		qr{; https://example\.org/d/buildid/$id/executable,}, 'from the server of DEBUGINFOD_URLS');
}
rename 'away', 'serve';
elf_file('serve', id => $id, symbols => undef);
like((jeprof('pack', '-o', 'foo.jepack', $dump[0]))[2],
	qr{missing: \S+/serve \(build-id $id\): 4 of 4 calls without a name; https://[^ ]*/debuginfo, or /usr/lib/debug/\.build-id/47/\w+\.debug}, 'stripped: its debug file');
do "$source/bin/jeprof.d/missing.pl";
die $@ if $@;
is(Missing::with_symbols(Missing::guess($_->[0])), "$_->[1] (by its name)", "$_->[0]: the package that has its symbols, and that it is a guess")
    for ['libc.so.6', 'libc6-dbg'], ['libfoo.so.1', 'libfoo1-dbgsym'];
is(Missing::with_symbols($_->[0]), $_->[1], "of $_->[0]") for ['libc6', 'libc6-dbg'], ['libc6-i386', 'libc6-dbg'], ['libfoo1', 'libfoo1-dbgsym'];

# symbolize
elf_file('serve', id => $id, symbols => \@symbols);
($code, $out, $err) = jeprof('symbolize', '-o', 'named', $dump[4]);
is("$code|$out", "0|named\n", 'symbolize');
rename 'serve', 'away';
like((jeprof('top', 'named'))[1], qr/^ .* app::leak +main$/m,
	'symbolize: read where the program is not');
SKIP: {
	skip "Debian's jeprof is not installed", 1 unless has_peer();
	like((run($peer, '--text', '--show_bytes', 'named'))[1], qr/^Total: 45\d\d\d B\n.* zmalloc$/ms,
		"symbolize: Debian's jeprof reads it");
}
rename 'away', 'serve';

# Damaged packs.
my $whole = slurp('plain.jepack');
srand 30;
my @bad;
for my $round (1 .. 40) {
	my $text = $whole;
	if ($round % 4 == 0) { substr($text, int rand length $text) = '' } elsif ($round % 4
		== 1) { substr($text, 14 + int rand(length($text) - 14), 1) = chr int rand 256 for 1 .. 30 }
	elsif ($round % 4
		== 2) { $text =~ s/part (\w+) \d+/"part $1 " . int rand 1e6/e } else { substr($text,
			int rand length $text, 300) = '' }
	my ($code, $out, $err) = run($^X, '-w', $main::jeprof, 'top', spew('bad.jepack', $text));
	push @bad, "round $round: exit $code: $err"
	    if $code !~ /^[013]$/ || $err =~ /internal|uninit| at \S+ line \d+/
	    || "$out$err" =~ /[^\n\x20-\x7e\x80-\xff]/;
}
is(scalar(@bad), 0, 'damaged packs: one line, no noise') or diag @bad;
for my $cut (14, 20, 60, 400) {
	my ($code, $out, $err) = jeprof('top', spew('bad.jepack', substr $whole, 0, $cut));
	like("$code $err", qr/^1 jeprof: bad\.jepack: truncated or damaged after 0 parts; there is no whole profile before that$/m,
		"cut after $cut bytes, in its first profile: said so");
}
like((jeprof('top', spew('bad.jepack', "jeprof_pack/1\nend 0\n")))[2], qr/holds no profile/,
	'a pack of nothing');

# Without build-ids: the pack has the names of the build whose file was there, and only these.
{
	elf_file('builds', symbols => [['half', 0x2100, 0x100]]);
	my @builds = map { my ($name, $length, $offset) = @$_;
		our_dump("$name.heap", stacks => [[[$base + $offset], 1, 100]],
			maps => sprintf "%x-%x r-xp 00001000 08:01 9 %s\n", $base + 0x1000, $base + 0x1000 + $length, "$dir/builds") }
	    ['this', 0x2000, 0x2110], ['that', 0x60000, 0x2120];
	for my $order ([0, 1], [1, 0]) {
		jeprof('pack', '-o', 'builds.jepack', @builds[@$order]);
		rename 'builds', 'gone';
		for my $read ([0, 1], [1, 0]) {
			($code, $out) = jeprof('--collapsed', map { "builds.jepack/$builds[$_]" } @$read);
			is($out, "builds+0x2120 100\nhalf 100\n", "two builds, packed as @$order, read as @$read");
		}
		rename 'gone', 'builds';
	}
}

# Real code: source lines are in the pack; another machine's program too.
SKIP: {
	skip 'no gcc or line tool', 3 unless which('gcc') && line_tool();
	my $program =
	    build('lines.c',
		"#include <stdlib.h>\nvoid *p;\n__attribute__((noinline)) void hold(void) {\n\tp = malloc(10);\n}\nint main(void) { hold(); return 0; }\n");
	real_program('lines', $program, 0);
	my $cross = which('aarch64-linux-gnu-gcc');
	skip 'no aarch64-linux-gnu-gcc', 3 unless $cross;
	is(system($cross, '-g', '-O1', '-o', 'arm', 'lines.c'), 0, 'a program for aarch64');
	real_program('arm', "$dir/arm", 1);
}

# A dump with one call of hold in main, its pack, and what is read of it when the program is away.
sub real_program {
	my ($name, $program, $is_foreign) = @_;
	my %at = map { /^([0-9a-f]+) T (main|hold)$/ ? ($2 => hex $1) : () } split /\n/,
	    (run('nm', $program))[1];
	my ($built) = (run('readelf', '-n', $program))[1] =~ /Build ID: (\w+)/
	    or die "no build-id in $program";
	my $real = our_dump("$name.heap",
		modules => [[$base, $base + 0x100000, $base, $built, $program]],
		meta => { exe => $program, version => '5.3.1' },
		stacks => [[[$base + $at{hold} + 9, $base + $at{main} + 9], 1, 10]]);
	($code, $out, $err) = jeprof('pack', '-o', "$name.jepack", $real);
	is($code, 0, "$name: packed") or diag $err;
	rename $program, "$program.away";
	like((jeprof('top', "$name.jepack"))[1], qr/ hold +main$/m, "$name: names without the program");
	like((jeprof('top', '--lines', "$name.jepack"))[1], qr/ hold \S*lines\.c:[345]\s/,
		"$name: and its lines") unless $is_foreign && !which('llvm-symbolizer')
	    && !which('aarch64-linux-gnu-addr2line');
	spew('second.jepack', slurp("$name.jepack"));
	like((jeprof('--collapsed', '--sum', "$name.jepack", 'second.jepack'))[1], qr/^main;hold 20$/m,
		"$name: two packs with its lines: each call once");
	rename "$program.away", $program;
}
chdir $source;
done_testing();
