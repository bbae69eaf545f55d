#!/usr/bin/perl
# --json of each verb that has it is JSON with the sums of the text; where it does nothing the
# reason is said. What no profile is named for takes the newest; each verb that writes a file names
# the next command.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
use JSON::PP ();
our ($dir, $source, $jeprof);

# A series of one process at made-up addresses with names of its own: leak grows, steady does not.
my $program = elf_file("$dir/app", type => 2, code => [0x1000, 0x401000, 0x1000], id => 'ab' x 20,
	symbols => [['leak', 0x401100, 0x10], ['steady', 0x401110, 0x10], ['main', 0x401150, 0x20]]);
chdir $dir;
my @files = map { my $at = $_; our_dump(sprintf('app.77.20261123T10%02d00.000Z.%d.i%d.heap', $at,
			$at, $at), meta => { version => '5.3.1', pid => 77,
			dump_time => sprintf('20261123T10%02d00.000Z', $at) },
		stacks => [[[0x401104, 0x401158], 1 + $at, 1000000 * (1 + $at)],
			[[0x401114, 0x401158], 5, 500000]],
		modules => [[0x401000, 0x402000, 0, 'ab' x 20, $program]]) } 0 .. 8;
my @all = ('--exe', $program);

sub json_of {
	my ($name, @words) = @_;
	my ($code, $out, $err) = jeprof(@words, @all, '--json');
	is($code, 0, "$name --json: exit 0") or diag $err;
	my $value = eval { JSON::PP->new->decode($out) };
	ok(ref $value, "$name --json: JSON") or diag "$@ $out";
	unlike($err, qr/no effect/, "$name --json: it acts");
	return ref $value ? $value : {};
}

my $last = $files[-1];
my $top = json_of('top', 'top', $last);
is($top->{total}{bytes}, 9500000, 'top: the total');
is(json_of('top without a profile', 'top')->{dump}, $last, 'top: the newest without a name');
my $tree = json_of('flame', 'flame');
is($tree->{value}, 9500000, 'flame: a tree with the same total');
is($tree->{children}[0]{name}, 'main', 'its root');
is_deeply([map { "$_->{name} $_->{value}" } @{ $tree->{children}[0]{children} }],
	['leak 9000000', 'steady 500000'], 'its branches');

# Of samples the figures are estimates with fractions: what is printed of them adds up.
my $sampled = our_dump('sampled.heap', rate => 524288,
	stacks => [map { [[0x1000 * ($_ % 3 ? $_ : 7), 0x401158], 3 + $_ % 5,
				1000 * $_ + 37 * $_ * $_] } 1 .. 60]);
