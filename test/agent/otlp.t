#!/usr/bin/perl
# The agent's OTLP: each table of the dictionary is as the standard wants it, the sums are those of pprof in all sample types,
# protoc knows every field, jeprof export says the same, and no sanitizer has anything to say.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
no warnings 'portable';
our ($dir, $data, $source, $convert);

# REFUSED=N: 120 calls of realloc() from number N on return NULL.
my $refuse = spew("$dir/refuse.c", <<'C');
#include <stdlib.h>
void *__real_realloc(void *p, size_t bytes);
void *
__wrap_realloc(void *p, size_t bytes) {
	static int calls;
	const char *first = getenv("REFUSED");
	calls++;
	return first && calls >= atoi(first) && calls < atoi(first) + 120 ? NULL : __real_realloc(p, bytes);
}
C
make_convert(split(" ", "-fsanitize=address,undefined -fno-sanitize-recover=undefined -Wl,--wrap=realloc"), $refuse);
my $id = '46' x 20;
my $base = 0x555500000000;
elf_file("$dir/serve", id => $id, symbols => [['main', 0x1100, 0x100], ['serve', 0x1200, 0x100], ['cache', 0x1300, 0x100]]);
sub at { return [map { $base + 0x1111 + 0x100 * $_ } @_] }
my $one = our_dump("$dir/serve.77.20260102T030003.000Z.3.i3.heap", rate => 4096, modules => [[$base + 0x1000, $base + 0x3000, $base, $id, "$dir/serve"]],
	meta => { pid => 77, dump_time => '20260102T030003.000Z', exe => "$dir/serve", sample_interval => 4096, version => '5.3.1' },
	stacks => [[at(2, 1, 0), 13, 1313], [at(2, 0), 11, 1777], [at(0), 1, 17]]);

sub otlp { my ($code, $out, $err) = run($convert, '--otlp', 1, @_); die "$code $err" if $code; return $out }
sub sum_of_profile { my ($p) = @_; return sum_of(map { $_->{value} } @{ $p->{samples} }) }

my $r = otlp_decode(otlp($one));
is($r->{resource}{'service.name'} . ' ' . $r->{resource}{'process.pid'}, 'shop 4711', 'attributes of the resource: a text and a number');
is($r->{scope}, 'jeprof', 'the scope');
is(join(' ', map { "$_->{type}/$_->{unit}" } @{ $r->{profiles} }), 'inuse_space/bytes inuse_objects/count', 'without counts of allocations: two profiles');
my $p = $r->{profiles}[0];
is("$p->{time} $p->{period} $p->{period_type}", '1767322803000000000 4096 space/bytes', 'time and period');
is(length $p->{id}, 16, 'an identifier of 16 bytes');
isnt($p->{id}, $r->{profiles}[1]{id}, 'each profile has its own');
my $other = our_dump("$dir/serve.78.20260102T030003.000Z.3.i3.heap", rate => 4096, meta => { pid => 78, dump_time => '20260102T030003.000Z' }, stacks => [[at(0), 1, 17]]);
my %of_other = map { $_->{id} => 1 } @{ otlp_decode(otlp($other))->{profiles} };
is(scalar(keys %of_other) . ' ' . (grep { $of_other{ $_->{id} } } @{ $r->{profiles} }), '2 0', 'those of another process at the same time are others');
my ($deep) = grep { @{ $_->{stack} } == 3 } @{ $p->{samples} };
is(join(' ', map { $_->{address} } @{ $deep->{stack} }), join(' ', map { $_->{address} } @{ (grep { @{ $_->{stack} } == 3 } @{ converted($one)->{samples} })[0]{stack} }), 'a stack is that of pprof, leaf first');
is("$deep->{stack}[0]{mapping}{file} $deep->{stack}[0]{mapping}{'process.executable.build_id.gnu'}", "$dir/serve $id", 'its mapping has path and build-id');

