#!/usr/bin/perl
# Profiles of processor time, as gperftools writes them: words of both sizes and orders, what is
# counted, what is cut or damaged; beside Debian's jeprof.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
our ($dir, $peer);

# A program at fixed addresses, so that the profile can be written by hand.
my $program = elf_file("$dir/busy", type => 2, code => [0x1000, 0x401000, 0x1000],
	symbols => [['work_a', 0x401100, 0x10], ['work_b', 0x401110, 0x10], ['serve', 0x401120, 0x30],
		['main', 0x401150, 0x20]]);
my $maps = "00401000-00402000 r-xp 00001000 08:01 1 $program\n";

# The words of a profile with 100 samples a second: work_a at its first instruction, which no
# address behind a call can be.
my @words = (0, 3, 0, 10000, 0, 7, 3, 0x401100, 0x401128, 0x401158,
	2, 3, 0x401114, 0x401130, 0x401158, 1, 2, 0x401108, 0x401158, 0, 1, 0);
sub profile { my ($name, $word, $text, @its) = @_;
	return spew("$dir/$name", pack("$word*", @its ? @its : @words) . $text) }
my $rows = 'work_a 8 80.0% 8|work_b 2 20.0% 2|main 0 0.0% 10|serve 0 0.0% 9';
sub rows { return join '|', map { my ($flat, $share, undef, $cum, undef, $name) = split;
		"$name $flat $share $cum" } grep { !/^Total/ } split /\n/, $_[0] }

my $profile;
for my $form (['Q<', 8, 'little'], ['L<', 4, 'little'], ['Q>', 8, 'big'], ['L>', 4, 'big']) {
	my ($word, $size, $end) = @$form;
	my $path = profile("cpu.$size.$end", $word, $maps);
	$profile //= $path;
	my ($code, $out, $err) = jeprof('--text', $path);
	like("$code $err", qr/^0 (?!jeprof)/, "words of $size bytes, $end end first: read without a doubt");
	like($out, qr/\ATotal: 10 samples\n/, 'total and unit');
	is(rows($out), $rows, 'rows');
}
is((jeprof('--collapsed', $profile))[1],
	"main;serve;work_a 7\nmain;serve;work_b 2\nmain;work_a 1\n", '--collapsed');
like((jeprof('--text', '--total_delay', $profile))[1], qr/\ATotal: 0\.100 seconds\n/,
	'--total_delay: its time');
like((jeprof('top', $profile))[1], qr/: 0\.100s of processor time in 10 samples\n/, 'top');
SKIP: {
	skip "no jeprof of Debian's, or no gcc", 1 if !has_peer() || !which('gcc');
	my $real = build('real.c',
		'int work_a(int x) { return x + 1; } int serve(int x) { return work_a(x) + 2; } int main(void) { return serve(1); }', '-no-pie', '-O0');
	my %at = map { /^(\S+) T (\w+)$/ ? ($2 => hex $1) : () } split /\n/, (run(which('nm'), $real))[1];
	my $path = profile('cpu.real', 'Q<', "00400000-00402000 r-xp 00000000 08:01 1 $real\n",
		0, 3, 0, 10000, 0, 5, 3, $at{work_a} + 1, $at{serve} + 12, $at{main} + 9, 3, 2,
		$at{serve} + 2, $at{main} + 9, 0, 1, 0);
	is(rows((jeprof('--text', $real, $path))[1]), rows((run($peer, '--text', $real, $path))[1]),
		"as Debian's jeprof");
}

# ---- damage, and what does not fit ----
my $bytes = pack('Q<*', @words);
for my $cut (length($bytes) - 1, length($bytes) - 24, 8 * 9) {
	my ($code, $out, $err) = jeprof('--text', spew("$dir/cut", substr $bytes, 0, $cut));
	is($code, $cut > 80 ? 3 : 1, "cut at byte $cut: exit status");
	like($err, $cut > 80 ? qr/cut off or damaged at byte \d+/ : qr/holds no sample/, 'why');
}
for my $odd ([0, 3, 0, 0, 0, 1, 1, 5], [0, 2, 0, 10000, 0], [0, 3, 1, 10000, 0], [0, 0, 0, 0, 0]) {
	my ($code, undef, $err) = jeprof('--text', profile('odd', 'Q<', '', @$odd));
	like("$code $err", qr/^1 .*not a heap profile/m, "@$odd[0..4]: none");
}
my ($code, undef, $err) = jeprof('--text', profile('huge', 'Q<', '', @words[0 .. 14], 1, 2**40, 5));
like("$code $err", qr/^3 .*damaged at byte 120/m, 'a stack longer than the file');
for my $verb ('leaks', 'diff', 'export') {
	my @args = $verb eq 'diff' ? ($profile, $profile) : $verb eq 'export' ? ('--to', 'pprof', $profile) : $profile;
	($code, undef, $err) = jeprof($verb, @args);
	like("$code $err", qr/^2 .*profile of processor time/m, "$verb refuses it");
}
my $lock = spew("$dir/lock", "--- contention\ncycles/second = 1000\n 5 1 \@ 0x401104\n--- Memory map:\n$maps");
($code, undef, $err) = jeprof('--text', $program, $profile, $lock);
like("$code $err", qr/^2 .*processor time and one of contention cannot be added/m, 'nor is contention added');
done_testing();
