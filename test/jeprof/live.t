#!/usr/bin/perl
# jeprof live: a running process on a terminal, and once for scripts. Keys act; however it ends, the
# terminal is as before, and the session that it started is over. Needs script(1) for a terminal.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
use JSON::PP ();
our ($dir, $source, $jeprof);

my $library = $ENV{JEMALLOC_LIB};
my $ctl = ($ENV{JEMALLOC_BUILD} // '') . '/bin/jeprofctl';
plan skip_all => 'no library (JEMALLOC_LIB)' unless $library && -e $library;
plan skip_all => 'no jeprofctl in the build' unless -x $ctl;
plan skip_all => 'no gcc' unless which('gcc');
my $app = build('serve.c', <<'C');
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((noinline)) void *grow_keep(size_t n) { return memset(malloc(n), 1, n); }
__attribute__((noinline)) void pass(void) { void *volatile p = memset(malloc(50000), 1, 50000); free(p); }
__attribute__((noinline)) void other_one(size_t n) { void *volatile p = malloc(n); memset(p, 1, n); }
/* serve: grows by some MB a second until the test ends */
int main(void) {
	pid_t test = getppid();
	for (unsigned i = 0; getppid() == test; i++) {
		grow_keep(2000);
		pass();
		if (i % 10 == 0) { other_one(1000); }
		usleep(1000);
	}
	return 0;
}
C
chdir $dir;

sub serving {
	my ($conf, $program) = @_;
	my $pid = fork // die;
	if (!$pid) {
		$ENV{LD_PRELOAD} = $library;
		$ENV{MALLOC_CONF} = $conf;
		exec $program // $app;
	}
	run($ctl, 'status', $pid, '--wait', '60s'); # as long as it has no mailbox yet
	return $pid;
}
sub state_of { return (run($ctl, 'status', $_[0], '--json'))[1] =~ /"state":"(\w+)"/ ? $1 : '' }

my $pid = serving('');
plan skip_all => 'no way into a process here (ptrace)' if (run($ctl, 'status', $pid))[0];
my ($code, $out, $err) = jeprof('live', '--once', '--json', '--interval', '600ms', '--rate', '4K',
	$pid);
is($code, 0, 'live --once --json') or diag $err;
my $look = eval { JSON::PP->new->utf8->decode($out) } // {};
is("$look->{pid} $look->{name} $look->{sample_interval}", "$pid serve 4096", 'whose, and the rate');
cmp_ok($look->{seconds}, '>', 0.5, 'over some time');
cmp_ok($look->{allocated_growth}, '>', 0, 'what grew: the total');
is($look->{rows}[0]{function}, 'grow_keep', 'and the function, first');
cmp_ok($look->{rows}[0]{growth}, '>', $look->{rows}[0]{per_minute} / 120,
	'by so much, at that rate');
is(state_of($pid), 'idle', 'its session is over');
is(join(' ', glob '*.heap'), '', 'and leaves no file');
($code, $out) = jeprof('live', '--once', '--interval=500ms', '--rate=4K', '-n', 1, '-p', $pid);
like($out, qr/^serve $pid: own session, a sample for each 4\.0K, .*\nallocated \S+, \+\S+, \+\S+\/min; resident /, 'live --once: the head');
like($out, qr/^ +live +growth\* .*\n.* grow_keep < main\n/m, 'the table');
# A process that cannot read its RSS, as below a root without /proc, writes 0.
{
	my $place = "$dir/blind";
	mkdir $place;
	spew("$place/jeprof", slurp($jeprof));
	spew("$place/jeprofctl", "#!/bin/sh\n'$ctl' \"\$@\" | $^X -pe 's/^(# jemalloc\\.rss=)(\\d+)/\$1 . \"0\" x length \$2/e'\n");
	chmod 0755, "$place/jeprofctl";
	my ($blind_code, $blind) = run($^X, "$place/jeprof", 'live', '--once', '--interval=500ms', '--rate=4K', $pid);
	like($blind, qr/; resident \S+, RSS -$/m, 'an RSS that is not known is no 0') or diag $blind;
}
# A process whose program is in its own mount namespace only, as in a container.
SKIP: {
	mkdir "$dir/inside";
	my @inside = ('unshare', '-m', 'sh', '-c', 'mount -t tmpfs x "$2" && cp "$1" "$2/serve" && LD_PRELOAD=$3 exec "$2/serve"', 'sh', $app, "$dir/inside", $library);
	skip 'no mount namespace', 1 if (run(@inside[0 .. 3], 'mount -t tmpfs x "$1"', 'sh', "$dir/inside"))[0];
	my $contained = fork // die;
	if (!$contained) { exec @inside }
	run($ctl, 'status', $contained, '--wait', '60s');
	my ($its_code, $its, $said) = jeprof('live', '--once', '--interval=500ms', '--rate=4K', '-n', 1, $contained);
	kill 'KILL', $contained;
	waitpid $contained, 0;
	like("$its_code $its", qr/^0 .* grow_keep < main\n/s, 'a program that is in its own mount namespace only has names') or diag $said;
}
# A session that is started would end by itself, but later than the second profile.
{
	my $place = "$dir/beside";
	mkdir $place;
	spew("$place/jeprof", slurp($jeprof));
	spew("$place/jeprofctl", "#!/bin/sh\necho \"\$*\" >>'$place/asked'\nexec '$ctl' \"\$@\"\n");
	chmod 0755, "$place/jeprofctl";
	my $live = fork // die;
	if (!$live) {
		open STDOUT, '>', "$dir/.out";
		exec $^X, "$place/jeprof", 'live', '--once', '--interval', '2m', $pid;
	}
	my $asked = '';
	until_true(sub { -e "$place/asked" && ($asked = slurp("$place/asked")) =~ /^dump /m });
	kill 'TERM', $live;
	waitpid $live, 0;
	my ($seconds) = $asked =~ /^start .*--max (\d+)s/m;
	cmp_ok($seconds // 0, '>', 120, 'a long interval: a lease that is longer');
	is(state_of($pid), 'idle', 'and its session is over');
}
run($ctl, 'start', $pid, '--rate', '4K', '-q');
jeprof('live', '--once', '--interval=100ms', $pid);
is(state_of($pid), 'active', "somebody else's session stays");
run($ctl, 'stop', $pid, '-q');
unlink glob '*.heap';
# A process that counts anew between two profiles (prof.reset): what it still holds has not shrunk.
{
	my $resets = build('resets.c', <<'C');
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int mallctl(const char *, void *, size_t *, void *, size_t) __attribute__((weak));
static volatile sig_atomic_t due;
static void on(int sig) { (void)sig; due = 1; }
void *held[1000];
int main(void) {
	signal(SIGUSR1, on);
	pid_t test = getppid();
	for (int i = 0; i < 1000; i++) { held[i] = memset(malloc(20000), 1, 20000); }
	while (getppid() == test) {
		usleep(1000);
		void *volatile p = malloc(50000);
		free(p); /* a process that allocates nothing would not answer */
		if (!due) { continue; }
		due = 0;
		mallctl("prof.reset", 0, 0, 0, 0);
		close(open("was_reset", O_CREAT | O_WRONLY, 0600));
	}
	return 0;
}
C
	my $own = serving('prof:true,lg_prof_sample:12', $resets);
	my $place = "$dir/resets.d";
	mkdir $place;
	spew("$place/jeprof", slurp($jeprof));
	spew("$place/jeprofctl", "#!/bin/sh\nif [ \"\$1\" = dump ]; then\n\tif [ -e '$place/first' ]; then kill -USR1 $own; until [ -e '$dir/was_reset' ]; do sleep .05; done; fi\n\t: >'$place/first'\nfi\nexec '$ctl' \"\$@\"\n");
	chmod 0755, "$place/jeprofctl";
	($code, $out, $err) = run($^X, "$place/jeprof", 'live', '--once', '--json', '--interval', '200ms', $own);
	is($code, 0, 'live of one that counts anew') or diag $err;
	$look = eval { JSON::PP->new->utf8->decode($out) } // {};
	ok(-e "$dir/was_reset", 'it was reset between the two profiles');
	is(join(' ', grep { $_->{growth} < 0 } @{ $look->{rows} // ['no answer'] }), '', 'nothing that it holds is shown as gone') or diag $out;
	kill 'TERM', $own;
	waitpid $own, 0;
}
for my $case ([[$pid], 2, qr/this is none; --once/],
	[['--once', 999999999], 5, qr/no such process|999999999/], [[], 2, qr/one process/],
	[['--json', $pid], 2, qr/this is none|--once/],
	[['--once', '--interval=x', $pid], 2, qr/--interval takes a time as 500ms, 2s, 1m; 'x' is none/]) {
	($code, $out, $err) = jeprof('live', @{ $case->[0] });
	is("$code|$out", "$case->[1]|", "live @{ $case->[0] }: exit $case->[1]");
	like($err, $case->[2], 'and why');
}

$ENV{TERM} = 'xterm'; # also where the tests run without a terminal
# On a terminal: [what must have come since the keys before, the keys or the signal then].
my $script = which('script');
sub on_terminal {
	my @steps = @_;
	unlink 'tty.log', 'before', 'after', 'own';
	spew('tty.sh',
		"stty rows 20 cols 90; stty -g >before\n$^X $jeprof live $pid --rate 4K --interval 200ms & echo \$! >own; fg >/dev/null; rc=\$?\n"
		    . "echo rc=\$rc; stty -g >after\n");
	my $shell = which('bash') // '/bin/sh';
	open(my $keys, '|-', "$script -qfec '$shell -m tty.sh' tty.log >/dev/null 2>&1") or die;
	my $at = 0;
	for my $step (@steps) {
		my ($pattern, $act) = @$step;
		my $log = '';
		until_true(sub { -e 'tty.log' && ($log = substr slurp('tty.log'), $at) =~ $pattern });
		like($log, $pattern, "seen before $act");
		$at += length $log;
		my ($signal) = $act =~ /^SIG(\w+)/;
		if ($signal) { kill $signal, slurp('own') =~ /(\d+)/ } else { syswrite $keys, $act }
	}
	until_true(sub { slurp('tty.log') =~ /rc=\d/ && -s 'after' });
	close $keys;
	return substr slurp('tty.log'), $at;
}
SKIP: {
	skip 'no script(1)', 1 unless $script;
	my $log = on_terminal([qr/grow_keep < main/, 'm'], [qr/since the mark/, '/other'],
		[qr/filter: other_/, "\r"], [qr/filter: other  /, "s"],
		[qr/now\*/, 'd'], [qr/written: live\.\d+/, ' '], [qr/FROZEN/, " \e[A"],
		[qr/other_one < main[\r\e]/, 'q']);
	like($log, qr/\e\[\?25h\e\[\?1049l.*rc=0/s, 'keys: all of them act, q ends it');
	unlike($log =~ s/.*\e\[H//sr, qr/grow_keep/, 'what the filter leaves out is not there');
	is(slurp('after'), slurp('before'), 'the terminal is as before');
	is(state_of($pid), 'idle', 'the session is over');
	my ($path) = $log =~ /l(\/\S+\.s\d+\.heap)/;
	is(defined $path && -s $path ? 1 : 0, 1, 'its profile is named');
	my ($dump) = glob 'live.*.heap';
	like((jeprof('top', $dump))[1], qr/ grow_keep +main\n/, 'd: a profile, here');
	for my $case (["\003", 130], ['SIGTERM', 143], ['SIGHUP', 129]) {
		$log = on_terminal([qr/grow_keep < main/, $case->[0]]);
		like($log, qr/\e\[\?1049l.*rc=$case->[1]/s, "$case->[0]: it ends");
		is(slurp('after') . state_of($pid), slurp('before') . 'idle',
			'the terminal and the process are as before');
	}
	kill 'KILL', $pid;
	waitpid $pid, 0;
	$pid = serving('prof:true,lg_prof_sample:12');
	$log = on_terminal([qr/profiled from its start.*grow_keep/s, 'kill'], [qr/now/, 'q']);
	is(state_of($pid), 'sampling', 'prof:true: goes on sampling');
	unlike($log, qr/\.heap/, 'and nothing was begun or ended');
}
kill 'KILL', $pid;
waitpid $pid, 0;
chdir $source;
done_testing();
