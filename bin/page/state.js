// The state of the view, which the address of the page holds, and the events that change it. A change draws only
// what depends on it. start() begins to show the data of a report of files; jeprofd's page has follow() (live.js) instead.
var START = {}, drawn = null, tabs = [], models = [], shown = 0;	// drawn: the snapshot compared with when last drawn
function number(x, good, other) { x = x === undefined || x === '' ? NaN : +x; return good(x) ? x : other; }
function address() {
	var h = {};
	location.hash.slice(1).split('&').forEach(function (p) { var i = p.indexOf('='); try { h[p.slice(0, i)] = decodeURIComponent(p.slice(i + 1)); } catch (e) { h[p.slice(0, i)] = ''; } });
	return h;
}
// The newest snapshot; the largest where next to nothing is left of it, as of a program that frees all at its end.
function shown_first() {
	var last = m.full[m.full.length - 1], most = last;
	m.full.forEach(function (s) { if (d.snaps[s].live[0] > d.snaps[most].live[0]) { most = s; } });
	return d.snaps[last].live[0] * 10 < d.snaps[most].live[0] ? most : last;
}
function from_address() {
	var h = address();
	function snap(x) { return m.full.indexOf(x) >= 0; }
	function one_of(x, all) { return all.indexOf(x) >= 0 ? x : all[0]; }
	return { p: shown, s: number(h.s, snap, shown_first()), a: number(h.a, snap, null), t: number(h.t, function (x) { return x % 1 === 0 && m.choices().some(function (c) { return c[0] === x; }); }, -1), z: number(h.z, function (x) { return x >= 0 && x < m.n && x % 1 === 0; }, 0),
		f: number(h.f, function (x) { return x > 0 && x < d.names.length && x % 1 === 0; }, 0), q: h.q || '', m: one_of(h.m, ['b', 'o']), c: one_of(h.c, ['n', 'm', 'g', 'a']),
		g: one_of(h.g, ['i', 'f']), w: h.w === '1' ? 1 : 0, k: one_of(h.k, ['self', 'cum', 'objects', 'growth']) };
}
function to_address() {
	var text = Object.keys(S).filter(function (k) { return S[k] !== START[k]; }).map(function (k) { return k + '=' + encodeURIComponent(S[k] === null ? '' : S[k]); }).join('&');
	try { history.replaceState(null, '', '#' + text); } catch (e) { location.replace('#' + text); }
}
function set(change) {
	Object.keys(change).forEach(function (k) { S[k] = change[k]; });
	if (change.c === 'g' && S.a === null) { S.a = m.full[0]; }
	to_address();
	show(change);
}
function search() {
	var re = null;
	hit = null;
	$('found').textContent = '';
	if (!S.q) { return; }
	try { re = new RegExp(S.q, 'i'); } catch (e) { re = null; }
	hit = new Uint8Array(d.names.length);
	var count = 0, word = S.q.toLowerCase();
	for (var f = 1; f < d.names.length; f++) { hit[f] = (re ? re.test(d.names[f]) : d.names[f].toLowerCase().indexOf(word) >= 0) ? 1 : 0; count += hit[f]; }
	var sum = m.share(S.s, S.m, S.w, hit);
	$('found').textContent = count + ' names: ' + amount(sum) + ', ' + percent(sum, T[0]);
}
// Draws all, or what depends on the keys of a change.
function show(change) {
	function has(keys) { return !change || Object.keys(change).some(function (k) { return keys.indexOf(k) >= 0; }); }
	m.of(S.t);
	T = m.totals(S.s, S.m, S.w);
	T0 = S.a === null ? null : m.totals(S.a, S.m, S.w);
	if (S.c === 'g' && !T0) { T0 = new Float64Array(m.n); }
	A = m.ages(S.s);
	$('colour').querySelector('[value=a]').hidden = !A;
	while (S.z && !T[S.z]) { S.z = m.parent[S.z]; }
	$('snap').value = S.s; $('from').value = S.a === null ? '' : S.a; $('thread').value = S.t; $('metric').value = S.m; $('colour').value = S.c; $('whole').checked = !!S.w;
	if ($('find').value !== S.q) { $('find').value = S.q; }
	$('way').textContent = S.g === 'f' ? 'as an icicle (f)' : 'as flames (f)';
	$('out').disabled = !S.z;
	if (has('qsmwt')) { search(); }
	if (has('sat') || S.a !== drawn) { draw_course(); growth(); }
	draw();
	tell(S.z);
	if (has('saqkft') || S.a !== drawn) { functions(); }
	if (has('st')) { stacks(); others(); }
	drawn = S.a;
}
function key(e) {
	var typing = /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName) && e.target.type !== 'checkbox', at = m.full.indexOf(S.s), k = e.key;
	if (e.ctrlKey || e.metaKey || e.altKey) { return; }
	if (k === 'Escape') { if (S.q) { set({ q: '' }); } else if (S.z) { chosen = S.z; set({ z: m.parent[S.z] }); } if (typing) { e.target.blur(); } return; }
	if (typing) { return; }
	if (k === '/') { e.preventDefault(); $('find').focus(); $('find').select(); }
	if (k === '[' && at > 0) { set({ s: m.full[at - 1] }); }
	if (k === ']' && at < m.full.length - 1) { set({ s: m.full[at + 1] }); }
	if (k === 'f') { set({ g: S.g === 'f' ? 'i' : 'f' }); }
	if (k === 'c') { set({ c: { n: 'm', m: 'g', g: A ? 'a' : 'n', a: 'n' }[S.c] }); }
	if (k === 'w') { set({ w: S.w ? 0 : 1 }); }
	if (document.activeElement === $('flame')) {
		if (/^Arrow/.test(k)) { e.preventDefault(); step(k); }
		if (k === 'Enter') { set({ z: chosen }); }
	}
}
function listen() {
	[['snap', function (v) { return { s: +v }; }], ['from', function (v) { return { a: v === '' ? null : +v }; }], ['metric', function (v) { return { m: v }; }], ['thread', function (v) { return { t: +v }; }], ['colour', function (v) { return { c: v }; }]].forEach(function (x) {
		$(x[0]).onchange = function () { set(x[1](this.value)); };
	});
	$('find').oninput = function () { set({ q: this.value }); };
	$('whole').onchange = function () { set({ w: this.checked ? 1 : 0 }); };
	$('way').onclick = function () { set({ g: S.g === 'f' ? 'i' : 'f' }); };
	$('out').onclick = function () { set({ z: 0 }); };
	$('more').onclick = function () { rows += 100; functions(); };
	$('flame').onclick = function (e) { var b = box_at(e); if (b) { chosen = b.node; set({ z: b.node }); } };
	$('flame').ondblclick = function (e) { var b = box_at(e); if (b) { set({ f: d.name[b.node] }); } };
	$('flame').onmousemove = function (e) { var b = box_at(e); tell(b ? b.node : S.z); this.style.cursor = b ? 'pointer' : ''; };
	$('flame').onfocus = $('flame').onblur = draw;
	$('course').onclick = pick;
	document.addEventListener('keydown', key);
	window.addEventListener('hashchange', function () { if (process() !== shown) { return open(process()); } S = from_address(); show(); });
	['resize', 'beforeprint', 'afterprint'].forEach(function (w) { window.addEventListener(w, function () { if (m) { draw_course(); draw(); } }); });
	matchMedia('(prefers-color-scheme:dark)').addEventListener('change', function () { if (m) { show(); } });
}
// Shows process k, whose model is there.
function begin(k) {
	m = models[k];
	d = m.d;
	shown = k;
	hues = [];
	rows = 25;
	order = {};
	laid = {};
	chosen = 0;
	$('snap').replaceChildren();
	$('from').replaceChildren();
	m.full.forEach(function (s) {
		var p = d.snaps[s], o = make('option', (p.clock ? p.clock.slice(11) + ' ' : '') + p.kind + ' ' + size(p.live[0]));
		o.value = s;
		$('snap').append(o);
		$('from').append(o.cloneNode(true));
	});
	var none = make('option', 'none');
	none.value = '';
	$('from').prepend(none);
	$('s-course').hidden = d.snaps.length < 2;
	$('l-thread').hidden = !d.threads && !d.labels;
	$('thread').replaceChildren.apply($('thread'), [[-1, 'all']].concat(m.choices().slice(0, 1000)).map(function (t) {
		var o = make('option', t[1]);
		o.value = t[0];
		return o;
	}));
	tabs.forEach(function (b, i) {
		b.setAttribute('aria-selected', i === k);
		document.querySelectorAll('.process')[i].hidden = i !== k;
	});
	START = { p: 0, s: shown_first(), a: null, t: -1, z: 0, f: 0, q: '', m: 'b', c: 'n', g: 'i', w: 0, k: 'self' };
	S = from_address();
	suspects();
	show();
}
// Shows process k; its data are unpacked and its model is made when it is first shown.
function open(k) {
	var e = $('data' + (k || '')), text = e.textContent, raw, bytes, i;
	if (models[k]) { return begin(k); }
	if (e.dataset.form !== 'gz') { return take(text); }
	raw = atob(text);
	bytes = new Uint8Array(raw.length);
	for (i = 0; i < raw.length; i++) { bytes[i] = raw.charCodeAt(i); }
	if (!window.DecompressionStream) { $('told').textContent = 'This browser is too old to unpack the data.'; return; }
	new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).text().then(take);
	function take(t) { models[k] = Model(JSON.parse(t)); begin(k); }
}
function process() { return number(address().p, function (x) { return x > 0 && x < tabs.length && x % 1 === 0; }, 0); }
function start() {
	tabs = Array.from(document.querySelectorAll('#tabs button'));
	tabs.forEach(function (b, k) {
		b.onclick = function () { location.hash = k ? 'p=' + k : ''; };
		b.onkeydown = function (e) {
			var to = tabs[k + (e.key === 'ArrowRight' ? 1 : e.key === 'ArrowLeft' ? -1 : 0)];
			if (to && to !== b) { to.focus(); to.click(); }
		};
	});
	listen();
	open(process());
}
