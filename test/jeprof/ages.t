#!/usr/bin/perl
# Ages: what a profile with the lines age and life says. Programs are simulated: each allocation of
# a kind has a time and an end; what lives after SPAN seconds is sampled, and a profile is made of it.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
no warnings 'portable';
use JSON::PP ();
our ($dir, $source);

use constant { SPAN => 61, SIZE => 1000, RATE => 4096 };
my @bounds = (1, 4, 16, 60, 240, 960, 3600, 14400, 57600);
my ($code, $out, $err);
my $id = '46' x 20;
my $base = 0x555500000000;

# name => [first allocation at a second, last, how many a second, lifetime (undef: for ever), what is
# said of it, what is said without lifetimes]
my %kinds = (
	leak => [0, SPAN, 30, undef, 'grows'],
	cache_fills => [0, 30, 40, undef, 'stays'],
	cache_slow => [0, 53, 40, undef, 'stays'], # not the third column on alone
	churn => [0, SPAN, 4000, 0.4, 'churn'],
	lru_cache => [0, SPAN, 120, 15, 'bounded', 'recent'],
	load_table => [0, 0.5, 3000, undef, 'stays'],
	late_leak => [41, SPAN, 90, undef, 'grows', 'recent'],
	burst => [30, 31, 1500, undef, 'stays'],
	leak_and_churn => [0, SPAN, 30, undef, 'grows'], # with some of the next
	queue => [0, SPAN, 50, 0.2, 'churn'],
);
my @names = ('main', sort keys %kinds);
elf_file("$dir/serve", id => $id, symbols =>
	    [map { [$names[$_], 0x1100 + 0x100 * $_, 0x100] } 0 .. $#names]);
my %at = map { $names[$_] => $base + 0x1111 + 0x100 * $_ } 0 .. $#names;

sub column { my ($age) = @_; return scalar grep { $age >= $_ } @bounds }

# The probability that an object is sampled.
my $p = 1 - exp(-SIZE / RATE);

# Live and freed samples of a kind by column: [objects, freed objects, { column => n }, the same freed]
sub simulate {
	my ($name) = @_;
	my ($from, $to, $each, $life) = @{ $kinds{$name} };
	my @got = (0, 0, {}, {});
	for (my $time = $from; $time < $to; $time += 1 / $each) {
		next if rand() >= $p;
		my $age = SPAN - $time;
		my $end = defined $life ? $life * (0.9 + 0.2 * rand()) : 1e9;
		my $at = $age > $end ? 1 : 0;
		$got[$at]++;
		$got[2 + $at]{ column($at ? $end : $age) }++;
	}
	return @got;
}

sub columns_text {
	my ($columns, $size) = @_;
	return join ' ', map { "$_:" . $columns->{$_} * $size } sort { $a <=> $b } keys %$columns;
}

# A profile of all kinds.
sub profile {
	my ($path, %want) = @_;
	my $text = 'heap_v2/' . RATE . "\n# jemalloc.version=5.3.1\n# jemalloc.pid=77\n"
	    . "# jemalloc.dump_time=20260102T030000.000Z\n# jemalloc.sample_interval=" . RATE . "\n"
	    . '# jemalloc.profiled_ms=' . SPAN * 1000 . "\n  t*: 1: 1 [0: 0]\n  t0: 1: 1 [0: 0]\n";
	my ($trailer, $number) = ("# age_bounds_s @bounds\n", 0);
	for my $name (sort keys %kinds) {
		my ($objects, $freed, $ages, $life) = @{ $want{counts}{$name} // [simulate($name)] };
		if ($name eq 'leak_and_churn') {
			my @more = simulate('queue');
			$_ += shift @more for $objects, $freed;
			$ages->{$_} += $more[0]{$_} for keys %{ $more[0] };
			$life->{$_} += $more[1]{$_} for keys %{ $more[1] };
		}
		next if !$objects || $want{only} && $name !~ $want{only};
		$number++;
		my $counts = sprintf '%d: %d [%d: %d]', $objects, $objects * SIZE,
		    map { $want{accum} ? $_ : 0 } $objects + $freed, ($objects + $freed) * SIZE;
		$text .= sprintf "@ 0x%x 0x%x\n  t*: %s\n  t0: %s\n", $at{$name} + 1, $at{main} + 1, ($counts) x 2;
		$trailer .= "# age $number " . columns_text($ages, SIZE) . "\n";
		$trailer .= "# life $number " . columns_text($life, SIZE) . "\n" if $want{accum} && %$life;
	}
	$text .= sprintf "\nMAPPED_LIBRARIES:\n# module %x-%x %x %s %s\n", $base + 0x1000, $base + 0x3000, $base, $id, "$dir/serve";
	$text .= $trailer unless $want{no_ages};
	$text =~ s/^# age .*\n//mg, $text .= "# age none: no memory\n" if $want{no_memory};
	$text =~ s/^# age_bounds.*\n//mg if $want{no_memory};
	$text .= sprintf "# end %d\n", length $text;
	return spew($path, $text);
}

sub judged {
	my ($file) = @_;
	($code, $out, $err) = in_child('leaks', '--json', $file);
	return "exit $code: $err" if $code;
	my ($series) = @{ JSON::PP::decode_json($out)->{series} };
	my %kind = map { $_->{stack}[0] => $_ } @{ $series->{stacks} };
	return (\%kind, $series);
}

# ---- 20 of 20 from one profile ----
for my $has_accum (0, 1) {
	my %wrong;
	for my $seed (1 .. 20) {
		srand $seed;
		my ($kind) = judged(profile("$dir/one.heap", accum => $has_accum));
		for my $name (sort keys %kinds) {
			my $wanted = $has_accum ? $kinds{$name}[4] : $kinds{$name}[5] // $kinds{$name}[4];
			my $got = ref $kind ? $kind->{$name} : { kind => $kind };
			$wrong{"$name in run $seed"} = $got->{kind} if ($got->{kind} // 'small') !~ /^(?:$wanted)$/
			    && !($name =~ /^(?:queue)$/ && !defined $got->{kind});
		}
	}
	is(join(', ', map { "$_: $wrong{$_}" } sort keys %wrong), '',
		'right in 20 runs of 20, ' . ($has_accum ? 'with' : 'without') . ' lifetimes');
}
srand 7;
my $aged = profile("$dir/aged.heap");
my ($kind, $series) = judged($aged);
my ($leak) = grep { $_->{stack}[0] eq 'leak' } @{ $series->{suspects} };
ok($leak && abs($leak->{per_minute} - 30 * 60 * SIZE) < 2.5 * $leak->{error_per_minute},
	'its rate and error') or diag explain $leak;
is($kind->{leak}{seconds}, SPAN, 'since when');
ok(abs($kind->{lru_cache}{seconds} - 15) < 2, "the turnover of a cache: $kind->{lru_cache}{seconds}");
is($series->{judged}, JSON::PP::true, 'judged');
($code, $out, $err) = jeprof('leaks', $aged);
like($out, qr/^serve pid 77, one profile at 2026-01-02 03:00:00Z, of 61\.0 s: \S+ live; by its ages 2 stacks grow$/m, 'leaks: the head line');
like($out, qr/^ +\+1\.\dM\/min +\xc2\xb1\d+\.\dK +1\.\dM +\xc2\xb1\d+\.\dK +3\ds  grows 61s +leak < main$/m, 'leaks: a row');
like($out, qr/^grows: +all ages, in proportion to the time: it grows, a leak suspect$/m, 'leaks: in words');
like($out, qr/^recent: .*prof_accum:true/m, 'and what tells more');
is($code, 0, 'a suspect alone is no failure') or diag $err;
is((jeprof('leaks', '--gate', '1M/min', $aged))[0], 3, '--gate');
is((jeprof('leaks', '--gate', '100M/min', $aged))[0], 0, 'below it');

# ---- top ----
($code, $out, $err) = jeprof('top', $aged);
like($out, qr/: live \S+M \xc2\xb1\S+ in \d+ objects, estimated from samples\n +self +margin +% +cum +cum% +objects +age  function +callers\n/, 'top: its columns');
like($out, qr/^ +1\.\dM +\xc2\xb1\d+\.\dK +\S+% +1\.\dM +\S+% +\d+ +6\ds  load_table +main$/m, 'top: error and median age');
for my $given ([PERL_UNICODE => 'SDA'], [PERL5OPT => '-Mopen=:std,:utf8']) {
	local $ENV{ $given->[0] } = $given->[1];
	is((jeprof('top', $aged))[1], $out, "top: the same bytes with $given->[0]");
}
sub top_of {
	my %self = map { $_->{function} => $_->{self} } @{ JSON::PP::decode_json((jeprof('top', '--json', '-n', 99, @_, $aged))[1])->{rows} };
	return \%self;
}
my $all = top_of();
my $old = top_of('--older', '16s');
my $young = top_of('--younger=16');
is(join(' ', grep { abs($all->{$_} - ($old->{$_} // 0) - ($young->{$_} // 0)) > 1 } sort keys %$all), '', '--older and --younger are all');
ok(!exists $old->{churn} && !exists $young->{load_table}, 'and each the other half');
is(join(' ', sort keys %{ top_of('--older=35s', '--younger=1m', '--focus=burst|load|^leak$') }), 'burst leak', 'both, and --focus');
like((jeprof('top', '--older', '16s', $aged))[1], qr/: live \S+M \xc2\xb1\S+ older than 16s in /, 'it is said');
for my $bad (['--older=soon', 2, qr/takes an age as 30s/], ['--older=1m', 1, qr/bare\.heap: has no ages: it was written by/, 'bare'],
	['--younger=1m', 1, qr/none\.heap: has no ages: no memory/, 'none']) {
	my $file = !$bad->[3] ? $aged : profile("$dir/$bad->[3].heap", $bad->[3] eq 'bare' ? 'no_ages' : 'no_memory' => 1);
	($code, $out, $err) = jeprof('top', $bad->[0], $file);
	is($code, $bad->[1], "$bad->[0]: exit $bad->[1]");
	like($err, $bad->[2], 'and why');
	unlike($err, qr/skipped|unknown/, 'no other message');
}
($code, $out, $err) = jeprof('leaks', "$dir/bare.heap");
is($code, 2, 'leaks of one without ages');
like($err, qr/has no ages: it was written.*\n.*at least 4 profiles of one process.* or one with ages/, 'what it lacks');
unlike((jeprof('top', "$dir/bare.heap"))[1], qr/ age /, 'no column of ages');
($code, $out, $err) = jeprof('top', '--stacks', '--focus=load_table', $aged);
like($out, qr/^ +1\.\dM \xc2\xb1\S+K +100\.0% +\d+ objects, 6\ds old$/m, 'top --stacks');

# ---- minus a base: what the new one has of ages ----
my %half = map { $_ => [60, 0, { 3 => 60 }, {}] } keys %kinds;
my $before = profile("$dir/before.heap", counts => \%half);
($code, $out, $err) = jeprof('top', "--base=$before", $aged);
like($out, qr/^ +\S+M +\xc2\xb1\S+ .* 6\ds  load_table/m, 'top --base: ages of the new one') or diag $err;
my ($first, @later) = map { my ($name, $count, $column) = @$_;
	profile("$dir/of.$name.$column.heap", only => qr/^$name$/,
		counts => { $name => [$count, 0, { $column => $count }, {}] }) }
    ['lru_cache', 9, 0], ['load_table', 60, 0], ['load_table', 180, 3];
for my $order ([@later], [reverse @later]) {
	($code, $out, $err) = jeprof('top', '--sum', "--base=$first", @$order);
	like($out, qr/ 3\ds  load_table/, 'top --sum --base: ages of all') or diag $out, $err;
}
($code, $out, $err) = jeprof('top', '--sum', @later);
like($out, qr/\A\w+, 2 profiles added up: live /, 'top --sum: the title tells no process of one') or diag $out;
($code, $out, $err) = jeprof('flame', '-o', '-', '--sum', @later);
like($out, qr/>\w+, 2 profiles added up: /, 'nor that of flame') or diag $err;
is((jeprof('--text', $aged))[0], 0, 'the table of old');
{
	my $unknown = spew("$dir/unknown.heap", slurp($aged) =~ s/(?<=^# jemalloc\.)(?=profiled_ms|start_time|opened_time)./X/gmr);
	($code, $out, $err) = jeprof('top', '--older=10s', $unknown);
	is($code, 0, '--older, of an unknown time') or diag $err;
	($code, $out, $err) = jeprof('top', '--older=3d', $unknown);
	is($code, 3, 'beyond what columns tell: a doubt');
	like($err, qr/does not say how long it was profiled: of ages above 16h only that is known$/m, 'and why');
}
ok((jeprof('flame', '--older=16s', '--focus=a|.', $aged))[1] =~ / \(--focus=a\|\.\): \S+ older than 16s</, 'flame: its title says what is shown');
for my $words (['top', '--older=16s'], ['top', '--younger=16s'], ['flame', '--older=16s'], ['--text', '--older=16s']) {
	($code, $out, $err) = jeprof(@$words, "--base=$aged", $aged);
	is("$code|$out", '2|', "@$words --base: exit 2");
	like($err, qr/^jeprof: --older and --younger are .* not for a difference \(--base\)$/m, 'and why');
}

# ---- a report keeps few ages: those of the newest profile of each process and of the largest ----
sub series {
	my @points = @_;
	my $number = 0;
	return map { my ($kinds, $objects, $mono, $instance) = @$_;
		my $text = slurp(profile("$dir/point.heap", only => $kinds,
				counts => { map { $_ => [$objects, 0, { 3 => $objects }, {}] } keys %kinds }));
		$text =~ s/T0300/sprintf 'T03%02d', ++$number/e;
		$text =~ s/^(# jemalloc.pid)=77/$1=$instance\n# jemalloc.monotonic_ms=$mono/m;
		$text =~ s/^# end .*\n//m;
		spew("$dir/point.$number.heap", $text . sprintf "# end %d\n", length $text) } @points;
}
sub with_ages {
	my ($html) = (jeprof('report', @_))[1];
	my ($data) = $html =~ /<script type="application\/json" id="data" data-form="json">(.*?)<\/script>/s;
	my @snaps = @{ JSON::PP::decode_json($data)->{snaps} };
	return join ' ', grep { $snaps[$_]{ages} } 0 .. $#snaps;
}
my ($many, $one) = (qr/./, qr/^leak$/);
is(with_ages(series([$many, 60, 1000, 77], [$many, 60, 2000, 77], [$one, 90000, 3000, 77], [$many, 60, 4000, 77],
			[$many, 60, 5000, 77], [$one, 5, 6000, 77])), '2 5', 'of the largest by bytes, and of the newest');
is(with_ages(series([$many, 90, 9000000, 77], [$many, 60, 9060000, 77], [$many, 60, 9120000, 77], [$many, 60, 1000, 78],
			[$many, 60, 61000, 78])), '0 2 4', 'of the newest of each process');
my @own = map {
	my $other = slurp($aged) =~ s/^(# jemalloc.pid)=77/$1=10$_/mr =~ s/^# end .*\n//mr;
	spew("$dir/own.$_.heap", $other . sprintf "# end %d\n", length $other);
} 1 .. 5;
is(join(' ', (jeprof('leaks', '--gate', '1M/min', @own))[2] =~ /past the gate: suspects of pid (\d+)/g),
	'101 102 103 104 105', 'the gate judges each of five processes by its ages');
($code, $out, $err) = jeprof('leaks', @own);
like($err, qr/ top --stacks .*own\.${ \($out =~ m{pid 10(\d)})[0] }\.heap$/m, 'the next command looks at the process of the first suspect');
# ---- samples that are spread evenly are never said to stay, however few they are ----
load_jeprof();
my %said;
for my $span (60, 120, 240, 480, 960, 3840) {
	for my $samples (22 .. 200) {
		my @columns = map { my ($from, $to) = @$_; $from < $span ? $samples * ($to - $from) / $span : 0 } Ages::edges($span);
		my $kind = Since::judge(\@columns, $samples, $span)->{kind};
		$said{$kind}{"$samples in $span s"} = 1;
	}
}
is(join(' ', sort keys %{ $said{stays} // {} }, keys %{ $said{mixed} // {} }), '', 'a leak with few samples: not that it stays');
ok($said{grows}, 'with more it grows');
# ---- for how long it was sampled: the same for the page ----
for my $line ('start_time=20260102T025859.000Z', 'opened_time=20260102T025859.000Z') {
	my $dated = spew("$dir/dated.heap", slurp($aged) =~ s/profiled_ms=\d+/$line/r =~ s/^# end .*\n//mr);
	like((jeprof('report', $dated))[1], qr/"profiled_ms":"61000"/, "a report of one with $line");
}

# ---- damage ----
my $text = slurp($aged);
my $without; # what jeprof prints if the added line has no column that there is
for my $case (['# age 999999 1:5', 'a site that is not there'], ['# age 1 77:5 3', 'a column that is not there'],
	['# age', 'no words'], ['# age_bounds_s 1 2 3', 'other bounds'], ['# life 0 1:1', 'the number 0'],
	['# age 1 1:99999999999999999999', 'a large number'], ['# age 1 100:5', 'a column of three digits'], ['# label 1', 'a label without text']) {
	my $bad = $text =~ s/^# end.*\n//mr . "$case->[0]\n";
	$bad .= sprintf "# end %d\n", length $bad;
	($code, $out, $err) = jeprof('top', spew("$dir/bad.heap", $bad));
	$without = $out if $case->[0] =~ / 77:/;
	is($out, $without, 'of a column of three digits none is read') if $case->[0] =~ / 100:/;
	is("$code " . ($err =~ /uninit|internal| at \S+ line/ ? $err : ''), '0 ', $case->[1]);
}

# ---- at the limits of what is told ----
is(join(' ', map { Since::judge([100, (0) x 9], $_, 61)->{kind} } 5, 6), 'few churn', 'six samples tell what is short-lived');
is(join(' ', map { Since::judge([1, 3, 12, 14, (0) x 6], $_, 30)->{kind} } 21, 22), 'few grows', '22 tell what grows');
is(join(' ', map { Since::oldest({ from => 0, to => 1, bytes => 1 }, { from => 1, to => 4, bytes => $_ }, { from => 4, to => 16, bytes => 0 }) } 2, 3, 100), '3 4 4', 'the oldest age is in its column');
done_testing();
