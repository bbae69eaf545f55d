#!/usr/bin/perl
# jeprof run: a program on the library, and the report of it and its children; signals, exit status,
# what it refuses. jeprof open: a browser, without a shell.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
our ($dir, $source, $jeprof);

my $library = $ENV{JEMALLOC_LIB};
plan skip_all => 'no library (JEMALLOC_LIB)' unless $library && -e $library;
plan skip_all => 'no gcc' unless which('gcc');
my $app = build('app.c', <<'C');
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile sig_atomic_t count;
static void note(int s) { (void)s; count++; }
__attribute__((noinline)) void hold(int n) { for (int i = 0; i < n; i++) { void *volatile p = malloc(4096); memset(p, 1, 4096); } }
/* app CHILDREN SECONDS [INT]: holds 2 MB, its children 1 MB more each; with INT it counts that signal and ends at one. */
int main(int c, char **v) {
	hold(500);
	if (c > 3) { signal(SIGINT, note); }
	for (int i = 0; i < atoi(v[1]); i++) {
		if (fork() == 0) { hold(250 * (i + 1)); return 0; }
	}
	while (wait(NULL) > 0) { }
	puts("running");
	fflush(stdout);
	for (int i = 0; i < 20 * atoi(v[2]) && !count; i++) { usleep(50000); }
	usleep(300000 * (count > 0));
	printf("count %d\n", (int)count);
	return 7;
}
C
chdir $dir;
$ENV{TMPDIR} = $dir;
my @run = ('run', "--lib=$library");
sub pids { return join ' ',
	    slurp($_[0]) =~ /<button type="button" role="tab" aria-selected="\w+">(\w+) \d+ <b>/g }

my ($code, $out, $err) = jeprof(@run, '-o', 'r.html', '--', $app, 2, 0);
is($code, 7, 'run: the exit status of the program') or diag $err;
is($out, "running\ncount 0\n", 'its output and nothing else');
like($err, qr/^r\.html: 3 processes, profiles in \Q$dir\E\/jeprof\.app\.\w+\njeprof: next: \S+ open r\.html\njeprof: +\S+ top \S+\.heap\n\z/, 'the report, the next commands');
is(pids('r.html'), 'app app app', 'a tab for each process');
my $html = slurp('r.html');
my @held = $html =~ /<b>(\d+\.\d)M live<\/b>/g;
is(scalar(@held), 3, 'words for each');
cmp_ok($held[1], '>', $held[2], 'the program first, then the largest of its children');
is(scalar(() = $html =~ /<script type="application\/json" id="data[12]?" data-form/g), 3,
	'data for each');
my ($own) = $err =~ /profiles in (\S+)/;
is(sprintf('%o', (stat $own)[2] & 07777), '700', 'the profiles are ours alone');
my ($top) = $err =~ / top (\S+)/;
like((jeprof('top', $top))[1], qr/ hold +main\n/, 'and can be read');

{
	local $ENV{TMPDIR} = '/proc'; # a directory where none can be made
	$err = (jeprof('run', '-o', 'elsewhere.html', $app, 0, 0))[2];
	like($err, qr{profiles in /tmp/jeprof\.app\.}, 'no directory can be made in TMPDIR: another one');
	system('rm', '-r', $1) if $err =~ m{profiles in (/tmp/jeprof\.app\.\w+)$}m;
}
mkdir "$dir/a b";
my $link; # to the library, beside those of other tests that run now
{
	local $ENV{TMPDIR} = "$dir/a b";
	local $ENV{MALLOC_CONF} = 'narenas:1';
	spew('script', "#!/bin/sh\n$app 0 0\nexit 5\n");
	chmod 0755, 'script';
	link($library, "$dir/a b/libjemalloc.so.2") or symlink $library, "$dir/a b/libjemalloc.so.2";
	($code, $out, $err) = jeprof('run', '--lib', "$dir/a b/libjemalloc.so.2", '--rate', '4K',
		'./script', '--json');
	is($code, 5, 'run: a script, no --, a library whose path has a blank') or diag $err;
	($link) = map { "/tmp/lib$_.*" } $err =~ m{profiles in .*/(jeprof\.script\.\w+)$}m;
	like(pids('report.html'), qr/^app sh$|^sh app$|^$/, 'report.html without -o');
	is(slurp('report.html') =~ /one for each 4\.0K allocated/ ? 1 : 0, 1, '--rate');
}
mkdir "/tmp/libmy_dumps_$$"; # as another run may have made for a directory of the same name
($code, $out, $err) = jeprof('run', '--lib', "$dir/a b/libjemalloc.so.2", '--dumps', "my dumps $$",
	'-o', 'm.html', '--', $app, 0, 0);
