# Script: what runs in the browser that shows a report. The model adds up and knows no page; the view draws. Numbers are un-sampled
# by the rule of Dump::estimate, to the same 1/1024 of a byte, so that they add up to what top says.
# Costs: one pass over all nodes for each change of the snapshot; sums are kept by snapshot, and a change draws only what depends on it; boxes narrower than a pixel are not drawn.
package Script;

sub model {
	return <<'MODEL';
"use strict";
function Model(d) {
	var MOST = 20, n = d.up.length, R = d.records.length / 2, full = [], cache = {}, made = {};
	var parent = new Int32Array(n), first = new Uint8Array(n), depth = new Int32Array(n), kids = new Int32Array(n + 1), list = new Int32Array(n);
	var leaf = new Int32Array(R), owner = new Int32Array(R), raw = [], pair = [], parts = [], who = -1;	// who: an index into threads, -1 for all
	var i, k, at = 0, next, follow = [], fresh = 0, path = [], met = new Int32Array(d.names.length);
	d.name = new Int32Array(n);
	for (i = 1; i < n; i++) {
		k = d.name[i - d.up[i]];
		next = follow[k] = follow[k] || [];
		if (d.step[i - 1] === next.length) { next.push(d.fresh[fresh++]); }
		d.name[i] = next[d.step[i - 1]];
	}
	for (i = 0; i < n; i++) {
		parent[i] = i ? i - d.up[i] : -1;
		depth[i] = i ? depth[parent[i]] + 1 : 0;
		while (path.length > depth[i]) { met[path.pop()]--; }
		first[i] = met[d.name[i]]++ ? 0 : 1;
		path.push(d.name[i]);
		if (i) { kids[parent[i] + 1]++; }
	}
	for (i = 0; i < n; i++) { kids[i + 1] += kids[i]; }
	next = kids.slice();
	for (i = 1; i < n; i++) { list[next[parent[i]]++] = i; }
	for (i = 0; i < R; i++) {
		leaf[i] = owner[i] = at += d.records[2 * i];
		for (k = d.records[2 * i + 1]; k > 0; k--) { owner[i] = parent[owner[i]]; }
	}
	decode();

	function decode() {
		var r = 0, both = [new Float64Array(R), new Float64Array(R)], split;
		for (i = 0; d.pairs && i < d.pairs.length; i += 2) { pair.push([r += d.pairs[i], d.pairs[i + 1]]); }
		split = [new Float64Array(pair.length), new Float64Array(pair.length)];
		d.snaps.forEach(function (snap, s) {
			if (!snap.cells) { return; }
			raw[s] = changed(both, snap.cells);
			parts[s] = changed(split, snap.parts || []);
			full.push(s);
		});
	}
	function changed(sums, c) {
		for (var at = 0, j = 0; j < c.length; j += 3) { at += c[j]; sums[0][at] += c[j + 1]; sums[1][at] += c[j + 2]; }
		return [sums[0].slice(), sums[1].slice()];
	}
	function round(x) { return Math.floor(x * 1024 + 0.5) / 1024; }
	// Adds to record r of q: estimated bytes b and objects o, variance v of the bytes.
	function add(q, r, o, b, rate) {
		var covered = 1, ratio, objects, bytes;
		if (o && b && rate) {
			ratio = b / o / rate;
			covered = ratio > 1e-9 ? 1 - Math.exp(-ratio) : ratio;
			objects = round(o / covered); bytes = round(b / covered);
			if (objects > o) { q.v[r] += bytes * bytes / o * (1 - o / objects); }
		} else {
			objects = o; bytes = b;
		}
		q.o[r] += objects; q.b[r] += bytes;
	}
	// Of snapshot s, by record, of all threads or one.
	function at_snap(s) {
		var key = s + ',' + who, r, k;
		if (cache[key]) { return cache[key]; }
		var rate = d.snaps[s].rate, q = { b: new Float64Array(R), o: new Float64Array(R), v: new Float64Array(R) }, o = raw[s][0], b = raw[s][1];
		for (r = 0; r < R; r++) { if (o[r] && (who < 0 || d.own[r] === who)) { add(q, r, o[r], b[r], rate); } }
		for (k = 0; who >= 0 && k < pair.length; k++) { if (pair[k][1] === who && parts[s][0][k]) { add(q, pair[k][0], parts[s][0][k], parts[s][1][k], rate); } }
		return cache[key] = q;
	}
	// The nodes at which records end, whole or at their owners, in order, and the number of the node of each record.
	function ends(whole) {
		return kept('e' + +!!whole, function () {
			var to = whole ? leaf : owner, number = new Int32Array(n), nodes = to.slice().sort().filter(function (x, j, all) { return !j || x !== all[j - 1]; });
			nodes.forEach(function (x, j) { number[x] = j; });
			return { nodes: nodes, of: to.map(function (x) { return number[x]; }) };
		});
	}
	// By node, of it and all below it.
	function kept(key, count) { return made[key] || (made[key] = count()); }
	function totals(s, metric, whole) { return kept(['t', s, who, metric, +!!whole].join(), function () { return add_totals(s, metric, whole); }); }
	function sums(s) { return kept(['s', s, who].join(), function () { return add_sums(s); }); }
	function stacks(s, a, whole) { return kept(['k', s, who, a, +!!whole].join(), function () { return add_stacks(s, a, whole); }); }
	function add_totals(s, metric, whole) {
		var t = new Float64Array(n), q = at_snap(s)[metric], to = whole ? leaf : owner, j;
		for (j = 0; j < R; j++) { t[to[j]] += q[j]; }
		for (j = n - 1; j > 0; j--) { t[parent[j]] += t[j]; }
		return t;
	}
	// By name: self, objects, cum, variance.
	function add_sums(s) {
		var q = at_snap(s), m = d.names.length, t = totals(s, 'b', false), j;
		var x = { self: new Float64Array(m), objects: new Float64Array(m), cum: new Float64Array(m), variance: new Float64Array(m) };
		for (j = 0; j < R; j++) {
			var f = d.name[owner[j]];
			x.self[f] += q.b[j]; x.objects[f] += q.o[j]; x.variance[f] += q.v[j];
		}
		for (j = 1; j < n; j++) { if (first[j]) { x.cum[d.name[j]] += t[j]; } }
		return x;
	}
	// Callers and callees of a name: [name, bytes], the most first.
	function around(f, t) {
		var up = {}, down = {}, j, k;
		for (j = 1; j < n; j++) {
			if (d.name[j] === f && t[j]) {
				if (first[j]) { up[d.name[parent[j]]] = (up[d.name[parent[j]]] || 0) + t[j]; }
				for (k = kids[j]; k < kids[j + 1]; k++) { if (t[list[k]]) { down[d.name[list[k]]] = (down[d.name[list[k]]] || 0) + t[list[k]]; } }
			}
		}
		return [up, down].map(function (o) {
			return Object.keys(o).map(function (k) { return [+k, o[k]]; }).sort(function (a, b) { return b[1] - a[1] || a[0] - b[0]; });
		});
	}
	// The nodes with the largest sums (change since snapshot a if there is one), by records at their owners or leaves, and how many have one.
	function add_stacks(s, a, whole) {
		var q = at_snap(s), p = a === null ? null : at_snap(a), e = ends(whole), N = e.nodes.length, count = 0, best = [], least = 0, j, k, x;
		var b = new Float64Array(N), o = new Float64Array(N), v = new Float64Array(N);
		for (j = 0; j < R; j++) {
			k = e.of[j];
			b[k] += q.b[j]; o[k] += q.o[j]; v[k] += q.v[j];
			if (p) { b[k] -= p.b[j]; o[k] -= p.o[j]; v[k] += p.v[j]; }
		}
		for (j = 0; j < N; j++) {
			x = Math.abs(b[j]);
			if (x < 0.5 && Math.abs(o[j]) < 0.5) { continue; }
			count++;
			if (best.length >= 2 * MOST && x <= least) { continue; }
			best.push({ node: e.nodes[j], b: b[j], o: o[j], v: v[j] });
			if (best.length >= 4 * MOST) { trim(); }
		}
		trim();
		return { list: best.slice(0, MOST), count: count };
		function trim() {
			best.sort(function (x, y) { return Math.abs(y.b) - Math.abs(x.b) || x.node - y.node; });
			best.length = Math.min(best.length, 2 * MOST);
			least = best.length < 2 * MOST ? 0 : Math.abs(best[best.length - 1].b);
		}
	}
	function frames(node) {
		for (var out = []; node > 0; node = parent[node]) { out.push(node); }
		return out;
	}
	// What lies in stacks with a name that is a hit, each once.
	function share(s, metric, whole, hit) {
		var on = new Uint8Array(n), q = at_snap(s)[metric], to = whole ? leaf : owner, sum = 0, j;
		for (j = 1; j < n; j++) { on[j] = on[parent[j]] || hit[d.name[j]]; }
		for (j = 0; j < R; j++) { if (on[to[j]]) { sum += q[j]; } }
		return sum;
	}
	function live(s) { return who < 0 ? d.snaps[s].live[0] : totals(s, 'b', false)[0]; }
	function of(thread) { who = thread; }
	return { d: d, n: n, of: of, live: live, parent: parent, depth: depth, kids: kids, list: list, full: full, totals: totals, sums: sums, around: around,
		stacks: stacks, frames: frames, share: share };
}
MODEL
}

