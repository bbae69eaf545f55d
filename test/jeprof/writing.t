#!/usr/bin/perl
# What -o names is written without harm: a link stays a link, a fifo or a device stays what it is,
# an input, a program or a profile is not overwritten, and an error names the target. The commands
# that are printed work in a shell whatever the names are, and keep the options of the view.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
use POSIX ();
our ($dir, $jeprof);

my $evil = q{a b';touch OWNED;'$(touch OWNED)};
my $program = elf_file("$dir/app", type => 2, code => [0x1000, 0x401000, 0x1000], id => 'ab' x 20,
	symbols => [['leak', 0x401100, 0x10], [q{it's;touch${IFS}OWNED}, 0x401110, 0x10],
		['main', 0x401150, 0x20]]);
chdir $dir;

sub series {
	my ($stem, $heavy) = @_;
	return map { my $at = $_; our_dump(sprintf("$stem.77.20261123T10%02d00.000Z.%d.i%d.heap",
				($at) x 3),
			meta => { version => '5.3.1', pid => 77, dump_time => sprintf '20261123T10%02d00.000Z',
				$at },
			stacks => [[[$heavy, 0x401158], 1 + $at, 1000000 * (1 + $at)],
				[[0x401104, 0x401158], 5, 500000]],
			modules => [[0x401000, 0x402000, 0, 'ab' x 20, $program]]) } 0 .. 4;
}
my @files = series('app', 0x401114);
my $file = $files[-1];
my @verbs = (['flame'], ['report'], ['symbolize'], ['export', '--to', 'collapsed'], ['pack']);

# What a fifo gives while the command runs.
sub through {
	my ($fifo, @command) = @_;
	my $pid = fork // die "fork: $!";
	if (!$pid) {
		my $text = slurp($fifo);
		spew('got', $text);
		POSIX::_exit(0);
	}
	my @answer = jeprof(@command);
	kill 'TERM', $pid if $answer[0] || !-p $fifo;
	waitpid $pid, 0;
	return (@answer, -e 'got' ? slurp('got') : '');
}

my $stacks = spew('in.collapsed', "main;leak 7\n");
my ($heard) = (jeprof(\"callgrind $stacks\ncallgrind other\nquit\n", '--interactive', $stacks))[2];
is(slurp($stacks), "main;leak 7\n", 'interactive: callgrind does not overwrite what is read');
like($heard, qr/an input of this command.*Wrote other/s, 'and says so; another file is made');
is((jeprof('report', '--json', '-o', '-', $file))[0], 2, 'report --json -o -: refused, as export does');
for my $case (@verbs) {
	my $name = $case->[0];
	my $to = $name eq 'pack' ? 'to.jepack' : 'to';
	my @command = (@$case, $file, '-o', $to);
	symlink 'sub/target', $to;
	mkdir 'sub';
	my ($code, $out) = jeprof(@command);
	is("$code $out", "0 $to\n", "$name -o LINK, which leads nowhere yet");
	ok(-l $to && -s 'sub/target', "$name: the link stays, its target is made");
	spew('sub/target', 'old');
	jeprof(@command);
	ok(-l $to && -s 'sub/target' > 3, "$name: the link stays, its target is replaced");
	my $want = slurp('sub/target');
	unlink $to, 'sub/target', 'got';
	POSIX::mkfifo($to, 0600);
	($code, $out, my $err, my $got) = through($to, @command);
	is("$code $out", "0 $to\n", "$name -o FIFO");
	ok(-p $to, "$name: the fifo stays");
	is(length $got, length $want, "$name: its reader gets all");
	unlike($err, qr/next/, "$name: nothing to type about a fifo");
	unlink $to;
	($code, $out) = jeprof(@$case, $file, '-o', '/dev/stdout');
	is("$code " . length $out, '0 ' . length $want, "$name -o /dev/stdout is stdout")
	    unless $name eq 'pack';
	is(join(' ', glob '*.part sub/*'), '', "$name: nothing is left");
}
POSIX::mkfifo('unread', 0600);
my @unread = run('timeout', 60, $^X, $jeprof, 'report', $file, '-o', 'unread');
is("@unread[0, 2]", "1 jeprof: unread: nobody reads this pipe\n", '-o of a fifo that nobody reads: said');
ok(-p 'unread', 'and it stays');
my @large = run('sh', '-c', 'ulimit -f 1; exec "$@"', 'sh', $^X, $jeprof, 'report', $file, '-o', 'large.html');
is("@large[0, 2]", "1 jeprof: large.html: File too large\n", 'a file above the limit of its size: an error');
is(join(' ', glob 'large* *.part'), '', 'and nothing is left');
unlink 'unread';
# What is replaced keeps its mode and its owner.
for my $mode (0640, 0600, 0666) {
	my @own = $> == 0 ? (12345, 54321) : ($>, $) + 0);
	chmod $mode, spew('kept', 'old');
	chown @own, 'kept';
	jeprof('flame', $file, '-o', 'kept');
	cmp_ok(-s 'kept', '>', 3, sprintf 'a file of mode %o is replaced', $mode);
	is(sprintf('%o %d %d', (stat 'kept')[2] & 07777, (stat _)[4, 5]), sprintf('%o %d %d', $mode, @own), 'its mode and owner stay');
	unlink 'kept';
}
# What the shell has opened is written as it was opened, and the shell writes on behind it.
my $drawn = do { jeprof('flame', $file, '-o', 'drawn.svg'); slurp('drawn.svg') };
symlink '/dev/fd/3', 'third';
for my $to ('/dev/fd/3', '/proc/self/fd/3', 'third') {
	for my $case (['3>at', "${drawn}more\n"], ['3>>at', "old\n${drawn}more\n"],
		['3<>at', "${drawn}more\n"]) {
		spew('at', "old\n");
		my ($code, undef, $err) = run('sh', '-c', "exec $case->[0] </dev/null; '$^X' '$jeprof' flame '$file' -o $to; echo more >&3");
		is(slurp('at'), $case->[1], "flame -o $to $case->[0]");
		unlike($err, qr/next|uninit/, 'and nothing to type');
	}
}
ok(-l 'third', 'the link stays');
for my $case (['>', ''], ['>>', 'old'], ['1<>', '']) {
	spew('at', 'old');
	run('sh', '-c', "'$^X' '$jeprof' flame '$file' -o /dev/stdout $case->[0]at");
	is(slurp('at'), "$case->[1]$drawn", "flame -o /dev/stdout $case->[0]");
}
{
	my $long = 'x' x 1e6;
	open my $gone, '+>', undef or die;
	syswrite $gone, $long;
	run('sh', '-c', "'$^X' '$jeprof' flame '$file' -o /proc/$$/fd/" . fileno $gone);
	is(-s $gone, length $drawn, 'a file without a name, of another process: nothing of the old is left');
}
symlink 'round', 'round';
my ($code, $out, $err) = jeprof('flame', $file, '-o', 'round');
is("$code $err", "1 jeprof: round: too many levels of symbolic links\n", 'a link to itself');
($code, $out, $err) = jeprof('flame', $file, '-o', 'no/dir/x.svg');
is("$code $err", "1 jeprof: no/dir/x.svg: No such file or directory\n",
	'an error names the target');
SKIP: {
	skip 'mknod needs root', 8 unless $> == 0
	    && system('mknod full c 1 7 2>/dev/null && mknod null c 1 3') == 0
	    && open my $fh, '>', 'null';
	for my $case (@verbs[0 .. 3]) {
		($code, $out, $err) = jeprof(@$case, $file, '-o', 'full');
		is("$code $out$err", "1 jeprof: full: No space left on device\n",
			"$case->[0] -o a full device");
		($code, $out, $err) = jeprof(@$case, $file, '-o', 'null');
		ok($code == 0 && -c 'full' && -c 'null', "$case->[0]: the devices stay");
	}
}

# Inputs and the like
link $file, 'linked.svg';
spew('other.heap', "heap_v2/524288\n");
utime 1, 1, 'other.heap';
spew('notes', "mine\n");
for my $case (['flame', $file, '-o', $file], ['flame', $file, '-o', 'linked.svg'],
	['report', '-o', $file, @files],
	['report', '-o', 'other.heap', $file], ['export', '--to', 'pprof', '-o', $program, $file],
	['symbolize', '-o', $file, $file],
	['flame', '-o', 'app', $program, $file], ['flame', '-o', 'notes', "--base=notes", $file],
	['run', '-o', 'app', '--', './app']) {
	my ($target) = map { $case->[$_ + 1] } grep { $case->[$_] eq '-o' } 0 .. $#$case;
	my $before = slurp($target);
	($code, $out, $err) = jeprof(@$case);
	is("$code|$out", '2|', "@$case[0 .. 2]: refused");
	like($err, qr/^jeprof: \Q$target\E: .*not overwritten/m, 'and why');
	is(slurp($target), $before, 'nothing changed');
}
jeprof('pack', '-o', 'p.jepack', $file);
spew('z.heap.gz', "\x1f\x8b\x08");
is((jeprof('flame', '-o', 'z.heap.gz', $file))[0], 2, 'a compressed profile is one');
my $text = slurp($file);
like((jeprof(\"callgrind $file\n", '--interactive', $file))[2], qr/not overwritten/,
	'interactive: callgrind onto the input');
is(slurp($file), $text, 'nothing changed');
like((jeprof('run', '-o', '/dev/stdout', '--', '/bin/true'))[2],
	qr/standard output is the program's/, 'run -o /dev/stdout');
my $before = slurp('p.jepack');
is((jeprof('pack', 'p.jepack', '-o', 'p.jepack'))[0]
	    . (jeprof('pack', 'p.jepack/' . $file, '-o', 'p.jepack'))[0], '22', 'pack onto itself');
is(slurp('p.jepack'), $before, 'nothing changed');
is((jeprof('flame', '-o', 'x.svg', $file))[0] . (jeprof('flame', '-o', 'x.svg', $file))[0], '00',
	'what it made it makes anew');

# The printed commands in a shell
mkdir $evil;
my @evil = series("$evil/$evil", 0x401114);
my $own = "$dir/$evil/jeprof";
spew($own, slurp($jeprof));
chmod 0755, $own;
my @cases = (['top', $evil[0]], ['top', '--lines', $evil[0]],
	['flame', $evil[0], '-o', "$evil/x.svg"], ['flame', '--json', '-o', "$evil/x", $evil[0]],
	['symbolize', $evil[0], '-o', "$evil/s"], ['report', '-o', "$evil/x.html", @evil],
	['pack', '-o', "$evil/x.jepack", @evil],
	['ls', @evil], ['diff', @evil[0, 4]], ['leaks', @evil],
	['export', '--to', 'callgrind', '-o', "$evil/c", $evil[0]],
	['export', '--to', 'heap', '--json', '-o', "$evil/j", $evil[0]], ['doctor', "$evil/jeprof"]);
for my $case (@cases) {
	my ($code, $out, $err) = run($own, @$case);
	$err =~ s/"next":"((?:[^"\\]|\\.)*)"/next: $1/;
	my @next = map { /^(?:jeprof: )?(?:next[^:]*:| {5}) (.*)/ ? $1 : () } split /\n/, $err;
	if ($out =~ /"next":"((?:[^"\\]|\\.)*)"/) {
		push @next, $1 =~ s/\\(.)/$1/gr;
	}
	ok(@next >= 1, "$case->[0]: something to type") or diag "$code $out$err";
	for my $line (@next) {
		local $ENV{BROWSER} = '/bin/true';
		spew('line',
			"jeprof() { '$^X' '$jeprof' \"\$@\"; }\ncallgrind_annotate() { [ -s \"\$1\" ]; }\n$line\n");
		my ($code, $out, $err) = $case->[0] eq 'doctor' ? run('sh', '-nc', $line)
		    : run('sh', 'line');
		is($code, 0, "$case->[0]: it works") or diag "$line\n$out$err";
	}
}
ok(!-e 'OWNED', 'and nothing else was run');

