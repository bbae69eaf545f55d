#!/usr/bin/perl
# jeprof leaks: which stacks keep growing. Courses whose answer is known, and a program with three
# leaks planted among caches, queues and tables (planted.c), by the verb and by the report.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
no warnings 'portable';
use JSON::PP ();
our ($dir, $source);

my ($code, $out, $err);
my $id = '45' x 20;
my $base = 0x555500000000;
my @names = qw(main leak cache queue late jump slow stop zmalloc);
elf_file("$dir/serve", id => $id, symbols =>
	    [map { [$names[$_], 0x1100 + 0x100 * $_, 0x100] } 0 .. $#names]);
my %at = map { $names[$_] => $base + 0x1111 + 0x100 * $_ } 0 .. $#names;

# Dump number $n of process $pid, where each name holds bytes in objects of 1000.
sub one {
	my ($n, $bytes, %more) = @_;
	my $pid = $more{pid} // 77;
	my $time = sprintf '20260102T03%02d00.000Z', $n;
	my $name = $more{undated} ? "$dir/serve.$pid.$n.i$n.heap"
	    : sprintf '%s/serve.%d.%s.%d.i%d.heap', $dir, $pid, $time, $n, $n;
	return our_dump($name, rate => $more{rate} // 1,
		modules => [[$base + 0x1000, $base + 0x3000, $base, $id, "$dir/serve"]],
		meta => { pid => $pid, $more{undated} ? () : (dump_time => $time), exe => "$dir/serve",
			sample_interval => $more{rate} // 1 },
		stacks => [map { [[$at{zmalloc} + 1, $at{$_} + 1, $at{main} + 1], int($bytes->{$_} / 1000),
					$bytes->{$_}] } grep { $bytes->{$_} } sort keys %$bytes]);
}

sub suspects {
	my ($code, $out, $err) = jeprof('leaks', '--json', @_);
	return "exit $code: $err" if $code;
	return join ' | ', map { my $series = $_;
		join ' ', map { "$_->{stack}[0]="
			    . ($_->{per_minute} // 'none') } @{ $series->{suspects} } }
	    @{ JSON::PP::decode_json($out)->{series} };
}

my @queue = (5, 9, 2, 7, 10, 3, 8, 9, 6);
sub course {
	my ($n) = @_;
	return { leak => 7000 + 10000 * $n, cache => 40000 * ($n < 5 ? $n + 1 : 5),
		queue => 9000 * $queue[$n % 9], late => $n < 6 ? 0 : 500000,
		jump => $n < 1 ? 1000 : 300000, slow => int(100 * (1 - exp(-$n / 2))) * 1000,
		stop => 20000 * ($n < 7 ? $n : 7) + 1000 };
}
my @dump = map { one($_, course($_)) } 0 .. 8;
is(suspects(@dump), 'leak=10000',
	'the leak and nothing else: no cache, queue, table, nor what slows down or has stopped');
is(suspects(reverse @dump), 'leak=10000', 'the order of time is found');
is(suspects(@dump[0 .. 3]), 'cache=40000 slow=25666 stop=20000 leak=10000',
	'four profiles know less');
($code, $out, $err) = jeprof('leaks', @dump);
my @line = split /\n/, $out;
is($line[0],
	'serve pid 77, 9 profiles, 2026-01-02 03:00:00Z -> 2026-01-02 03:08:00Z: 91.8K -> 1.3M, +1.2M, +157.0K/min; 1 stack keeps growing', 'the head line');
like($line[2], qr/^ +\+9\.8K\/min +\xc2\xb10B +\+78\.1K +85\.0K +\+80 +8\/8  leak < main$/,
	'rate, error, grown, live, objects, steps, stack from the owner on');
like($err, qr/next: \S+ report -o leaks\.html .*\n.* top --stacks --focus=leak /,
	'what to do next');
is($code, 0, 'a suspect alone is no failure');
is(suspects('--focus=cache', @dump), '', '--focus');
like((jeprof('leaks', '--focus=cache', @dump))[1], qr/ profiles[^\n]* \(--focus=cache\): .*; no stack keeps growing$/m, 'and it is said of what it leaves');
is(suspects('--wrapper=^leak$', @dump), 'main=10000', '--wrapper');
chdir $dir;
is(suspects(), 'leak=10000', 'the series of the directory');
chdir $source;

# --gate
for my $case (['9K/min', 3], ['11K/min', 0], ['160/s', 3], ['500K/h', 3], ['1M', 0], ['10000', 3],
	['0', 3], ['14M/day', 0], ['13M/day', 3]) {
	($code, $out, $err) = jeprof('leaks', '--gate', $case->[0], @dump);
	is($code, $case->[1], "--gate $case->[0]");
	like($err, $code ? qr/past the gate: suspects of pid 77 grow by \+9\.8K\/min, the limit is /
		: qr/\A(?!.*gate)/s, 'and what is said') or diag $err;
}
is((jeprof('leaks', '--gate', '0', '--json',
			map { one($_, { cache => 5000 }, pid => 5) } 0 .. 8))[0], 0, '--gate 0 without a suspect');
for my $verb (['leaks'], ['leaks', '--gate', '9K/min'], ['export', '--to', 'massif', '-o', '-']) {
	($code, $out, $err) = jeprof(@$verb, '--thread=*', @dump);
	is("$code|$out|$err", "2||jeprof: --thread=*: all threads are shown here, or one: --thread=N\n", "@$verb --thread=*");
}
for my $bad ('fast', '1M/week', '-1') {
	is((jeprof('leaks', "--gate=$bad", @dump))[0], 2, "--gate $bad: exit 2");
}

# A name that is missing fails no gate that is held; the JSON tells the gate.
{
	rename "$dir/serve", "$dir/away" or die;
	is((jeprof('leaks', @dump))[0], 3, 'names are missing: exit 3');
	is((jeprof('leaks', '--gate=1G', @dump))[0], 0, 'and 0 with a gate that is held');
	is((jeprof('leaks', '--gate=9K', @dump))[0], 3, 'and 3 past it');
	rename "$dir/away", "$dir/serve" or die;
}
for my $case (['11K', 0, 11264], ['9K', 1, 9216]) {
	my $gate = JSON::PP::decode_json((jeprof('leaks', '--json', "--gate=$case->[0]", @dump))[1])->{gate};
	is(join(' ', $gate->{per_minute}, $gate->{past} ? 1 : 0), "$case->[2] $case->[1]", "the gate $case->[0] in JSON");
}
is(JSON::PP::decode_json((jeprof('leaks', '--json', @dump))[1])->{gate}, undef, 'without one null');

# All that is judged lies in one second of the clock, the series does not.
{
	my @same = map { one($_, { leak => 7000 + 10000 * $_ }, pid => 81) } 0 .. 25;
	my $at = -1;
	for my $name (@same) {
		$at++;
		my $time = sprintf '20260102T0300%02d.000Z', $at < 24 ? 7 : 9;
		my $text = slurp($name) =~ s/dump_time=\S+/dump_time=$time/r;
		spew($name, $text);
	}
	($code, $out, $err) = jeprof('leaks', '--gate=1K', @same);
	is($code, 3, 'a suspect without times of its own has the rate of the series') or diag $out, $err;
	unlike($err, qr/uninitialized/, 'and none is undefined');
}

# Long series, several processes, no times, samples.
my @long = map { my $n = $_; one($n,
		{ leak => 1000 * (50 + 3 * $n + 40 * ($n % 3)), queue => 1000 * (50 + 40 * ($n % 3)),
			cache => $n < 12 ? 5000 * $n + 1000 : 61000 }, pid => 78) } 0 .. 35;
is(suspects(@long), 'leak=3000', 'of 36 profiles: a floor that rises below what breathes');
is(suspects(@dump, @long), 'leak=10000 | leak=3000', 'two processes: each by itself');
my @undated = map { one($_, course($_), undated => 1, pid => 79) } 0 .. 10;
is(suspects(@undated[3, 9, 10, 0 .. 2, 4 .. 8]), 'leak=none',
	'no times: the order of the numbers, and no rate');
($code, $out, $err) = jeprof('leaks', '--gate=1', @undated);
is($code, 1, 'no times: no gate');
like($err, qr/have no times/, 'and why');
like($out, qr/ leak < main$/m, 'behind the table');
is(JSON::PP::decode_json((jeprof('leaks', '--json', '--gate=1', @undated))[1])->{gate}{past}, undef, 'null in JSON');
my @few = map { one($_, { leak => 1000 * (1 + int($_ / 3)) }, pid => 80, rate => 524288) } 0 .. 8;
like((jeprof('leaks', @few))[2],
	qr/^jeprof: a leak of small objects that grew by less than about 6\.1M cannot be told from chance: one sample for each 512\.0K$/m, 'what cannot be seen');
unlike((jeprof('leaks', @dump))[2], qr/from chance/, 'without sampling there is none');
is(suspects(@few), '', 'three samples are chance');
($code, $out, $err) = jeprof('leaks', @dump[0 .. 2]);
is("$code$out", '2', 'three profiles: exit 2');
like($err, qr/at least 4 profiles of one process/, 'and why');

# Planted. 20 of 20 are right; two are enough here, at a rate at which chance makes no suspect of a cache
# that fills ever more slowly (with 4 KiB it does in one run of 100).
SKIP: {
	my ($library) = reverse libraries();
	skip 'no gcc or library', 6 unless $library && which('gcc');
	my $planted = build('planted.c', slurp("$source/test/jeprof/planted.c"), '-lm');
	for my $seed (3, 4) {
		local $ENV{LD_PRELOAD} = $library;
		local $ENV{MALLOC_CONF} = "prof:true,lg_prof_sample:9,prof_prefix:$dir/planted$seed";
		system($planted, $seed);
	}
	for my $seed (3, 4) {
		my @files = glob "$dir/planted$seed.*.heap";
		is(scalar(@files), 9, 'nine dumps');
		($code, $out) = jeprof('leaks', '--json', @files);
		my @found = map { $_->{stack} } map { @{ $_->{suspects} } } @{ JSON::PP::decode_json($out)->{series} };
		is(join(' ', sort map { join '<', grep { !/^(?:main|_|xmalloc)/ } @$_ } @found),
			'forget_session node_new<index_entry reload_config',
			"the three that were planted, run $seed");
		next if $seed == 4;
		my ($text) = (jeprof('report', @files))[1] =~ /data-form="json">(.*?)<\/script>/s;
		my $data = JSON::PP::decode_json($text);
		my @name = node_names($data);
		is(join(' ', map { $data->{names}[$name[$_->[0]]] } @{ $data->{suspects} }),
			join(' ', map { $_->[0] } @found), 'the report has the same');
	}
}
done_testing();