sub view { return '"use strict";(function () {' . "\n" . tools() . graph() . course() . tables() . state() . "})();\n" }

sub tools {
	return <<'TOOLS';
var m, d, S = {}, T, T0, hit = null, rows = 25, order = {}, boxes = [], laid = {}, chosen = 0;
function $(id) { return document.getElementById(id); }
function size(b) {
	var u = 0, x = b;
	while (Math.abs(x) >= 1023.95 && u < 4) { x /= 1024; u++; }
	return u ? x.toFixed(1) + 'BKMGT'[u] : Math.trunc(x) + 'B';
}
function amount(x) { return S.m === 'o' ? Math.trunc(x) + ' objects' : size(x); }
function signed(x, f) { return (x > 0 ? '+' : '') + f(x); }
function percent(a, b) { return b ? (100 * a / b).toFixed(1) + '%' : '-'; }
function make(tag, text, cls) {
	var e = document.createElement(tag);
	if (text !== undefined) { e.textContent = text; }
	if (cls) { e.className = cls; }
	return e;
}
function css(name) { return getComputedStyle(document.documentElement).getPropertyValue(name); }
function name_link(f) {
	var a = make('a', d.names[f]);
	a.href = '#';
	a.onclick = function (e) { e.preventDefault(); set({ f: f }); if (f) { $('s-one').scrollIntoView({ block: 'nearest' }); } };
	return a;
}
function fill(table, heads, list) {
	var top = make('tr'), body = [];
	heads.forEach(function (h) { var th = make('th', h[0], h[1]); if (h[2]) { th.replaceChildren(h[2]); } top.append(th); });
	list.forEach(function (r) {
		var tr = make('tr', undefined, r.hit ? 'hit' : '');
		r.cells.forEach(function (c, i) {
			var td = make('td', undefined, heads[i][1]);
			if (c && c.cls) { td.classList.add(c.cls); c = c.text; }
			td.append(c);
			tr.append(td);
		});
		body.push(tr);
	});
	$(table).replaceChildren.apply($(table), heads.length && heads[0][0] === null ? body : [top].concat(body));
}
function sharp(canvas, height) {
	var w = canvas.clientWidth, r = window.devicePixelRatio || 1, g = canvas.getContext('2d');
	canvas.width = w * r; canvas.height = height * r; canvas.style.height = height + 'px';
	g.setTransform(r, 0, 0, r, 0, 0);
	return g;
}
function grown(x) { return x > 0 ? 'up' : x < 0 ? 'down' : 'dim'; }
TOOLS
}

