#!/usr/bin/perl
# The agent's conversion of heap_v2 to pprof: the sums are those of jeprof export, of whole profiles and of differences; each index of
# the result is valid; what is damaged is refused with a sentence, and no sanitizer has anything to say.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
no warnings 'portable';
our ($dir, $data, $source, $convert);

make_convert(split " ", "-fsanitize=address,undefined -fno-sanitize-recover=undefined");
$ENV{ASAN_OPTIONS} = 'detect_leaks=1';

my $id = '46' x 20;
my $base = 0x555500000000;
elf_file("$dir/serve", id => $id, symbols => [['main', 0x1100, 0x100], ['serve', 0x1200, 0x100], ['cache', 0x1300, 0x100], ['leak', 0x1400, 0x100]]);

sub at { return [map { $base + 0x1111 + 0x100 * $_ } @_] }

sub one {
	my ($n, %want) = @_;
	return our_dump("$dir/serve.77.20260102T03000$n.000Z.$n.i$n.heap", rate => 4096, modules => [[$base + 0x1000, $base + 0x3000, $base, $id, "$dir/serve"]],
		meta => { pid => 77, dump_time => "20260102T03000$n.000Z", exe => "$dir/serve", sample_interval => 4096, version => '5.3.1' },
		stacks => [[at(2, 1, 0), 13, 1313], [at(3, 1, 0), 7 + $n, 713 * (7 + $n)], [at(2, 0), 11, 1777], [at(0), 1, 17]], %want);
}
sub exported { my ($code, $out, $err) = jeprof('export', '--to', 'pprof', @_); ok($code == 0 || $code == 3, 'jeprof export') or diag $err; return pprof_decode(unzip($out)) }

