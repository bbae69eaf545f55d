#!/usr/bin/perl
# jeprof doctor: what it finds in programs and processes, its exit status, the command it names.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
our ($dir, $source, $jeprof);

my $library = $ENV{JEMALLOC_LIB};
plan skip_all => 'no library (JEMALLOC_LIB)' unless $library && -e $library;
plan skip_all => 'no gcc' unless which('gcc');
my $ctl = $jeprof =~ s{[^/]*$}{jeprofctl}r;
plan skip_all => 'no build (JEMALLOC_BUILD)' unless -x $ctl;
my ($peer) = glob '/usr/lib/*/libjemalloc.so.2';
my $C = <<'C';
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* app SECONDS: allocates a little all the time. */
int main(int c, char **v) {
	for (int i = 0; c > 1 && i < 100 * atoi(v[1]); i++) { void *volatile p = malloc(20000); memset(p, 1, 100); usleep(10000); }
	return 0;
}
C
my $app = build('app.c', $C);
my @began;
END { local $?; kill 'KILL', $_ for @began; waitpid $_, 0 for @began }

# Is the last line of talk the command?
sub doctor {
	my ($env, @words) = @_;
	local @ENV{ keys %$env } = values %$env;
	my ($code, $out, $err) = jeprof('doctor', @words);
	my ($next) = $err =~ /^jeprof: next: (.*)$/m;
	return ($code, $out, $next // '', $err);
}

sub case_is {
	my ($name, $env, $words, $code, $line, $next) = @_;
	my ($got, $out, $command, $err) = doctor($env, @$words);
	is($got, $code, "$name: exit $code") or diag $out, $err;
	like($out, $line, "$name: why");
	like($command, $next, "$name: what to type");
	return $out;
}

sub started {
	my ($env, @command) = @_;
	my $pid = fork // die "fork: $!";
	if (!$pid) {
		@ENV{ keys %$env } = values %$env;
		open STDERR, '>', '/dev/null';
		exec { $command[0] } @command or exit 127;
	}
	push @began, $pid;
	until_true(sub { (readlink("/proc/$pid/exe") // '') eq Cwd::abs_path($command[0])
			    && slurp("/proc/$pid/cmdline") =~ /\0/ });
	return $pid;
}

chdir $dir;
# Looked at last, when they are no longer young.
my $plain = started({}, $app, 900);
my $idle = started({ LD_PRELOAD => $library }, $app, 900);

# ---- programs ----
my $run = qr{^\Q$jeprof\E run -- };
my $out = case_is('a plain program', {}, [$app], 1,
	qr/^problem  allocator  malloc is that of the C library .*neither linked nor preloaded$/m,
	$run);
like($out, qr/^ok       names      functions and lines; build-id [0-9a-f]{40}$/m, 'its names');
case_is('on ours, not switched on', { LD_PRELOAD => $library }, [$app], 3,
	qr/^warn     profiler   it is there and waits/m, $run);
case_is('on ours, nothing writes', { LD_PRELOAD => $library, MALLOC_CONF => 'prof:true' }, [$app],
	3, qr/nothing writes a profile by itself/, qr/prof_final:true/);
$out = case_is('on ours', { LD_PRELOAD => $library, MALLOC_CONF => 'prof:true,prof_final:true' },
	[$app], 0, qr/^ok       profiler   on, and a profile is written by prof_final$/m, $run);
unlike($out, qr/^(?:warn|problem)/m, 'all is fine');
like($out, qr/^ok       files      profiles go to \.\//m, 'where they go');
case_is('an option misspelt', { LD_PRELOAD => $library,
		MALLOC_CONF => 'abort_conf:false,prof:true,prof_finall:true,prof_prefix:x' }, [$app], 1,
	qr/^problem  options    MALLOC_CONF: Invalid conf pair: prof_finall:true \(the nearest known option is "prof_final"/m, qr/man 3/);
is(scalar(grep { slurp($_) =~ /^# jemalloc\.exe=\S*\/true$/m } glob "$dir/*.heap"), 0,
	'nothing was written for that');
case_is('no such directory', { LD_PRELOAD => $library,
		MALLOC_CONF => "abort:false,prof:true,prof_final:true,prof_prefix:$dir/none/x" }, [$app], 1,
	qr/^problem  files .*no such directory$/m, qr/^mkdir -p \Q$dir\E\/none$/);
case_is('a library that is not there', { LD_PRELOAD => "$dir/none.so" }, [$app], 1,
	qr/^problem  preload    LD_PRELOAD names \Q$dir\E\/none\.so, which is not there/m, $run);
SKIP: {
	skip 'no libjemalloc2', 3 unless $peer;
	case_is("on Debian's", { LD_PRELOAD => $peer }, [$app], 1,
		qr/another allocator, jemalloc \(\S+libjemalloc\.so\.2\)/, $run);
}
SKIP: {
	my $static = eval { build('static.c', $C, '-static') };
	skip 'no static C library', 3 unless $static;
	case_is('a static program', { LD_PRELOAD => $library }, [$static], 1,
		qr/^problem  allocator  malloc is that of the C library, linked into the program/m,
		qr/-ljemalloc/);
}
for my $sanitizer (['address', 'AddressSanitizer'], ['thread', 'ThreadSanitizer']) {
    SKIP: {
		my $built = eval { build("$sanitizer->[0].c", $C, "-fsanitize=$sanitizer->[0]") };
		skip 'no such sanitizer', 3 unless $built;
		case_is($sanitizer->[1], {}, [$built], 1,
			qr/malloc is that of \Q$sanitizer->[1]\E \(\S+\): .*build it without -fsanitize$/m, qr/^cc -o/);
	}
}
my $counts = build('libmemusage.c', <<'C', '-shared', '-fPIC');
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
void *malloc(size_t n) { return ((void *(*)(size_t))dlsym(RTLD_NEXT, "malloc"))(n); }
C
case_is('behind one that passes on', { LD_PRELOAD => "$counts:$library", MALLOC_CONF => 'prof:true,prof_final:true' },
	[$app], 0, qr/malloc is that of the library/, $run);
my $bare = build('libjemalloc.c', <<'C', '-shared', '-fPIC');
#include <stddef.h>
extern void *__libc_malloc(size_t);
void *malloc(size_t n) { return __libc_malloc(n); }
__asm__(".pushsection .note.jemalloc, \"a\", %note\n.balign 4\n.long 9, 16, 0x6a706d62\n.asciz \"jemalloc\"\n.balign 4\n.long 2, 0\n.quad 0\n.popsection\n");
C
case_is('ours without the profiler', { LD_PRELOAD => $bare }, [$app], 1,
	qr/^problem  profiler   \Q$bare\E: the library was built without the profiler/m, $run);
system('cp', $app, "$dir/stripped") == 0
    && system('strip', '--remove-section=.note.gnu.build-id', "$dir/stripped") == 0 or die;
case_is('stripped, no build-id', { LD_PRELOAD => $library,
		MALLOC_CONF => 'prof:true,prof_final:true' }, ["$dir/stripped"], 3,
	qr/^warn     names      stripped: .* no build-id/m, $run);
system('cp', $app, "$dir/setuid");
SKIP: {
	chown 65534, -1, "$dir/setuid" if $> == 0;
	chmod 04755, "$dir/setuid" or skip 'no set-user-id files here', 3;
	my $is_other = $> == 0 && (stat "$dir/setuid")[4] == 65534;
	case_is('set-user-id', { LD_PRELOAD => $library, MALLOC_CONF => 'prof:true,prof_final:true' },
		["$dir/setuid"], $is_other ? 1 : 3,
		qr/^\w+ +rights     set-user-id: .*LD_PRELOAD and MALLOC_CONF are ignored/m,
		qr/^cp \S+setuid \/tmp\/setuid && \S+ run -- \/tmp\/setuid$/);
}
spew("$dir/garbage", "\x00\x01garbage\xff" x 100);
for my $mode (0644, 0755) {
	chmod $mode, "$dir/garbage";
	case_is('garbage', {}, ["$dir/garbage"], 1,
		qr/^problem  program    \S+garbage: neither ELF nor a script that begins with #!, not a program$/m,
		qr/^$/);
}
our_dump("$dir/doctor.heap", stacks => [[[0x1000], 1, 4096]]);
case_is('a profile', {}, ["$dir/doctor.heap"], 1,
	qr/^problem  program    \S+doctor\.heap: a profile, not a program$/m,
	qr/ top \Q$dir\E\/doctor\.heap$/);
spew("$dir/doctor.box", 'jjptable' . "\0" x 100);
case_is('a black box', {}, ["$dir/doctor.box"], 1, qr/ a black box, not a program$/m,
	qr/ top \Q$dir\E\/doctor\.box$/);
my $core = slurp($app);
substr($core, 16, 1) = "\4";
spew("$dir/doctor.core", $core);
case_is('a core file', {}, ["$dir/doctor.core"], 1, qr/ a core file, not a program$/m,
	qr/ salvage -o FILE\.heap \Q$dir\E\/doctor\.core$/);
spew("$dir/empty", '');
case_is('an empty file', {}, ["$dir/empty"], 1, qr/: an empty file, not a program$/m, qr/^$/);
system('cp', $app, "$dir/weak") == 0 or die;
spew("$dir/script", "#!/bin/sh\n");
for my $file ("$dir/weak", "$dir/script") {
	chmod 0644, $file;
	case_is('a program without the right to execute', {}, [$file], 1, qr/may not be executed/,
		qr/^chmod \+x \Q$file\E$/);
}
spew("$dir/cut", substr slurp($app), 0, 300);
chmod 0755, "$dir/cut";
is(scalar(() = (doctor({}, "$dir/cut"))[3] =~ / at \S+ line \d/), 0,
	'a program cut off: no warning of Perl');
is((doctor({}, "$dir/none"))[0], 1, 'no such file: exit 1');
is((doctor({}))[0], 2, 'no word: exit 2');

# ---- processes ----
case_is('no such process', {}, [4194304], 5, qr/^problem  process    no process 4194304$/m,
	qr/ list$/);
case_is('no such name', {}, ['no-such-name-here'], 5, qr/no process is called/, qr/ list$/);
case_is('a plain process', {}, [$plain], 1, qr/^problem  allocator  does not run the library/m,
	qr/^LD_PRELOAD=\S+libjemalloc\S+ \Q$app\E 900$/);
{
	spew("$dir/front.c", <<'C');
#include <stddef.h>
#include <string.h>
static char room[1 << 28] __attribute__((aligned(16))); /* for minutes of the program */
static size_t used;
void *malloc(size_t n) { void *p = room + used; used += (n + 31) & ~15ul; return used <= sizeof(room) ? p : NULL; }
void free(void *p) { (void)p; }
void *calloc(size_t n, size_t m) { return malloc(n * m); }
void *realloc(void *p, size_t n) { void *q = malloc(n); return p != NULL && q != NULL ? memcpy(q, p, n) : q; }
C
	system('gcc', '-O1', '-w', '-fno-builtin', '-fPIC', '-shared', '-o', "$dir/libtcmalloc.so.4", "$dir/front.c") == 0 or die 'gcc';
	my $behind = started({ LD_PRELOAD => "$dir/libtcmalloc.so.4:$library" }, $app, 900);
	case_is('another allocator in front of the library', {}, [$behind], 1,
		qr/^problem  allocator  has the library loaded, but does not use it: its malloc is that of tcmalloc \(\Q$dir\E\/libtcmalloc\.so\.4\), which is preloaded in front of it$/m, qr/./);
}
my $pid = $idle;
case_is('no session', {}, [$pid], 3, qr/^warn     profiler   no session: nothing is sampled$/m,
	qr/ start $pid$/);
run($ctl, 'start', $pid, '--rate', '4K', '--wait', '60s');
case_is('with a session', {}, ['-p', $pid], 0,
	qr/^ok       profiler   state \w+, one sample for each 4\.0K allocated$/m, qr/ dump $pid$/);
my ($code, $json) = jeprof('doctor', '--json', $pid);
like($json, qr/^\{"target":"$pid","verdict":"ok","next":"[^"]+",\n"findings":\[\n\{"level":"ok","about":"process",/, '--json');
is(() = $json =~ /^\{"level":"\w+","about":"\w+","text":"[^"]*","next":(?:null|"[^"]*")\},?$/mg,
	() = $json =~ /"level"/g, 'one object a finding');
kill 'STOP', $pid;
until_true(sub { slurp("/proc/$pid/status") =~ /^State:\tT/m });
$out = case_is('stopped', {}, [$pid], 3, qr/^ok       profiler   state \w+$/m,
	qr/jeprofctl dump $pid --outside -o /);
like($out, qr/^warn     answer     it is stopped \(by a signal or a debugger\) and answers nothing$/m,
	'stopped: is said');
unlike($out, qr/\b0B/, 'stopped: what is not known is no figure');
kill 'CONT', $pid;
run($ctl, 'stop', $pid, '--wait', '60s');
$pid = started({ LD_PRELOAD => $library,
		MALLOC_CONF =>
		    "abort_conf:false,abort:false,prof:true,prof_threshold_highwater:1G,narenas:x,prof_prefix:$dir/none/y" }, $app, 900);
$out = case_is('a threshold far away', {}, [$pid], 1,
	qr/^warn     triggers   threshold_highwater is 1\.0G, allocated is /m, qr/./);
like($out, qr/^problem  files      profiles go to \Q$dir\E\/none, and there is no such directory$/m,
	'and no place for profiles');
like($out, qr/^problem  options    MALLOC_CONF: Invalid conf value: narenas:x/m,
	'and a wrong option');
unlike($out, qr/without prof:true/, 'nothing that is not so');
# What jeprofctl could say of the only threshold: [metric, its value or null, the threshold in MiB; the finding, what to type].
my $beside = "$dir/be side";
mkdir $beside;
spew("$beside/jeprof", slurp($jeprof));
for my $case (['allocated', 50 << 20, 100, 'warn     triggers   threshold_highwater is 100.0M, allocated is 50.0M: no profile was due yet', "set $idle --highwater 61M"],
	['allocated', 95 << 20, 100, 'warn     triggers   threshold_highwater is 100.0M, allocated is 95.0M: no profile was due yet', "dump $idle"],
	['cgroup', 0, 100, 'ok       triggers   no profile was due yet; thresholds: highwater 104857600', "dump $idle"]) {
	my ($metric, $is, $limit, $line, $next) = @$case;
	spew("$beside/jeprofctl", sprintf "#!/bin/sh\necho '{\"pid\":%d,\"way\":\"mailbox\",\"state\":\"active\",\"allocated\":%d,\"dumps\":0,\"threshold_highwater\":%d,\"threshold_highwater_metric\":\"%s\"}'\n",
		$idle, $is, $limit << 20, $metric);
	chmod 0755, "$beside/jeprofctl";
	my (undef, $said, $err) = run($^X, "$beside/jeprof", 'doctor', $idle);
	like($said, qr/^\Q$line\E$/m, "$metric: the threshold");
	like($err, qr/^jeprof: next: '\Q$beside\E\/jeprof' \Q$next\E$/m, 'and what to type');
}
# What lies around a process: files that went away, a filter of system calls, a namespace.
system('cp', $library, "$dir/libjemalloc.so.2") == 0 && system('cp', $app, "$dir/moved") == 0
    or die;
$pid = started({ LD_PRELOAD => "$dir/libjemalloc.so.2", MALLOC_CONF => 'prof:true' }, "$dir/moved",
	900);
until_true(sub { slurp("/proc/$pid/maps") =~ /libjemalloc/ });
rename "$dir/moved", "$dir/moved.old";
unlink "$dir/libjemalloc.so.2", "$dir/moved.old";
$out = case_is('the program deleted', {}, [$pid], 3,
	qr/^warn     place      \Q$dir\E\/moved\S* was deleted or replaced since the start/m,
	qr/ top --exe=\/proc\/$pid\/exe /);
like($out, qr/^ok       place      \Q$dir\E\/libjemalloc\.so\.2 was deleted or replaced since the start; it goes on working$/m, 'the library too');
like($out, qr/^ok       names      functions and lines/m, 'its names are read from /proc');
my $filtered = build('filtered.c', <<'C' . ($C =~ s/\n\tfor/\n\tfilter();\n\tfor/r));
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>
static void filter(void) {
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = {1, &allow};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) { perror("seccomp"); _exit(1); }
}
C
$pid = started({ LD_PRELOAD => $library, MALLOC_CONF => 'prof:true' }, $filtered, 900);
until_true(sub { slurp("/proc/$pid/status") =~ /^(?:Seccomp:\t2|State:\tZ)/m });
SKIP: {
	skip 'no seccomp here', 3 unless slurp("/proc/$pid/status") =~ /^Seccomp:\t2/m;
	case_is('a filter of system calls', {}, [$pid], 3,
		qr/^warn     rights     its system calls are filtered \(seccomp\)/m,
		qr/jeprofctl dump $pid -o /);
}
SKIP: {
	my $unshare = which('unshare');
	skip 'no namespace of mounts here', 1
	    unless $unshare && (run($unshare, '-m', '/bin/true'))[0] == 0;
	$pid = fork // die;
	if (!$pid) {
		$ENV{LD_PRELOAD} = $library;
		exec $unshare, '-m', $app, 900 or exit 127;
	}
	push @began, $pid;
	until_true(sub { (readlink("/proc/$pid/exe") // '') eq Cwd::abs_path($app) });
	like((doctor({}, $pid))[1],
		qr/^ok       place      it has its own mount namespace, .* below \/proc\/$pid\/root$/m,
		'another mount namespace');
}
SKIP: {
	skip 'not root, or no setpriv', 3 unless $> == 0 && which('setpriv');
	my @nobody = (which('setpriv'), '--reuid=65534', '--regid=65534', '--clear-groups');
	chmod 0755, $dir;
	($code, $out) = run(@nobody, $^X, $jeprof, 'doctor', $pid);
	my @bounded = (which('setpriv'), '--bounding-set=-sys_ptrace', '--inh-caps=-sys_ptrace');
	my ($code0, $out0, $err0) = run(@bounded, $^X, $jeprof, 'doctor', $pid);
	like("$code0 $out0", qr/^1 .*^problem  rights     no way in \(/ms, 'root without the right to trace');
	unlike("$out0$err0", qr/sudo/, 'who is not sent to sudo');
	skip 'nobody cannot read the build', 1 if $code != 1 || $out !~ /\S/;
	like($out, qr/^problem  rights     no way in \(.*it belongs to uid 0, we are uid 65534/m,
		'of another user');
}
done_testing();
