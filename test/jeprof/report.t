#!/usr/bin/perl
# jeprof report: one HTML file. Its data add up to what top says, it refers to nothing outside,
# names cannot break out of it.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
no warnings 'portable';
use JSON::PP ();
our ($dir, $source);

my ($code, $out, $err);
my $id = '55' x 20;
my $base = 0x555500000000;
sub names { return elf_file("$dir/serve", id => $id,
		symbols => [map { [$_[$_], 0x1100 + 0x100 * $_, 0x100] } 0 .. $#_]) }
names(qw(main cache leak zmalloc walk));
my @module = ([$base + 0x1000, $base + 0x3000, $base, $id, "$dir/serve"]);

# Dump number $n: main > cache > zmalloc, main > leak, main > walk > walk > leak, cache from another
# line.
sub one {
	my ($n, $rate) = @_;
	my $stack = sub { my ($count, $size, @at) = @_;
		return $count ? [[map { $base + $_ } @at], $count, $count * $size] : () };
	return our_dump(sprintf("$dir/serve.77.20260102T03%02d00.000Z.%d.i%d.heap", $n, $n, $n),
		rate => $rate, modules => \@module,
		meta => { pid => 77, dump_time => sprintf('20260102T03%02d00.000Z', $n), kind => 'interval',
			exe => "$dir/serve", sample_interval => $rate,
			allocated => 70000, active => 81920, resident => 90112, rss => 131072 },
		stacks => [$stack->(40, 1000, 0x1410, 0x1211, 0x1111), $stack->(3 * $n, 48, 0x1310, 0x1111),
			$stack->($n < 2 ? 7 : 0, 4097, 0x1310, 0x1511, 0x1511, 0x1111),
			$stack->(1 + $n, 112, 0x1410, 0x1241, 0x1121)]);
}
my @dump = map { one($_, 4096) } 0 .. 3;
chdir $dir;
($code, $out, $err) = jeprof('report', '-o', 'r.html');
is("$code|$out", "0|r.html\n", 'report: of the series of the directory') or diag $err;
like($err, qr/next: \S+ open r\.html$/, 'what to do next');
my $html = slurp('r.html');
is((jeprof('report', @dump[2, 0, 3, 1]))[1], $html,
	'to a pipe without -o; the order given does not matter');
unlike($html, qr/https?:|\bsrc=|\bhref=|url\(|\@import|<link|<img|<iframe/i,
	'it refers to nothing outside');
like($html, qr/<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">/, 'and may not');
cmp_ok(length $html, '<', 51_000, 'small');
my ($words) = map { s/<[^>]*>//gr } $html =~ /<header>(.*?)<\/header>/s;
like($words,
	qr/Process 77, 2026-01-02 03:03:00Z: [\d.]+K live in \d+ objects, estimated from samples, one for each 4\.0K allocated\./, 'words: what is held');
like($words,
	qr/The largest of 4 snapshots has [\d.]+K \(2026-01-02 03:01:00Z\); from the first to the last \+[\d.]+K in 3\.0 min, \+[\d.]+K\/min\./, 'words: the course');
like($words, qr/Most is held by cache [\d.]+K \([\d.]+%\), leak [\d.]+K/, 'words: the owners');
like($words,
	qr/Resident: 128\.0K = 68\.4K allocated \+ 11\.6K free between objects \+ 8\.0K kept .* \+ 40\.0K not of the allocator/, 'words: what is resident');

# The data, added up here once more: by the rule of heap profiles, to 1/1024 of a byte.
sub data_of {
	my ($form, $text) =
	    $_[0] =~ /<script type="application\/json" id="data" data-form="(\w+)">(.*?)<\/script>/s
	    or die 'no data';
	if ($form eq 'gz') {
		require MIME::Base64;
		my $packed = spew("$dir/data.gz", MIME::Base64::decode_base64($text));
		$text = `gzip -dc $packed`;
	}
	my $data = JSON::PP->new->utf8->decode($text);
	return { %$data, name => [node_names($data)] };
}

sub rows_of {
	my ($data, $want) = @_;
	my (@node, @folded, $node, @objects, @bytes, %row);
	for my $at (0 .. @{ $data->{records} } / 2 - 1) {
		push @node, $node = ($node // 0) + $data->{records}[2 * $at];
		push @folded, $data->{records}[2 * $at + 1];
	}
	for my $number (0 .. $want) {
		my @cells = @{ $data->{snaps}[$number]{cells} };
		my $at = 0;
		while (my ($gap, $objects, $bytes) = splice @cells, 0, 3) {
			$at += $gap;
			$objects[$at] += $objects;
			$bytes[$at] += $bytes;
		}
	}
	for my $at (grep { $objects[$_] } 0 .. $#node) {
		my $covered = 1 - exp(-$bytes[$at] / $objects[$at] / $data->{snaps}[$want]{rate});
		my ($objects, $bytes) = map { int($_ / $covered * 1024 + 0.5) / 1024 } $objects[$at],
		    $bytes[$at];
		my $own = $node[$at];
		$own -= $data->{up}[$own] for 1 .. $folded[$at];
		my $row = $row{ $data->{names}[$data->{name}[$own]] } //= [0, 0, 0];
		$row->[0] += $bytes;
		$row->[2] += $objects;
		my %seen;
		for (; $own; $own -= $data->{up}[$own]) {
			my $name = $data->{names}[$data->{name}[$own]];
			$row{$name}[1] += $bytes unless $seen{$name}++;
		}
	}
	return join ' ', map { sprintf '%s=%d/%d/%d', $_,
		    map { $_ // 0 } @{ $row{$_} } } sort grep { $row{$_}[0] } keys %row;
}

sub top_of {
	my $top = JSON::PP->new->utf8->decode((jeprof('top', '--json', @_))[1]);
	return join ' ', map { sprintf '%s=%d/%d/%d',
		    @$_{ qw(function self cumulative
			    objects) } } sort { $a->{function} cmp $b->{function} } @{ $top->{rows} };
}
# The rows of top are rounded so that they add up to its total: each may be one more than the figure
# of the page, cut.
sub agrees {
	my ($got, $want, $name) = @_;
	my ($figures, @pair) = (qr{(?<=[=/])\d+}, $got, $want);
	my @got = $got =~ /$figures/g;
	my @want = $want =~ /$figures/g;
	s/$figures//g for @pair;
	my $is_near = @got == @want && $pair[0] eq $pair[1]
	    && !grep { abs $got[$_] - $want[$_] > 1 } 0 .. $#got;
	return $is_near ? pass($name) : is($got, $want, $name);
}
my $data = data_of($html);
agrees(rows_of($data, $_), top_of($dump[$_]),
	"self, cumulative and objects of dump $_: those of top") for 0 .. 3;
is($data->{snaps}[2]{live}[0], JSON::PP::decode_json((jeprof('top', '--json',
				$dump[2]))[1])->{total}{bytes}, 'the total of top');
is(join(' ', map { $_->{kind} } @{ $data->{snaps} }), 'interval ' x 3 . 'interval', 'reasons');
ok((jeprof('report', '--focus=<walk|walk', '--ignore=none', @dump))[1] =~ m{<b>\S+ live</b> in \d+ objects \(--focus=&#60;walk\|walk --ignore=none\)[.,]}, 'the words say what filters leave');
agrees(rows_of(data_of((jeprof('report', '--focus=walk', @dump))[1]), 1),
	top_of('--focus=walk', $dump[1]), '--focus: as top');
agrees(rows_of(data_of((jeprof('report', '--wrapper=^leak$', @dump))[1]), 1),
	top_of('--wrapper=^leak$', $dump[1]), '--wrapper: as top');
SKIP: {
	skip 'no node', 2 unless which('node');
	my ($model, $view) = $html =~ /<script>(.*?)<\/script>\s*<script>(.*?)<\/script>/s;
	spew('view.js', $view);
	is((run('node', '--check', 'view.js'))[0], 0, 'the script is one');
	spew('data.json', JSON::PP->new->utf8->canonical->encode($data));
	spew('model.js', "$model\n" . <<'JS');
var m = new Model(JSON.parse(require('fs').readFileSync('data.json', 'utf8')));
m.full.forEach(function (s) {
	var x = m.sums(s);
	console.log(Array.from(x.self.keys()).filter(function (f) { return x.self[f]; }).map(function (f) {
		return m.data.names[f] + '=' + [x.self[f], x.cum[f], x.objects[f]].map(Math.trunc).join('/'); }).sort().join(' '));
});
JS
	is((run('node', 'model.js'))[1], join('', map { rows_of($data, $_) . "\n" } 0 .. 3),
		'and its sums are the same');
}

# What a report of what was ever allocated calls it.
SKIP: {
	skip 'no node', 2 unless which('node');
	for (['--inuse_space', 'live'], ['--alloc_space', 'ever allocated']) {
		my ($option, $word) = @$_;
		my $page = (jeprof('report', $option, "$main::data/counts.heap", "$main::data/counts2.heap"))[1];
		my ($form, $text) = $page =~ /id="data" data-form="(\w+)">(.*?)<\/script>/s;
		my @script = $page =~ /<script>(.*?)<\/script>/gs;
		spew('words.json', JSON::PP->new->allow_nonref->encode([$form, $text]));
		spew('words.js', join "\n", slurp("$source/test/jeprof/browser.js"), <<'JS', @script, <<'JS');
[element('data').dataset.form, element('data').textContent] = JSON.parse(require('fs').readFileSync('words.json', 'utf8'));
JS
setTimeout(() => {
	console.log(element('course-key').textContent.split('  ')[0] + ', ' + element('suspects').children[0].children[3].textContent);
}, 0);
JS
		is((run('node', 'words.js'))[1], "$word, $word\n", "$option: the words of its curve and its column");
	}
}

# A process whose data are unpacked only when another one was chosen is not shown.
SKIP: {
	skip 'no node', 1 unless which('node');
	spew('chosen.js', <<'JS' . slurp("$source/bin/page/report.js") . <<'JS');
var shown = [], wanted = 1, answers = [], view = { models: [] };
class Model { constructor(data) { this.data = data; } }
function element(id) { return { textContent: btoa('"' + id + '\u00ff"'), dataset: { form: 'gz' } }; }
function begin(process) { shown.push(process); }
function process_of_address() { return wanted; }
function unpacked(bytes) {
	return { text: () => new Promise(done => { answers.push(() => done(Buffer.from(bytes).toString('latin1'))); }) };
}
JS
open_process(1);
wanted = 2;
open_process(2);
answers[1]();
answers[0]();
setTimeout(() => { console.log(shown.join(), view.models.map(model => model.data).join()); }, 0);
JS
	is((run('node', 'chosen.js'))[1], "2 ,data1\xc3\xbf,data2\xc3\xbf\n",
		'the process that was chosen last is shown');
	spew('damaged.js', <<'JS' . slurp("$source/bin/page/report.js") . <<'JS');
var view = { models: [] }, is_old = false, told = { textContent: '' }, store = { dataset: { form: 'gz' } };
function element(id) { return id === 'told' ? told : store; }
function unpacked() { return is_old ? null : { text: () => Promise.reject(new TypeError('cut')) }; }
JS
const tell = () => new Promise(done => {
	open_process(0);
	setTimeout(() => { console.log(told.textContent); told.textContent = ''; done(); }, 0);
});
store.textContent = btoa('cut');
tell().then(() => { store.textContent = '<'; return tell(); }).then(() => {
	is_old = true;
	store.textContent = btoa('whole');
	return tell();
});
JS
	is((run('node', 'damaged.js'))[1], "The data are damaged, or this browser is too old to unpack them.\n" x 3,
		'packed data that cannot be read: a sentence says why');
}

# Where no line leads to a point of a curve, it is a dot.
SKIP: {
	skip 'no node', 1 unless which('node');
	spew('dots.js', slurp("$source/bin/page/course.js") . <<'JS');
function css(name) { return name; }
const dots = [], pen = { beginPath() {}, moveTo() {}, lineTo() {}, stroke() {}, fill() {}, arc(x) { dots.push(x); } };
const points = Array.from({ length: COURSE.dots + 1 }, (_, x) => [1, 2, 4, 6, 7].includes(x) || x === COURSE.dots ? { x, y: 0 } : null);
draw_curve(pen, 1, points);
console.log(dots.join());
JS
	is((run('node', 'dots.js'))[1], "4,60\n", 'a figure without neighbours is a dot');
}

# By thread: what top --thread says, also of stacks that several threads share, and of a thread that
# comes twice in one.
sub with_threads {
	my ($n) = @_;
	my @line = map { my ($thread, $count, $size) = @$_;
		sprintf "  t%s: %d: %d [0: 0]\n", $thread, $count, $count * $size }
	    ['*', 9 + $n, 1000], [0, 9 + $n, 1000], ['*', 7, 500], [4, 3, 500], [0, 4, 500],
	    ['*', 6, 2000], [4, 2, 2000], [4, 4, 2000], ['*', 5, 64], [9, 5, 64];
	my @stack = map { my $at = $_; '@' . join('', map { sprintf ' 0x%x', $base + $_ } @$at)
		    . "\n" } [0x1211, 0x1111], [0x1311, 0x1111], [0x1311, 0x1511, 0x1111],
	    [0x1211, 0x1511, 0x1111];
	my $text = "heap_v2/4096\n# jemalloc.pid=5\n  t*: 1: 1 [0: 0]\n  t0: 1: 1 [0: 0] main\n  t4: 1: 1 [0: 0] <b>&\n  t9: 1: 1 [0: 0]\n"
	    . $stack[0] . join('', @line[0, 1]) . $stack[1]
	    . ($n ? join('', @line[2, 3, 4]) : "$line[2]  t0: 7: 3500 [0: 0]\n") . $stack[2]
	    . join('', @line[5, 6, 7]) . $stack[3] . join('', @line[8, 9])
	    . sprintf "\nMAPPED_LIBRARIES:\n# module %x-%x %x %s %s\n", @{ $module[0] };
	return spew("$dir/threads.$n.heap", $text . sprintf "# end %d\n", length $text);
}
my @threads = map { with_threads($_) } 0, 1;
my ($frames) = slurp($threads[0]) =~ /^(@.*\n)  t\*: 7/m;
spew("$dir/threads.2.heap", slurp($threads[0]) =~ s/^  t\*.*\n(?=MAPPED)/  t*: 1: 1 [0: 0]\n  t4: 1: 1 [0: 0] <b>&\n$frames  t*: 8: 4000 [0: 0]\n  t4: 8: 4000 [0: 0]\n\n/smr =~ s/^# end .*//mr);
my $alone = slurp("$dir/threads.2.heap");
push @threads, spew("$dir/threads.2.heap", $alone . '# end ' . length($alone) . "\n"); # one thread only
SKIP: {
	skip 'no node', 9 unless which('node');
	($code, $out, $err) = jeprof('report', @threads);
	is($err, '', 'threads: no doubt');
	my $data = data_of($out);
	is(join(' ', map { "$_->[0]=$_->[1]" } @{ $data->{threads} }), '0=main 4=<b>& 9=',
		'their names');
	spew('data.json', JSON::PP->new->utf8->canonical->encode($data));
	my ($model) = $out =~ /<script>(.*?)<\/script>\s*<script>/s;
	spew('model.js', "$model\n" . <<'JS');
var m = new Model(JSON.parse(require('fs').readFileSync('data.json', 'utf8')));
[0, 1, 2].forEach(function (s) {
	[-1].concat(m.data.threads.map(function (t, k) { return k; })).forEach(function (k) {
		m.show_only(k);
		var x = m.sums(s);
		console.log(s, k < 0 ? '' : m.data.threads[k][0], Math.trunc(m.live(s)), Array.from(x.self.keys()).filter(function (f) { return x.self[f]; }).map(function (f) {
			return m.data.names[f] + '=' + [x.self[f], x.cum[f], x.objects[f]].map(Math.trunc).join('/'); }).sort().join(' '));
	});
});
JS
	my $want = '';
	for my $s (0, 1, 2) {
		for my $thread ('', 0, 4, 9) {
			$want .= "$s $thread 0 \n", next if $s == 2 && length $thread && $thread != 4;
			my @only = length $thread ? "--thread=$thread" : ();
			$want .= "$s $thread " . JSON::PP::decode_json((jeprof('top', '--json', @only,
						$threads[$s]))[1])->{total}{bytes} . ' ' . top_of(@only, $threads[$s]) . "\n";
		}
	}
	agrees((run('node', 'model.js'))[1], $want, 'and the sums of each: those of top --thread');
	is(scalar(grep { $_ < 0 } @{ $data->{own} }), 2, 'two stacks are of several threads');
	ok(!exists data_of((jeprof('report', '--thread=4', @threads))[1])->{threads},
		'with --thread: no choice');
	is(join(' ', map { scalar @{ $_->{threads} } } @{ $data->{snaps} }), '3 3 1',
		'the table of threads: also where one has all');
	is($_->{live}[0], 0, 'and --thread=9 leaves it nothing')
	    for data_of((jeprof('report', '--thread=9', @threads))[1])->{snaps}[2];
	is((jeprof('--text', '--thread=9', @threads[0, 2]))[1],
		(jeprof('--text', '--thread=9', $threads[0]))[1], 'nor in a sum');
	is_deeply(data_of((jeprof('report', $threads[2]))[1])->{snaps}[0]{threads}, [],
		'of one thread alone: no table');
}

# Large data are packed, if gzip is there.
my $many = our_dump("$dir/many.heap", modules => \@module,
	stacks => [map { my $n = $_; [[map { $base + 0x1100 + ($n * $_ * 7919) % 0x500 } 1 .. 60],
				1 + $n % 5, 64 * (1 + $n % 5)] } 1 .. 2500]);
($code, $out, $err) = jeprof('report', $many);
like($out, qr/data-form="gz"/, 'packed');
agrees(rows_of(data_of($out), 0), top_of($many), 'packed: as top');
cmp_ok(length $out, '<', 250_000, 'packed: small');

# Many processes: the one with the most bytes is first; objects without names are told once for all.
sub of_process {
	my ($pid, $n, $bytes, $bare) = @_;
	return our_dump(sprintf("$dir/many.$pid.20260102T0300%02d.000Z.$n.i$n.heap", $n), modules => [@module,
			[$base + 0x10000, $base + 0x13000, $base + 0x10000, '56' x 20, "$dir/libthin.so"]],
		meta => { pid => $pid, dump_time => sprintf('20260102T0300%02d.000Z', $n), exe => "$dir/serve", kind => 'interval' },
		stacks => [[[map { $base + $_ } 0x1311, 0x1111], 1, $bytes], $bare ? [[map { $base + $_ } 0x11234, 0x1311, 0x1111], 1, $bare] : ()]);
}
elf_file("$dir/libthin.so", id => '56' x 20);
my @of_many = map { my $pid = $_; map { of_process($pid, $_, $pid == 115 ? 1000 * (50 - 49 * $_) : 100 * $pid % 700, $pid) } 0, 1 } 101 .. 123;
($code, $out, $err) = jeprof('report', @of_many);
is($code, 0, '23 processes') or diag $err;
is(scalar(() = $err =~ /libthin/g), 1, 'an object without names is told once') or diag $err;
like($err, qr/^jeprof: 2\.5K lie in functions without a name of libthin\.so /m, 'with the sum of all processes');
my @tabs = $out =~ /aria-selected="(\w+)">serve (\d+) <b>(\S+)<\/b>/g;
is("@tabs[0 .. 2]", 'true 115 48.9K', 'the process with the most bytes is shown first') or diag "@tabs";
is(scalar(@tabs), 69, 'all have a tab');
my $json = JSON::PP::decode_json((jeprof('report', '--json', @of_many))[1]);
is($json->{processes}[0]{pid}, 115, '--json: the same order');
my $sizes = join ' ', map { $_->{snapshots}[0]{bytes} > $_->{snapshots}[1]{bytes} ? $_->{snapshots}[0]{bytes} : $_->{snapshots}[1]{bytes} } @{ $json->{processes} };
is($sizes, join(' ', sort { $b <=> $a } split ' ', $sizes), '--json: by bytes');

# "No stack keeps growing" is not said of a series that is too short to tell.
sub short { my ($step, @bytes) = @_;
	return map { my $time = sprintf '20260102T03%02d%06.3fZ', $_ * $step / 60, $_ * $step - 60 * int($_ * $step / 60);
		our_dump("$dir/short.7.$time.$_.i$_.heap", modules => \@module, meta => { pid => 7, dump_time => $time },
			stacks => [[[$base + 0x1311], 1, $bytes[$_]]]) } 0 .. $#bytes }
my @jumps = (1 << 20, 30 << 20, 10 << 20, 50 << 20, 50 << 20);
for my $case ([0.25, \@jumps, 'too short'], [60, \@jumps, 'no stack'], [0.25, [1000, 1000, 1010, 1000, 1000], 'no stack']) {
	my @series = short($case->[0], @{ $case->[1] });
	my ($words) = (jeprof('report', @series))[1] =~ /<header>(.*?)<\/header>/s;
	my $table = (jeprof('leaks', @series))[1];
	my $judged = JSON::PP::decode_json((jeprof('leaks', '--json', @series))[1])->{series}[0]{judged};
	if ($case->[2] eq 'too short') {
		like($words, qr/<p>The series is too short to tell whether a stack keeps growing \(1\.0 s\)\.</, 'too short: said');
		unlike($words, qr/No stack/, 'and nothing else');
		like($table, qr/; too short to tell whether a stack keeps growing \(1\.0 s\)$/m, 'leaks: too short');
		ok(!$judged, 'leaks --json: not judged');
	} else {
		like($words, qr/<p>No stack keeps growing\.</, 'long enough, or nothing has grown');
		like($table, qr/; no stack keeps growing$/m, 'leaks: the same');
		ok($judged, 'leaks --json: judged');
	}
}

# Nor of several processes, one after the other. "Most" is more than a half.
my @starts = map { our_dump("$dir/start.$_.20260102T03000$_.000Z.0.i0.heap", modules => \@module,
		meta => { pid => $_, dump_time => "20260102T03000$_.000Z" }, stacks => [[[$base + 0x1311], 1, $_ << 20]]) } 1 .. 5;
my ($said) = (jeprof('report', @starts))[1] =~ /<header>(.*?)<\/header>/s;
like($said, qr/<p>The snapshots are of several processes: growth is not judged\.</, 'several processes: said');
unlike($said, qr/keeps? growing/, 'and nothing else');
like($said, qr/<p>All is held by <b>leak</, 'one owner');
for my $case (['diff', @starts[0, 1]], ['top', "--base=$starts[0]", $starts[1]]) {
	($code, $out, $err) = jeprof(@$case);
	is($code, 0, "$case->[0]: of two processes") or diag $err;
	like($err, qr/^jeprof: \Q$starts[0]\E is of another process \(pid 1\) than \Q$starts[1]\E \(pid 2\)$/m, 'said');
}
unlike((jeprof('diff', @dump[0, 1]))[2], qr/another process/, 'not of one');
names(map { "f$_" } 0 .. 9);
for my $case (['Part', 1000], ['Most', 9000]) {
	($said) = (jeprof('report', our_dump("$dir/share.heap", modules => \@module,
				stacks => [map { [[$base + 0x1111 + 0x100 * $_], 1, $_ ? 1000 : $case->[1]] } 0 .. 7])))[1] =~ /<header>(.*?)<\/header>/s;
	like($said, qr/<p>$case->[0] is held by <b>f0</, $case->[0]);
}

# What is hostile stays text.
names(qq{a</script/"\\\e\xe2\x80\xa8}, "<!--\xff\x01", "leak\xe2\x80\xae");
my $hostile = our_dump("$dir/hostile.heap", modules => \@module,
	meta => { pid => 5, kind => qq{</script><b>"\\\e\xe2\x80\xa9}, '<!--' => '</style>' },
	stacks => [[[map { $base + $_ } 0x1311, 0x1211, 0x1111], 1, 100]]);
($code, $out, $err) = jeprof('report', $hostile);
is($code, 0, 'hostile names') or diag $err;
is(scalar(() = $out =~ /<\/script/g), 3, 'no name ends a script');
unlike($out, qr/<b>"|<!--|[\x00-\x08\x0b-\x1f\x7f\xff]|\xe2\x80[\xa8\xa9\xae]/,
	'nor is it markup or a control character');
my $again = data_of($out);
is(scalar(grep { $_ eq qq{a</script/"\\?\x{2028}} } @{ $again->{names} }), 1, 'and it is whole')
    or diag explain $again->{names};
is($again->{snaps}[0]{kind}, qq{</script><b>"\\?\x{2029}}, 'metadata too');
($code, $out, $err) = jeprof('report',
	our_dump("$dir/nothing.heap", modules => \@module, stacks => []));
is($code, 0, 'report of nothing') or diag $err;
is($err, '', 'without a word');
($code, $out, $err) = jeprof('report', '-o', "$dir/none/r.html", $dump[0]);
is($code, 1, 'a file that cannot be written: exit 1');
for my $verb (['report'], ['report', '--json'], ['leaks'], ['export', '--to', 'massif', '-o', '-']) {
	($code, $out, $err) = jeprof(@$verb, '--thread=12345', @dump);
	is("$code|$out|$err", "1||jeprof: no thread 12345 in the profile\n", "@$verb: a thread that is not there");
}
for my $option ('--exe', '--add_lib') {
	($code, $out, $err) = jeprof('report', "$option=$dir", @dump);
	is("$code|$out|$err", "1||jeprof: $dir: is a directory\n", "$option: a directory");
}
is((jeprof('top', '/dev/zero'))[2], "jeprof: /dev/zero: is a device\n", 'a device, which may have no end');
is((jeprof('top', '/proc/self/mem'))[2], "jeprof: /proc/self/mem: Input/output error\n", 'a file that cannot be read to its end');
($code) = jeprof('report', '--thread=*', $dump[0]);
is($code, 2, '--thread=*: exit 2');
chdir $source;
done_testing();
