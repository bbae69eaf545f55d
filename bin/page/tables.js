// The tables: functions, callers and callees, growth, suspects, heaviest stacks, labels, threads, figures of the snapshot.
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
function margin(variance, samples) { var x = margin_of(variance, samples); return x ? '\u00b1' + size(x) : ''; }
// May chance alone have made this change?
function is_noise(x) { return Math.abs(x.b) < margin_of(x.v, x.n); }
function functions() {
	var x = m.sums(S.s), y = S.a === null ? null : m.sums(S.a), list = ordered(x, y), all = m.live(S.s);
	function head(text, k, cls) {
		var a = make('a', text + (S.k === k ? ' \u25be' : ''));
		a.href = '#';
		a.onclick = function (e) { e.preventDefault(); set({ k: k }); };
		return [text, cls, a];
	}
	var heads = [head('self', 'self'), ['%', 'opt'], ['\u00b1 margin', 'opt'], head('cumulative', 'cum'), ['%', 'opt'], head('objects', 'objects'), ['mean size', 'opt']];
	if (A) { heads.push(['age', 'opt']); }
	if (y) { heads.push(head('growth', 'growth')); }
	heads.push(['function', 't']);
	if (hit) { list = list.filter(function (f) { return hit[f]; }).concat(list.filter(function (f) { return !hit[f]; })); }
	fill('functions', heads, list.slice(0, rows).map(function (f) {
		var c = [size(x.self[f]), percent(x.self[f], all), x.self[f] ? margin(x.variance[f], x.samples[f]) : '', size(x.cum[f]), percent(x.cum[f], all),
			x.objects[f] ? '' + Math.trunc(x.objects[f]) : '', x.objects[f] ? size(x.self[f] / x.objects[f]) : ''], v;
		if (A) { c.push(age_text(median_age(A.name, AGES * f, A.span))); }
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
	fill('growth', [['change'], ['\u00b1 margin', 'opt'], ['rate', 'opt'], ['objects', 'opt'], ['stack, from the owner to its callers', 't']], most.list.map(function (x) {
		return { cells: [{ cls: is_noise(x) ? 'dim' : grown(x.b), text: signed(x.b, size) }, margin(x.v, x.n), span > 0 ? signed(x.b / span, size) + '/min' : '-', signed(Math.trunc(x.o), String), path_text(x.node).slice(0, 6).join(' < ') + (is_noise(x) ? '  (within noise)' : '')] };
	}));
	if (most.count > most.list.length) { $('growth-key').textContent += '; the ' + most.list.length + ' of ' + most.count + ' stacks that changed most:'; }
}
var SUSPECTS = ['What grew in nearly all steps and goes on growing; not what was loaded once, filled and then stayed, or came and went.',
	'By the ages of what lives in this one snapshot: bytes of all ages, in proportion to the time; not what is only old (a table, a full cache) or only young.'];
function suspects() {
	$('s-suspects').hidden = !d.suspects.length;
	if (d.suspects.length) { $('suspects-key').textContent = SUSPECTS[d.suspects[0][5] ? 0 : 1]; }
	fill('suspects', [['rate'], ['\u00b1 margin', 'opt'], ['grown'], ['live', 'opt'], ['steps up', 'opt'], ['stack, from the owner to its callers', 't']], d.suspects.map(function (x) {
		var names = path_text(x[0]), a = make('a', names[0]), cell = make('span');
		a.href = '#';
		a.onclick = function (e) { e.preventDefault(); set({ s: m.full[m.full.length - 1], z: x[0], f: d.name[x[0]] }); $('flame').scrollIntoView({ block: 'nearest' }); };
		cell.append(a, names.slice(1, 6).map(function (t) { return ' < ' + t; }).join(''));
		return { cells: [x[2] === null ? '-' : signed(x[2], size) + '/min', x[3] === null ? '-' : '\u00b1' + size(1.96 * x[3]), { cls: 'up', text: signed(x[1], size) }, size(x[6]), x[5] ? x[4] + '/' + x[5] : '-', cell] };
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
		e.append(make('summary', size(x.b) + (x.v ? ' ' + margin(x.v, x.n) : '') + ', ' + percent(x.b, all) + ', ' + Math.trunc(x.o) + ' objects: ' + names.slice(0, 4).join(' < ')));
		e.open = i < 2;
		unfold();
		e.ontoggle = unfold;
		return e;
	}));
}
// A thread or label that the page can show alone is a link that does so, and back.
function thread_link(t) {
	return only_link((d.threads || []).findIndex(function (x) { return x[0] === t[0]; }), t[0] + (t[1] ? ' ' + t[1] : ''));
}
function only_link(k, text) {
	var a;
	if (k < 0) { return text; }
	a = make('a', k === S.t ? text + ' (shown alone; click for all)' : text);
	a.href = '#';
	a.onclick = function (e) { e.preventDefault(); set({ t: k === S.t ? -1 : k }); };
	return a;
}
function others() {
	var s = d.snaps[S.s], about = [['file', s.file], ['time', s.clock], ['reason', s.kind], ['pid', s.pid], ['sampling interval', String(s.rate)]].filter(function (r) { return r[1]; });
	var labels = d.labels ? m.by_label(S.s) : [];
	$('s-labels').hidden = !labels.length;
	fill('labels', [['bytes'], ['%'], ['objects'], ['label', 't']], labels.slice(0, 100).map(function (l) {
		return { cells: [size(l[2]), percent(l[2], s.live[0]), '' + Math.trunc(l[3]), only_link(l[0], l[1])] };
	}));
	$('s-threads').hidden = !s.threads.length;
	fill('threads', [['bytes'], ['%'], ['objects'], ['thread', 't']], s.threads.slice(0, 100).map(function (t) {
		return { cells: [size(t[2]), percent(t[2], s.live[0]), '' + t[3], thread_link(t)] };
	}));
	fill('meta', [[null, 't'], ['', 't']], about.concat(Object.keys(s.meta).sort().map(function (k) { return [k, s.meta[k]]; })).map(function (r) { return { cells: r }; }));
}