sub graph {
	return <<'GRAPH';
var ROW = 18, hues = [];
function hash(s) { for (var h = 7, i = 0; i < s.length; i++) { h = (h * 31 + s.charCodeAt(i)) | 0; } return h >>> 0; }
function colour(node) {
	if (S.c === 'g') {
		var x = T[node] - T0[node], most = Math.max(T[node], T0[node]), k = most ? Math.round(Math.min(1, Math.abs(x) / most) * 55) : 0;
		return 'hsl(' + (x < 0 ? 212 : 4) + ',' + (k ? 85 : 0) + '%,' + (88 - k * 0.6) + '%)';
	}
	if (!node) { return '#c4c8cf'; }
	var f = d.name[node], h;
	if (S.c === 'm') { h = d.module_of[f]; return 'hsl(' + (h * 137.5 + 20) % 360 + ',60%,' + (66 + f % 5 * 3) + '%)'; }
	if (hues[f]) { return hues[f]; }
	h = hash(d.names[f]);
	return hues[f] = 'hsl(' + (8 + h % 42) + ',' + (70 + h % 25) + '%,' + (60 + (h >> 8) % 18) + '%)';
}
// The visible boxes { node, x, w, row }: those around the zoomed node over the whole width, those below by their share.
function lay(width) {
	var out = [], chain = [], at = S.z, todo, b, c, i, x, list;
	for (; at > 0; at = m.parent[at]) { chain.unshift(m.parent[at]); }
	chain.forEach(function (node, row) { out.push({ node: node, x: 0, w: width, row: row, over: true }); });
	todo = [{ node: S.z, x: 0, w: width, row: chain.length }];
	while ((b = todo.pop())) {
		out.push(b);
		list = [];
		for (i = m.kids[b.node]; i < m.kids[b.node + 1]; i++) { if (T[m.list[i]] > 0) { list.push(m.list[i]); } }
		list.sort(function (p, q) { return T[q] - T[p] || p - q; });
		for (x = b.x, i = 0; i < list.length; i++) {
			c = { node: list[i], x: x, w: b.w * T[list[i]] / T[b.node], row: b.row + 1 };
			if (c.w < 1) { break; }
			x += c.w;
			todo.push(c);
		}
	}
	return out;
}
function draw() {
	var canvas = $('flame'), width = canvas.clientWidth, rows = 0, g, fg = css('--fg'), ch;
	var key = [S.s, S.t, S.m, S.w, S.z, width].join();
	if (laid.key !== key) { laid = { key: key, boxes: lay(width) }; }
	boxes = laid.boxes;
	boxes.forEach(function (b) { if (b.row >= rows) { rows = b.row + 1; } });
	g = sharp(canvas, rows * ROW + 2);
	g.font = '11px monospace';
	g.textBaseline = 'middle';
	ch = g.measureText('m').width;
	boxes.forEach(function (b) {
		var f = d.name[b.node], room = Math.floor((b.w - 6) / ch), t = d.names[f];
		b.y = (S.g === 'f' ? rows - 1 - b.row : b.row) * ROW + 1;
		g.globalAlpha = b.over || hit && !hit[f] ? 0.45 : 1;
		g.fillStyle = hit && hit[f] ? '#c061cb' : colour(b.node);
		g.fillRect(b.x, b.y, Math.max(b.w - 0.6, 0.5), ROW - 1);
		if (room >= 3) {
			g.globalAlpha = 1;
			g.fillStyle = b.over || hit && !hit[f] ? fg : '#111';
			g.fillText(t.length <= room ? t : t.slice(0, room - 2) + '..', b.x + 3, b.y + ROW / 2);
		}
		if (b.node === chosen && document.activeElement === canvas) { g.globalAlpha = 1; g.strokeStyle = fg; g.lineWidth = 2; g.strokeRect(b.x + 1, b.y + 1, Math.max(b.w - 2, 1), ROW - 3); }
	});
	g.globalAlpha = 1;
}
function box_at(e) {
	var r = $('flame').getBoundingClientRect(), x = e.clientX - r.left, y = e.clientY - r.top;
	return boxes.find(function (b) { return x >= b.x && x < b.x + b.w && y >= b.y && y < b.y + ROW; });
}
function tell(node) {
	var text = d.names[d.name[node]] + ': ' + amount(T[node]) + ', ' + percent(T[node], T[0]);
	if (node !== S.z && T[S.z] !== T[0]) { text += ' (' + percent(T[node], T[S.z]) + ' of the zoomed)'; }
	if (T0) { text += ', ' + signed(T[node] - T0[node], amount) + ' since the snapshot compared with'; }
	if (node) { text += '  [' + d.modules[d.module_of[d.name[node]]] + ']'; }
	$('told').textContent = text;
	$('flame').title = text;
}
function choose(node) { chosen = node; draw(); tell(node); }
function step(key) {
	var own = boxes.find(function (b) { return b.node === chosen; }) || boxes[0], to = null, up = S.g === 'f' ? 'ArrowDown' : 'ArrowUp';
	boxes.forEach(function (b) {
		if (key === up && b.node === m.parent[own.node]) { to = to || b; }
		if ((key === 'ArrowUp' || key === 'ArrowDown') && key !== up && m.parent[b.node] === own.node && (!to || b.x < to.x)) { to = b; }
		if (key === 'ArrowRight' && b.row === own.row && b.x > own.x && (!to || b.x < to.x)) { to = b; }
		if (key === 'ArrowLeft' && b.row === own.row && b.x < own.x && (!to || b.x > to.x)) { to = b; }
	});
	if (to) { choose(to.node); }
}
GRAPH
}

