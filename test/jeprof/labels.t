#!/usr/bin/perl
# Labels: what a profile with the lines label and labeled says: top --by label, --label, and the forms
# for other programs.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
no warnings 'portable';
use JSON::PP ();
our ($dir, $source);

my $id = '47' x 20;
my $base = 0x555500000000;
elf_file("$dir/serve", id => $id, symbols => [map { [$_->[0], 0x1100 + 0x100 * $_->[1], 0x100] } ['main', 0], ['answer', 1], ['load', 2]]);
my %at = (main => $base + 0x1112, answer => $base + 0x1212, load => $base + 0x1312);

sub profile {
	my ($path, $trailer, $rate, $objects) = @_;
	$objects //= 10;
	our_dump($path, rate => $rate // 1, meta => { version => '5.3.1', pid => 77 },
		modules => [[$base + 0x1000, $base + 0x3000, $base, $id, "$dir/serve"]],
		stacks => [[[@at{qw(answer main)}], $objects, 10_000 * $objects], [[@at{qw(load main)}], 4, 40_000]], no_end => 1);
	my $text = slurp($path) . $trailer;
	return spew($path, $text . sprintf "# end %d\n", length $text);
}

my $heap = profile("$dir/one.heap", <<'END');
# age_bounds_s 1 4 16 60 240 960 3600 14400 57600
# age 1 0:25000 3:75000
# age 2 4:40000
# label 1 tenant a
# label 2 tenant\x5cb\x0ax
# labeled 1 1:6:60000 2:3:30000
# labeled 2 1:1:10000
END
my ($code, $out, $err) = jeprof('top', '--by', 'label', $heap);
like($out, qr/^ +self +% +cum +cum% +objects +age  label +functions$/m, 'top --by label: its columns') or diag $err;
like($out, qr/^ +68\.4K  50\.0% +68\.4K  50\.0% +7 +\S+  tenant a +answer 86%, load 14%$/m, 'a label');
like($out, qr/^ +39\.1K  28\.6% +39\.1K  28\.6% +4 +\S+  \(no label\) +load 75%, answer 25%$/m, 'and what has none');
like($out, qr/^ +29\.3K .* tenant\\b\?x +answer$/m, 'bytes that no terminal should see');
like($err, qr/next: .* top .*--label='\^tenant a\$' /, 'what to type next');
is($code, 0, 'exit 0');
like((jeprof('top', '--by=label', '--ignore=answer', $heap))[2], qr/next: .* top .*--label='\^tenant a\$' /, 'also if most has none');
unlike((jeprof('top', '--by=label', '--ignore=answer', profile("$dir/rest.heap", "# label 1 tenant a\n# labeled 1 1:6:60000\n")))[2], qr/next:/, 'nothing if all has none');
my @rows = @{ JSON::PP::decode_json((jeprof('top', '--by', 'label', '--json', $heap))[1])->{rows} };
is(join(' ', map { "$_->{label}=$_->{self}" } @rows), 'tenant a=70000 (no label)=40000 tenant\b?x=30000', '--json');
($code, $out) = jeprof('top', '--label', '^tenant a$', $heap);
like($out, qr/: live 68\.4K in 7 objects\n.*\n +58\.6K +85\.7% .* answer .*\n +9\.8K +14\.3% .* load /, '--label: of that label only');
for my $words (['--label=typo'], ['--older=99d'], ['--label=typo', '--younger=1s'], ["--base=$heap"]) {
	like((jeprof('top', @$words, $heap))[2], qr/^jeprof: nothing to show for --inuse_space \Q@$words\E$/m, "@$words: that is why nothing is shown");
}
like((jeprof('--text', '--show_bytes', '--label=tenant', $heap))[1], qr/^Total: 100000 B$/m, 'the table of old');
{
	my $odd = profile("$dir/odd.heap", "# label 1 (no label)\n# labeled 1 1:6:60000\n");
	@rows = @{ JSON::PP::decode_json((jeprof('top', '--by', 'label', '--json', $odd))[1])->{rows} };
	is(join(' ', map { "$_->{label}=$_->{self}" } @rows), '(no label)=80000 "(no label)"=60000', 'a label that reads like none');
	like((jeprof('top', '--by=label', $odd))[2], qr/next: .* --label='\^"\\\(no label\\\)"\$' /, 'and what to type for it');
}
for my $case (['1:10:60000', '(no label)=80000 label 1=60000', 'a label that has all objects and not all bytes'],
	['1:6:100000', 'label 1=100000 (no label)=40000', 'all bytes and not all objects'],
	['1:6:60000 2:9:90000', 'label 1=60000 (no label)=40000 label 2=40000', 'more than the stack has']) {
	@rows = @{ JSON::PP::decode_json((jeprof('top', '--by', 'label', '--json', profile("$dir/part.heap", "# label 3 x\n# labeled 1 $case->[0]\n")))[1])->{rows} };
	is(join(' ', map { "$_->{label}=$_->{self}" } @rows), $case->[1], $case->[2]);
}
for my $bad (['--by=thread', 2, qr/--by takes label/, $heap], ['--label=x', 1, qr/has no labels: no thread/, profile("$dir/none.heap", '')]) {
	($code, $out, $err) = jeprof('top', @$bad[0, 3]);
	is($code, $bad->[1], "$bad->[0]: exit $bad->[1]");
	like($err, $bad->[2], 'and why');
}
{
	my ($then, $now) = map { profile("$dir/sampled$_.heap", "# label 1 tenant a\n# labeled 1 1:$_:${_}0000\n# labeled 2 1:4:40000\n", 65536, $_) } 10, 12;
	my ($plain, $by) = map { JSON::PP::decode_json((jeprof('top', '--json', @$_, "--base=$then", $now))[1])->{total} } [], ['--by=label'];
	is("$by->{bytes} $by->{error}", "$plain->{bytes} $plain->{error}", '--by label --base: the sum and its error as without');
	cmp_ok($by->{error}, '>', $by->{bytes}, 'so few samples more are noise');
}
# A stack without counts is left out; what the file says of the others by their numbers stays theirs.
for my $damage ("  t?: damaged\n  t0: 10: 100000 [0: 0]\n", '') {
	my $text = slurp($heap) =~ s/^(@.*\n)  t\*: 10: .*\n  t0: 10: .*\n/$1$damage/mr =~ s/^# end .*\n//mr;
	my $damaged = spew("$dir/damaged.heap", $text . sprintf "# end %d\n", length $text);
	($code, $out, $err) = jeprof('top', '--by=label', $damaged);
	like("$code $err", qr/^3 .*damaged: stacks without counts: 1;/, 'the first stack is damaged');
	like($out, qr/^ +9\.8K +25\.0% .* tenant a +load$/m, 'the second keeps its label') or diag $out;
	unlike($out, qr/tenant.b|answer/, 'and gets none of the first');
	like((jeprof('top', '--cum', $damaged))[1], qr/^ +39\.1K 100\.0% .* 2\.5m  load/m, 'and its own age');
}
($code, $out) = jeprof('export', '--to=otlp', '-o', '-', $heap);
like($out, qr/tenant a/, 'OTLP has them');
SKIP: {
	skip 'no go', 2 unless which('go') && which('gzip');
	local @ENV{qw(HOME PPROF_TMPDIR)} = ($dir, $dir);
	jeprof('export', '--to=pprof', '-o', "$dir/one.pb.gz", $heap);
	($code, $out) = run('go', 'tool', 'pprof', '-tags', "$dir/one.pb.gz");
	like($out, qr/^ *label: Total 9\d\.\dkB\b.*\n.* tenant a$/m, 'go tool pprof: labels') or diag $out;
	($code, $out) = run('go', 'tool', 'pprof', '-top', '-unit=B', '-tagfocus=age=16s:', "$dir/one.pb.gz");
	like($out, qr/accounting for 115000B, \S+ of 140000B total/, 'and what is older than 16 s by its age') or diag $out;
}

