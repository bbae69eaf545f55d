#!/usr/bin/perl
# jeprof frag: lines that sum to the resident bytes, who pins free places in slabs, and the sentence:
# of a made profile, of a program with a known pattern, of redis after most keys went, and of python
# whose objects are not malloc's.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
no warnings 'portable';
use JSON::PP ();
use IO::Socket::UNIX ();
our ($dir, $source);

my ($code, $out, $err);
my ($library) = grep { defined && -e } $ENV{JEMALLOC_LIB};
my @parts = qw(live free cached stock samples slack hot dirty hpa metadata);

sub decoded { return eval { JSON::PP::decode_json($_[0]) } // {} }

# The bytes of a human number, at least and at most.
sub amount {
	my ($text) = @_;
	my ($number, $unit) = $text =~ /^(-?[\d.]+)([BKMGT])$/ or return 'none';
	return $number * 1024**index 'BKMGT', $unit;
}

# Do the lines sum to those that begin with "="?
sub sums {
	my ($text) = @_;
	my ($sum, $bad, $count, $lines) = (0, '', 0, 0);
	for my $line (split /\n/, $text) {
		my ($bytes, $what) = $line =~ /^ *(-?[\d.]+[BKMGT])  (\S.*)$/ or next;
		if ($what =~ /^=/) {
			my $told = amount($bytes);
			$bad .= "$line: $sum\n" if abs($told - $sum) > 0.001 * $told + $lines * 0.06 * 1048576;
			$count++;
		} else {
			$sum += amount($bytes);
			$lines++;
		}
	}
	return length $bad ? $bad : $count;
}

# ---- a made profile
my $id = '46' x 20;
my $base = 0x555500000000;
elf_file("$dir/serve", id => $id, symbols => [map { [$_->[0], $_->[1], 0x100] } ['main', 0x1100], ['keeps', 0x1200], ['packs', 0x1300]]);
sub profile {
	my ($path, %want) = @_;
	my %heap = (live => 30 << 20, free => 60 << 20, cached => 1 << 20, stock => 0, samples => 4096, slack => 0, hot => 0,
		dirty => 5 << 20, hpa => 0, metadata => 2 << 20, muzzy => 0, retained => 1 << 20, huge => 0, kept => 1 << 20,
		spread => 2 << 20, arenas => 2, tcache_max => 32768, thp_min => 33554432, dirty_decay_ms => 10000, %{ $want{heap} // {} });
	$heap{resident} = 0;
	$heap{resident} += $heap{$_} for @parts;
	my $rss = $want{rss} // $heap{resident} + (9 << 20);
	my $text = "heap_v2/4096\n# jemalloc.version=5.3.1\n# jemalloc.pid=77\n# jemalloc.exe=" . ($want{exe} // "$dir/serve")
	    . "\n# jemalloc.dump_time=20260102T030000.000Z\n# jemalloc.kind=manual\n# jemalloc.resident=$heap{resident}\n"
	    . "# jemalloc.rss=$rss\n# jemalloc.rss_shared=3145728\n"
	    . "  t*: 110: 110000 [0: 0]\n  t0: 110: 110000 [0: 0]\n";
	for my $at (0x1211, 0x1311) {
		$text .= sprintf "@ 0x%x 0x%x\n  t*: 55: 55000 [0: 0]\n", $base + $at, $base + 0x1111;
	}
	$text .= sprintf "\nMAPPED_LIBRARIES:\n%x-%x r-xp 00001000 08:01 1 %s\n# module %x-%x %x %s %s\n", $base + 0x1000, $base + 0x3000,
	    "$dir/serve", $base, $base + 0x3000, $base, $id, "$dir/serve";
	$text .= sprintf "# module %x-%x %x %s %s\n", $base + 0x4000, $base + 0x5000, $base + 0x4000, '47' x 20, $want{object} if $want{object};
	$text .= '# frag_heap ' . join(' ', map { "$_:$heap{$_}" } sort keys %heap)
	    . ($want{classes} // "\n# frag_class 64 slabs:8388608 used:8380000 stock:0\n# frag_class 112 slabs:80000000 used:18000000 stock:0\n")
	    . ($want{pins} // "# frag 1 57000000 3000000\n# frag 2 400000\n") unless $want{bare};
	return spew($path, $text . '# end ' . length($text) . "\n");
}
my $made = profile("$dir/made.heap");
($code, $out, $err) = jeprof('frag', $made);
is($code, 0, 'a made profile') or diag $err;
is((jeprof('frag', '--cum', $made))[1], $out, '--cum changes nothing, as its note says');
is(sums($out), 2, 'its lines sum to what the allocator has, and to RSS') or diag $out;
like($out, qr/^serve pid 77 at \S+: 107\.0M in memory, 30\.0M of it in use by the program; 60\.0M is free in slabs: objects of keeps pin 54\.4M of it$/m, 'the sentence');
like($out, qr/^ +54\.4M +\xc2\xb15\.7M +99\.3% +\S+  keeps  main\n +390\.6K +0\.7% +\S+  packs  main$/m, 'who pins, with the margin where there is one');
like($out, qr/^ +112 +76\.3M +59\.1M +22%$/m, 'the class with the waste');
unlike($out, qr/^ +64 /m, 'not one that is full');

# Lines that are cut are left out; figures may all be 0.
my ($zeros) = map { s/:\d+/:0/gr } slurp($made) =~ /^# frag_heap (.*)/m;
for my $heap ('live:1', 'none', 'live:9 resident:0', $zeros) {
	my $text = slurp($made) =~ s/^# end .*\n//mr =~ s/^# frag_heap .*/# frag_heap $heap/mr
	    =~ s/^# frag_class 64 .*/# frag_class 64 slabs:00 used:0 stock:0\n# frag_class 80/mr;
	spew("$dir/cut.heap", $text . '# end ' . length($text) . "\n");
	for my $form ([], ['--advice'], ['--json'], ['report']) {
		my @verb = @$form && $form->[0] eq 'report' ? 'report' : ('frag', @$form);
		($code, $out, $err) = jeprof(@verb, "$dir/cut.heap");
		like("$code $err", $heap eq $zeros ? qr/^0 (?:jeprof: next: .*)?$/s : qr/^[01] (?!.*(?:division|uninit|internal))/s, "frag_heap $heap: @verb") or diag $out;
	}
}
# A stack without counts is left out, and no other one gets what it pins.
{
	my $text = slurp($made) =~ s/  t\*: 55: .*\n(?=@)//r =~ s/^# end .*\n//mr;
	($code, $out, $err) = jeprof('frag', spew("$dir/less.heap", $text . '# end ' . length($text) . "\n"));
	like("$code $err", qr/^3 .*damaged: stacks without counts: 1;/, 'a stack without counts');
	like($out, qr/^ +390\.6K +100\.0% +\S+  packs  main$/m, 'the other one pins what it did') or diag $out;
}
($code, $out, $err) = jeprof('frag', '--json', $made);
my $json = decoded($out);
is($code, 0, '--json') or diag $err;
my $sum = 0;
$sum += $json->{parts}{$_} // 1e15 for @parts;
is($sum, $json->{resident}, 'its parts sum to the resident bytes');
is($json->{resident} + $json->{files} + $json->{other}, $json->{rss}, 'and with the rest to RSS');
is(join(' ', map { "$_->{function}:$_->{pinned}:$_->{error}" } @{ $json->{rows} }), 'keeps:57000000:3000000 packs:400000:0', 'rows');
is(join(' ', map { "$_->{what}:$_->{bytes}" } @{ $json->{advice} }), sprintf('slabs:%d purge:%d narenas:%d', 58 << 20, 4 << 20, 2 << 20)
	    . sprintf(' thp_min:%d tcache_max:%d samples:4096', 1 << 20, 1 << 20), 'advice, with its bytes') or diag $out;
($code, $out) = jeprof('frag', '--advice', $made);
like($out, qr/^ +4\.0M  purge +unused pages: now by mallctl\("arena\.4096\.purge"\).*dirty_decay_ms \(10000 ms\)/m, 'what gives pages back');
like($out, qr/^ +58\.0M  slabs +.*most are pinned by keeps/m, 'what does not');

# ---- who pins it, where that is not one function
for my $case (["# frag 1 1000 100\n# frag 2 90 1\n", 'pinned by objects that no sample stands for', '', 'a thousandth'],
	["# frag 1 21000000\n# frag 2 16000000\n", ': objects of keeps pin 20.0M of it', '; keeps pins 20.0M of all that is free', 'a third']) {
	my $file = profile("$dir/case.heap", pins => $case->[0]);
	like((jeprof('frag', $file))[1], qr/60\.0M is free in slabs,? ?\Q$case->[1]\E$/m, "the sentence if stacks pin $case->[3]");
	like((jeprof('frag', '--advice', $file))[1], qr/^ +58\.0M  slabs +.* that pin them\Q$case->[2]\E, or a copy/m, 'the advice');
}

# ---- just at a limit: of 100M in memory and 60M free
{
	my %heap = (live => 32 << 20, samples => 0);
	my $half = (jeprof('frag', '--advice', profile("$dir/case.heap", heap => \%heap, pins => sprintf "# frag 1 %d\n", 30 << 20)))[1];
	like($half, qr/most are pinned by keeps/, 'half of what is free is most of it');
	like((jeprof('frag', profile("$dir/case.heap", heap => \%heap, pins => "# frag 2 18874368\n")))[1], qr/: objects of packs pin 18\.0M of it$/m, 'who pins 30 % is told');
	like((jeprof('frag', profile("$dir/case.heap", heap => { %heap, live => 82 << 20, free => 10 << 20 }, pins => "# frag 1 10485760\n")))[1],
		qr/; 10\.0M is free in slabs: objects of keeps pin 10\.0M of it$/m, 'a tenth is not little');
	my $classes = join '', map { sprintf "\n# frag_class %d slabs:%d used:%d stock:%d", @$_ } [16, 3 << 20, 1 << 20, 1 << 20], [32, 3 << 20, 1 << 20, (1 << 20) + 1],
	    [48, 3 << 20, 2 << 20, 2 << 20], map { [$_, 9 << 20, 1 << 20, $_ << 10] } 64 .. 71;
	$out = (jeprof('frag', profile("$dir/case.heap", heap => \%heap, classes => "$classes\n")))[1];
	is(join(' ', $out =~ /^ +(\d+) +\d+\.0M +[\d.]+M +\d+%$/mg), '64 65 66 67 68 69 70 71', 'eight size classes, by what is free without their stock') or diag $out;
	like($out, qr/^ +1 more sizes$/m, 'and one more that has a hundredth');
}

# ---- filters: what is said of the process stays true
($code, $out) = jeprof('frag', '--focus=zzz', $made);
like($out, qr/; 60\.0M is free in slabs$/m, 'no row: nobody is named');
like($out, qr/^no stack that is shown pins free places$/m, 'and they do not say that no sample pins');
($code, $out) = jeprof('frag', '--ignore=keeps', $made);
like($out, qr/^ +390\.6K +0\.7% +\S+  packs  main$/m, 'shares are of what all stacks pin');
unlike((jeprof('frag', '--ignore=keeps', '--advice', $made))[1], qr/most are pinned/, 'the first row need not pin most');
jeprof('report', '--focus=packs', '-o', "$dir/focus.html", $made);
like(slurp("$dir/focus.html"), qr{60\.0M is free in slabs: objects of packs pin 390\.6K of it</summary>}, 'the page');

# ---- other sentences
my @cases = (
	[{ heap => { free => 1 << 20, dirty => 50 << 20 } }, qr/; 50\.0M is unused pages that decay has not given back yet$/m, 'dirty pages'],
	[{ heap => { free => 1 << 20, cached => 50 << 20 } }, qr/; 50\.0M lies in thread caches$/m, 'thread caches'],
	[{ heap => { free => 1 << 20, live => 900 << 20 } }, qr/; little is unused$/m, 'nothing to give back'],
	[{ heap => { free => 1 << 20 }, rss => 500 << 20, exe => '/usr/bin/python3.11' },
		qr/: 500\.0M in memory, 39\.0M of it through malloc; the rest is not malloc's: 3\.0M of code and mapped files, 458\.0M of .*CPython.*PYTHONMALLOC=malloc/, 'python'],
	[{ heap => { free => 1 << 20 }, rss => 500 << 20, exe => '/usr/lib/jvm/bin/java' }, qr/the rest is not malloc's: .*JVM.*jcmd/, 'a JVM'],
	[{ heap => { free => 1 << 20 }, rss => 500 << 20, exe => '/usr/sbin/php-fpm8.2 (deleted)' }, qr/\(PHP .*USE_ZEND_ALLOC=0\)$/m, 'PHP, replaced by a newer one'],
	[{ heap => { free => 1 << 20 }, rss => 500 << 20 }, qr/the rest is not malloc's: 3\.0M of code and mapped files, 458\.0M of data, stacks and other mappings$/m, 'a program without a name for it'],
	[{ rss => 90 << 20 }, qr/^ +-11\.0M  counted above and not in memory: never touched, or swapped out$/m, 'less than is counted'],
);
for my $case (@cases) {
	($code, $out, $err) = jeprof('frag', profile("$dir/case.heap", %{ $case->[0] }));
	like($out, $case->[1], "$case->[2]") or diag $err;
	is(sums($out), 2, "$case->[2]: the lines sum");
}
($code, $out, $err) = jeprof('top', profile("$dir/case.heap", %{ $cases[3][0] }));
like($err, qr/case\.heap: 500\.0M in memory, 39\.0M of it through malloc; .*PYTHONMALLOC=malloc/, 'top says it too');
unlike((jeprof('top', $made))[2], qr/through malloc/, 'not where the memory is malloc\'s');


# ---- the page
($code, $out, $err) = jeprof('report', '-o', "$dir/made.html", $made);
is($code, 0, 'a report') or diag $err;
my $page = slurp("$dir/made.html");
ok($page =~ m{<details id="resident"><summary>107\.0M in memory, 30\.0M of it in use by the program; 60\.0M is free in slabs: objects of keeps pin 54\.4M of it</summary>}, 'the bar opens');
ok($page =~ m{<tr><td>54\.4M</td><td>\xc2\xb15\.7M of the free places are pinned by keeps, which holds }, 'and tells who pins');
($code) = jeprof('report', '-o', "$dir/bare.html", "$dir/case.heap");
is($code, 0, 'a report of memory that is not malloc\'s');
jeprof('report', '-o', "$dir/embeds.html", profile("$dir/embeds.heap", heap => { free => 1 << 20 }, rss => 500 << 20, object => '/opt/libjvm.so'));
like(slurp("$dir/embeds.html"), qr{the rest is not malloc.{1,5}s: [^<]*JVM[^<]*jcmd[^<]*</summary>}, 'whose it is, where only an object tells');

# ---- what has none
($code, $out, $err) = jeprof('frag', profile("$dir/bare.heap", bare => 1));
is("$code|$out", '1|', 'a profile without these lines');
like($err, qr/bare\.heap: does not say where the memory is: it was written by a version without these lines/, 'says why');
for my $kind (qw(outside box core)) {
	my $text = slurp("$dir/bare.heap") =~ s/^# end .*\n//mr =~ s/kind=manual/kind=$kind/r;
	spew("$dir/$kind.heap", $text . '# end ' . length($text) . "\n");
	like((jeprof('frag', "$dir/$kind.heap"))[2], qr/does not say where the memory is: it was read from the tables of the profiler, which tell nothing of slabs$/m, "kind $kind: why");
}
like((jeprof('frag', '--older=1s', $made))[2], qr/--older has no effect here/, 'options of others');
like((jeprof('top', '--advice', $made))[2], qr/--advice has no effect here: it is for the verb frag/, 'an option of its own');
like((jeprof('frag', spew("$dir/evil.heap", slurp($made) =~ s/^# frag 1 57000000 3000000$/# frag 0 1\n# frag 999999999 1\n# frag_heap\n# frag_class x\n# frag 1 99999999999999999999999/mr
				    =~ s/^# end.*\n//mr)))[2], qr/truncated/, 'lines that are no such lines');

# ---- cut off or damaged: each beginning of the lines that frag reads
my $whole = slurp($made);
my $from = index $whole, '# frag_heap';
my ($talk, $odd) = ('', '');
for my $length (map { $from + 7 * $_ } 0 .. int((length($whole) - $from - 2) / 7)) {
	spew("$dir/cut.heap", substr $whole, 0, $length);
	for my $case (['frag', '--advice'], ['frag', '--json'], ['report', '--json'], ['report']) {
		($code, $out, $err) = in_child(@$case, "$dir/cut.heap");
		$talk .= "@$case $length: $err" if $err =~ /uninit| at \S+ line/;
		$odd .= " $length" if $case->[0] eq 'frag' && ($code == 3) != (substr($whole, $from, $length - $from) =~ /\n/);
	}
}
is($talk, '', 'cut off: no warnings of Perl');
is($odd, '', 'all of frag_heap, or it is said to be missing');

# ---- the library
SKIP: {
	skip 'no library or gcc', 1 unless $library && which('gcc');
	my $program = build('holes.c', <<'C');
#include <stdlib.h>
#include <string.h>
enum { N = 400000 };
static void *p[2 * N];
__attribute__((noinline)) void *each16(void) { void *q = malloc(90); memset(q, 1, 90); return q; }
__attribute__((noinline)) void *dense(void) { void *q = malloc(180); memset(q, 1, 180); return q; }
__attribute__((noinline)) void *passing(void) { void *q = malloc(90); memset(q, 1, 90); return q; }
int main(void) {
	for (int i = 0; i < N; i++) p[i] = i % 16 == 0 ? each16() : passing();
	for (int i = 0; i < N; i++) if (i % 16 != 0) free(p[i]);
	for (int i = N; i < 2 * N; i++) p[i] = dense();
	return 0;
}
C
	($code, $out, $err) = jeprof('frag', '--json', dump_of($library, 'lg_prof_sample:9', $program));
	my $now = decoded($out);
	my %pinned = map { $_->{function} => $_->{pinned} } @{ $now->{rows} };
	my ($all, $free) = ($now->{pinned} // 0, $now->{parts}{free} // 0);
	cmp_ok($free, '>', 400000 / 2 * 90, 'a phase of which each 16th object stays leaves holes');
	cmp_ok($pinned{each16} // 0, '>=', 0.9 * $all, 'who left them has 90 % of the charge');
	cmp_ok(abs($all - $free), '<', 0.1 * $free, "the sum is within 10 % of the bins' waste") or diag "$all of $free";
	like($now->{sentence} // '', qr/is free in slabs: objects of each16 pin/, 'the sentence');
	$sum = 0;
	$sum += $now->{parts}{$_} for @parts;
	is($sum, $now->{resident}, 'its parts sum');
	is($now->{resident} + $now->{files} + $now->{other}, $now->{rss}, 'to RSS');
}

sub redis_talk {
	my ($socket, @lines) = @_;
	my ($left, $buffer) = (scalar @lines, '');
	print {$socket} join '', @lines;
	while ($left > 0) {
		sysread $socket, $buffer, 1 << 16 or return 0;
		$left -= () = $buffer =~ /\n/g;
	}
	return 1;
}
SKIP: {
	skip 'no library or redis', 1 unless $library && which('redis-server');
	my $path = "$dir/r.sock";
	local $ENV{LD_PRELOAD} = $library;
	local $ENV{MALLOC_CONF} = "prof:true,prof_final:true,lg_prof_sample:14,prof_prefix:$dir/redis";
	my $pid = fork // die "fork: $!";
	if (!$pid) {
		open STDOUT, '>', "$dir/redis.out";
		exec 'redis-server', '--port', 0, '--unixsocket', $path, '--save', '' or exit 127;
	}
	delete local $ENV{LD_PRELOAD};
	my $socket;
	for (1 .. 600) {
		last if $socket = IO::Socket::UNIX->new(Peer => $path);
		select undef, undef, undef, 0.1;
	}
	ok($socket, 'redis') or diag slurp("$dir/redis.out");
	$socket->autoflush(1) if $socket;
	my $value = 'v' x 100;
	my $is_done = $socket;
	for (my $from = 0; $is_done && $from < 60000; $from += 1000) {
		$is_done = redis_talk($socket, map { "SET key:$_ $value\r\n" } $from .. $from + 999);
	}
	for (my $from = 0; $is_done && $from < 60000; $from += 1000) {
		$is_done = redis_talk($socket, map { $_ % 10 ? "DEL key:$_\r\n" : () } $from .. $from + 999);
	}
	print {$socket} "SHUTDOWN NOSAVE\r\n" if $socket;
	kill 'TERM', $pid unless $is_done;
	waitpid $pid, 0;
	my ($file) = glob "$dir/redis.*.f.heap";
	($code, $out, $err) = jeprof('frag', $file // 'none');
	like($out, qr/^redis\S* pid $pid at \S+: \S+ in memory, \S+ of it in use by the program; \S+ is free in slabs: objects of \S+ pin \S+ of it$/m,
		'redis of which nine of ten keys went') or diag $err;
	is(sums($out), 2, 'its lines sum to RSS') or diag $out;
}

SKIP: {
	skip 'no library or python', 1 unless $library && which('python3');
	my ($is_plain) = (run('python3', '-c', 'import json, sys; print(sys.implementation.name)'))[1] =~ /^cpython$/m;
	skip 'another python', 1 unless $is_plain;
	my @load = ('python3', '-c', 'import json
d = json.loads("[" + ",".join("{\"a\":%d,\"name\":\"x%d\"}" % (i, i) for i in range(200000)) + "]")
import os; os._exit(0) if not d else None
import atexit; atexit.register(lambda: d)');
	delete local $ENV{PYTHONMALLOC};
	my @own = dumps_of_python(@load);
	like($own[0], qr/of it through malloc; the rest is not malloc's: .*CPython.*PYTHONMALLOC=malloc/, 'python that has loaded a document') or diag @own;
	local $ENV{PYTHONMALLOC} = 'malloc';
	my @plain = dumps_of_python(@load);
	unlike($plain[0], qr/through malloc/, 'not where malloc serves it');
	like($plain[0], qr/in memory, \S+ of it in use by the program; /, 'then it is in use');
}
# The first line of frag of the profile that python writes at its end.
sub dumps_of_python {
	my @command = @_;
	my $prefix = "$dir/py" . ($ENV{PYTHONMALLOC} // '');
	my $pid = fork // die "fork: $!";
	if (!$pid) {
		@ENV{qw(LD_PRELOAD MALLOC_CONF)} = ($library, "prof:true,prof_prefix:$prefix");
		$command[2] .= "\nimport ctypes\nctypes.CDLL(None).mallctl(b'prof.dump', None, None, None, ctypes.c_size_t(0))\n";
		exec { $command[0] } @command or exit 127;
	}
	waitpid $pid, 0;
	my ($file) = glob "$prefix.*.heap";
	return join '|', map { s/\n.*//sr } (jeprof('frag', $file // 'none'))[1, 2];
}
done_testing();