# ---- whole profiles
my @dump = map { one($_) } 0 .. 3;
my $p = converted($dump[3]);
is($p->{types}, 'alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes', 'types, in the order of Go');
is("$p->{default}|$p->{period}|$p->{period_type}|$p->{time}|" . ($p->{duration} // 0), 'inuse_space|4096|space|1767322803000000000|0', 'default, period, time');
# Times that are none, and the first and last one that are: no sum or difference of them overflows.
for my $time ('22619931T235959.999Z', '20260002T030000.000Z', '20261302T030000.000Z', '20260100T030000.000Z', '20260102T240000.000Z', '20260102T036000.000Z', '20260102T030061.000Z', '20260102T0300-1.000Z', '19691231T235959.999Z', '22620101T000000.000Z', '16780101T000000.000Z', '20260102') {
	is(converted(one(4, meta => { pid => 77, dump_time => $time, mark_time => '16780101T000000.000Z', sample_interval => 4096 }))->{time} // 0, 0, "no time: $time");
}
is(converted(one(4, meta => { pid => 77, dump_time => '22611231T235960.999Z', sample_interval => 4096 }))->{time}, '9214646400999000000', 'the last time');
my @far = map { one($_->[0], meta => { pid => 77, dump_time => $_->[1], sample_interval => 4096 }) } [5, '22611231T235959.999Z'], [6, '16780101T000000.000Z'], [7, '19700101T000000.001Z'];
is(converted('--base', $far[1], $far[0])->{duration} // 0, 0, 'since a time that is none: no duration');
is(converted('--base', $far[2], $far[0])->{duration} // 0, '9214646399998000000', 'since the first time');
is(converted('--type', 'alloc_space', $dump[3])->{default}, 'alloc_space', 'another default');
is(converted('--type', '<b>', $dump[3])->{default}, 'inuse_space', 'a default that is no type');
is("$p->{mappings}[0]{id} $p->{mappings}[0]{file} $p->{mappings}[0]{build_id}", "1 $dir/serve $id", 'mapping 1 is the program, with its build-id');
is(sprintf('%x-%x', @{ $p->{mappings}[0] }{qw(start limit)}), sprintf('%x-%x', $base + 0x1000, $base + 0x3000), 'and its addresses');
like(join("\n", @{ $p->{comments} }), qr/^pid=77$(?=.*^sample_interval=4096$).*^version=5\.3\.1$/ms, 'comments: the metadata');
for my $case ([$dump[3]], ["$data/counts.heap"], ["$data/counts2.heap"], [one(7, stacks => [])], [one(8, rate => 0)], [one(9, rate => 1)]) {
	my ($file) = @$case;
	is(join(' ', totals(converted($file))), join(' ', totals(exported($file))), 'totals of jeprof export: ' . $file =~ s{.*/}{}r);
}
my $want = exported("$data/counts.heap");
my %by_stack;
$by_stack{ join ' ', map { $_->{address} } @{ $_->{stack} } } += $_->{values}[3] for @{ converted("$data/counts.heap")->{samples} };
for my $sample (@{ $want->{samples} }) {
	cmp_ok(abs($by_stack{ join ' ', map { $_->{address} } @{ $sample->{stack} } } - $sample->{values}[3]), '<=', 2, 'a stack has what it has there');
}
my ($worker) = grep { ($_->{labels}{thread} // '') eq 'worker one' && @{ $_->{stack} } == 3 } @{ converted("$data/counts.heap")->{samples} };
is($worker->{labels}{thread_id}, 1, 'threads are labels');

# ---- labels
sub labeled {
	my ($name, $trailer, @stacks) = @_;
	my $path = our_dump("$dir/$name.heap", rate => 1, modules => [[$base + 0x1000, $base + 0x3000, $base, $id, "$dir/serve"]], meta => { pid => 77, dump_time => '20260102T030003.000Z', session => 1 },
		stacks => \@stacks, no_end => 1);
	my $text = slurp($path) . $trailer;
	return spew($path, $text . sprintf "# end %d\n", length $text);
}
sub by_label {
	my ($p, %sum) = @_;
	for my $s (@{ $p->{samples} }) { $sum{ $s->{labels}{label} // '' }[$_] += $s->{values}[$_ + 2] for 0, 1 }
	return join ' ', map { "$_=$sum{$_}[0]/$sum{$_}[1]" } sort keys %sum;
}
my @two = ([at(1, 0), 10, 100_000], [at(2, 0), 4, 40_000]);
my $labels = "# label 1 tenant a\n# label 2 b\\x5c\\xc3\\xa4\n# labeled 1 1:6:60000 2:3:30000\n# labeled 2 1:1:10000\n";
my $of_two = labeled('two', $labels, @two);
is(by_label(converted($of_two)), "=4/40000 b\\\xc3\xa4=3/30000 tenant a=7/70000", 'labels divide stacks');
is(by_label(converted($of_two)), by_label(exported($of_two)), 'as jeprof export has it');
is(by_label(converted('--base', labeled('none', '', @two), $of_two)), "=-10/-100000 b\\\xc3\xa4=3/30000 tenant a=7/70000", 'a difference is by label');
is(by_label(converted('--base', $of_two, labeled('later', $labels =~ s/1:6:60000/1:8:80000/r, [at(1, 0), 12, 120_000], $two[1]))), 'tenant a=2/20000', 'of what has changed');
# A pool of 60 threads in one stack. With more labels than may be divided among all of them the sums of labels and of threads stay.
sub pool {
	my ($name, $trailer) = @_;
	my $path = labeled($name, $trailer, [at(1, 0), 6000, 600_000]);
	my $text = slurp($path) =~ s/^# end.*//msr;
	my @threads = map { "  t$_: 100: 10000 [0: 0]" } 1 .. 60;
	$text =~ s{^  t0: 1: 1 .*\n}{join '', map { "$_ worker\n" } @threads}me or die;
	$text =~ s{^  t0: 6000: .*\n}{join '', map { "$_\n" } @threads}me or die;
	return spew($path, $text . sprintf "# end %d\n", length $text);
}
sub bytes_by {
	my ($p, $key, %sum) = @_;
	$sum{ $_->{labels}{$key} // '' } += $_->{values}[3] for @{ $p->{samples} };
	return join ' ', map { "$_=$sum{$_}" } sort keys %sum;
}
my $each = join ' ', map { "$_=10000" } sort 1 .. 60;
my $of_pool = converted(pool('pool', "# label 1 a\n# labeled 1 1:6000:600000\n"));
is(by_label($of_pool), 'a=6000/600000', 'a label of a pool of threads has all of it');
is(bytes_by($of_pool, 'thread_id'), $each, 'of each thread what it had');
for my $n (17, 100) {
	my @ids = map { sprintf '%03d', $_ } 1 .. $n;
	my $all = pool("pool$n", join('', map { "# label $_ l$_\n" } @ids) . '# labeled 1' . join('', map { " $_:50:3000" } @ids) . "\n");
	my $many = converted($all);
	is(bytes_by($many, 'label'), sprintf('=%d ', 600_000 - 3000 * $n) . join(' ', map { "l$_=3000" } @ids), "$n labels of a pool: each has its part");
	is(bytes_by($many, 'thread_id'), $each, 'and each thread');
	cmp_ok(scalar @{ $many->{samples} }, '<=', 18 * 60 + 2 * $n, 'and there are not more samples than that needs');
}
# Ages, where they are asked for: each sample has the seconds from which on its column counts.
my $aged = labeled('aged', "# age_bounds_s 1 4 16 60 240 960 3600 14400 57600\n# age 1 0:25000 3:75000\n# age 2 9:40000\n$labels", @two);
sub by_age { my ($p, %sum) = @_; $sum{ ($_->{labels}{label} // '') . '@' . ($_->{labels}{age} // '-') } += $_->{values}[3] for @{ $p->{samples} }; return join ' ', map { "$_=$sum{$_}" } sort keys %sum }
my @aged = (converted('--ages', 1, $aged), converted($aged));
is(by_age($aged[0]), "\@0=2500 \@16=7500 \@57600=30000 b\\\xc3\xa4\@0=7500 b\\\xc3\xa4\@16=22500 tenant a\@0=15000 tenant a\@16=45000 tenant a\@57600=10000", 'ages of what each label has');
is(by_age($aged[1]), "\@-=40000 b\\\xc3\xa4\@-=30000 tenant a\@-=70000", 'not asked for: none');
is(join(' ', totals($aged[0])), join(' ', totals($aged[1])), 'the same totals');
for my $bad ('# age 1 0:1 0:1', '# age 1 10:1', '# age 2 1:1', '# age 3 0:1', '# age 0 0:1', '# age 1 ', '# age 99999999999999999999 0:1', "# age 2 0:1\n# age 1 0:1", '# age 1 0:0') {
	is(join(' ', totals(converted('--ages', 1, labeled('bad', "# age_bounds_s 1 4 16 60 240 960 3600 14400 57600\n$bad\n", @two)))), '0 0 14 140000', 'sums stay: ' . $bad =~ s/\n/, /r);
}
is(by_age(converted('--ages', 1, labeled('other', "# age_bounds_s 1 4\n# age 1 0:25000\n", @two))), '@-=140000', 'other columns: not told');
is(by_age(converted('--base', labeled('before', '', @two), '--ages', 1, $aged)) =~ /@\d/ ? 1 : 0, 0, 'nor of a difference');
for my $bad ('# labeled 1 1:99:990000 2:99:99', '# labeled 1 1:6:60000 1:6:60000 1:6:60000', '# labeled 0 1:1:1', '# labeled 3 1:1:1', '# labeled 1 9:1:1', '# labeled 1 1:', '# label 1',
	'# labeled 1' . ' 1:1:1' x 5000, '# labeled 99999999999999999999 1:1:1', '# label 1 ' . 'x' x 9999, '# labeled 1 1:99999999999999999999:99999999999999999999') {
	is(join(' ', totals(converted(labeled('bad', "# label 1 a\n$bad\n# label 2 \\x00\\x\n", @two)))), '0 0 14 140000', 'sums stay: ' . substr $bad, 0, 40);
}
# Each line of a stack walks all its threads: one for each stack, in their order, as they are written.
my @again = ("# label 1 a\n# label 2 b\n# labeled 1 1:1:10000\n", "# labeled 2 2:2:20000\n");
is(by_label(converted(labeled('once', join('', @again), @two))), '=11/110000 a=1/10000 b=2/20000', 'a line for each stack');
is(by_label(converted(labeled('twice', "$again[0]# labeled 1 2:5:50000\n$again[1]# labeled 2 1:1:10000\n# labeled 1 1:1:10000\n", @two))), '=11/110000 a=1/10000 b=2/20000', 'the second one of a stack is passed over');
is(by_label(converted(labeled('late', "# label 2 b\n$again[1]$again[0]", @two))), '=12/120000 b=2/20000', 'and one that comes too late');
# Labels that have nothing of a stack take no memory for each of its threads.
sub most_kb {
	my $threads = join '', map { "  t$_: 1: 1 [0: 0]\n" } 1 .. 40_000;
	my ($code, $out, $err) = run($convert, spew("$dir/nothing.heap", "heap_v2/1\n\@ 0x10\n  t*: 40000: 40000 [0: 0]\n$threads\nMAPPED_LIBRARIES:\n# label 1 a\n# labeled 1 @_\n"), '--memory');
	return $code == 0 && $err =~ /VmHWM:\s*(\d+)/ ? $1 : die "$code $err";
}
cmp_ok(most_kb(join ' ', ('1:0:0') x 16), '<', most_kb('1:0:0') + 16_000, 'labels of nothing take none');

# ---- differences
my $delta = converted('--base', $dump[0], $dump[3]);
is((totals($delta))[3], (totals(exported('--base', $dump[0], $dump[3])))[3], 'the difference of jeprof --base');
is("$delta->{time} $delta->{duration}", '1767322800000000000 3000000000', 'it begins with the first and lasts');
is(scalar @{ $delta->{samples} }, 1, 'what did not change is left out');
is((totals(converted('--base', $dump[3], $dump[3])))[3], 0, 'nothing of itself');
my $gone = converted('--base', $dump[3], one(4, stacks => []));
is(-(totals($gone))[3], (totals(converted($dump[3])))[3], 'what was freed is negative');
# Each [UID, NAME, BYTES] is a thread that holds one object, with a stack of its own.
sub of_threads {
	my ($name, @threads) = @_;
	my $text = slurp(our_dump("$dir/$name.heap", meta => { pid => 77, sample_interval => 1 }, stacks => [], no_end => 1));
	my $listed = join '', map { "  t$_->[0]: 1: $_->[2] [0: 0] $_->[1]\n" } @threads;
	my $held = join '', map { sprintf "@ 0x%x\n  t*: 1: %d [0: 0]\n  t%d: 1: %d [0: 0]\n", $base + 0x1111 + $_->[0], $_->[2], $_->[0], $_->[2] } @threads;
	$text =~ s/^  t0: .*\n/$listed$held/m;
	return spew("$dir/$name.heap", $text . sprintf "# end %d\n", length $text);
}
my $ended = converted('--base', of_threads('earlier', [5, 'five', 500], [2, 'two', 200], [9, 'nine', 900]), of_threads('later', [3, 'three', 300], [5, 'five', 500], [7, 'seven', 700]));
is(join(' ', sort map { "$_->{labels}{thread}=$_->{values}[3]" } @{ $ended->{samples} }), 'nine=-900 seven=700 three=300 two=-200', 'each thread has its own, also those that have ended');
is((run($convert, '--base', "$data/counts.heap", $dump[3]))[0], 1, 'another process: refused');
my %head = (pid => 77, dump_time => '20260102T030005.000Z', session => 2, start_time => '20260102T025900.000Z', sample_interval => 4096);
my $second = one(5, meta => \%head);
is((run($convert, '--base', $second, one(6, meta => { %head, dump_time => '20260102T030006.000Z' })))[0], 0, 'one session: taken');
for my $other ([session => 3], [start_time => '20260102T025901.000Z'], [sample_interval => 8192]) {
	is((run($convert, '--base', $second, one(6, meta => { %head, @$other })))[0], 1, "another $other->[0]: refused");
}
# The counts began 2 s before the earlier profile. Times are rounded down, so 1 ms more or less is the same begin.
$second = one(5, meta => { %head, monotonic_ms => 5000, profiled_ms => 2000 });
for my $same ('6000 3000', '6000 2999', '6001 3001', '5000 2000', '5000 1999', '0 0', '6000', '6000 x', '6000 99999999999999') {
	my ($now, $since) = split ' ', $same;
	my $later = one(6, meta => { %head, monotonic_ms => $now, defined $since ? (profiled_ms => $since) : () });
	is((run($convert, '--base', $second, $later))[0], 0, "profiled for $same: taken");
}
for my $anew ('6000 2998', '6000 999', '6000 0', '5000 0') {
	my ($now, $since) = split ' ', $anew;
	is((run($convert, '--base', $second, one(6, meta => { %head, monotonic_ms => $now, profiled_ms => $since })))[0], 1, "profiled for $anew, so there was a reset: refused");
}
is((run($convert, '--base', one(4, meta => \%head), $second))[0], 0, 'an earlier one that does not tell: taken');

# ---- what a process may choose takes no more memory than there is: one stack, and many threads in it
sub refused { my ($what, $text, $like) = @_; my ($code, $out, $err) = run($convert, spew("$dir/bad.heap", $text)); is("$code|$out", '1|', "$what: refused"); like($err, $like, 'with a sentence') }
sub peak_kb {
	my ($code, $out, $err) = run($convert, @_, '--memory');
	return $code == 0 && $err =~ /VmHWM:\s*(\d+)/ ? $1 : die "$code $err";
}
sub crowd {
	my ($name, $depth, $threads, $labels) = @_;
	my $stack = join ' ', map { sprintf '0x%x', 16 * $_ } 1 .. $depth;
	my @threads = map { "t$_:2:2[0:0]\n" } 1 .. $threads;
	my $text = join '', "heap_v2/1\n# jemalloc.pid=77\n", @threads, "\@ $stack\nt*:", 2 * $threads, ':', 2 * $threads, "[0:0]\n", @threads, "MAPPED_LIBRARIES:\n", $labels // '';
	return spew("$dir/$name.heap", $text . sprintf "# end %d\n", length $text);
}
my $crowd = crowd('crowd', 4000, 40_000);
is((run($convert, $crowd))[0, 2], "convert: $crowd: File too large: it takes more than 256 MiB\n", 'a deep stack of many threads: no sample for each');
cmp_ok(peak_kb('--otlp', 1, '--base', $crowd, $crowd), '<', 300_000, 'nothing of it has changed');
cmp_ok(peak_kb('--otlp', 1, '--base', $crowd, crowd('alone', 4000, 1)), '<', 300_000, 'nearly all of it is gone');
my $labels_of_all = join('', map { "# label $_ l$_\n" } 1 .. 40) . '# labeled 1' . join('', map { " $_:10000:10000" } 1 .. 40) . "\n";
is((run($convert, '--otlp', 1, crowd('labels', 1, 400_000, $labels_of_all)))[0], 0, 'labels of so many threads that not each can have its part of each');
my $lines = crowd('lines', 1, 1, '') && slurp("$dir/lines.heap") =~ s/^# end.*//msr =~ s/(?=^MAPPED)/"t1:1:1[1:1]\n" x 4_194_304/mer;
refused('more threads than there are', $lines . sprintf("# end %d\n", length $lines), qr/more than 4 million pairs/);
# The largest number of a thread is one, and no thread is another.
my @last = map { my $n = $_; my $text = slurp(crowd("last$n", 1, 1)) =~ s/^# end.*//msr =~ s/^t1:/t$n:/mgr; spew("$dir/last$n.heap", $text . sprintf "# end %d\n", length $text) } '18446744073709551615', 2;
spew($last[1], slurp($last[1]) =~ s/^t2:2:2\[0:0\]\n(?=@)/t1:2:2[0:0]\n/mr);
is(join(' ', sort map { $_->{values}[3] } @{ converted('--base', @last)->{samples} }), '-3 3', 'the thread with the largest number, and none');

# ---- a stack that could not be read, unknown lines, blanks: as jeprof reads them
my $ends = sub { my ($text) = @_; $text =~ s/# end .*//s; return $text . sprintf "# end %d\n", length $text };
my $head_of = "heap_v2/4096\n# jemalloc.pid=77\n  t*: 9: 9 [0: 0]\n  t0: 1: 1 [0: 0]\n  t1: 1: 1 [0: 0] worker one\n";
my $maps_of = sprintf "\nMAPPED_LIBRARIES:\n# module %x-%x %x %s %s\n", $base + 0x1000, $base + 0x3000, $base, $id, "$dir/serve";
my $some = sprintf '@ 0x%x 0x%x', $base + 0x1210, $base + 0x1111;
for my $none ('@', '@ 0x0') {
	my $text = "$head_of$none\n  t*: 5: 4000 [0: 0]\n  t1: 5: 4000 [0: 0]\n$some\n  t*: 2: 3000 [0: 0]\n  t0: 2: 3000 [0: 0]\n$none\n  t*: 7: 900 [0: 0]\n  t1: 7: 900 [0: 0]\n$maps_of";
	my $file = spew("$dir/none.heap", $ends->($text));
	my ($got, $want) = (converted($file), exported($file));
	is(join(' ', totals($got)), join(' ', totals($want)), "stack '$none': totals of jeprof export");
	is(pprof_flat($got, 3)->{'(no stack)'} // '-', pprof_flat($want, 3)->{'(no stack)'}, 'the row (no stack)');
	is(scalar(grep { pprof_leaf($_) eq '(no stack)' && ($_->{labels}{thread} // '') eq 'worker one' } @{ $got->{samples} }), 2, 'with its thread');
}
my $plain = "$head_of$some\n  t*: 6: 4000 [7: 5000]\n  t0: 2: 1000 [3: 2000]\n  t1: 4: 3000 [4: 3000]\n$some 0x10\n  t*: 2: 3000 [0: 0]\n  t1: 2: 3000 [0: 0]\n";
my $unknown = "t\n  f: 1 2 3\n  t1: 7\nfrag_util: 0 4\n\@\@ 0x1\n\@0\n\@t*: 9: 9 [0: 0]\n  t1: 1: 1 [0: 0] 5 6\n# a remark\n";
my %near = ('trailing blanks' => $plain =~ s/\n/ \t\n/gr, 'CR LF' => $plain =~ s/\n/\r\n/gr, tabs => $plain =~ s/^  t/\tt/gmr, wide => $plain =~ s/: /:\t  /gr =~ s/\[/[  /gr, 'blank lines' => $plain =~ s/\n/\n\n \n/gr,
	frames => $plain =~ s/ 0x/\t0x/gr, lines => $plain =~ s/(?=\@.* 0x10\n)/$unknown/r . $unknown);
my $want_near = join ' ', totals(converted(spew("$dir/near.heap", $ends->($plain . $maps_of))));
for my $name (sort keys %near) {
	my $file = spew("$dir/near.heap", $ends->($near{$name} . $maps_of));
	my $got = converted($file);
	is(join(' ', totals($got)), $want_near, "$name: the totals");
	is(join(' ', totals($got)), join(' ', totals(exported($file))), "$name: those of jeprof export");
	is(join(' ', grep { /^unknown_lines/ } @{ $got->{comments} }), $name eq 'lines' ? 'unknown_lines=18' : '', "$name: a comment counts what is unknown");
}
is(join(' ', totals(converted(spew("$dir/near.heap", $ends->($plain . $maps_of) =~ s/\n\z//r)))), $want_near, 'a missing last newline');
my $remarks = join '', map { "# jemalloc.k$_=1\n" } 1 .. 70;
is(scalar(grep { /^unknown_lines=18/ } @{ converted(spew("$dir/near.heap", $ends->($near{lines} =~ s/(?<=heap_v2\/4096\n)/$remarks/r . $maps_of)))->{comments} }), 1, 'they are counted also behind more metadata than is kept');
# The unwinder's frames go with the allocator's: one rule for both.
for my $library ('libgcc_s.so.1', 'libunwind.so.8', 'libunwind-x86_64.so.8', 'libunwindstack.so', 'libwind.so') {
	my $file = our_dump("$dir/unwinder.heap", stacks => [[[0x7e0000001010, 0x7f0000001010, $base + 0x1210, $base + 0x1111], 1, 100]], modules => [[$base + 0x1000, $base + 0x3000, $base, $id, "$dir/serve"],
			[0x7e0000001000, 0x7e0000003000, 0x7e0000000000, '-', "/lib/$library"], [0x7f0000001000, 0x7f0000003000, 0x7f0000000000, '-', '/lib/libjemalloc.so.2']]);
	my @depth = map { scalar @{ $_->{samples}[0]{stack} } } converted($file), exported($file);
	is("@depth", $library =~ /libwind/ ? '4 4' : '2 2', "$library above the allocator: in jeprofd and in jeprof");
}
# Time differences follow the clock that nobody sets.
my %clock = (pid => 77, dump_time => '20260102T030000.000Z', monotonic_ms => 5000, sample_interval => 4096);
my @clock = (one(0, meta => \%clock), one(1, meta => { %clock, dump_time => '20260102T020003.000Z', monotonic_ms => 8500 }));
my $set_back = converted('--base', @clock);
is("$set_back->{duration} $set_back->{time}", '3500000000 1767319199500000000', 'a delta over a clock that was set back');

# ---- texts that are none
my $text = slurp($dump[3]);
refused('nothing', '', qr/no heap profile/);
refused('another text', "<html>\n", qr/no heap profile/);
refused('another rate', "heap_v2/x\n", qr/no heap profile/);
refused('cut off', substr($text, 0, length($text) - 30), qr/cut off/);
refused('a lost line', $text =~ s/^# jemalloc\.version.*\n//mr, qr/cut off/);
srand 7;
my ($ok, $noise) = (0, 0);
for my $n (1 .. 150) {
	my $copy = $text;
	for (1 .. 1 + rand 6) {
		my $at = int rand length $copy;
		substr($copy, $at, 1 + rand 4) = ('', "\0", "\xff", '@', "\n", '18446744073709551615', '0x', ' ', '[', '7fffffffffffffff-', '0')[rand 11];
	}
	spew("$dir/n.heap", $n % 3 ? $ends->($copy) : $copy);
	my ($code, $out, $err) = run($convert, "$dir/n.heap");
	$noise++ if $code > 1 || $err =~ /runtime error|Sanitizer/;
	diag substr($err, 0, 1000) if $code > 1;
	$ok++ if $code == 0 && pprof_decode(unzip($out));
}
is($noise, 0, 'damaged texts: no sanitizer speaks');
cmp_ok($ok, '>', 20, "some are read still ($ok), and what comes out is valid");

# ---- names with escapes, and stacks as deep as they may be
my $evil = converted(spew("$dir/evil.heap", $ends->("heap_v2/1\n# jemalloc.exe=/tmp/\e[31m<script>\n  t*: 1: 1 [0: 0]\n  t1: 1: 1 [0: 0] \xc3\xa4\xff\e]0;x\a\n@ 0x10\n  t*: 1: 1 [0: 0]\n  t1: 1: 1 [0: 0]\n\nMAPPED_LIBRARIES:\n")));
is($evil->{samples}[0]{labels}{thread}, "\xc3\xa4??]0;x?", 'control characters become ?, UTF-8 stays');
my $deep = converted(our_dump("$dir/deep.heap", stacks => [[[1 .. 5000], 1, 100]]));
is(scalar @{ $deep->{samples}[0]{stack} }, 4096, 'a stack of 5000 frames is cut to 4096');
my $many = converted(our_dump("$dir/many.heap", rate => 524288, stacks => [map { [[$_ * 16, 0x10, 0x20], 1, 1000 + $_] } 1 .. 3000]));
is(scalar @{ $many->{samples} }, 3000, '3000 stacks');
done_testing();