# ---- labels and ages are told of what is in use alone ----
for my $words (['top', '--label=tenant'], ['top', '--by=label'], ['top', '--older=1s'], ['flame', '--label=tenant'], ['--text', '--younger=1m'],
	['--interactive', '--label=tenant']) {
	for my $index ('--alloc_space', '--alloc_objects') {
		($code, $out, $err) = jeprof(@$words, $index, $heap);
		my ($name) = $words->[1] =~ /^(--\w+)/;
		is("$code|$out", '2|', "@$words $index: exit 2");
		like($err, qr/^jeprof: $name is for memory in use: .* ever allocated \($index\)$/m, 'and why');
	}
}
($code, $out, $err) = jeprof('top', '--by=thread', '--alloc_space', $heap);
like("$code $err", qr/^2 jeprof: --by takes label or function, not thread$/, 'a wrong --by is told there too');
for my $words (['top'], ['top', '--by=function'], ['flame'], ['--text']) {
	($code, $out, $err) = jeprof(@$words, '--alloc_space', $heap);
	is($code, 0, "@$words --alloc_space: as before") or diag $err;
}
my $lock = spew("$dir/lock.prof", "--- contention\ncycles/second = 1000\n 5 1 \@ 0x1\n--- Memory map:\n00001000-00002000 r-xp 00000000 00:00 0 /x\n");
($code, $out, $err) = jeprof('top', '--label=tenant', $lock);
like("$code $err", qr/^2 .*--label is for memory in use: .* contention$/m, 'nor does a profile of contention tell them');
# Where the options have no effect, they are named, and do not act.
for my $words (['export', '--to=collapsed', '-o', '-'], ['export', '--to=dhat', '-o', '-'], ['report', '--json'], ['--raw'], ['diff', $heap], ['ls']) {
	for my $index ('--inuse_space', '--alloc_space') {
		my ($plain_code, $plain) = jeprof(@$words, $index, $heap);
		($code, $out, $err) = jeprof(@$words, $index, '--label=^tenant a$', $heap);
		is("$code $out", "$plain_code $plain", "@$words $index --label: as without");
		like($err, qr/--label has no effect here/, 'and it is said');
	}
}

