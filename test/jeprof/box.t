#!/usr/bin/perl
# Black boxes in jeprof: each verb reads one as a dump, living, ended or killed; what it says of the
# last seconds; boxes of another version or byte order, cut, changed at random: one sentence each; and
# kill -9 at random moments (BOX_ROUNDS of them): every box is whole, and agrees with the books that
# the threads of the process kept.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
use JSON::PP ();
use Time::HiRes ();
our ($dir, $source, $jeprof);

my $library = $ENV{JEMALLOC_LIB};
my $ctl = $jeprof =~ s{[^/]*$}{jeprofctl}r;
plan skip_all => 'no library (JEMALLOC_LIB), or no jeprofctl' unless $library && -e $library && -x $ctl;
plan skip_all => 'no gcc' unless which('gcc');
delete $ENV{LANG};
chdir $dir;
my %child;
END { kill 'KILL', keys %child if %child }

# Starts a program with a box in files PREFIX.*, and waits until it says something.
sub begin {
	my ($prefix, $conf, @command) = @_;
	pipe my $out, my $in or die $!;
	my $pid = fork // die "fork: $!";
	if (!$pid) {
		$ENV{LD_PRELOAD} = $library;
		$ENV{MALLOC_CONF} = "prof:true,lg_prof_sample:0,prof_blackbox:true,prof_prefix:$dir/$prefix" . ($conf && ",$conf");
		open STDOUT, '>&', $in;
		exec { $command[0] } @command or POSIX::_exit(127);
	}
	close $in;
	$child{$pid} = 1;
	scalar <$out>;
	return $pid;
}
sub finish { my ($pid, $signal) = @_; kill $signal, $pid; waitpid $pid, 0; delete $child{$pid} }
sub json { my ($code, $out, $err) = jeprof(@_, '--json'); return $code == 0 || $code == 3 ? JSON::PP::decode_json($out) : { error => "$code $err" } }
# ---- what is said of the last seconds, of made ones
{
	load_jeprof();
	my $gib = 1 << 30;
	is(join(' ', map { Course::size($_) } $gib - 1, $gib), '1.0G 1.00G', 'two decimals from a gibibyte on');
	is(join(', ', map { Course::growth({ meta => { grown => 60 << 20, grown_ms => $_ } }) } 119_999, 120_000, 0), '30.0M/min for 120 s, 30.0M/min for 2 min, ', 'seconds, then minutes');
	my @course = map { [1000 * $_, 10, 0, 8, 0, 0, 0, 0] } 1 .. 3;
	my ($none, $far, $near, $within) = map { $course[-1][5] = $_; Course::picture({ course => \@course }) } 0, 40, 39, 5;
	is($far, $none, 'a limit of four times the most is not shown');
	like($near, qr/<line .* y1="4\.0" .*points="0\.0,93\.0 500\.0,93\.0 1000\.0,93\.0".*up to 39B: .*dashed: the limit/s, 'a nearer one is the top');
	like($within, qr/<line .* y1="60\.0" .*<polyline points="0\.0,26\.4 500\.0,26\.4 .*points="0\.0,4\.0 .*up to 10B/s, 'unless less than was in use');
	is(Course::picture({ course => [$course[0]] }), '', 'no picture of one line');
	$course[1][0] = 1000;
	is(Course::picture({ course => \@course }), $within, 'nor times where the clock stood still');
}

sub sentences { return scalar grep { !/next:|^\s*$/ } split /\n/, $_[0] }

