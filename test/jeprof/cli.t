#!/usr/bin/perl
# The command line: help, version, usage errors, verbs handed over, interactive mode, exit codes.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
no warnings 'portable';
our ($dir, $data, $jeprof, $source);

my ($code, $out, $err);
my $dump = "$data/counts.heap";

($code, $out, $err) = jeprof('--help');
is($code, 0, '--help');
like($out, qr/^Usage:.*--base=FILE.*--collapsed.*--thread=N.*Exit: 0/s, '--help: complete');
is($err, '', '--help: nothing on stderr');
($code, $out) = jeprof('--version');
like($out, qr/^jeprof 5\.3\.1/, '--version');
{
	mkdir "$dir/bin";
	spew("$dir/bin/jeprof", slurp($jeprof));
	spew("$dir/bin/jemalloc-config", "#!/bin/sh\necho 5.3.1-7-gabc\n");
	spew("$dir/bin/jeprofctl", "#!/bin/sh\nprintf '<%s>' \"\$@\"\nexit 4\n");
	chmod 0755, glob "$dir/bin/*";
	($code, $out) = run("$dir/bin/jeprof", '--version');
	like($out, qr/^jeprof 5\.3\.1-7-gabc, release \S+\n\z/, '--version: from the jemalloc-config beside it');
	for my $verb (qw(start stop dump status set watch list)) {
		($code, $out) = run("$dir/bin/jeprof", $verb, '12', '--rate', '1 M');
		is("$code $out", "4 <$verb><12><--rate><1 M>",
			"$verb is handed to jeprofctl, with its exit code");
	}
	unlink "$dir/bin/jeprofctl";
	($code, $out, $err) = run("$dir/bin/jeprof", 'start', '12');
	is($code, 1, 'no jeprofctl: exit 1');
	like($err, qr/jeprofctl, which is not there/, 'and said');
	chdir $dir;
	spew("$dir/dump", slurp($dump));
	($code, $out, $err) = jeprof('dump', '--text');
	like($out, qr/^Total: 4\.5 MB/, 'a file named as a verb is a file');
	like($err, qr/^jeprof: the file dump in this directory is meant, not the verb/, 'and said');
	($code, $out, $err) = jeprof('tpo', 'dump');
	is("$code $err", "1 jeprof: tpo: no such file, and no verb (jeprof --help)\n", 'a verb that there is not');
	is("@{[(jeprof(@$_))[0, 2]]}", "2 jeprof: top: no such file; a verb stands before all options: jeprof top ...\n", "@$_: a verb that is not the first word")
	    for ['--json', 'top', 'dump'], ['./dump', 'top'];
	is((jeprof('help'))[1], (jeprof('--help'))[1], 'help is --help');
	like((jeprof('top', $^X))[2], qr{ program \Q$^X\E; this makes one: \S+ run \Q$^X\E$}m, 'a program alone: what makes a profile of it');
	mkdir 'top';
	($code, $out, $err) = jeprof('top', 'dump');
	like($out, qr/ live /, 'a directory of that name is none') or diag $err;
	rmdir 'top';
	rename "$dir/dump", "$dir/ev\e[31m.heap";
	($code, $out, $err) = jeprof("$dir/ev\e[31m.heap", '--text');
	like($err, qr/^Using local file .*ev\?\[31m\.heap\.$/m,
		'the name of a file is clean on a terminal');
	chdir $source;
}

# Usage errors
for my $case ([[], qr/no profile given/], [['--nonsense', $dump], qr/unknown option: nonsense/],
	[['--text', '--dot', $dump], qr/only one of/],
	[['--inuse_space', '--alloc_space', $dump], qr/only one of/],
	[['--lines', '--files', $dump], qr/only one of/],
	[['--thread=x', $dump], qr/--thread takes/]) {
	my ($arguments, $want) = @$case;
	($code, $out, $err) = jeprof(@$arguments);
	is($code, 2, "usage: @$arguments: exit 2");
	like($err, $want, 'and why');
}

# Accepted: abbreviations, negations, and options that have no effect here
($code, $out) = jeprof('--tex', '--show_b', $dump);
like($out, qr/^Total: 4760676 B/, 'long options may be shortened');
($code, $out) = jeprof('--text', '--show_bytes', '--no-show_bytes', $dump);
like($out, qr/MB$/m, '--no-X');
is((jeprof('top', '-n1', $dump))[1], (jeprof('top', '-n', 1, $dump))[1], 'a number may touch its option');
($code, $out, $err) = jeprof('--text', '--nodecount=5', '--nodefraction=0.1', '--edgefraction=0.1',
	'--maxdegree=3', '--scale=1', '--heapcheck',
	'--seconds=1', '--total_delay', '--debug', '--debug-syms-by-id', $dump);
like($out, qr/^Total: 4\.5 MB/, 'options of upstream without effect on a table are accepted')
    or diag $err;
($code, $out) = jeprof($dump);
like($out, qr/^Total: 4\.5 MB/, 'not on a terminal: a table');

# Doubts: this dump has no maps
is($code, 3, 'names missing: exit 3');
($code, $out, $err) = jeprof('--text', '--alloc_space',
	our_dump("$dir/none.heap", stacks => [[[0x10], 1, 4096]]));
like($err, qr/prof_accum/, 'no cumulative counts: said');
is($out, '', 'and no table');

# Interactive
my $script =
    "top2\ntop 1\ntext --cum\ntop2 -0x1200\nbogus\n\ntext (\n-x\ncallgrind $dir/out.cg\ntree 0x1100\nhelp\nquitter\ntop\n";
($code, $out, $err) = jeprof(\$script, '--interactive', '--show_bytes', $dump);
is(scalar(() = $err =~ /\(jeprof\) /g), 12, 'a prompt for each command, on stderr');
like($err, qr/Welcome to jeprof!  For help, type 'help'\.\n/, 'the greeting');
like($out, qr/\ATotal: 4760676 B\n.*0x1200\n.*0x1000\nTotal: 4760676 B\n.*0x1200\nTotal/,
	'topN and top N');
like($out, qr/^Total: 4760676 B\n\s+0 .* 0x2fff\n/m, 'text --cum');
like($out, qr/^After ignoring '0x1200': 2100156 B of 4760676 \(44\.1%\)\n 1573364  74\.9%/m,
	'-RE leaves out');
is(scalar(() = $err =~ /Unknown command: try 'help'\./g), 2, 'unknown commands');
like($out, qr/^After focusing on '0x1100': .*\n0x1fff;0x2fff;0x1fff;0x1100 526791$/m, 'tree');
like($out, qr/^Commands:\n  top\[N\]/m, 'help');
ok(-s "$dir/out.cg", 'callgrind FILE');
is(scalar(() = $out =~ /^Total/mg), 7, 'quitter quits') or diag $out;
($code, $out, $err) = jeprof(\'top', '--interactive', $dump);
like($out, qr/^Total/, 'a last line without its end, and end of input');
# --focus, --ignore and --thread of the command line act on every command.
sub rows { return join "\n", grep { /^Total|^ .*%/ } split /\n/, $_[0] }
for my $words (['--focus=0x1100'], ['--ignore=0x1100'], ['--thread=1'], ['--thread=0', '--focus=0x1200']) {
	my $table = rows((jeprof('--text', @$words, $dump))[1]);
	($code, $out, $err) = jeprof(\"top\ntop\n", '--interactive', @$words, $dump);
	is(rows($out), "$table\n$table", "interactive, @$words: the table of --text, twice");
	unlike($table, qr/0x1100.*0x1200|0x1200.*0x1100/s, 'which is not all');
}
($code, $out) = jeprof(\"tree\ntree 0x1200\n", '--interactive', '--focus=0x1100', $dump);
like($out, qr/\A.*\n.*\n.*;0x1100 \d+\nTotal.*\n.*\n.*;0x1200 \d+\n\z/, 'RE takes the place of --focus') or diag $out;
($code, $out) = jeprof(\"top -0x1200\n", '--interactive', '--ignore=0x1100', $dump);
like($out, qr/^After ignoring '0x1100\|0x1200': (?!.* 0x1[12]00).* 0x1000\n/ms, '-RE is added to --ignore') or diag $out;
($code, $out, $err) = jeprof(\"top\n", '--interactive', '--thread=*', $dump);
is("$code|$out", '2|', 'interactive, --thread=*: exit 2');

# Writing
SKIP: {
	skip 'no /dev/full', 2 unless -c '/dev/full';
	system("'$^X' '$jeprof' --text '$dump' > /dev/full 2> '$dir/.err'");
	is($? >> 8, 1, 'a full disk: exit 1');
	like(slurp("$dir/.err"), qr/cannot write/, 'and said');
}

# Perl sees nothing but the directories of perl-base.
SKIP: {
	my @base = grep { m{/perl-base$} } @INC;
	skip 'no perl-base directory', 2 unless @base;
	my $script =
	    'BEGIN { @INC = grep { m{/perl-base$} } @INC } my $file = shift; do $file; die $@ if $@';
	($code, $out, $err) = run($^X, '-e', $script, $jeprof, '--text', $dump);
	like($out, qr/^Total: 4\.5 MB/, 'perl-base is enough');
	unlike($err, qr/Can't locate/, 'no other module is wanted');
}
done_testing();
