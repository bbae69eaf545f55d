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

# ---- differences
my $delta = converted('--base', $dump[0], $dump[3]);
is((totals($delta))[3], (totals(exported('--base', $dump[0], $dump[3])))[3], 'the difference of jeprof --base');
is("$delta->{time} $delta->{duration}", '1767322800000000000 3000000000', 'it begins with the first and lasts');
is(scalar @{ $delta->{samples} }, 1, 'what did not change is left out');
is((totals(converted('--base', $dump[3], $dump[3])))[3], 0, 'nothing of itself');
my $gone = converted('--base', $dump[3], one(4, stacks => []));
is(-(totals($gone))[3], (totals(converted($dump[3])))[3], 'what was freed is negative');
is((run($convert, '--base', "$data/counts.heap", $dump[3]))[0], 1, 'another process: refused');
my %head = (pid => 77, dump_time => '20260102T030005.000Z', session => 2, start_time => '20260102T025900.000Z', sample_interval => 4096);
my $second = one(5, meta => \%head);
is((run($convert, '--base', $second, one(6, meta => { %head, dump_time => '20260102T030006.000Z' })))[0], 0, 'one session: taken');
for my $other ([session => 3], [start_time => '20260102T025901.000Z'], [sample_interval => 8192]) {
	is((run($convert, '--base', $second, one(6, meta => { %head, @$other })))[0], 1, "another $other->[0]: refused");
}

# ---- texts that are none
sub refused { my ($what, $text, $like) = @_; my ($code, $out, $err) = run($convert, spew("$dir/bad.heap", $text)); is("$code|$out", '1|', "$what: refused"); like($err, $like, 'with a sentence') }
my $text = slurp($dump[3]);
refused('nothing', '', qr/no heap profile/);
refused('another text', "<html>\n", qr/no heap profile/);
refused('another rate', "heap_v2/x\n", qr/no heap profile/);
refused('cut off', substr($text, 0, length($text) - 30), qr/cut off/);
refused('a lost line', $text =~ s/^# jemalloc\.version.*\n//mr, qr/cut off/);
my $ends = sub { my ($text) = @_; $text =~ s/# end .*//s; return $text . sprintf "# end %d\n", length $text };
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