# ---- one that leaks, and is killed
my $leak = build('leak.c', <<'C');
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((noinline)) static void *keep_session(void) { return memset(malloc(20000), 1, 20000); }
__attribute__((noinline)) static void *load_table(void) { return memset(malloc(100000), 1, 100000); }
/* leak [PROGRAM]: leaks for ever; with PROGRAM it becomes that after a moment, with "end" it returns. */
int main(int c, char **v) {
	void *volatile table = load_table();
	void *volatile last;
	puts("ready"); fflush(stdout);
	for (int i = 0; c < 2 || i < 100; i++) { last = keep_session(); usleep(2000); }
	if (c > 1 && strcmp(v[1], "end") != 0) { execl(v[1], v[1], "60", NULL); }
	return table == last;
}
C
my $pid = begin('leak', 'prof_thread:true', $leak);
Time::HiRes::sleep(3.3);
my ($box) = glob 'leak.*.box';
my $live = json('ls', $box);
is("$live->{dumps}[0]{end} $live->{dumps}[0]{reason}", 'running blackbox', 'alive: read, and said');
cmp_ok(@{ $live->{dumps}[0]{course} }, '>=', 2, 'its seconds');
like((jeprof('top', $box))[2], qr/^jeprof: \Q$box\E: growing \S+M\/min for \d+ s, running at \S+M$/m, 'top: the sentence');
my ($code, $early) = jeprof('salvage', $box);
spew('early.heap', $early);
Time::HiRes::sleep(1.2);
finish($pid, 'KILL');

