#!/usr/bin/perl
# jeprof export --to otlp: in each sample type the sum is that of top, each table of the dictionary is
# as the standard wants it (decode.pl dies where it is not), threads are attributes, and protoc knows
# every field. test/agent/otlp.t compares it with what jeprofd makes.
BEGIN { require Cwd; my $here = Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r; require "${here}common.pl"; require "${here}../agent/decode.pl" }
use strict;
use warnings;
no warnings 'portable';
use JSON::PP ();
our ($dir, $source, $data);

my $id = '46' x 20;
my $base = 0x555500000000;
my @names = ('main', 'serve', 'cache', 'leak', "a\x01b", "a\x02b", 'zmalloc');
elf_file("$dir/serve", id => $id, symbols => [map { [$names[$_], 0x1100 + 0x100 * $_, 0x100] } 0 .. $#names]);
sub at { return [map { $base + 0x1111 + 0x100 * $_ } @_] }
my $module = join '', map { sprintf "# module %x-%x %x %s %s\n", $base + $_, $base + $_ + 0x1000, $base, $id, "$dir/serve" } 0x1000, 0x2000;

# A dump with threads: [frames, [thread, live objects, live bytes, all objects, all bytes], ...].
sub threaded {
	my ($path, $threads, $stacks, $modules) = @_;
	my $text = "heap_v2/4096\n# jemalloc.version=5.3.1\n# jemalloc.pid=77\n# jemalloc.exe=$dir/serve\n"
	    . "# jemalloc.dump_time=20260102T030003.007Z\n# jemalloc.sample_interval=4096\n  t*: 1: 1 [0: 0]\n"
	    . join '', map { "  t$_: 1: 1 [0: 0]" . (length $threads->{$_} ? " $threads->{$_}" : '') . "\n" } sort keys %$threads;
	for my $stack (@$stacks) {
		my ($frames, @parts) = @$stack;
		my @sum = map { my $at = $_; my $sum = 0; $sum += $_->[$at] for @parts; $sum } 1 .. 4;
		$text .= '@' . join('', map { sprintf ' 0x%x', $_ } @$frames) . sprintf("\n  t*: %d: %d [%d: %d]\n", @sum)
		    . join '', map { sprintf "  t%d: %d: %d [%d: %d]\n", @$_ } @parts;
	}
	$text .= "\nMAPPED_LIBRARIES:\n" . ($modules // $module);
	return spew($path, $text . sprintf "# end %d\n", length $text);
}
my $counted = threaded("$dir/serve.77.20260102T030003.007Z.3.i3.heap", { 0 => '', 1 => 'worker', 2 => "w\x{1b}\xff", 3 => 'worker' }, [
		[at(6, 2, 1, 0), [0, 13, 1313, 20, 2020], [1, 1, 8000, 7, 56001]],
		[at(6, 3, 1, 0), [1, 7, 713, 7, 713], [3, 3, 100001, 4, 133333]],
		[at(4, 1, 0), [2, 0, 0, 9, 1777], [0, 5, 505, 5, 505]],
		[at(5, 1, 0), [2, 11, 1777, 12, 1901]],
		[at(6, 2, 0), [1, 1, 900, 1, 900]],
		[[0], [1, 2, 300, 3, 450]],
		[[at(2)->[0], 0, at(0)->[0]], [0, 1, 77, 1, 77]],
		[[$base + 0x2a10, at(0)->[0]], [0, 1, 99, 1, 99]],
]);
my $live = our_dump("$dir/live.heap", rate => 4096, modules => [[$base + 0x1000, $base + 0x3000, $base, $id, "$dir/serve"]], stacks => [[at(2, 1, 0), 13, 1313], [at(3, 0), 5, 99]]);

sub exported {
	my ($code, $out, $err) = jeprof('export', '--to', 'otlp', @_);
	ok($code == 0 || $code == 3, "export @_" =~ s{\Q$dir/}{}gr) or diag $err;
	unlike($err, qr/ line \d+|internal/, 'without noise');
	return otlp_decode($out);
}
sub sum_of { my $sum = 0; $sum += $_ for @_; return $sum }
sub top_of { my ($index, @words) = @_; my $total = JSON::PP::decode_json((jeprof('top', '--json', "--$index", @words))[1])->{total}; return $total->{ $index =~ /space/ ? 'bytes' : 'objects' } }
sub names_of { my ($sample) = @_; return join '<', map { @{ $_->{frames} } ? map { $_->{name} } @{ $_->{frames} } : sprintf '0x%x', $_->{address} } @{ $sample->{stack} } }
sub rows_of { my ($profile) = @_; return { map { (names_of($_) . ' ' . ($_->{attributes}{'thread.name'} // '')) => $_->{value} } @{ $profile->{samples} } } }

# ---- sums, of all and by the filters
my @types = qw(inuse_space inuse_objects alloc_space alloc_objects);
for my $words ([], ['--focus=leak'], ['--ignore=leak'], ['--exclude=serve'], ['--thread=1'], ['--thread=0'], ['--base', $live]) {
	my $r = exported(@$words, $counted);
	is(join(' ', map { "$_->{type}/$_->{unit}" } @{ $r->{profiles} }), 'inuse_space/bytes inuse_objects/count alloc_space/bytes alloc_objects/count', 'four types');
	for my $p (@{ $r->{profiles} }) {
		is(sum_of(map { $_->{value} } @{ $p->{samples} }), top_of($p->{type}, @$words, $counted), "$p->{type} is that of top");
		is(scalar(grep { $_->{value} == 0 } @{ $p->{samples} }), 0, 'no sample of nothing');
	}
}
for my $file ($live, "$data/counts.heap", "$data/counts2.heap", spew("$dir/c.collapsed", "main;a 7\nmain;b 9\n"), our_dump("$dir/none.heap", stacks => [])) {
	my $r = exported($file);
	is(sum_of(map { $_->{value} } @{ $_->{samples} }), top_of($_->{type}, $file), "$_->{type} of " . $file =~ s{.*/}{}r) for @{ $r->{profiles} };
}
is(scalar @{ exported($live)->{profiles} }, 2, 'allocations that were not counted have no profile');
is(scalar @{ exported('--base', $counted, $counted)->{profiles}[0]{samples} }, 0, 'a difference of nothing');

# ---- what it says
my $r = exported($counted);
is(join(' ', map { "$_=$r->{resource}{$_}" } sort keys %{ $r->{resource} }), "process.executable.name=serve process.executable.path=$dir/serve process.pid=77 service.name=serve", 'the resource');
is($r->{scope}, 'jeprof', 'the scope');
my $p = $r->{profiles}[0];
is("$p->{time} $p->{period} $p->{period_type}", '1767322803007000000 4096 space/bytes', 'time and period');
my %ids = map { $_->{id} => 1 } map { @{ $_->{profiles} } } $r, exported($live), exported('--focus=leak', $counted);
is(join(' ', map { length } sort keys %ids), join(' ', (16) x 10), 'each profile has its own identifier of 16 bytes');
is_deeply([map { $_->{id} } @{ $r->{profiles} }], [map { $_->{id} } @{ exported($counted)->{profiles} }], 'and the same each time');
my $rows = rows_of($p);
is(join("\n", sort keys %$rows), join("\n", sort 'zmalloc<cache<serve<main ', 'zmalloc<cache<main worker', 'zmalloc<cache<serve<main worker', 'zmalloc<leak<serve<main worker',
		'a?b<serve<main ', 'a?b<serve<main w??', '(no stack) worker', 'cache<0x0<main ', sprintf('0x%x<main ', $base + 0x2a10)), 'stacks with their threads: those of one name are one, cleaned texts are one string');
my ($deep) = grep { names_of($_) =~ /leak/ } @{ $p->{samples} };
is("$deep->{stack}[1]{mapping}{file} $deep->{stack}[1]{mapping}{'process.executable.build_id.gnu'} $deep->{stack}[1]{mapping}{start} $deep->{stack}[1]{mapping}{limit}", join(' ', "$dir/serve", $id, $base + 0x1000, $base + 0x3000), 'a mapping has path, build-id and addresses');
is($deep->{stack}[1]{address}, $base + 0x1410, 'a location has the address inside the call');
sub estimate { my ($objects, $bytes) = @_; return $bytes / (1 - exp(-$bytes / $objects / 4096)) }
my $share = estimate(14, 9313) * estimate(1, 8000) / (estimate(1, 8000) + estimate(13, 1313));
cmp_ok(abs($rows->{'zmalloc<cache<serve<main worker'} - $share), '<=', 1, 'a thread has its share of a stack');

# ---- filters and threads together
my $few = rows_of(exported('--exclude=serve', $counted)->{profiles}[0]);
is(join(' ', grep { /serve/ } keys %$few), '', '--exclude takes its frames away');
cmp_ok(abs($few->{'zmalloc<cache<main worker'} - $share - estimate(1, 900)), '<=', 2, 'and the stacks that are equal then are one');
is(join(' ', sort keys %{ rows_of(exported('--thread=1', '--focus=serve', $counted)->{profiles}[0]) }), 'zmalloc<cache<serve<main worker zmalloc<leak<serve<main worker', '--thread: with its name');
my $earlier = threaded("$dir/earlier.heap", { 0 => '', 3 => 'worker' }, [[at(6, 3, 1, 0), [0, 5, 500, 5, 500], [3, 3, 100001, 4, 133333]]]);
my $grown = rows_of(exported('--base', $earlier, '--focus=leak', $counted)->{profiles}[0]);
is(join(' ', sort keys %$grown), 'zmalloc<leak<serve<main  zmalloc<leak<serve<main worker', '--base: by thread');
is(($grown->{'zmalloc<leak<serve<main '} < 0) . ($grown->{'zmalloc<leak<serve<main worker'} > 0), '11', 'what one has lost and another has got');

# ---- several dumps in which one address is of different places
my $other = threaded("$dir/other.heap", { 0 => 'worker' }, [[at(2, 0), [0, 1, 100, 1, 100]]], sprintf "# module %x-%x %x %s %s\n", $base, $base + 0x3000, $base - 0x100, $id, "$dir/serve");
is(join(' ', sort keys %{ rows_of(exported('--sum', $other, threaded("$dir/again.heap", { 0 => 'worker' }, [[at(2, 0), [0, 1, 100, 1, 100]]]))->{profiles}[0]) }), 'cache<main worker leak<serve worker', 'each by its own map');

# ---- the verb
chdir $dir;
my ($code, $out, $err) = jeprof('export', '--to', 'otlp', '-o', 'p.otlp.pb', $counted);
is("$code|$out", "0|p.otlp.pb\n", '-o: the file is named') or diag $err;
like($err, qr{next: curl .*application/x-protobuf.*\@p\.otlp\.pb http://\S+/v1development/profiles}, 'and what posts it');
($code, $out, $err) = jeprof('top', 'p.otlp.pb');
is("$code|$out|" . ($err =~ tr/\n//), '1||1', 'it is no input of jeprof: one sentence');
SKIP: {
	skip 'no protoc (package protobuf-compiler)', 2 unless which('protoc');
	($code, my $text) = run(\slurp('p.otlp.pb'), 'protoc', '--decode', 'otlp.Request', "-I$source/test/agent", 'otlp.proto');
	is($code, 0, 'protoc decodes it');
	unlike($text, qr/^\s*\d+[:{ ]/m, 'and knows every field');
}
chdir $source;
done_testing();