is($code, 7, 'a blank in the library and in --dumps') or diag $err;
rmdir "/tmp/libmy_dumps_$$";
is(join(' ', glob("/tmp/libmy_dumps_$$* 'my dumps $$/lib*'")), '', 'and no link is left');
is(-s 'm.html' ? 1 : 0, 1, 'and there is a report');
($code, $out, $err) = jeprof(@run, '--dumps', 'kept', '-o', 'k.html', '--', 'sh', '-c',
	"$app 0 0; kill -9 \$\$");
is($code, 137, 'run: killed by signal 9: 128 + 9');
cmp_ok(scalar(() = glob 'kept/*.f.heap'), '>', 0, '--dumps: the profiles are there');
is((jeprof(@run, '--dumps', 'kept', $app, 0, 0))[0], 2, '--dumps: not where profiles are');
{
	my $as = -x $jeprof =~ s{[^/]*$}{jeprofctl}r ? 'is now' : 'was in its last profile, if it has written one';
	($code, $out, $err) = jeprof(@run, '-o', 'left.html', '--', 'sh', '-c', "$app 0 3 >/dev/null 2>&1 </dev/null & sleep 1");
	like($err, qr/^jeprof: process \d+ still runs: the report has it as it $as; later: /m, 'what the report has of a process that still runs');
}
mkdir 'mine';
is((jeprof(@run, '--dumps', 'mine', '--', 'sh', '-c', 'kill -9 $$'))[0], 137, 'no profile comes out');
is(-d 'mine' ? 1 : 0, 1, '--dumps: a directory that was there stays');