sub leaves {
	my ($node) = @_;
	my $sum = $node->{children} ? 0 : $node->{value};
	$sum += leaves($_) for @{ $node->{children} // [] };
	return $sum;
}
for my $case (['rows', 'self'], ['stacks', 'bytes', '--stacks']) {
	my ($list, $key, @words) = @$case;
	my ($code, $out) = jeprof('top', '--json', '-n', 1000, @words, $sampled);
	my $value = JSON::PP->new->decode($out);
	my %sum;
	for my $row (@{ $value->{$list} }) {
		$sum{$_} += $row->{$_} for $key, 'objects';
	}
	is("$sum{$key} $sum{objects}", "$value->{total}{bytes} $value->{total}{objects}",
		"top @words --json adds up");
	my ($is_done, $flame) = jeprof('flame', '--json', $sampled);
	is(leaves(JSON::PP->new->decode($flame)), $value->{total}{bytes}, 'flame --json too');
}
sub nameless { return JSON::PP->new->decode((jeprof(@_, '--json'))[1]) } # exit 3
sub sum_of { my ($sum) = (0); $sum += $_->{bytes} for @_; return $sum }
{
	my ($process) = @{ nameless('report', '-n', 1000, $sampled)->{processes} };
	is(sum_of(@{ $process->{owners} }), $process->{snapshots}[0]{bytes}, 'report --json: the owners add up');
	my $other = our_dump('other.heap', rate => 524288,
		stacks => [map { [[0x1000 * $_, 0x401158], 2 + $_ % 3, 900 * $_ + 41 * $_ * $_] } 5 .. 40]);
	my $value = nameless('diff', $sampled, $other);
	is(sum_of(@{ $value->{rows} }), $value->{after} - $value->{before}, 'diff --json: the rows add up');
	unlink $other;
}
unlink $sampled;
my ($report) = @{ json_of('report', 'report')->{processes} };
is(scalar @{ $report->{snapshots} }, 9, 'report: the newest series, all of it');
is($report->{snapshots}[-1]{bytes}, 9500000, 'report: its last total');
is_deeply([map { "$_->{function} $_->{bytes}" } @{ $report->{owners} }],
	['leak 9000000', 'steady 500000'], 'report: who owns it');
is($report->{suspects}[0]{stack}[0], 'leak', 'report: what keeps growing');
is_deeply(json_of('leaks', 'leaks')->{series}[0]{suspects}, $report->{suspects}, 'leaks: the same');
is(scalar @{ json_of('ls', 'ls')->{dumps} }, 9, 'ls: all');
is(json_of('diff', 'diff', @files[0, 8])->{rows}[0]{bytes}
	    // json_of('diff', 'diff', @files[0, 8])->{rows}[0]{grown}, 8000000, 'diff: what grew');
for my $case (['report', '-o', 'r.html'], ['export', '--to', 'collapsed', '-o', 'c.txt', $last],
	['pack', '-o', 'p.jepack'], ['symbolize', '-o', 's.txt', $last]) {
	my ($verb) = @$case;
	my $value = json_of("$verb -o", @$case);
	is($value->{bytes}, -s $value->{file}, "$verb: the file that it made");
	like($value->{next}, qr/\Q$value->{file}\E/, "$verb: what to type next");
}
for my $case (['export', '--to', 'dhat', $last], ['pack'], ['symbolize', $last]) {
	my ($code, $out, $err) = jeprof(@$case, @all, '--json');
	is("$code|$out", '2|', "$case->[0] --json to standard output: exit 2");
	like($err, qr/-o FILE$/m, 'and what to say');
}
for my $case (['completion', 'bash'], ['open', 'r.html'], ['--text', $last]) {
	local $ENV{BROWSER} = '/bin/true';
	my ($code, $out, $err) = jeprof(@$case, '--json');
	like($err, qr/--json has no effect here: .*run.*open.*completion/,
		"$case->[0] --json: why not");
}

# Of threads one by one: one document.
my $threads = spew('threads.heap', "heap_v2/1\n  t*: 3: 600 [0: 0]\n  t1: 1: 100 [0: 0] the \"first\"\n  t2: 2: 500 [0: 0]\n"
	    . "@ 0x401104 0x401158\n  t*: 3: 600 [0: 0]\n  t1: 1: 100 [0: 0]\n  t2: 2: 500 [0: 0]\n\nMAPPED_LIBRARIES:\n"
	    . "00401000-00402000 r-xp 00001000 08:01 1 $program\n");
for my $case (['rows'], ['stacks', '--stacks']) {
	my ($list, @words) = @$case;
	my $each = json_of("top @words of each thread", 'top', @words, '--thread=*', $threads)->{threads};
	is(join(' ', map { "$_->{thread} $_->{thread_name} $_->{total}{bytes} " . @{ $_->{$list} } } @{ $each // [] }),
		'1 the "first" 100 1 2  500 1', 'a list of them');
	my $one = json_of("top @words of one", 'top', @words, '--thread=2', $threads);
	is_deeply($one, $each->[1], 'one alone: the same');
	is(json_of("top @words of all", 'top', @words, $threads)->{thread}, undef, 'all together: no thread');
}
is(scalar @{ json_of('top of the only thread', 'top', '--thread=*', $files[0])->{threads} // [] }, 1, 'of one thread: a list of one');
unlink $threads;

# The next command, without --json
for my $case ([qr/next: \S+ open r\.html$/m, 'report', '-o', 'r.html'],
	[qr/next: \S+ open f\.svg$/m, 'flame', '-o', 'f.svg'], [qr/next: \S+ --text /, 'top'],
	[qr{next: \S+ diff (?:--exe=\S+ )?\S+ \S+$}m, 'ls'],
	[qr/next: \S+ report /, 'leaks'], [qr/next: \S+ top --stacks /, 'diff', @files[0, 8]],
	[qr/next: flamegraph/, 'export', '--to', 'collapsed', '-o', 'c.txt', $last],
	[qr/next, on any machine: jeprof top p\.jepack$/m, 'pack', '-o', 'p.jepack'],
	[qr/next: jeprof top s\.txt/, 'symbolize', '-o', 's.txt', $last]) {
	my ($want, @words) = @$case;
	my ($code, $out, $err) = jeprof(@words, @all);
	like($err, $want, "$words[0]: the next command");
}
mkdir 'empty';
chdir 'empty';
for my $verb (qw(top flame report ls leaks)) {
	my ($code, $out, $err) = jeprof($verb);
	is("$code|$out", '2|', "$verb without a profile, and none here: exit 2");
	like($err, qr/^jeprof: no profile given, and none/, 'and one line');
}
chdir $source;
done_testing();