# ---- damage ----
for my $case (['12345678901:2:20000', 'an id of 11 digits'], ['x1:2:20000', 'an id that is no number'], ['1:2:20000:9', 'a fourth number'],
	['1:2', 'no bytes'], ['1:2:123456789012345678901', 'bytes of 21 digits']) {
	my $bad = profile("$dir/bad.heap", "# label 1 tenant a\n# label 2345678901 other\n# labeled 1 1:3:30000 $case->[0]\n");
	($code, $out, $err) = jeprof('top', '--by=label', '--json', $bad);
	is(join(' ', $code, map { "$_->{label}=$_->{self}" } @{ JSON::PP::decode_json($out)->{rows} }), '3 (no label)=110000 tenant a=30000',
		"$case->[1]: it has no label");
	like($err, qr/^jeprof: \S+bad\.heap: damaged: it has labels of stacks that cannot be read/m, 'and a doubt');
	is((jeprof('report', '--json', $bad))[0], 3, 'in a report too');
}

# ---- the report: its page sums each label as top does, and shows one alone ----
SKIP: {
	skip 'no node', 4 unless which('node');
	my $plain = profile("$dir/plain.heap", '');
	my ($code, $html, $err) = jeprof('report', $plain, $heap);
	is("$code $err", "0 ", 'a report of a profile with labels and one without') or diag $err;
	my ($data) = $html =~ m{<script[^>]*id="data"[^>]*>(.*?)</script>}s;
	my ($model) = $html =~ m{<script>(.*?)</script>\s*<script>}s;
	spew("$dir/data.json", $data);
	spew("$dir/model.js", "$model\n" . <<'JS');
var m = new Model(JSON.parse(require('fs').readFileSync(process.argv[2], 'utf8')));
m.full.forEach(function (s) {
	console.log(s, m.by_label(s).map(function (l) { return l.text + '=' + l.bytes + '/' + l.objects; }).join(' '));
	m.choices().forEach(function (c) { m.show_only(c.part); var a = m.ages(s); console.log(s, c.text, Math.round(m.live(s)), Math.round(m.totals(s, 'objects', false)[0]), a ? Array.from(a.node.slice(0, 5)).map(Math.round).join(' ') : '-'); });
	m.show_only(-1);
});
JS
	my @lines = split /\n/, (run('node', "$dir/model.js", "$dir/data.json"))[1];
	my ($one) = grep { /tenant a=/ } @lines;
	like($one // '', qr/^\d tenant a=70000\/7 \(no label\)=40000\/4 tenant\\b\?x=30000\/3$/, 'the sums of top');
	my ($s) = ($one // '') =~ /^(\d)/;
	is(join("\n", grep { /^$s label/ } @lines), join("\n", map { "$s label: $_" } 'tenant a 70000 7 15000 0 0 45000 10000',
			'tenant\b?x 30000 3 7500 0 0 22500 0', '(no label) 40000 4 2500 0 0 7500 30000'), 'each alone, with its ages') or diag join "\n", @lines;
	my $other = 1 - $s;
	is(join('', grep { /^$other / } @lines), "$other (no label)=140000/14" . "$other label: tenant a 0 0 -$other label: tenant\\b?x 0 0 -$other label: (no label) 140000 14 -", 'a profile without labels');
}
done_testing();
