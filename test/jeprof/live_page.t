#!/usr/bin/perl
# The script of jeprofd's live page (bin/page/): it reads profiles of pprof, one after the other,
# and its sums, owners and suspects are those that top and leaks tell of the same dumps. Runs
# without a browser, in node.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
no warnings 'portable';
use JSON::PP ();
our ($dir, $source);

plan(skip_all => 'no node') unless which('node');
my $script = (run("$source/scripts/join-page", 'live'))[1];
spew("$dir/live.js", $script);
is((run('node', '--check', "$dir/live.js"))[0], 0, 'the script is one');

my $id = '55' x 20;
my $base = 0x555500000000;
elf_file("$dir/serve", id => $id, symbols =>
	    [['main', 0x1100, 0x100], ['cache', 0x1200, 0x100], ['leak', 0x1300, 0x100],
		['zmalloc', 0x1400, 0x100], ['walk', 0x1500, 0x100]]);
my @module = ([$base + 0x1000, $base + 0x3000, $base, $id, "$dir/serve"]);

# Dump number $n: main > cache > zmalloc, main > leak, which grows, main > walk > walk > leak, and a
# function without a name.
sub one {
	my ($n) = @_;
	my $stack = sub { my ($count, $size, @at) = @_;
		return $count ? [[map { $base + $_ } @at], $count, $count * $size] : () };
	return our_dump(sprintf("$dir/serve.77.20260102T03%02d00.000Z.%d.i%d.heap", $n, $n, $n),
		rate => 4096, modules => \@module,
		meta => { pid => 77, dump_time => sprintf('20260102T03%02d00.000Z', $n), kind => 'interval',
			exe => "$dir/serve", sample_interval => 4096 },
		stacks => [$stack->(40, 1000, 0x1410, 0x1211, 0x1111),
			$stack->(1 + 300 * $n, 4800, 0x1310, 0x1111),
			$stack->($n < 2 ? 7 : 0, 4097, 0x1310, 0x1511, 0x1511, 0x1111),
			$stack->(2, 112, 0x1910, 0x1211, 0x1111)]);
}
my @dump = map { one($_) } 0 .. 5;
for my $n (0 .. 5) {
	my ($code) = jeprof('export', '--to=pprof', '-o', "$dir/$n.pb.gz", $dump[$n]);
	is($code, 0, "dump $n as a profile of pprof") or next;
}

