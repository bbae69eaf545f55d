#!/usr/bin/perl
# Profiles of contention: what is counted, units, the forms that read them and those that refuse;
# beside Debian's jeprof.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
our ($dir, $peer);

# A program at fixed addresses, so that the profile can be written by hand.
my $program = elf_file("$dir/locks", type => 2, code => [0x1000, 0x401000, 0x1000],
	symbols => [['work_a', 0x401100, 0x10], ['work_b', 0x401110, 0x10], ['serve', 0x401120, 0x30],
		['main', 0x401150, 0x20], ['malloc', 0x401170, 0x10]]);
my ($a, $b, $from_a, $from_b, $main, $malloc) = map { sprintf '0x%x', $_ } 0x401104, 0x401114,
    0x401128, 0x401130, 0x401158, 0x401174;
sub profile {
	my ($name, %want) = @_;
	my $text = ($want{first} // '--- contentionz 1 ---') . "\n"
	    . ($want{head}
		    // "cycles/second = 2000000000\nsampling period = 10\nms since reset = 5000\ndiscarded samples = 3\n");
	$text .= $want{rows}
	    // "   400000000 20 \@ $a $from_a $main\n   200000000 5 \@ $b $from_b $main\n   100000000 50 \@ $a $main\n";
	return spew("$dir/$name", $text . ($want{maps}
			    // "--- Memory map: ---\n00401000-00402000 r-xp 00001000 08:01 1 $program\n"));
}
my $profile = profile('lock.prof');

sub rows { return join '|', map { my ($flat, $share, undef, $cum, undef, $name) = split;
		"$name $flat $share $cum" } grep { !/^Total/ } split /\n/, $_[0] }
# The same of a program that nm can read: (program, profile).
my @real;
sub real_program {
	return @real if @real;
	my $path = build('real.c',
		'int work_a(int x) { return x + 1; } int serve(int x) { return work_a(x) + 2; } int main(void) { return serve(1); }', '-no-pie', '-O0');
	my %at = map { /^(\S+) T (\w+)$/ ? ($2 => hex $1) : () } split /\n/,
	    (run(which('nm'), $path))[1];
	my $stack = sprintf '0x%x 0x%x 0x%x', $at{work_a} + 4, $at{serve} + 12, $at{main} + 9;
	return @real = ($path, profile('real.prof',
			rows => "400000000 20 \@ $stack\n7000000 3 \@ $stack\n",
			maps => "--- Memory map: ---\n00400000-00402000 r-xp 00000000 08:01 1 $path\n"));
}
my %want = (
	total_delay => ['3.500 seconds',
		'work_a 2.500 71.4% 2.500|work_b 1.000 28.6% 1.000|main 0.000 0.0% 3.500|serve 0.000 0.0% 3.000'],
	contentions =>
	    ['750 samples', 'work_a 700 93.3% 700|work_b 50 6.7% 50|main 0 0.0% 750|serve 0 0.0% 250'],
	# A mean is delay by contentions: work_a 2.5 s in 700. Debian's adds the means of its two
	# stacks, 0.010 and 0.001.
	mean_delay =>
	    ['0.005 seconds',
		'work_b 0.020 28.6% 0.020|work_a 0.004 71.4% 0.004|main 0.000 0.0% 0.005|serve 0.000 0.0% 0.012'],
);
for my $index (sort keys %want) {
	my ($code, $out) = jeprof('--text', "--$index", $profile);
	is($code, 0, "--$index: exit 0");
	like($out, qr/\ATotal: \Q$want{$index}[0]\E\n/, "--$index: total and unit");
	is(rows($out), $want{$index}[1], "--$index: rows");
	next if $index eq 'mean_delay';
    SKIP: {
		skip "no jeprof of Debian's, or no gcc", 1 if !has_peer() || !which('gcc');
		my ($real, $text) = real_program();
		is((jeprof('--text', "--$index", $real, $text))[1],
			(run($peer, '--text', "--$index", $real, $text))[1], "--$index: as Debian's jeprof");
	}
}
is((jeprof('--text', $profile))[1], (jeprof('--text', '--total_delay', $profile))[1],
	'--total_delay is the default');
like((jeprof('--text', '--inuse_objects', $profile))[2], qr/--inuse_objects has no effect here/,
	'what is for heaps is named');
for my $zero ("cycles/second = 00\n", "cycles/second = 2800000000\nsampling period = 00\n") {
	my ($code, $out) = jeprof('--text', profile('zero.prof', head => $zero));
	is($out, (jeprof('--text', profile('zero.prof', head => "cycles/second = 2800000000\n")))[1],
		'a figure that is 0 is as one that is missing');
}
spew("$dir/bare.prof", slurp($profile) =~ s/(?<= )0x//gr);
is((jeprof('--text', "$dir/bare.prof"))[1], (jeprof('--text', $profile))[1], 'addresses without 0x');
for my $first ('--- contention', '--- contention:') {
	is((jeprof('--text', profile('other.prof', first => $first)))[1],
		(jeprof('--text', $profile))[1], "the first line $first");
}
my ($code, $out, $err) = jeprof('--text', '--contentions', $program,
	profile('old.prof', first => '--- Stacks:', head => '', rows => "280 20 \@ $a\n 28 \@ $a\n"));
is("$code|$out", "3|Total: 21 samples\n      21 100.0% 100.0%       21 100.0% work_a\n",
	'the old form');
like($err, qr/does not say cycles\/second; 2\.8 GHz is assumed/, 'with its doubts');
is((jeprof('--text', '--contentions',
			profile('malloc.prof', rows => "100 1 \@ $malloc $main\n")))[1] =~ /^ +10 .* malloc$/m ? 1 : 0,
	1, "a wait inside malloc stays malloc's");

# Other forms
is((jeprof('--collapsed', $profile))[1],
	"main;serve;work_a 2000000000\nmain;serve;work_b 1000000000\nmain;work_a 500000000\n",
	'--collapsed: nanoseconds');
is((jeprof('--collapsed', '--contentions', $profile))[1],
	"main;serve;work_a 200\nmain;serve;work_b 50\nmain;work_a 500\n", '--collapsed --contentions');
like((jeprof('--dot', '--contentions', $profile))[1],
	qr/\Adigraph ".*; 750 samples" .*label="work_a\\n700 \(93\.3%\)/s, '--dot');
like((jeprof('--svg', $profile))[1], qr/<title>work_b: 1\.000s, 28\.6%<\/title>/, '--svg');
like((jeprof('top', $profile))[1],
	qr/: waited 3\.500s in 750 contentions\n.* times +function .*\n +2\.500s +71\.4% +2\.500s +71\.4% +700  work_a /, 'top');
like((jeprof('--text', '--base', profile('base.prof', rows => "200000000 5 \@ $b $from_b $main\n"),
			$profile))[1], qr/\ATotal: 2\.500 seconds\n/, '--base');

# What cannot be
for my $case (['--dot', '--mean_delay', $profile], ['report', '-o', "$dir/r.html", $profile],
	['leaks', $profile], ['ls', $profile], ['export', '--to', 'pprof', $profile],
	['--total_delay', '--contentions', $profile],
	['--text', $profile, '--base', our_dump("$dir/heap", stacks => [],
			maps => "00401000-00402000 r-xp 00001000 08:01 1 $program\n")]) {
	($code, $out, $err) = jeprof(@$case);
	is("$code|$out", '2|', "@$case[0, 1]: exit 2");
	is(() = $err =~ /^/mg, 1, 'one line') or diag $err;
}
($code, $out, $err) = jeprof(\"top\ntree\nlist work_a\ncallgrind $dir/mean.out\ntext\n", '--interactive', '--mean_delay', $profile);
is($out, (jeprof('--text', '--mean_delay', $profile))[1] x 2, 'interactive, --mean_delay: tables alone');
is(() = $err =~ /jeprof: --mean_delay is for --text: means of several stacks cannot be added$/mg, 3, 'and why not the others') or diag $err;
ok(!-e "$dir/mean.out", 'nor is a file written');
($code, $out, $err) = jeprof('--text',
	profile('broken.prof', rows => "12 34 \@ $a $main\n\e[31mnonsense\n"));
is($code, 3, 'a line that is not understood: exit 3');
like($err, qr/not understood: \?\[31mnonsense$/m, 'and shown clean');
done_testing();