# A program that frees all before its end: a profile near its peak, which the next command names.
{
	my $brief = build('brief.c', <<'C');
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static void *held[4000];
__attribute__((noinline)) void hold(int n) { for (int i = 0; i < n; i++) { held[i] = malloc(4096); memset(held[i], 1, 4096); } }
/* brief CHILDREN: its children hold 1 MB; it holds 16 MB, and waits long enough for a profile between the last two. */
int main(int c, char **v) {
	for (int i = 0; c > 1 && i < atoi(v[1]); i++) {
		if (fork() == 0) { hold(250); for (int k = 0; k < 250; k++) { free(held[k]); } return 0; }
	}
	while (wait(NULL) > 0) { }
	hold(3900);
	usleep(200000);
	for (int k = 0; k < 200; k++) { free(malloc(4096)); }
	for (int i = 3900; i < 4000; i++) { held[i] = malloc(4096); }
	for (int i = 0; i < 4000; i++) { free(held[i]); }
	return 0;
}
C
	($code, $out, $err) = jeprof(@run, '-o', 'b.html', '--', $brief);
	# on a slow machine the one of a second may be that one
	my ($near) = $err =~ / top (\S+\.[ht]\d+\.heap)$/m;
	ok(defined $near, 'freed at the end: the next command names the profile near the peak')
	    or diag $err;
	like((jeprof('top', $near // $brief))[1], qr/: live 1[2-7]\.\dM .* hold +main\n/s,
		'which has it');
	unlike($err, qr/may lie between/, 'nothing is missed');
	like(slurp('b.html'), qr/ The largest is shown first\.<\/p>/, 'and the page shows it first');
	($code, $out, $err) = jeprof(@run, '-o', 'b.html', '--', $brief, 14);
	is(scalar(() = slurp('b.html') =~ /role="tab"/g), 12,
		'processes that held nothing at their end have tabs, at most 12');
	my $left = qr/The report has 12 of 15 processes, those that held most\. 3 more have no tab: brief \d+, brief \d+, brief \d+\. The profiles of all are in \S+\./;
	like($err, qr/^jeprof: $left$/m, 'the others are named');
	like(slurp('b.html'), qr/<p>$left<\/p>/, 'in the page too');
	local $ENV{MALLOC_CONF} = 'prof_threshold_highwater:1G,prof_threshold_time_ms:0';
	($code, $out, $err) = jeprof(@run, '-o', 'b.html', '--', $brief);
	like($err, qr/^jeprof: The peak may lie between the profiles: the largest has \d+\S+ live, and the allocator kept up to 1\d\.\dM of pages at /m, 'no profile near the peak: said');
}

# A signal to jeprof alone is passed on, one of the terminal is not: the program counts.
sub signalled {
	my ($name, @arguments) = @_;
	unlink 'sig.out', 'sig.html';
	my $pid = fork // die;
	if (!$pid) {
		open STDOUT, '>', 'sig.out';
		open STDERR, '>', 'sig.err';
		exec $^X, $jeprof, @run, '-o', 'sig.html', '--', $app, @arguments;
	}
	until_true(sub { -e 'sig.out' && slurp('sig.out') =~ /running/ });
	kill $name, $pid;
	waitpid $pid, 0;
	return ($? & 127, $? >> 8, slurp('sig.out'), -e 'sig.html' && slurp('sig.html'));
}
my ($signal, $status, $said, $page) = signalled('TERM', 0, 60);
is("$signal $status", '0 143', 'SIGTERM to jeprof: the program ends by it');
is($page =~ /<b>[12]\.\dM live/ ? 1 : 0, 1, 'and there is a report');
($signal, $status, $said) = signalled('INT', 0, 60, 1);
is("$signal $status $said", "0 7 running\ncount 1\n",
	'SIGINT to jeprof: the program handles it, once');
SKIP: {
	my $script = which('script');
	skip 'no script(1)', 1 unless $script;
	open(my $keys, '|-',
		"$script -qfec '$^X $jeprof @run -o tty.html -- $app 0 60 1' tty.log >/dev/null")
	    or skip 'script(1) does not start', 1;
	until_true(sub { -e 'tty.log' && slurp('tty.log') =~ /running/ });
	syswrite $keys, "\003";
	until_true(sub { slurp('tty.log') =~ /next:/ });
	close $keys;
	like(slurp('tty.log'), qr/count 1\r\n.*tty\.html/s,
		'Ctrl-C: the program gets it once, jeprof makes the report');
}

# What cannot be: one line, before anything is started.
my $static = system('gcc', '-static', '-o', 'static', 'app.c', '-w') == 0;
spew('other', slurp(which('sh')) =~ s/\A(.{18})../$1\x28\0/sr);
chmod 0755, 'other';
spew('plain', 'no program');
spew('orphan', "#!/no/such/shell\n");
chmod 0755, 'orphan';
mkdir 'tmp';
mkdir 'tmp/inner';
my $debian =
    (grep { -e && slurp($_) !~ /prof_final_signals/ } glob '/usr/lib/*/libjemalloc.so.2')[0];
for my $case ([[], 2, qr/run takes a command/],
	[['nonesuch'], 127, qr/^jeprof: nonesuch: no such program$/],
	[['./plain'], 126, qr/not a program/],
	[['orphan'], 127, qr{^jeprof: orphan: no such program; \./orphan is one$}],
	[['inner'], 127, qr/^jeprof: inner: no such program$/],
	[[''], 127, qr/^jeprof: '': no name of a program$/],
	[['./orphan'], 127, qr{^jeprof: \./orphan: its interpreter or loader is not there$}],
	[['--thread=*', $app], 2, qr/all threads are shown here, or one/],
	(map { [["--rate=$_", $app], 2, qr/^jeprof: --rate takes a size as 64K, 1\.5M, 1 or more and below 2\^63; '$_' is none$/] } 'x', 0, '9223372036854775808', '18446744073709551616', '9999999999999G'), [['-o', '-', $app], 2, qr/to a file/],
	[['-o', 'none/r.html', $app, 0, 0], 1, qr/No such file/],
	[['-o', '/proc/self/comm', $app, 0, 0], 1, qr{^jeprof: /proc/self/comm: }],
	[['./other'], 1, qr/for another kind of machine/], [['--', $app, 0, 0], undef, undef],
	$static ? [['./static', 0, 0], 1, qr/a static program: nothing can be preloaded/] : (),
	$debian ? [["--lib=$debian", $app], 1, qr/not this library/] : ()) {
	my ($arguments, $want, $why) = @$case;
	local @ENV{qw(TMPDIR PATH)} = ("$dir/tmp", "$dir/tmp:$ENV{PATH}"); # "inner" is a directory there
	($code, $out, $err) = jeprof(@run, @$arguments);
	if (!defined $want) { is($code, 7, 'as before'); next }
	is("$code|$out", "$want|", "run @$arguments: exit $want, nothing is run") or diag $err;
	like($err, qr/\A[^\n]*\n\z/, 'one line');
	like($err, $why, 'that says why');
}
is(join(' ', glob('none* *.part tmp/jeprof.orphan*'), defined $link ? grep { -l } glob "$link/libjemalloc.so.2" : 'no link was told'), '', 'nothing is left');

# A program for musl: only a library that is linked with musl can be preloaded, by the name of its
# libc. The loader of this program is nowhere, so it does not start.
spew('none.c', "const char option[] = \"prof_final_signals\";\n");
build('main.c', "int main(void) { return 0; }\n");
for my $libc ('libc.so.6', 'libc.musl-x86_64.so.1', 'ld-musl-aarch64.so.1', 'libc.so') {
	my @shared = ('gcc', '-shared', '-nostdlib', 'none.c', '-o');
	system(@shared, 'libc_here.so', "-Wl,-soname,$libc");
	system(@shared, 'libjemalloc_here.so', '-Wl,--no-as-needed', './libc_here.so');
	system('gcc', 'main.c', '-o', 'for_musl', '-Wl,--dynamic-linker,/nonexistent/ld-musl-any.so.1');
	($code, $out, $err) = jeprof('run', '--lib=./libjemalloc_here.so', './for_musl');
	my $want = $libc eq 'libc.so.6' ? qr/^jeprof: \S+: made for the C library musl, which cannot load/
	    : qr/^jeprof: \S+: its interpreter or loader is not there/;
	like($err, $want, "run: a program for musl, a library for $libc");
}

# report of profiles of two processes that ran at a time: two tabs; one after the other: one series.
my @files = map { my ($pid, @minutes) = @$_;
	map { our_dump(sprintf("two.%d.20260102T03%02d00.000Z.0.i0.heap", $pid, $_),
			stacks => [[[0x1000], 1, 100]],
			meta => { pid => $pid, dump_time => sprintf('20260102T03%02d00.000Z', $_) }) } @minutes } [1, 1,
	5], [2, 3, 6], [3, 8, 9];
jeprof('report', '-o', 'two.html', @files[0 .. 3]);
is(scalar(() = slurp('two.html') =~ /role="tab"/g), 2, 'report: processes side by side have tabs');
($code, $out, $err) = jeprof('report', '-o', 'one.html', @files[2 .. 5]);
is(slurp('one.html') =~ /role="tab"/ ? 1 : 0, 0, 'report: one after the other are a series');
like($err, qr/profiles of several processes \(pid 2, 3\) are shown as one series/,
	'and that is said');

# open
delete @ENV{qw(DISPLAY WAYLAND_DISPLAY BROWSER)};
($code, $out, $err) = jeprof('open', 'r.html');
is("$code|$out", "3|$dir/r.html\n", 'open without a browser: the path');
like($err, qr/copy that one file/, 'and what to do');
spew('browser', "#!/bin/sh\nprintf '<%s>' \"\$@\" >>seen\n");
chmod 0755, 'browser';
rename 'r.html', q{r ;x'$(y).html};
$ENV{BROWSER} = "/none:./browser -n";
is((jeprof('open', q{r ;x'$(y).html}))[0], 0, 'open: the first command of BROWSER that works');
is(slurp('seen'), qq{<-n><$dir/r ;x'\$(y).html>}, 'gets the file as one word, without a shell');
unlink 'seen', 'report.html';
$ENV{BROWSER} = './browser --new=%s x';
utime 1, 1, grep { !/one/ } glob '*.html';
jeprof('open');
is(slurp('seen'), "<--new=$dir/one.html><x>", 'open: the newest report; %s');
for my $case (['none.html', 1, qr/no such file/], [$files[0], 2, qr/a profile; jeprof report/],
	['kept', 1, qr/is a directory/]) {
	($code, $out, $err) = jeprof('open', $case->[0]);
	is($code, $case->[1], "open $case->[0]: exit $case->[1]");
	like($err, $case->[2], 'and why');
}
chdir $source;
done_testing();