# In place of a browser: what the scope of the view declares is lent out at its end.
my $model = slurp("$source/bin/page/model.js");
my $lent = $script =~ s/follow\(\);\n\}\)\(\);\n\z/return { read_profile, make_snapshot, make_data, judged, told_changes, follow, send_verb, add_profile, change, move_focus, box_colour, tell_node, view };\n})();\n/r;
$lent =~ s/^'use strict';\n\(function/var lent = (function/;
my $browser = slurp("$source/test/jeprof/browser.js");
my $head = "$browser\n$model\n$lent\nvar fs = require('fs'), zlib = require('zlib');\n"
    . 'function read(f) { return lent.read_profile(new Uint8Array(zlib.gunzipSync(fs.readFileSync(f)))); }' . "\n";
spew("$dir/sums.js", $head . <<'JS');
var m = new Model(lent.make_data([0, 1, 2, 3, 4, 5].map(function (n) { return lent.make_snapshot(read(n + '.pb.gz')); })));
var out = m.full.map(function (s) {
	var x = m.sums(s), rows = {};
	x.self.forEach(function (v, f) { if (v) { rows[m.data.names[f]] = [v, x.cum[f], x.objects[f]].map(Math.round); } });
	return { rows: rows, live: m.live(s), time: m.data.snaps[s].time };
});
console.log(JSON.stringify({ snaps: out, lines: m.data.lines, suspects: m.data.suspects.map(function (s) { return { grown: s[1], up: s[4], steps: s[5], rate: s[2],
	stack: m.frames(s[0]).map(function (i) { return m.data.names[m.name_of[i]]; }) }; }) }));
JS
chdir $dir;
my ($code, $out, $err) = run('node', 'sums.js');
is("$code$err", '0', 'the data of six profiles are made') or BAIL_OUT($err);
my $made = JSON::PP->new->utf8->decode($out);

# Rounding in the profiles of pprof: whole numbers, so a row may differ by one for each of its
# stacks.
for my $n (0 .. 5) {
	my %want = map { $_->{function} =>
		    [@$_{ qw(self cumulative
				    objects) }] } grep { $_->{self} } @{ JSON::PP->new->utf8->decode((jeprof('top', '--json',
					$dump[$n]))[1])->{rows} };
	my $got = $made->{snaps}[$n]{rows};
	is(join(' ', sort keys %$got), join(' ', sort keys %want), "snapshot $n: the owners of top");
	my @far = grep { my $f = $_; grep { abs(($got->{$f}[$_] // 0) - $want{$f}[$_])
			    > 3 } 0 .. 2 } keys %want;
	is("@far", '', 'and their sums') or diag explain [$got, \%want];
}
is($made->{snaps}[5]{time} - $made->{snaps}[0]{time}, 300, 'times in seconds');

my $leaks = JSON::PP->new->utf8->decode((jeprof('leaks', '--json', @dump))[1]);
my ($want) = map { @{ $_->{suspects} // [] } } @{ $leaks->{series} // [$leaks] };
my ($got) = @{ $made->{suspects} };
is(scalar @{ $made->{suspects} }, 1, 'one suspect');
is("@{ $got->{stack} }", "@{ $want->{stack} }", 'the stack of leaks');
cmp_ok(abs($got->{grown} - $want->{grown}), '<', 3, 'its growth');
cmp_ok(abs($got->{rate} - $want->{per_minute}), '<', 3, 'its rate');
is("$got->{up}/$got->{steps}", "$want->{steps_up}/$want->{steps}", 'its steps');

# A wall clock that was set back: times between snapshots are those of the monotonic clock.
spew('clock.js', $head . <<'JS');
var at = [0, 1].map(function (n) { var p = read('0.pb.gz'); p.time = 7200 - 3600 * n; p.comments.monotonic_ms = String(5000 + 60000 * n); return lent.make_snapshot(p); });
console.log(at[1].time - at[0].time);
JS
is((run('node', 'clock.js'))[1], "60\n", 'a clock that was set back');

# Labels, each of them also alone, through snapshots in which they come and go.
spew('labels.js', $head . <<'JS');
function frame(n) { return { name: n, line: '', module: 'serve' }; }
function sample(f, thread, label, objects, bytes) { return { frames: [frame(f), frame('main')], thread: thread, thread_name: '', label: label, objects: objects, bytes: bytes }; }
function profile(time, samples) { return lent.make_snapshot({ time: time, period: 1, comments: {}, samples: samples }); }
var m = new Model(lent.make_data([
	profile(1, [sample('cache', 0, '', 1, 1000), sample('cache', 0, '__proto__', 2, 4000), sample('cache', 3, 'b', 5, 500)]),
	profile(2, [sample('cache', 0, 'b', 1, 100), sample('leak', 3, 'b', 2, 60), sample('leak', 3, '', 1, 30)]),
	profile(3, [sample('cache', 0, '', 1, 100)])]));
m.full.forEach(function (s) {
	console.log(m.by_label(s).map(function (l) { return l.text + '=' + l.bytes + '/' + l.objects; }).join(' ') + ' | ' + m.choices().map(function (c) { m.show_only(c.part); return c.text + ' ' + Math.round(m.totals(s, 'bytes', false)[0]); }).join(', '));
	m.show_only(-1);
});
JS
is((run('node', 'labels.js'))[1], <<'END', 'labels');
__proto__=4000/2 (no label)=1000/1 b=500/5 | 0 5000, 3 500, label: __proto__ 4000, label: b 500, label: (no label) 1000
b=160/3 (no label)=30/1 | 0 100, 3 90, label: __proto__ 0, label: b 160, label: (no label) 30
(no label)=100/1 | 0 100, 3 0, label: __proto__ 0, label: b 0, label: (no label) 100
END

# A frame with the name of the root is one like others.
spew('all.js', $head . <<'JS');
function sample(f, bytes) { return { frames: [f, 'all', 'main'].map(function (n) { return { name: n, line: '', module: 'serve' }; }), thread: 0, thread_name: '', label: '', objects: 1, bytes: bytes }; }
var d = lent.make_data([lent.make_snapshot({ time: 1, period: 1, comments: {}, samples: [sample('all', 10), sample('zip', 20)] })]);
console.log(d.name.map(function (n) { return d.names[n]; }).join(' '));
JS
is((run('node', 'all.js'))[1], "all main all all zip\n", 'a function that is called all');

# Ages, as jeprof export and ?ages=1 of jeprofd tell them.
spew('aged.js', $head . <<'JS');
function sample(f, age, bytes) { return { frames: [{ name: f, line: '', module: 'serve' }], thread: 0, thread_name: '', label: '', age: age, objects: 1, bytes: bytes }; }
function profile(time, samples) { return lent.make_snapshot({ time: time, period: 1, comments: { profiled_ms: '100000' }, samples: samples }); }
var m = new Model(lent.make_data([profile(1, [sample('a', null, 10)]), profile(2, [sample('a', 0, 300), sample('a', 16, 100), sample('b', 57600, 50)])]));
console.log(m.ages(0) === null, Array.from(m.ages(1).name).map(Math.round).join(' '), m.ages(1).span);
JS
is((run('node', 'aged.js'))[1], "true 0 0 0 0 0 0 0 0 0 0 300 0 0 100 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 50 100\n", 'ages');

# A pause, "go on" and "stop", also while a profile is fetched: never two fetches or two timers.
spew('pause.js', $head . <<'JS');
var timers = new Map(), count = 0, asked = [];
element('data').dataset = { interval: '10', from: 'heap' };
window.clearTimeout = n => { timers.delete(n); };
window.setTimeout = f => { timers.set(++count, f); return count; };
globalThis.fetch = function (what) { return new Promise(done => { if (what === 'heap') { asked.push(done); } }); };
function tell(what) { console.log(what + ': ' + asked.length + ' fetched, timers ' + timers.size + ', ' + (element('live-pause').textContent || 'pause') + ', ' + element('live-state').textContent); }
function click(what) { element('live-pause').onclick(); tell(what); }
function answer(what) {
	asked.splice(0).forEach(done => done({ ok: false, status: 503, text() { return Promise.resolve(''); } }));
	return new Promise(done => setImmediate(done)).then(() => tell(what));
}
function tick(what) { var all = [...timers.values()]; timers.clear(); all.forEach(f => f()); tell(what); }
(async function () {
	lent.follow();
	tell('begins');
	click('pause during a fetch');
	await answer('that ends');
	click('go on');
	click('pause');
	click('go on during a fetch');
	await answer('that ends');
	click('pause');
	click('go on');
	await answer('that ends');
	tick('time');
	lent.send_verb('stop');
	tell('stop during a fetch');
	await answer('that ends');
	click('go on');
	await answer('that ends');
	lent.send_verb('stop');
	tell('stop');
})();
JS
is((run('node', 'pause.js'))[1] =~ s/no new snapshot: status 503/failed/gr, <<'END', 'pause and stop, and what is told of them');
begins: 1 fetched, timers 0, pause, 
pause during a fetch: 1 fetched, timers 0, go on, paused
that ends: 0 fetched, timers 0, go on, failed
go on: 1 fetched, timers 0, pause, waits for a profile
pause: 1 fetched, timers 0, go on, paused
go on during a fetch: 1 fetched, timers 0, pause, waits for a profile
that ends: 0 fetched, timers 1, pause, failed
pause: 0 fetched, timers 0, go on, paused
go on: 1 fetched, timers 0, pause, waits for a profile
that ends: 0 fetched, timers 1, pause, failed
time: 1 fetched, timers 0, pause, failed
stop during a fetch: 1 fetched, timers 0, go on, paused
that ends: 0 fetched, timers 0, go on, failed
go on: 1 fetched, timers 0, pause, waits for a profile
that ends: 0 fetched, timers 1, pause, failed
stop: 0 fetched, timers 0, go on, paused
END

# A new profile leaves what the reader did: more rows, the box that arrow keys came to, stacks that a click folds.
my $reader = $head . <<'JS';
globalThis.fetch = () => new Promise(() => {});
function sample(f, bytes) { return { frames: [f, 'main'].map(name => ({ name, line: '', module: 'serve' })), thread: 0, thread_name: '', label: '', age: null, objects: 1, bytes }; }
function add(time, samples) { lent.add_profile({ time, period: 1, comments: {}, samples: [...Array(40).keys()].map(i => sample('f' + i, 1000 - i)).concat(samples) }); }
function click(stack) { const { onclick } = stack.children[0]; if (onclick) { onclick(); } stack.open = !stack.open; stack.ontoggle(); }
function tell() {
	const { model, focused } = lent.view, open = element('stacks').children.filter(stack => stack.open);
	console.log(element('functions').children.length - 1, model.data.names[model.name_of[focused]], open.map(stack => /: (\w+)/.exec(stack.textContent)[1] + '/' + stack.children.length).join(' '));
}
lent.follow();
add(1, []);
JS
spew('reader.js', $reader . <<'JS');
tell();
element('more').onclick();
lent.move_focus('ArrowDown');
lent.move_focus('ArrowDown');
[0, 2].forEach(i => click(element('stacks').children[i]));
tell();
add(2, [sample('large', 5000)]);
tell();
JS
is((run('node', 'reader.js'))[1], <<'END', 'a new profile and the reader');
25 all f0/2 f1/2
41 f0 f1/2 f2/2
42 f0 large/2 f2/2
END

# A pid that another process has now, or another program: its snapshots begin anew, with the same time too.
spew('other.js', $head . <<'JS');
element('data').dataset = { interval: '10', from: 'heap' };
window.setTimeout = () => 1;
globalThis.fetch = () => new Promise(() => {});
function add(time, instance, name) {
	const samples = [{ frames: [{ name, line: '', module: 'serve' }], thread: 0, thread_name: '', label: '', age: null, objects: 1, bytes: 100 }];
	const is_other = lent.add_profile({ time, period: 1, comments: instance ? { instance } : {}, samples });
	console.log(is_other, lent.view.data.snaps.length, lent.view.data.name.map(n => lent.view.data.names[n]).join(' '));
}
lent.follow();
[[1, '0xa', 'old'], [2, '0xa', 'old'], [2, '0xb', 'new'], [3, '0xb', 'new'], [4, '', 'unknown'], [5, '', 'unknown']].forEach(a => add(...a));
JS
is((run('node', 'other.js'))[1], <<'END', 'a pid that was used again');
false 1 all old
false 2 all old
true 1 all new
false 2 all new
true 1 all unknown
false 2 all unknown
END

# Growth is coloured without a snapshot to compare with: it is that since the first, as in the table
# of growth, and the words tell none.
spew('words.js', $reader . <<'JS');
function colours() { return [...new Set([...lent.view.totals.keys()].map(lent.box_colour))].sort().join(' '); }
add(2, [sample('large', 5000)]);
lent.change({ colour: 'growth' });
console.log(element('told').textContent);
var compared = colours();
lent.change({ compared: null });
console.log(element('told').textContent);
console.log(colours() === compared, compared);
lent.change({ snapshot: 0 });
console.log(colours());
JS
is((run('node', 'words.js'))[1], <<'END', 'words of growth');
all: 43.2K, 100.0%, +4.9K since the snapshot compared with
all: 43.2K, 100.0%
true hsl(4,0%,88%) hsl(4,85%,55%) hsl(4,85%,84.4%)
hsl(4,0%,88%)
END

# A box whose age is not known among others: nothing is told of its age; of one that is known in part, the part.
spew('told.js', $reader . <<'JS');
add(2, [{ ...sample('large', 5000), age: 16 }]);
lent.view.model.name_of.forEach((name, node) => {
	if (/^(all|f0|large)$/.test(lent.view.data.names[name])) { lent.tell_node(node); console.log(element('told').textContent); }
});
JS
is((run('node', 'told.js'))[1], <<'END', 'an age that is not known');
all: 43.2K, 100.0%, half of the 11.3% whose age is known older than 38s
f0: 1000B, 2.3%  [serve]
large: 4.9K, 11.3%, half of it older than 38s  [serve]
END

# Of 300 threads the table has 100, and only these are looked up; it tells how many more there are.
spew('threads.js', $reader . <<'JS');
add(2, [...Array(300).keys()].map(thread => ({ ...sample('f', thread), thread })));
var { threads } = lent.view.data, asked = 0;
threads.findIndex = function (test) { asked++; return Array.prototype.findIndex.call(this, test); };
lent.change({ part: -1 });
var { children } = element('threads');
console.log(threads.length, children.length - 1, children[children.length - 1].textContent, asked);
JS
is((run('node', 'threads.js'))[1], "300 101 200 more 100\n", 'many threads');

# Events before the first profile do nothing.
spew('early.js', $head . <<'JS');
var said = {};
document.addEventListener = globalThis.addEventListener = (kind, act) => { said[kind] = act; };
globalThis.fetch = () => new Promise(() => {});
lent.follow();
var acts = [() => said.keydown({ key: 'w', target: { tagName: 'BODY' } }), () => said.hashchange(), () => element('metric').onchange(), () => element('flame').onmousemove({ clientX: 1, clientY: 1 }), () => element('way').onclick()];
console.log(acts.map(act => { try { act(); return 'done'; } catch (error) { return / is not a function/.test(error.message) ? 'none' : error.message; } }).join(' '));
JS
is((run('node', 'early.js'))[1], "none done none none none\n", 'events before the first profile');

# A profile of which no model can be made is not kept.
spew('broken.js', $reader . <<'JS');
var whole = globalThis.Int32Array;
globalThis.Int32Array = class { constructor() { throw new Error('no memory'); } };
try { add(2, []); } catch (error) { console.log(error.message, lent.view.data.snaps.length); }
globalThis.Int32Array = whole;
add(3, []);
console.log(lent.view.data.snaps.map(snap => snap.time).join(' '));
JS
is((run('node', 'broken.js'))[1], "no memory 1\n1 3\n", 'a profile without a model');

# A double click chooses the function of the box that its first click hit, wherever that is then.
spew('double.js', $reader . <<'JS');
function deep(names, bytes) { return { ...sample('', bytes), frames: names.split(' ').map(name => ({ name, line: '', module: 'serve' })) }; }
add(2, [deep('a b c d e main', 90000), deep('wide main', 90000)]);
lent.change({ direction: 'flame' });
element('flame').getBoundingClientRect = () => ({ left: 0, top: 0 });
var wide = lent.view.laid.boxes.find(box => lent.view.data.names[lent.view.model.name_of[box.node]] === 'wide'), at = { clientX: wide.x + 2, clientY: wide.y + 2 };
[1, 2].forEach(detail => element('flame').onclick({ ...at, detail }));
element('flame').ondblclick({ ...at, detail: 2 });
console.log(lent.view.data.names[Number(/f=(\d+)/.exec(location.hash)[1])]);
JS
is((run('node', 'double.js'))[1], "wide\n", 'a double click');

# The address has what is shown: also of a node that holds nothing. A part of it without "=" is nothing.
spew('address.js', $reader . <<'JS');
add(2, [sample('large', 5000)]);
var { model, data } = lent.view;
lent.change({ zoomed: model.name_of.findIndex(name => data.names[name] === 'large') });
console.log(location.hash);
lent.change({ snapshot: 0 });
console.log(location.hash);
JS
like((run('node', 'address.js'))[1], qr/^#.*\bz=\d+.*\n#s=0&z=1$/m, 'the address after a zoom that ended');
spew('parts.js', $head . <<'JS');
globalThis.fetch = () => new Promise(() => {});
location.hash = '#q1';
lent.follow();
lent.add_profile({ time: 1, period: 1, comments: {}, samples: [] });
console.log(element('find').value || 'none');
JS
is((run('node', 'parts.js'))[1], "none\n", 'a part of the address without a value');

# A graph of the deepest stacks is not higher than browsers draw.
spew('high.js', $reader . <<'JS');
add(2, [{ ...sample('', 90000), frames: [...Array(4000).keys()].map(i => ({ name: 'f' + i, line: '', module: 'serve' })) }]);
var { height, style } = element('flame');
console.log(height > 30000 && height <= 32767, parseInt(style.height) > 4000 * 18);
JS
is((run('node', 'high.js'))[1], "true true\n", 'the deepest graph');

# Counts of snapshots in any order.
spew('order.js', $head . <<'JS');
var data = lent.make_data([0, 1, 2, 3].map(n => lent.make_snapshot(read(n + '.pb.gz')))), sums = order => {
	var m = new Model(data), told = [];
	order.forEach(s => { told[s] = Array.from(m.estimates(s, -1).bytes).join(); });
	return told.join(' ');
};
console.log(sums([0, 1, 2, 3]) === sums([2, 0, 3, 1]));
JS
is((run('node', 'order.js'))[1], "true\n", 'snapshots in any order');

# Results of the model are kept, up to a number.
spew('kept.js', $head . <<'JS');
var m = new Model(lent.make_data([lent.make_snapshot(read('0.pb.gz'))])), counted = 0;
function ask(key) { return m.kept([key], () => { counted++; return key; }); }
var most = 0;
for (var i = 0; i < 1000; i++) { if (ask(i) !== i || ask(i) !== i) { throw new Error(i); } most = Math.max(most, m.results.size); }
console.log(counted, most, ask(999), counted, ask(0), counted);
JS
is((run('node', 'kept.js'))[1], "1000 100 999 1000 0 1001\n", 'what the model keeps');

# Bytes that are no profile: an error, never an endless loop or half a profile.
spew('bad.js', $head . <<'JS');
var whole = new Uint8Array(zlib.gunzipSync(fs.readFileSync('3.pb.gz'))), taken = 0, refused = 0, seed = 7, i, b;
function next() { return seed = seed * 1103515245 + 12345 & 0x7fffffff; }
for (i = 0; i < 300; i++) {
	b = whole.slice();
	if (i % 2) { b[next() % b.length] = next() & 255; } else { b = b.subarray(0, next() % b.length); }
	try { lent.make_snapshot(lent.read_profile(b)); taken++; } catch (e) { if (!/^the profile/.test(e.message)) { throw e; } refused++; }
}
console.log(taken + refused, refused > 50);
JS
($code, $out, $err) = run('node', 'bad.js');
is("$code $out$err", "0 300 true\n", '300 damaged profiles are refused or read');

# ---- courses ----
# The page and jeprof judge a course alike, also where it meets a threshold exactly: values are small
# numbers, so that many do.
our %limits = map { /^([A-Z_]+) +([\d.]+) / ? ($1 => $2) : () } split /\n/, slurp("$source/bin/page/leaks.txt");
eval 'package Leaks; use constant \%main::limits; 1' or die $@;
do "$source/bin/jeprof.d/leaks.pl";
die $@ if $@;
srand 5;
# Just as much lost as may be, or grown in the last step as must be; a stack that stays as it is.
my @courses = map { [$_, [(0) x @$_]] } [0, 1, 2, 3, 2, 3, 4], [0, 5, 10, 15, 20, 25, 30, 31], [(7) x 6];
for my $round (4 .. 6000) {
	my ($n, $at, $slope) = (4 + int rand($round % 3 ? 5 : 36), int rand 4, 1 + int rand 3);
	my @values;
	for my $i (0 .. $n - 1) {
		push @values, $at;
		$at += (0, $slope, $slope, $slope, int rand 6, rand() < 0.2 ? -1 : 1)[int rand 6];
		$at = 0 if $at < 0;
	}
	my $each = (0, 0.25, 1, 4)[int rand 4]; # bytes that a sample stands for
	push @courses, [\@values, [map { $_ * $each + ($round % 5 ? 0 : int rand 3) } @values]];
}
spew('courses.json', JSON::PP->new->encode(\@courses));
spew('courses.js', $head . <<'JS');
JSON.parse(fs.readFileSync('courses.json', 'utf8')).forEach(function (c) {
	var g = lent.judged(c[0], c[1]);
	console.log(g ? [g.grown, g.error.toFixed(6), g.up, g.steps, g.from, g.to].join(' ') : 'no');
});
JS
my @got = split /\n/, (run('node', 'courses.js'))[1];
my @want = map { my $g = Leaks::judge(@$_);
	$g ? sprintf '%d %.6f %d %d %d %d', @$g{qw(grown error up steps from to)} : 'no' } @courses;
my @differ = grep { ($got[$_] // '') ne $want[$_] } 0 .. $#want;
is(scalar @differ, 0, scalar(@want) . ' courses are judged as jeprof does') or diag explain [map { [$courses[$_], $got[$_], $want[$_]] } @differ[0, -1]];
my $grow = grep { $_ ne 'no' } @want;
ok($grow > 500 && $grow < 5500, "$grow of them grow");

# What changed is told also where only objects or only bytes did.
spew('changes.js', $head . <<'JS');
console.log(JSON.stringify(lent.told_changes({ objects: [1, 2, 3, 4], bytes: [8, 8, 8, 8] }, { objects: [1, 3, 3, 3], bytes: [8, 8, 9, 7] })));
JS
is((run('node', 'changes.js'))[1], "[1,1,0,1,0,1,1,-1,-1]\n", 'changes');
done_testing();