for my $file ($one, "$data/counts.heap", "$data/counts2.heap", our_dump("$dir/none.heap", stacks => [])) {
	my $got = otlp_decode(otlp($file));
	my @want = totals(converted($file));
	my %at = (alloc_objects => 0, alloc_space => 1, inuse_objects => 2, inuse_space => 3);
	is(sum_of_profile($_), $want[$at{ $_->{type} }], "$_->{type} is that of pprof: " . $file =~ s{.*/}{}r) for @{ $got->{profiles} };
}
my $labels = our_dump("$dir/labels.heap", rate => 1, stacks => [[at(1, 0), 10, 1000]], meta => { pid => 77 }, no_end => 1);
my $trailer = slurp($labels) . "# label 7 tenant a\n# labeled 1 7:6:600\n";
spew($labels, $trailer . sprintf "# end %d\n", length $trailer);
is(join(' ', sort map { ($_->{attributes}{label} // 'none') . "=$_->{value}" } @{ otlp_decode(otlp($labels))->{profiles}[0]{samples} }), 'none=400 tenant a=600', 'labels are attributes');
my $none = otlp_decode(otlp(our_dump("$dir/no.heap", stacks => [[[0], 3, 300], [at(1, 0), 1, 20]])));
is(join(' ', map { "$_->{value}/$_->{stack}[0]{address}" } sort { $b->{value} <=> $a->{value} } @{ $none->{profiles}[0]{samples} }), sprintf('300/0 20/%d', at(1)->[0]), 'a stack that could not be read has the address 0');
my $counted = otlp_decode(otlp("$data/counts.heap"));
is(scalar @{ $counted->{profiles} }, 4, 'with counts of allocations: four profiles');
ok((grep { ($_->{attributes}{'thread.name'} // '') eq 'worker one' } @{ $counted->{profiles}[0]{samples} }), 'threads are attributes');

# ---- jeprof export says the same of the same dump
sub told {
	my ($r) = @_;
	my @out = $r->{scope};
	for my $p (@{ $r->{profiles} }) {
		push @out, "$p->{type}/$p->{unit} $p->{time} $p->{duration} $p->{period} $p->{period_type}";
		push @out, sort map { my $s = $_; join ' ', (map { sprintf '%x(%s %s)', $_->{address}, $_->{mapping}{file} // '', $_->{mapping}{'process.executable.build_id.gnu'} // '' } @{ $s->{stack} }), %{ $s->{attributes} }, $s->{value} } @{ $p->{samples} };
	}
	return join "\n", @out;
}
# A word of a stack that is no address has a location with a name: one with nothing would be entry 0.
my $zero = our_dump("$dir/zero.heap", stacks => [[[at(1)->[0], 0, at(0)->[0]], 1, 20]]);
for my $file ($one, "$data/counts.heap", "$data/counts2.heap", "$dir/none.heap", "$dir/no.heap", $zero) {
	my ($code, $text, $err) = jeprof('export', '--to', 'otlp', $file);
	is(told(otlp_decode($text)), told(otlp_decode(otlp($file))), 'jeprof export: ' . $file =~ s{.*/}{}r);
}
my ($all) = grep { $_->{type} eq 'inuse_space' } @{ otlp_decode(otlp('--base', $one, $one))->{profiles} };
is(scalar @{ $all->{samples} }, 0, 'a difference of nothing has no samples');

# Memory that comes back: whatever was refused, there is an error and no half of an answer. Call 1 is of convert itself.
my $many = our_dump("$dir/many.heap", stacks => [map { [[$base + 16 * $_, $base + 0x900000], 1, 600000] } 1 .. 400]);
my ($calls, @wrong, $code) = (1);
do {
	local $ENV{REFUSED} = ++$calls;
	($code, my $out, my $err) = run($convert, '--otlp', 1, $many);
	push @wrong, "from call $calls on: $code $err" if $code && ($code != 1 || $out ne '' || $err !~ /not enough memory$/);
} while ($code);
is("@wrong", '', "without memory: an error");
cmp_ok($calls, '>', 20, 'and it was tried at each place');

SKIP: {
	skip 'no protoc (package protobuf-compiler)', 2 unless grep { -x "$_/protoc" } split /:/, $ENV{PATH};
	spew("$dir/r.bin", otlp("$data/counts.heap"));
	my ($code, $text) = run('sh', '-c', "protoc --decode otlp.Request -I'$source/test/agent' otlp.proto <'$dir/r.bin'");
	is($code, 0, 'protoc decodes it');
	unlike($text, qr/^\s*\d+[:{ ]/m, 'and knows every field');
}
done_testing();