sub course {
	return <<'COURSE';
var KEY = [['live', '--k0', function (s) { return s.live[0]; }], ['allocated (header)', '--k1', figure('allocated')], ['resident', '--k2', figure('resident')], ['RSS', '--k3', figure('rss')]];
function figure(key) { return function (s) { return /^\d+$/.test(s.meta[key] || '') ? +s.meta[key] : null; }; }
function places(width) {
	var t = d.snaps.map(function (s) { return s.time; }), dated = t.every(function (x) { return x !== null; }), a = t[0], b = t[t.length - 1];
	return t.map(function (x, i) { return 60 + (width - 75) * (t.length === 1 ? 0.5 : dated && b > a ? (x - a) / (b - a) : i / (t.length - 1)); });
}
function draw_course() {
	var canvas = $('course'), g = sharp(canvas, 150), width = canvas.clientWidth, x = places(width), most = 1, fg = css('--dim'), lines;
	lines = KEY.map(function (k) { return d.snaps.map(k[2]); });
	lines.forEach(function (l) { l.forEach(function (v) { if (v > most) { most = v; } }); });
	function y(v) { return 130 - 118 * v / most; }
	g.font = '11px sans-serif'; g.strokeStyle = css('--line'); g.fillStyle = fg;
	[0, 0.5, 1].forEach(function (k) {
		g.beginPath(); g.moveTo(60, y(most * k)); g.lineTo(width - 15, y(most * k)); g.stroke();
		g.textAlign = 'right'; g.fillText(size(most * k), 55, y(most * k) + 4);
	});
	var last = d.snaps.length - 1;
	g.textAlign = 'left'; g.fillText((d.snaps[0].clock || '').slice(11), 60, 146);
	if (last) { g.textAlign = 'right'; g.fillText((d.snaps[last].clock || '').slice(11), width - 15, 146); }
	[[S.s, css('--fg')], [S.a, css('--up')]].forEach(function (k) {
		if (k[0] === null) { return; }
		g.strokeStyle = k[1]; g.setLineDash([4, 3]); g.beginPath(); g.moveTo(x[k[0]], 8); g.lineTo(x[k[0]], 130); g.stroke(); g.setLineDash([]);
	});
	lines.forEach(function (l, n) {
		g.strokeStyle = g.fillStyle = css(KEY[n][1]); g.lineWidth = n ? 1.2 : 2.4;
		g.beginPath();
		var on = false;
		l.forEach(function (v, i) { if (v === null) { on = false; return; } if (on) { g.lineTo(x[i], y(v)); } else { g.moveTo(x[i], y(v)); } on = true; });
		g.stroke();
		l.forEach(function (v, i) { if (v !== null && (!n || last < 60)) { g.beginPath(); g.arc(x[i], y(v), n ? 1.8 : 3.5, 0, 7); g.fill(); } });
	});
	$('course-key').replaceChildren.apply($('course-key'), KEY.filter(function (k, n) { return lines[n].some(function (v) { return v !== null; }); }).map(function (k) {
		var s = make('span'); s.append(make('i', '', k[1].slice(2)), k[0] + '  '); s.className = 'one'; return s;
	}));
}
function pick(e) {
	var r = $('course').getBoundingClientRect(), x = places(r.width), best = m.full[0];
	m.full.forEach(function (s) { if (Math.abs(x[s] - e.clientX + r.left) < Math.abs(x[best] - e.clientX + r.left)) { best = s; } });
	set(e.shiftKey ? { a: best } : { s: best });
}
COURSE
}