# Options of the view
for my $case (['--lines'], ['--inuse_objects'], ['--addresses', '--ignore=no such'],
	['--show_bytes', '--retain=.']) {
	($code, $out, $err) = jeprof('top', @$case, $file);
	my @words = map { s/=(.* .*)/='$1'/r } @$case;
	like($err, qr/next: \S+ --text --cum .*\Q$_\E /, "top @$case: the next command has $_")
	    for @words;
	my ($line) = $err =~ /next: (.*)/;
	($code, $out, $err) = run('sh', '-c', $line);
	like($out, qr/^Total.*\n.*it's;touch/, 'and shows it') or diag $line, $err;
}

# Messages
($code, $out, $err) = jeprof('top', '-n', '-1', $file);
is("$code|$out", '2|', 'top -n -1');
like($err, qr/^jeprof: -n takes/, 'and why');
($code, $out, $err) = jeprof('--svg=foo', $file);
is("$code|$out", '2|', '--svg=foo');
like($err, qr/^jeprof: --svg=foo: .*--svg=graph/, 'and what there is');
like((jeprof('top'))[2],
	qr/the series app\.77\.\*, the newest; 1 other is here \(other\.heap\.\*\)/,
	'another series is told');
SKIP: {
	skip 'no gzip', 3 unless which('gzip');
	my $text = slurp($file) =~ s/\n# end.*//sr;
	spew('long.heap', "heap_v2/1\n" . join '',
		map { sprintf "@ 0x%x 0x401158\n  t*: 1: %d [0: 0]\n", rand 2**40, rand 1e5 } 1 .. 4000);
	system 'gzip -nc long.heap >long.gz; head -c 40000 long.gz >cut.heap.gz';
	($code, $out, $err) = jeprof('top', '--addresses', 'cut.heap.gz');
	is($code, 3, 'truncated gzip: exit 3');
	like($err, qr/cut\.heap\.gz: its gzip data are truncated/, 'said');
	like($out, qr/live \d/, 'what is there is shown');
}
done_testing();
