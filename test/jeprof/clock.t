#!/usr/bin/perl
# The order of dumps while the wall clock is set: within a process the numbers of the dumps and the
# line monotonic_ms tell, in all verbs that take a series. Where only the wall clock is there and
# contradicts the numbers, the verbs say so and tell no rates.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
no warnings 'portable';
use JSON::PP ();
our ($dir, $source);

my $base = 0x555500000000;
my $id = '66' x 20;
my $app = elf_file("$dir/serve", id => $id, symbols => [['main', 0x1100, 0x100], ['leak', 0x1200, 0x100]]);

# A dump: pid, number, wall clock in minutes after 03:00, monotonic clock in seconds or undef, bytes.
sub one {
	my ($pid, $seq, $minute, $mono, $bytes, %more) = @_;
	my $stamp = sprintf '20260102T%02d%02d00.000Z', 3 + POSIX::floor($minute / 60), $minute % 60;
	our_dump(my $file = sprintf('%s.%d.%s.%d.i%d.heap', $more{stem} // 'serve', $pid, $stamp, $seq, $seq),
		modules => [[$base + 0x1000, $base + 0x3000, $base, $id, $app]],
		meta => { pid => $pid, dump_time => $stamp, exe => $app, kind => 'interval',
			defined $mono ? (monotonic_ms => 1000 * $mono) : (),
			defined $more{start} ? (instance => $more{start}) : () },
		stacks => [[[$base + 0x1210, $base + 0x1111], $bytes / 100, $bytes]]);
	return $file;
}
sub decoded { my ($code, $out, $err) = @_; return JSON::PP::decode_json($out) }
sub order { return join ' ', map { "$_->{seq}" } @{ decoded(jeprof('ls', '--json', @_))->{dumps} } }
sub in_dir { my ($name) = @_; mkdir "$dir/$name"; chdir "$dir/$name" }

# Number 4 and later are an hour earlier by the wall clock; a minute lies between two dumps.
my $said = qr/^jeprof: the clock was set back by 59\.0 min between \S+\.3\.i3\.heap and \S+\.4\.i4\.heap/m;
for my $has_mono (1, 0) {
	in_dir("back$has_mono");
	my @files = map { one(77, $_, $_ < 4 ? $_ : $_ - 60, $has_mono ? 100 + 60 * $_ : undef, 100_000 * ($_ + 1)) } 0 .. 7;
	my $name = $has_mono ? 'monotonic clock' : 'numbers alone';
	is(order(reverse @files), '0 1 2 3 4 5 6 7', "$name: ls");
	my ($code, $out, $err) = jeprof('ls', @files);
	like($err, qr/$said/, "$name: ls says it");
	like($err, $has_mono ? qr/follow the monotonic clock$/m : qr/another process .*follows the sequence numbers, and the times between the dumps are not known$/m,
		"$name: and what it means");
	is(() = $err =~ /set back/g, 1, "$name: once");
	($code, $out, $err) = jeprof('diff', @files);
	like($out, qr/: 97\.7K -> 781\.2K, \+683\.6K/, "$name: diff: growth");
	like($err, $said, "$name: diff says it");
	my $diff = decoded(jeprof('diff', '--json', @files));
	is($diff->{minutes} // 'null', $has_mono ? 7 : 'null', "$name: diff: minutes");
	is($diff->{rows}[0]{per_minute} // 'null', $has_mono ? 100_000 : 'null', "$name: diff: rate");
	like((jeprof('diff', @files[5, 2]))[2], qr/\.5\.i5\.heap is later than \S+\.2\.i2\.heap$/m, "$name: diff of two");
	unlike((jeprof('diff', @files[2, 5]))[2], qr/later/, "$name: diff of two in their order");
	my $leaks = decoded(jeprof('leaks', '--json', @files))->{series}[0];
	is($leaks->{suspects}[0]{grown}, 700_000, "$name: leaks");
	is($leaks->{suspects}[0]{per_minute} // 'null', $has_mono ? 100_000 : 'null', "$name: leaks: rate");
	my $report = decoded(jeprof('report', '--json', @files))->{processes};
	is(scalar(@$report), 1, "$name: report: one process");
	is(join(' ', map { $_->{seq} } @{ $report->[0]{snapshots} }), '0 1 2 3 4 5 6 7', "$name: report");
	is($report->[0]{suspects}[0]{stack}[0], 'leak', "$name: report: its suspect");
	($code, $out, $err) = jeprof('report', @files);
	my ($data) = $out =~ /<script type="application\/json" id="data"[^>]*>(.*?)<\/script>/s;
	my @time = map { $_->{time} } @{ JSON::PP::decode_json($data)->{snaps} };
	is(join(' ', map { defined $_ ? $_ - $time[0] : 'null' } @time),
		$has_mono ? '0 60 120 180 240 300 360 420' : join(' ', ('null') x 8), "$name: report: the course");
	like($out, $has_mono ? qr{<b>\+683\.6K</b> in 7\.0 min, <b>\+97\.7K/min</b>} : qr{<b>\+683\.6K</b>\.<}, "$name: report: in words");
	my $massif = (jeprof('export', '--to', 'massif', @files))[1];
	is(join(' ', $massif =~ /^time=(\d+)$/mg), $has_mono ? join(' ', map { 60000 * $_ } 0 .. 7) : '0 1 2 3 4 5 6 7', "$name: massif");
	like($massif, $has_mono ? qr/^time_unit: ms$/m : qr/^time_unit: i$/m, "$name: massif: its unit");
	like((jeprof('top', '--json'))[1], qr/"total":\{"bytes":800000,/, "$name: top of the series: the last");
	like((jeprof('export', '--to', 'collapsed', @files))[1], qr/ 800000$/m, "$name: export: the last");
	like((jeprof('diff', '--json', '--last', '2m', @files))[1], $has_mono ? qr/"before":600000,/ : qr/^$/, "$name: diff --last");
	is((jeprof('diff', '--from', '02:05', '--to', '02:07', '--json', @files))[1] =~ /"before":(\d+),"after":(\d+)/ ? "$1 $2" : '',
		'600000 800000', "$name: diff --from: the clock that ls shows");
}

# Small steps back, as NTP makes them, change nothing.
in_dir('ntp');
my @near = map { our_dump(sprintf('n.5.20260102T0300%06.3fZ.%d.i0.heap', $_->[1], $_->[0]), meta => { pid => 5,
			dump_time => sprintf '20260102T0300%06.3fZ', $_->[1] }, stacks => []) } [0, 1], [1, 4], [2, 3.4], [3, 7];
my ($code, $out, $err) = jeprof('ls', '--json', @near);
is(join(' ', map { $_->{seq} } @{ decoded($code, $out, $err)->{dumps} }), '0 1 2 3', 'a step of half a second: the numbers');
unlike($err, qr/clock/, 'and not a word');

# Two processes, one of them across a clock that was set: each in its order, both merged.
in_dir('two');
my @a = map { one(10, $_, $_ < 2 ? 10 * $_ : 10 * $_ - 20, 600 * $_, 1000) } 0 .. 4;
my @b = map { one(11, $_, 10 * $_ - 15, 600 * $_ + 300, 2000) } 1 .. 4;
is(order(@b, @a), '0 1 1 2 2 3 3 4 4', 'two processes');

# The same pid twice, as in a container that was started anew: numbers begin again.
for my $has_mono (1, 0) {
	in_dir("again$has_mono");
	my @first = map { one(1, $_, $_, $has_mono ? 60 * $_ : undef, 100_000 * ($_ + 1)) } 0 .. 4;
	my @second = map { one(1, $_, 10 + $_, $has_mono ? 600 + 60 * $_ : undef, 50_000 * ($_ + 1)) } 0 .. 4;
	is(order(@second, @first), '0 1 2 3 4 0 1 2 3 4', 'the same pid again');
	my $series = decoded(jeprof('leaks', '--json', @second, @first))->{series};
	is(join(' ', map { $_->{suspects}[0]{grown} // '-' } @$series), '400000 200000', 'leaks: two series');
	unlike((jeprof('ls', @first, @second))[2], qr/clock/, 'not a clock that was set');
}
in_dir('start');
my @early = map { one(1, $_, $_, 5000 + 60 * $_, 1000, start => 'a', stem => 'x') } 3, 4;
my @late = map { one(1, $_, 10 + $_, 60 * $_, 1000, start => 'b', stem => 'x') } 0, 1;
is(order(@late, @early), '3 4 0 1', 'the instance tells two apart, across a boot of the machine');

# The process calls prof.reset, or a session resets, between the dumps 2 and 3: they have another
# begin, which is monotonic_ms less profiled_ms. The rounding of the two makes 1 ms.
in_dir('anew');
sub counted {
	my ($seq, $begun, %more) = @_;
	my %meta = (pid => 9, instance => 'c', monotonic_ms => 60_000 * $seq, profiled_ms => 60_000 * $seq - $begun,
		dump_time => "20260102T030${seq}00.000Z", exe => $app, session => 1, %more);
	defined $meta{$_} or delete $meta{$_} for keys %meta;
	return our_dump("c.9.20260102T030${seq}00.000Z.$seq.i$seq.heap", modules => [[$base + 0x1000, $base + 0x3000, $base, $id, $app]],
		meta => \%meta, stacks => [[[$base + 0x1210, $base + 0x1111], 10, $begun > 100_000 ? 1000 : 90_000]]);
}
my @anew = (counted(1, 7000), counted(2, 7001), counted(3, 130_000), counted(4, 130_001));
my $note = qr/^jeprof: \Q$anew[2]\E: its process began to count anew \(prof\.reset, or the start of a session\) after \Q$anew[1]\E: what it had allocated before is not in it, even if it is still held$/m;
for my $case (['diff', @anew[1, 2]], ['diff', @anew[2, 1]], ['top', "--base=$anew[1]", $anew[2]], ['--text', "--base=$anew[1]", $anew[2]],
	['ls', @anew], ['leaks', @anew], ['report', @anew]) {
	($code, $out, $err) = jeprof(@$case);
	is($code, 0, "$case->[0]: counted anew") or diag $err;
	like($err, $note, 'is said');
	is(() = $err =~ /count anew/g, 1, 'once');
	like($out, qr{<p>\Q$anew[2]\E: its process began to count anew}, 'in the page too') if $case->[0] eq 'report';
}
# Not of one count, whatever its sessions; not of dumps that lack one of the figures, as those of
# older versions; and not where another process may have the pid.
my @plain = ([7000, 7000], [7000, 7000, session => 2], [7000, 7001, session => 0],
	map { [7000, 200_000, $_ => undef] } qw(profiled_ms monotonic_ms instance));
push @plain, [7000, 200_000, instance => 'd'];
for my $case (@plain) {
	my ($begun, $then, @more) = @$case;
	for my $earlier ([], \@more) { # of the later one alone, of both
		my @pair = (counted(5, $begun, @$earlier), counted(6, $then, @more));
		next if @more && $more[0] eq 'instance' && defined $more[1] && @$earlier;
		unlike(join('', map { (jeprof(@$_))[2] } ['diff', @pair], ['top', "--base=$pair[0]", $pair[1]], ['report', @pair]),
			qr/count anew/, join ' ', 'not a word:', map { $_ // 'not told' } @$earlier, 'then', $then, @more);
	}
}
chdir $source;
done_testing();