sub tables {
	return <<'TABLES';
// All functions that hold something, in the order of the chosen column: kept until that changes.
function ordered(x, y) {
	var key = [S.s, S.t, S.a, S.k].join(), list = [], by = x[S.k], f;
	if (order.key === key) { return order.list; }
	if (S.k === 'growth') { by = y ? x.self.map(function (v, i) { return v - y.self[i]; }) : x.self; }
	for (f = 1; f < d.names.length; f++) { if (x.cum[f] || y && y.cum[f]) { list.push(f); } }
	list.sort(function (a, b) { return by[b] - by[a] || x.cum[b] - x.cum[a] || a - b; });
	order = { key: key, list: list };
	return list;
}
function functions() {
	var x = m.sums(S.s), y = S.a === null ? null : m.sums(S.a), list = ordered(x, y), all = m.live(S.s);
	function head(text, k, cls) {
		var a = make('a', text + (S.k === k ? ' \u25be' : ''));
		a.href = '#';
		a.onclick = function (e) { e.preventDefault(); set({ k: k }); };
		return [text, cls, a];
	}
	var heads = [head('self', 'self'), ['%', 'opt'], ['\u00b1 error', 'opt'], head('cumulative', 'cum'), ['%', 'opt'], head('objects', 'objects'), ['mean size', 'opt']];
	if (y) { heads.push(head('growth', 'growth')); }
	heads.push(['function', 't']);
	if (hit) { list = list.filter(function (f) { return hit[f]; }).concat(list.filter(function (f) { return !hit[f]; })); }
	fill('functions', heads, list.slice(0, rows).map(function (f) {
		var c = [size(x.self[f]), percent(x.self[f], all), x.self[f] ? size(Math.sqrt(x.variance[f])) : '', size(x.cum[f]), percent(x.cum[f], all),
			x.objects[f] ? '' + Math.trunc(x.objects[f]) : '', x.objects[f] ? size(x.self[f] / x.objects[f]) : ''], v;
		if (y) { v = x.self[f] - y.self[f]; c.push({ cls: grown(v), text: signed(v, size) }); }
		return { hit: hit && hit[f], cells: c.concat([name_link(f)]) };
	}));
	$('more').hidden = list.length <= rows;
	$('more').textContent = Math.min(100, list.length - rows) + ' of ' + (list.length - rows) + ' more functions';
	one(x, all);
}
function one(x, all) {
	$('s-one').hidden = !S.f;
	if (!S.f) { return; }
	var two = m.around(S.f, m.totals(S.s, 'b', false));
	$('one-name').textContent = d.names[S.f];
	$('one-sum').textContent = 'self ' + size(x.self[S.f]) + ' (' + percent(x.self[S.f], all) + '), cumulative ' + size(x.cum[S.f]) + ' (' + percent(x.cum[S.f], all) + '), in ' + d.modules[d.module_of[S.f]];
	['callers', 'callees'].forEach(function (id, i) {
		fill(id, [['bytes'], ['%'], ['function', 't']], two[i].map(function (p) {
			return { cells: [size(p[1]), percent(p[1], x.cum[S.f]), p[0] ? name_link(p[0]) : make('span', '(none: it is a root)', 'dim')] };
		}));
	});
}
function path_text(node) { return m.frames(node).map(function (i) { return d.names[d.name[i]]; }); }
function growth() {
	var a = S.a === null ? m.full[0] : S.a, p = d.snaps[a], q = d.snaps[S.s], span = p.time === null || q.time === null ? 0 : (q.time - p.time) / 60;
	if (a === S.s) { $('growth-key').textContent = 'Choose two snapshots.'; return $('growth').replaceChildren(); }
	$('growth-key').textContent = (p.clock || p.file) + ' \u2192 ' + (q.clock || q.file) + ': ' + size(m.live(a)) + ' \u2192 ' + size(m.live(S.s)) + ', ' + signed(m.live(S.s) - m.live(a), size);
	var most = m.stacks(S.s, a, false);
	fill('growth', [['change'], ['\u00b1 error', 'opt'], ['rate', 'opt'], ['objects', 'opt'], ['stack, from the owner to its callers', 't']], most.list.map(function (x) {
		return { cells: [{ cls: grown(x.b), text: signed(x.b, size) }, size(Math.sqrt(x.v)), span > 0 ? signed(x.b / span, size) + '/min' : '-', signed(Math.trunc(x.o), String), path_text(x.node).slice(0, 6).join(' < ')] };
	}));
	if (most.count > most.list.length) { $('growth-key').textContent += '; the ' + most.list.length + ' of ' + most.count + ' stacks that changed most:'; }
}
function suspects() {
	$('s-suspects').hidden = !d.suspects.length;
	fill('suspects', [['rate'], ['\u00b1 error', 'opt'], ['grown'], ['live', 'opt'], ['steps up', 'opt'], ['stack, from the owner to its callers', 't']], d.suspects.map(function (x) {
		var names = path_text(x[0]), a = make('a', names[0]), cell = make('span');
		a.href = '#';
		a.onclick = function (e) { e.preventDefault(); set({ s: m.full[m.full.length - 1], z: x[0], f: d.name[x[0]] }); $('flame').scrollIntoView({ block: 'nearest' }); };
		cell.append(a, names.slice(1, 6).map(function (t) { return ' < ' + t; }).join(''));
		return { cells: [x[2] === null ? '-' : signed(x[2], size) + '/min', x[3] === null ? '-' : size(x[3]), { cls: 'up', text: signed(x[1], size) }, size(x[6]), x[4] + '/' + x[5], cell] };
	}));
}
function stacks() {
	var all = m.live(S.s);
	$('stacks').replaceChildren.apply($('stacks'), m.stacks(S.s, null, true).list.map(function (x, i) {
		var e = make('details'), names = path_text(x.node), lines = d.lines[x.node] || [];
		function unfold() {
			var ol = make('ol');
			if (!e.open || e.lastChild.tagName === 'OL') { return; }
			names.forEach(function (t, k) { var li = make('li', t + ' '); if (lines[k]) { li.append(make('span', lines[k], 'dim')); } ol.append(li); });
			e.append(ol);
		}
		e.append(make('summary', size(x.b) + ', ' + percent(x.b, all) + ', ' + Math.trunc(x.o) + ' objects: ' + names.slice(0, 4).join(' < ')));
		e.open = i < 2;
		unfold();
		e.ontoggle = unfold;
		return e;
	}));
}
// A thread that the page can show alone is a link that does so, and back.
function thread_link(t) {
	var k = (d.threads || []).findIndex(function (x) { return x[0] === t[0]; }), text = t[0] + (t[1] ? ' ' + t[1] : ''), a;
	if (k < 0) { return text; }
	a = make('a', k === S.t ? text + ' (shown alone; click for all)' : text);
	a.href = '#';
	a.onclick = function (e) { e.preventDefault(); set({ t: k === S.t ? -1 : k }); };
	return a;
}
function others() {
	var s = d.snaps[S.s], about = [['file', s.file], ['time', s.clock], ['reason', s.kind], ['pid', s.pid], ['sampling interval', String(s.rate)]];
	$('s-threads').hidden = !s.threads.length;
	fill('threads', [['bytes'], ['%'], ['objects'], ['thread', 't']], s.threads.slice(0, 100).map(function (t) {
		return { cells: [size(t[2]), percent(t[2], s.live[0]), '' + t[3], thread_link(t)] };
	}));
	fill('meta', [[null, 't'], ['', 't']], about.concat(Object.keys(s.meta).sort().map(function (k) { return [k, s.meta[k]]; })).map(function (r) { return { cells: r }; }));
}
TABLES
}

