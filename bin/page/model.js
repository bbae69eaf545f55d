// The model of a report: decodes the data of the page and adds up; it knows no page. Numbers are un-sampled by
// the rule of Dump::estimate in jeprof, to the same 1/1024 of a byte, so that they add up to what top says.
// Cost: one pass over all nodes for each change of the snapshot; sums are kept by snapshot.
"use strict";
// The variance of an estimate of bytes from samples that are this share of all objects, and the margin of a sum of such
// (95 of 100 intervals hold the truth): as in room noise of jeprof.
function variance_of(bytes, samples, share) { return samples > 0 && share < 1 ? bytes * bytes / samples * (1 - share) : 0; }
function margin_of(variance, samples) { return variance > 0 && samples > 0 ? 1.96 * Math.sqrt(variance * (samples + 1) / samples) : 0; }
// The upper bounds of ages, in seconds; and the age that half of the bytes exceed, null if none is known. As in room ages of jeprof.
var AGE_BOUNDS = [1, 4, 16, 60, 240, 960, 3600, 14400, 57600], AGES = 10;
function median_age(columns, at, span) {
	var all = 0, before = 0, i, from, to;
	for (i = 0; i < AGES; i++) { all += columns[at + i]; }
	if (!(all > 0)) { return null; }
	for (i = 0; i < AGES; i++) {
		from = i ? AGE_BOUNDS[i - 1] : 0;
		to = i < AGES - 1 ? AGE_BOUNDS[i] : Math.max(span || 0, 4 * from);
		if (span && from < span && to > span) { to = span; }
		if (columns[at + i] > 0 && before + columns[at + i] >= all / 2) { return from + (to - from) * (all / 2 - before) / columns[at + i]; }
		before += columns[at + i];
	}
	return to;
}
function Model(d) {
	var MOST = 20, n = d.up.length, R = d.records.length / 2, full = [], cache = {}, made = {};
	var parent = new Int32Array(n), first = new Uint8Array(n), depth = new Int32Array(n), kids = new Int32Array(n + 1), list = new Int32Array(n);
	var leaf = new Int32Array(R), owner = new Int32Array(R), raw = [], pair = [], parts = [], who = -1;	// who: an index into threads, and behind them into labels; -1 for all
	var base = (d.threads || []).length, labels = d.labels || [], label_pair = [], label_parts = [];	// behind the labels: what has none
	var i, k, at = 0, next, path = [], met = new Int32Array(d.names.length);
	if (!d.name) { number_names(); }	// else the data are made in this browser, with the name of each node
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

	// The name of a node is told by its number among those that have followed the name of the parent so far.
	function number_names() {
		var follow = [], fresh = 0;
		d.name = new Int32Array(n);
		for (i = 1; i < n; i++) {
			k = d.name[i - d.up[i]];
			next = follow[k] = follow[k] || [];
			if (d.step[i - 1] === next.length) { next.push(d.fresh[fresh++]); }
			d.name[i] = next[d.step[i - 1]];
		}
	}
	function decode() {
		var both = [new Float64Array(R), new Float64Array(R)], split, divided;
		split = take_pairs(d.pairs || [], pair);
		divided = take_pairs(d.label_pairs || [], label_pair);
		d.snaps.forEach(function (snap, s) {
			if (!snap.cells) { return; }
			raw[s] = changed(both, snap.cells);
			parts[s] = changed(split, snap.parts || []);
			label_parts[s] = changed(divided, snap.label_parts || []);
			full.push(s);
		});
	}
	// Pairs of a record and a thread or label; returns sums of 0 for them.
	function take_pairs(told, to) {
		for (var r = 0, i = 0; i < told.length; i += 2) { to.push([r += told[i], told[i + 1]]); }
		return [new Float64Array(to.length), new Float64Array(to.length)];
	}
	function changed(sums, c) {
		for (var at = 0, j = 0; j < c.length; j += 3) { at += c[j]; sums[0][at] += c[j + 1]; sums[1][at] += c[j + 2]; }
		return [sums[0].slice(), sums[1].slice()];
	}
	function round(x) { return Math.floor(x * 1024 + 0.5) / 1024; }
	// Adds to record r of q: estimated bytes b and objects o, variance v of the bytes, n samples.
	function add(q, r, o, b, rate) {
		var covered = 1, ratio, objects, bytes;
		if (o && b && rate) {
			ratio = b / o / rate;
			covered = ratio > 1e-9 ? 1 - Math.exp(-ratio) : ratio;
			objects = round(o / covered); bytes = round(b / covered);
			if (objects > o) { q.v[r] += variance_of(bytes, o, o / objects); }
		} else {
			objects = o; bytes = b;
		}
		q.o[r] += objects; q.b[r] += bytes; q.n[r] += o;
	}
	// The estimates of snapshot s for each record, for all threads or only for thread who.
	function at_snap(s) {
		var key = s + ',' + who, r, k;
		if (cache[key]) { return cache[key]; }
		if (labels.length && who >= base) { return cache[key] = of_label(s, who - base); }
		var rate = d.snaps[s].rate, q = nothing(), o = raw[s][0], b = raw[s][1];
		for (r = 0; r < R; r++) { if (o[r] && (who < 0 || d.own[r] === who)) { add(q, r, o[r], b[r], rate); } }
		for (k = 0; who >= 0 && k < pair.length; k++) { if (pair[k][1] === who && parts[s][0][k]) { add(q, pair[k][0], parts[s][0][k], parts[s][1][k], rate); } }
		return cache[key] = q;
	}
	function nothing() { return { b: new Float64Array(R), o: new Float64Array(R), v: new Float64Array(R), n: new Float64Array(R) }; }
	// The estimates of all threads and labels.
	function at_all(s) {
		var was = who, q;
		who = -1;
		q = at_snap(s);
		who = was;
		return q;
	}
	// Calls take(record, label, its share of the objects, of the bytes), as in room labels of jeprof.
	function each_label(s, take) {
		for (var k = 0; k < label_pair.length; k++) {
			var r = label_pair[k][0], o = raw[s][0][r], b = raw[s][1][r];
			if (label_parts[s][0][k] || label_parts[s][1][k]) { take(r, label_pair[k][1], o ? Math.min(label_parts[s][0][k] / o, 1) : 0, b ? Math.min(label_parts[s][1][k] / b, 1) : 0); }
		}
	}
	// The estimates of a label: of each record as much as it has of the samples; of none what the others leave.
	function of_label(s, label) {
		var all = at_all(s), q = nothing(), has = [new Float64Array(R), new Float64Array(R)], none = label === labels.length, r;
		each_label(s, function (r, of, o, b) { if (none || of === label) { has[0][r] += o; has[1][r] += b; } });
		for (r = 0; r < R; r++) {
			var o = none ? 1 - has[0][r] : has[0][r], b = none ? 1 - has[1][r] : has[1][r];
			if (o < 1e-9 && b < 1e-9) { continue; }
			q.o[r] = all.o[r] * Math.max(o, 0); q.n[r] = all.n[r] * Math.max(o, 0); q.b[r] = all.b[r] * Math.max(b, 0);
			if (q.o[r] > q.n[r]) { q.v[r] = variance_of(q.b[r], q.n[r], q.n[r] / q.o[r]); }
		}
		return q;
	}
	// [index, text, bytes, objects] of each label that has something, and of what has none, the most first.
	function by_label(s) {
		var all = at_all(s), o = new Float64Array(labels.length + 1), b = new Float64Array(labels.length + 1), r, out = [];
		for (r = 0; r < R; r++) { o[labels.length] += all.o[r]; b[labels.length] += all.b[r]; }
		each_label(s, function (r, of, objects, bytes) {
			o[of] += all.o[r] * objects; o[labels.length] -= all.o[r] * objects;
			b[of] += all.b[r] * bytes; b[labels.length] -= all.b[r] * bytes;
		});
		for (r = 0; r <= labels.length; r++) { if (b[r] >= 0.5) { out.push([base + r, label_text(r), b[r], o[r]]); } }
		return out.sort(function (x, y) { return y[2] - x[2] || x[0] - y[0]; });
	}
	function label_text(k) { return k < labels.length ? labels[k] : '(no label)'; }
	// How much can be shown alone, and what it is: [index, text].
	function choices() {
		var out = (d.threads || []).map(function (t, k) { return [k, t[0] + (t[1] ? ' ' + t[1] : ''), t[0]]; }).sort(function (x, y) { return x[2] - y[2]; });
		for (var k = 0; labels.length && k <= labels.length; k++) { out.push([base + k, 'label: ' + label_text(k)]); }
		return out;
	}
	// The nodes at which records end, whole or at their owners, in order, and the number of the node of each record.
	function ends(whole) {
		return kept('e' + +!!whole, function () {
			var to = whole ? leaf : owner, number = new Int32Array(n), nodes = to.slice().sort().filter(function (x, j, all) { return !j || x !== all[j - 1]; });
			nodes.forEach(function (x, j) { number[x] = j; });
			return { nodes: nodes, of: to.map(function (x) { return number[x]; }) };
		});
	}
	// The result of count(), which is called only once for each key.
	function kept(key, count) { return made[key] || (made[key] = count()); }
	function totals(s, metric, whole) { return kept(['t', s, who, metric, +!!whole].join(), function () { return add_totals(s, metric, whole); }); }
	function sums(s) { return kept(['s', s, who].join(), function () { return add_sums(s); }); }
	function stacks(s, a, whole) { return kept(['k', s, who, a, +!!whole].join(), function () { return add_stacks(s, a, whole); }); }
	// For each node the sum of its own records and of those of its descendants.
	function add_totals(s, metric, whole) {
		var t = new Float64Array(n), q = at_snap(s)[metric], to = whole ? leaf : owner, j;
		for (j = 0; j < R; j++) { t[to[j]] += q[j]; }
		for (j = n - 1; j > 0; j--) { t[parent[j]] += t[j]; }
		return t;
	}
	// For each name: self, objects, cumulative bytes, variance.
	function add_sums(s) {
		var q = at_snap(s), m = d.names.length, t = totals(s, 'b', false), j;
		var x = { self: new Float64Array(m), objects: new Float64Array(m), cum: new Float64Array(m), variance: new Float64Array(m), samples: new Float64Array(m) };
		for (j = 0; j < R; j++) {
			var f = d.name[owner[j]];
			x.self[f] += q.b[j]; x.objects[f] += q.o[j]; x.variance[f] += q.v[j]; x.samples[f] += q.n[j];
		}
		for (j = 1; j < n; j++) { if (first[j]) { x.cum[d.name[j]] += t[j]; } }
		return x;
	}
	// Bytes by column of ages, AGES for each node (what it and all below it hold) and for each name (itself); null where they are not told.
	function ages(s) {
		var told = d.snaps[s].ages, q, node, name, j, k, r = 0, x;
		if (!told) { return null; }
		return kept(['g', s, who].join(), function () {
			q = at_snap(s); node = new Float64Array(AGES * n); name = new Float64Array(AGES * d.names.length);
			for (j = 0; j < told.length; j += 2 + 2 * told[j + 1]) {
				r += told[j];
				for (k = 0; k < told[j + 1]; k++) {
					x = q.b[r] * told[j + 3 + 2 * k] / 1000;
					node[AGES * owner[r] + told[j + 2 + 2 * k]] += x;
					name[AGES * d.name[owner[r]] + told[j + 2 + 2 * k]] += x;
				}
			}
			for (j = n - 1; j > 0; j--) { for (k = 0; k < AGES; k++) { node[AGES * parent[j] + k] += node[AGES * j + k]; } }
			return { node: node, name: name, span: +d.snaps[s].meta.profiled_ms / 1000 || null };
		});
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
		var b = new Float64Array(N), o = new Float64Array(N), v = new Float64Array(N), c = new Float64Array(N);
		for (j = 0; j < R; j++) {
			k = e.of[j];
			b[k] += q.b[j]; o[k] += q.o[j]; v[k] += q.v[j]; c[k] += q.n[j];
			if (p) { b[k] -= p.b[j]; o[k] -= p.o[j]; v[k] += p.v[j]; c[k] += p.n[j]; }
		}
		for (j = 0; j < N; j++) {
			x = Math.abs(b[j]);
			if (x < 0.5 && Math.abs(o[j]) < 0.5) { continue; }
			count++;
			if (best.length >= 2 * MOST && x <= least) { continue; }
			best.push({ node: e.nodes[j], b: b[j], o: o[j], v: v[j], n: c[j] });
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
	// The sum of the stacks that contain a name that matches the search; each stack counts once.
	function share(s, metric, whole, hit) {
		var on = new Uint8Array(n), q = at_snap(s)[metric], to = whole ? leaf : owner, sum = 0, j;
		for (j = 1; j < n; j++) { on[j] = on[parent[j]] || hit[d.name[j]]; }
		for (j = 0; j < R; j++) { if (on[to[j]]) { sum += q[j]; } }
		return sum;
	}
	function live(s) { return who < 0 ? d.snaps[s].live[0] : totals(s, 'b', false)[0]; }
	function of(thread) { who = thread; }
	return { d: d, n: n, of: of, live: live, parent: parent, depth: depth, kids: kids, list: list, full: full, totals: totals, sums: sums, ages: ages, around: around,
		by_label: by_label, choices: choices,
		stacks: stacks, frames: frames, share: share };
}