my $top = json('top', $box);
is($top->{rows}[0]{function}, 'keep_session', 'killed: top') or diag JSON::PP::encode_json($top);
my $held = $top->{total}{bytes};
my ($out, $err);
($code, $out, $err) = jeprof('ls', $box);
is($code, 0, 'killed: ls') or diag $err;
like($out, qr/^ +0  20\S+ \S+Z blackbox .*\Q$box\E\n\Q$box\E: growing \S+M\/min for \d+ s, killed at \S+M\ntime +allocated +active +resident +rss +limit +samples +faults\n(?:20\d\d-\d\d-\d\d \d\d:\d\d:\d\dZ +\S+ +\S+ +\S+ +\S+ +- +\d+ +\d+\n){3,20}(?:\d+ seconds, 20 are shown.*\n)?\z/m, 'its sentence and its seconds');
is(scalar(() = (jeprof('ls', '-n', 2, $box))[1] =~ /Z +\S+ +\S+ +\S+ +\S+ +- +/g), 2, 'ls -n: so many of them');
like((jeprof('ls', '-n', 2, $box))[1], qr/^\d+ seconds, 2 are shown \(-n \d+\)\n\z/m, 'and said');
my $ls = json('ls', $box)->{dumps}[0];
is("$ls->{end} @{ $ls->{columns} }", 'killed time allocated active resident rss limit samples faults', 'ls --json');
my @rss = map { $_->[4] } @{ $ls->{course} };
is(scalar(grep { $rss[$_] <= $rss[$_ - 1] } 1 .. $#rss), 0, 'it grew in each second') or diag "@rss";
my $span = $ls->{course}[-1][0] - $ls->{course}[0][0];
cmp_ok($span, '>', 900 * $#rss, 'a line a second'); # one that is late is nearer to the next
my $rate = 60_000 * ($rss[-1] - $rss[0]) / $span;
cmp_ok(abs($ls->{growth_per_minute} - $rate), '<', 0.5 * $rate, 'the rate of its growth');
($code, $out, $err) = jeprof('leaks', $box);
is($code, 0, 'leaks of one box') or diag $err;
like($out, qr/^leak pid $pid, one profile at .*by its ages .*\nGrowing \S+M\/min for \d+ s, killed at \S+M\n.*^ *\+\S+ .* keep_session < main/ms, 'leaks: the course, and by its ages who grows');
is((jeprof('leaks', '--gate', '1M/min', $box))[0], 3, 'leaks --gate: past it');
is((jeprof('leaks', '--gate', '100G/min', $box))[0], 0, 'leaks --gate: below it');
my $diff = json('diff', 'early.heap', $box);
is($diff->{rows}[0]{stack}[0], 'keep_session', 'diff: with a dump of the same process');
is($diff->{after}, $held, 'and the same sum');
($code, $out, $err) = jeprof('report', '-o', 'r.html', $box);
is("$code|$out", "0|r.html\n", 'report') or diag $err;
my $html = slurp('r.html');
my ($screen) = $html =~ /<header>(.*?)<\/header>/s;
like($screen, qr/<b>Growing \S+M\/min for \d+ s, killed at \S+M<\/b>/, 'report: its first screen says how it ended');
like($screen, qr/(?:Most|All) is held by <b>keep_session<\/b>/, 'and names the leak');
like($screen, qr/<svg .*<polyline points="0\.0,[\d.]+(?: [\d.]+,[\d.]+){2,}" stroke="var\(--k1\)".*<polyline .*\d\dZ to 20.*up to \S+M: .*resident.*allocated/s, 'and shows the course');
my $exported = 0;
$exported += $_ for (jeprof('export', '--to', 'collapsed', $box))[1] =~ / (\d+)$/mg;
is($exported, $held, 'export');
($code, $out, $err) = jeprof('salvage', '-o', 's.heap', $box);
is("$code|$out", "0|s.heap\n", 'salvage') or diag $err;
like(slurp('s.heap'), qr/^heap_v2\/1\n(?=.*^# jemalloc\.end=killed$)(?=.*^# jemalloc\.torn=0$).*^# second \d+(?: \d+){7}\n# end \d+\n\z/ms, 'it is an ordinary profile');
is(json('top', 's.heap')->{total}{bytes}, $held, 'with the same sum');
like((jeprof('salvage', 's.heap'))[2], qr/^jeprof: s\.heap: this is no core file and no black box$/m, 'salvage of a profile');
is((jeprof('salvage'))[0], 2, 'salvage of nothing');
is((run('sh', '-c', 'cat "$1" | "$2" "$3" salvage -o - - | cmp - s.heap', 'sh', $box, $^X, $jeprof))[0], 0, 'salvage of a pipe');
is((run('sh', '-c', '"$2" "$3" salvage -o - - <"$1" | cmp - s.heap', 'sh', $box, $^X, $jeprof))[0], 0, 'salvage of standard input');
SKIP: {
	skip 'sanitizers need more address space', 1 if (run($ctl, '--version'))[0] || `ldd $ctl` =~ /libasan/;
	like((run('sh', '-c', 'head -c 500000000 /dev/zero | { ulimit -v 300000; "$1" "$2" salvage -; }', 'sh', $^X, $jeprof))[2], qr/^jeprof: -: this is no core file and no black box$/m, 'what comes from a pipe is not held in memory');
}
for my $type ("\4\0", "\0\4") {
	spew('a core', "\x7fELF\2\1\1" . "\0" x 9 . $type . "\0" x 100);
	($code, $out, $err) = jeprof('top', 'a core');
	like("$code|$out|$err", qr/^2\|\|jeprof: a core: a core file; .* salvage -o FILE\.heap 'a core'\n\z/, 'top of a core file: what reads it');
}
my ($piped) = run(\slurp($box), $^X, $jeprof, 'top', '--json', '-');
is($piped, 0, 'from standard input');
run('gzip', '-k', $box);
is(json('top', "$box.gz")->{total}{bytes}, $held, 'compressed');
jeprof('pack', '-o', 'p.jepack', $box);
is(json('top', 'p.jepack')->{total}{bytes}, $held, 'in a pack');
{
	mkdir 'series';
	chdir 'series';
	rename "../$box", $box;
	is(json('top')->{total}{bytes}, $held, 'without a name: the newest series has boxes too');
	rename $box, "../$box";
	chdir $dir;
}
mkdir 'alone';
run('cp', $jeprof, 'alone/jeprof');
{
	local $ENV{PATH} = join ':', grep { !-x "$_/jeprofctl" } split /:/, $ENV{PATH};
	($code, $out, $err) = run($^X, 'alone/jeprof', 'top', $box);
	is("$code|$out", '1|', 'without jeprofctl: refused');
	like($err, qr/^jeprof: \Q$box\E: .* read by jeprofctl, which is not there; where it is: \S+ salvage -o FILE\.heap \Q$box\E\n\z/, 'and what helps');
	is((run($^X, 'alone/jeprof', 'top', '--json', 's.heap'))[0], 0, 'what salvage has made is read there');
}
for my $mute (['exit 7', 'jeprofctl failed with code 7'], ['kill -9 $$', 'signal 9 ended jeprofctl'], ['echo one >&2; echo two >&2; exit 1', "one; two"]) {
	my ($does, $says) = @$mute;
	chmod 0755, spew("$dir/mute", "#!/bin/sh\n$does\n");
	local $ENV{JEPROF_TOOLS} = "jeprofctl:$dir/mute";
	my ($code, $out, $err) = jeprof('salvage', $box);
	is("$code|$out|$err", "1||jeprof: $box: $says\n", "a jeprofctl that does: $does");
}

SKIP: {
	skip "Debian's jeprof is not installed", 1 unless has_peer();
	like((run($main::peer, '--text', '--show_bytes', $leak, 's.heap'))[1], qr/^Total: $held B$/m, "Debian's jeprof reads it");
}

# ---- other ends
$pid = begin('end', 'prof_blackbox_keep:true', $leak, 'end');
waitpid $pid, 0;
delete $child{$pid};
is(json('ls', glob 'end.*.box')->{dumps}[0]{end}, 'ended', 'a clean end that keeps its box');
$pid = begin('exec', 'prof_blackbox_keep:true', $leak, '/bin/sleep');
until_true(sub { my @boxes = glob 'exec.*.box'; @boxes == 2 && !grep { json('ls', $_)->{error} } @boxes });
is(join(' ', map { json('ls', $_)->{dumps}[0]{end} } sort glob 'exec.*.box'), 'replaced by exec running', 'after exec the process is another program');
finish($pid, 'KILL');

# ---- what the sentences say: of a profile made by hand
sub told {
	my ($meta, @seconds) = @_;
	my $text = join '', map { "# second $_\n" } @seconds;
	return our_dump('hand.heap', meta => { version => 1, pid => 7, %$meta }, stacks => [[[0x1000], 1, 100]], maps => $text);
}
sub line { my ($second, $rss, $limit) = @_; return join ' ', 1_770_000_000_000 + 1000 * $second, 1 << 20, 2 << 20, 3 << 20, $rss, $limit, 9, 8 }
my $g = 1 << 30;
my $large = told({ end => 'killed', grown => int($g * 0.98), grown_ms => 25 * 60_000 }, line(0, $g, 2 * $g), line(1500, int(1.98 * $g), 2 * $g));
like((jeprof('ls', $large))[1], qr/^hand\.heap: growing 40\.1M\/min for 25 min, killed at 1\.98G of 2\.00G$/m, 'ls: growth, end, limit');
jeprof('report', '-o', 'h.html', $large);
like(slurp('h.html'), qr/Growing 40\.1M\/min for 25 min, killed at 1\.98G of 2\.00G.*<line [^>]*stroke-dasharray.*dashed: the limit/s, 'report: with the limit');
like((jeprof('ls', told({ end => 'ended' }, line(0, 0, 0))))[1], qr/^hand\.heap: ended at 3\.0M$/m, 'no rss, no limit, no growth');
like((jeprof('ls', told({ end => 'killed' })))[1], qr/^hand\.heap: killed$/m, 'no second');
like((jeprof('ls', told({ end => 'killed' }, '1770000000000 0 0 0 0 5 9 8')))[1], qr/^hand\.heap: killed$/m, 'no size in it');
like((jeprof('ls', told({ grown => 60 << 20, grown_ms => 60_000 })))[1], qr/^hand\.heap: growing 60\.0M\/min for 60 s$/m, 'growth alone');
like((jeprof('ls', told({ end => "k\e[1mx", grown => 'x', grown_ms => 0 }, line(0, 5, 5), 'x', '1 2 3', line(1, 5, 5))))[1], qr/^hand\.heap: k\?\[1mx at 5B of 5B$/m, 'forged words and lines');
is((jeprof('ls', told({}, map { line($_, $_ + 1, 0) } 0 .. 3599)))[1] =~ /^3600 seconds, 20 are shown \(-n 3600\)$/m, 1, 'an hour');
is(scalar(() = (jeprof('ls', '-n', 3600, 'hand.heap'))[1] =~ /^20.*Z +/mg), 3600, 'all of it');
is(join(' ', map { scalar(() = (jeprof('ls', '-n', $_, 'hand.heap'))[1] =~ /^20.*Z +/mg) } 0, 1, 2, 3), '0 1 2 3', 'so many as wanted');
like((jeprof('ls', '-n', 1, 'hand.heap'))[1], qr/^2026-02-02 03:39:59Z /m, 'the last one always');
is((jeprof('top', told({ torn => 3 })))[0], 3, 'damaged objects are a doubt');
like((jeprof('top', told({ torn => 1, torn_list => 'true' })))[2], qr/: 1 damaged objects of its tables are left out, and the stacks behind one of them on the list$/m,
	'so are the stacks that only one of them leads to');

# ---- growth, by the function that finds it
build('growth.c', <<'C', "-I$source/src", "-I$source/bin", "$source/bin/client/image_course.c") =~ /growth/ or die;
#include <stdio.h>
#include <stdlib.h>
#include "client/image_read.h"
bool image_read(jeprof_image_t *i, uint64_t at, void *buf, size_t n) { (void)i; (void)at; (void)buf; (void)n; return false; }
int main(int c, char **v) {
	static jeprof_image_line_t l[4000];
	uint64_t ms;
	for (int i = 1; i < c; i++) { l[i - 1] = (jeprof_image_line_t){.time_ns = i * 1000000000ull, .rss = strtoull(v[i], NULL, 10)}; }
	printf("%llu", (unsigned long long)jeprof_course_growth(l, c - 1, &ms));
	printf(" in %llu", (unsigned long long)ms);
}
C
for my $case (['0 in 0'], ['0 in 0', 100], ['0 in 0', (100) x 50], ['900 in 9000', map { 100 * $_ } 1 .. 10], ['900 in 9000', (100) x 20, map { 100 * $_ } 2 .. 10],
	['0 in 0', reverse map { 100 * $_ } 1 .. 10], ['0 in 0', map { 1000 + $_ } 1 .. 100], ['500 in 5000', 900, map { 100 * $_ } 1 .. 6], ['800 in 8000', 100, 200, 320, 300, 500, 600, 700, 800, 900],
	['400 in 2000', 100, 900, 300, 500, 700], ['100 in 1000', 700, 800], ['0 in 0', 701, 800]) {
	my ($want, @values) = @$case;
	is((run("$dir/growth", @values))[1], $want, 'growth: ' . (@values > 12 ? "$values[0] .. $values[-1]" : "@values"));
}

# ---- foreign and damaged
my $bytes = slurp($box);
sub changed { my ($at, $text) = @_; my $copy = $bytes; substr($copy, $at, length $text) = $text; return spew('x.box', $copy) }
for my $case ([32, pack('L', 2), 'its tables are of version 2, this program reads 1; use the jeprofctl of that library'],
	[0, scalar reverse(substr $bytes, 0, 8), 'it is of a machine with another byte order; read it on such a machine'],
	[36, pack('L', 0x04030201), 'it is of a machine with another byte order; read it on such a machine'],
	[32, pack('L', 0), 'nothing has started the profiler yet'],
	[40, pack('L', 100), 'the tables are damaged: the root is not whole'],
	[60, pack('L', 65), 'the tables are damaged: their parts make no sense'], [60, pack('L', 0), 'there are no tables of the profiler']) {
	my ($at, $text, $want) = @$case;
	($code, $out, $err) = jeprof('top', changed($at, $text));
	is("$code|$out|$err", "1||jeprof: x.box: $want\n", "byte $at: one sentence");
}
is(json('top', changed(44, pack 'L', 65536))->{total}{bytes}, $held, 'another page size: read');
for my $size (0, 7, 8, 100, 4096, 20000, 65536) {
	($code, $out, $err) = jeprof('top', spew('x.box', substr $bytes, 0, $size));
	is($code, $size <= 100 ? 1 : 3, "cut to $size bytes: the code");
	is((jeprof('salvage', '-o', '-', 'x.box'))[0], $code, 'salvage: the same code');
	like($err, qr/lacks its last \d+ bytes/, '... and how many are missing') if $code == 3;
	is(sentences($err) <= ($code == 1 ? 1 : 3), 1, 'and few words') or diag $err;
	unlike($err, qr/ line \d+|internal/, 'no error of ours');
}
# What they took of the processor, in seconds.
sub time_of_children { my (undef, undef, $user, $system) = times; return $user + $system }
my $bad = '';
srand 7;
for my $round (1 .. $ENV{BOX_CHANGES} // ($ENV{TEST_FULL} ? 300 : 100)) {
	my $copy = substr $bytes, 0, 1 << 19;
	substr($copy, $_ % 3 ? int rand 3000 : int rand length $copy, 1) = chr int rand 256 for 0 .. rand 30;
	spew('x.box', $copy);
	my $begin = time_of_children();
	($code, $out, $err) = run($ctl, 'dump', '-q', '--core', 'x.box', '-o', '-');
	$bad .= "$round: $code $err" unless $code == 0 || $code == 1 && $err =~ /\Ajeprofctl: x\.box: [^\n]+\n\z/ && !length $out;
	$bad .= "$round: slow " if time_of_children() - $begin > 5;
}
is($bad, '', 'changed at random: read, or refused in one sentence');

# One that costs most: sites that overlap.
run('gcc', '-O2', "-I$source/src", '-o', 'overlap', "$source/test/jeprof/overlap.c") and die 'gcc: ' . slurp("$dir/.err");
spew('over.box', (run('./overlap'))[1]);
($code, $out, $err) = run('sh', '-c', "ulimit -v 300000; exec '$ctl' dump -q --core over.box -o over.heap");
is("$code|$out", "0|over.heap\n", 'sites that overlap: in bounded memory') or diag $err;
like(slurp('over.heap'), qr/^# jemalloc\.torn=26\d{4}$/m, "kept are as many frames as fit in a file of its size, the other sites are counted as damaged");

# ---- killed at random moments
run('gcc', '-g', '-O1', '-o', 'moments', "-I$ENV{JEMALLOC_BUILD}/include", "$source/test/jeprof/moments.c", '-L', $library =~ s{/[^/]*$}{}r, '-ljemalloc', '-Wl,-rpath,' . $library =~ s{/[^/]*$}{}r, '-lpthread', '-ldl')
    and die 'gcc: ' . slurp("$dir/.err");
run('gcc', '-g', '-O1', '-shared', '-fPIC', '-DPLUGIN', '-o', 'plugin.so', "$source/test/jeprof/moments.c");
my $rounds = $ENV{BOX_ROUNDS} // ($ENV{TEST_FULL} ? 50 : 15);
my ($wrong, $told) = ('', 0);
for my $round (1 .. $rounds) {
	unlink glob 'm.*.box';
	my $pid = begin('m', $round % 2 ? 'prof_thread:true' : 'prof_thread:false', './moments', 'books', "$dir/plugin.so");
	Time::HiRes::sleep(0.2 * rand);
	run($ctl, 'start', $pid, '--reset', 'false', '--rate', '1', '-q') if $round % 5 == 0;
	finish($pid, 'KILL');
	my ($code, $text, $err) = jeprof('salvage', '-o', '-', glob 'm.*.box');
	$wrong .= " $round:code $code $err" if $code;
	$wrong .= " $round:torn" unless $text =~ /^# jemalloc\.torn=0$/m && $text =~ /^# jemalloc\.no_room=0$/m;
	my @book = unpack '(qqx48)*', slurp('books');
	for my $worker (0 .. 15) {
		my ($objects, $size) = $text =~ /^  t\d+: (\d+): (\d+) \[.*\] w$worker$/m or next;
		my ($more, $bytes) = ($objects - $book[2 * $worker], $size - $book[2 * $worker + 1]);
		$wrong .= " $round:w$worker $more objects $bytes bytes" if $more < -1 || $more > 2 || abs $bytes > 2 * 2048;
		$told++;
	}
	$wrong .= " $round:top" if $round % 10 == 0 && json('top', glob 'm.*.box')->{error};
}
is($wrong, '', "killed at $rounds moments: each box is whole and agrees with the books");
cmp_ok($told, '>', $rounds, "of which $told entries were compared");
chdir $source;
done_testing();