sub state {
	return <<'STATE';
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
	return { p: shown, s: number(h.s, snap, shown_first()), a: number(h.a, snap, null), t: number(h.t, function (x) { return d.threads && x >= 0 && x < d.threads.length && x % 1 === 0; }, -1), z: number(h.z, function (x) { return x >= 0 && x < m.n && x % 1 === 0; }, 0),
		f: number(h.f, function (x) { return x > 0 && x < d.names.length && x % 1 === 0; }, 0), q: h.q || '', m: one_of(h.m, ['b', 'o']), c: one_of(h.c, ['n', 'm', 'g']),
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
	if (k === 'c') { set({ c: { n: 'm', m: 'g', g: 'n' }[S.c] }); }
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
// Process k: its data are unpacked and its model is made when it is first shown.
function begin(k, text) {
	if (text !== undefined) { models[k] = Model(JSON.parse(text)); }
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
	$('l-thread').hidden = !d.threads;
	$('thread').replaceChildren.apply($('thread'), [[-1, 'all', -1]].concat((d.threads || []).map(function (t, k) { return [k, t[0] + (t[1] ? ' ' + t[1] : ''), t[0]]; })).sort(function (x, y) { return x[2] - y[2]; }).map(function (t) {
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
function open(k) {
	var e = $('data' + (k || '')), text = e.textContent, raw, bytes, i;
	if (models[k]) { return begin(k); }
	if (e.dataset.form !== 'gz') { return begin(k, text); }
	raw = atob(text);
	bytes = new Uint8Array(raw.length);
	for (i = 0; i < raw.length; i++) { bytes[i] = raw.charCodeAt(i); }
	if (!window.DecompressionStream) { $('told').textContent = 'This browser is too old to unpack the data.'; return; }
	new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).text().then(function (t) { begin(k, t); });
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
start();
STATE
}
