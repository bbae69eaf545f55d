// Makes the data of the page (see Model) of profiles that were fetched. Snapshot() is one of them, its stacks summed by names
// and thread; Series() is all of them as one. Counts are told as they were sampled, so that Model can tell their errors: of a
// site whose objects have B bytes on average, the share 1 - exp(-B / interval) was sampled. WRAPPER is of wrappers.txt, START_NAME of starts.txt.
function Snapshot(profile) {
	var sites = {}, threads = {}, live = [0, 0], rate = profile.period > 1 ? profile.period : 0, when = profile.time === null ? null : new Date(profile.time * 1000);
	profile.samples.forEach(function (s) {
		var frames = s.frames.map(titled), key = frames.map(function (f) { return f.title; }).join('\n') + '\n' + s.thread, site = sites[key];
		site = sites[key] = site || { frames: frames, thread: s.thread, objects: 0, bytes: 0, labels: new Map(), ages: null };
		site.objects += s.objects; site.bytes += s.bytes;
		if (s.label) { add_label(site.labels, s); }
		if (s.age !== null) { site.ages = site.ages || new Float64Array(AGES); site.ages[s.age ? AGE_BOUNDS.indexOf(s.age) + 1 : 0] += s.bytes; }
		live[0] += s.bytes; live[1] += s.objects;
		var t = threads[s.thread] = threads[s.thread] || [s.thread, s.thread_name, 0, 0];
		t[2] += s.bytes; t[3] += s.objects;
	});
	Object.keys(sites).forEach(function (k) {
		var s = sites[k], share = rate && s.objects > 0 && s.bytes > 0 ? 1 - Math.exp(-s.bytes / s.objects / rate) : 1;
		s.objects *= share; s.bytes *= share;
		s.labels.forEach(function (l) { l[0] *= share; l[1] *= share; });
	});
	return { sites: sites, threads: Object.keys(threads).map(function (k) { return threads[k]; }).sort(function (a, b) { return b[2] - a[2]; }),
		live: live, rate: rate, time: differences(profile), clock: when ? clock_text(when) : '', meta: profile.comments };
	function add_label(labels, s) {
		var l = labels.get(s.label) || [0, 0];
		labels.set(s.label, [l[0] + s.objects, l[1] + s.bytes]);
	}
	// Seconds on a clock that nobody sets, if the profile tells it: times between snapshots follow it.
	function differences(p) { return /^\d{1,15}$/.test(p.comments.monotonic_ms || '') ? +p.comments.monotonic_ms / 1000 : p.time; }
	// jeprof calls a frame without a name MODULE+0xOFFSET; jeprofd gives it none.
	function titled(f) { return { title: f.name || '[' + f.module + ']', is_named: !!f.name && f.name.indexOf(f.module + '+0x') !== 0, line: f.line, module: f.module }; }
}
function clock_text(t) {
	function two(x) { return (x < 10 ? '0' : '') + x; }
	return t.getFullYear() + '-' + two(t.getMonth() + 1) + '-' + two(t.getDate()) + ' ' + two(t.getHours()) + ':' + two(t.getMinutes()) + ':' + two(t.getSeconds());
}
function Series(snaps) {
	var records = {}, names = {}, modules = {}, all, at, d = { program: '', index: 'inuse_space', names: ['all'], modules: [], module_of: [0], name: [0], up: [0], step: [],
		fresh: [], records: [], lines: {}, suspects: [], threads: [], own: [], labels: [], label_pairs: [] }, pairs = [];
	snaps.forEach(function (snap) { Object.keys(snap.sites).forEach(function (k) { records[k] = records[k] || { key: k, site: snap.sites[k] }; }); });
	all = Object.keys(records).map(function (k) { return records[k]; });
	number_names();
	all.forEach(function (r) { r.path = r.site.frames.map(function (f) { return names[f.title]; }).reverse(); });
	all.sort(by_path);
	plant();
	number_threads();
	number_labels();
	d.snaps = tell();
	find_suspects();
	if (d.threads.length < 2) { delete d.threads; delete d.own; }
	return d;

	function number_names() {
		var first = {};
		all.forEach(function (r) { r.site.frames.forEach(function (f) { first[f.title] = first[f.title] || f; }); });
		Object.keys(first).sort().forEach(function (t) {
			var module = first[t].module;
			names[t] = d.names.push(t) - 1;
			if (modules[module] === undefined) { modules[module] = d.modules.push(module) - 1; }
			d.module_of.push(modules[module]);
		});
	}
	function by_path(a, b) {
		for (var i = 0; i < a.path.length && i < b.path.length; i++) { if (a.path[i] !== b.path[i]) { return a.path[i] - b.path[i]; } }
		return a.path.length - b.path.length || a.site.thread - b.site.thread;
	}
	// The tree in preorder; each record with its node, and how many frames at its leaf hand memory on.
	function plant() {
		var before = [], path = [], last = 0;
		all.forEach(function (r, i) {
			for (var same = 0; same < r.path.length && same < before.length && r.path[same] === before[same];) { same++; }
			path.length = same;
			for (; same < r.path.length; same++) {
				d.up.push(d.name.length - (same ? path[same - 1] : 0));
				d.name.push(r.path[same]);
				path.push(d.name.length - 1);
			}
			before = r.path;
			r.at = i;
			r.node = path.length ? path[path.length - 1] : 0;
			r.folded = folded(r.site.frames);
			d.records.push(r.node - last, r.folded);
			last = r.node;
			if (r.site.frames.some(function (f) { return f.line; })) { d.lines[r.node] = r.site.frames.map(function (f) { return f.line; }); }
		});
	}
	// As Fold in jeprof does: past wrappers and frames without a name, to the first caller that has one.
	function folded(frames) {
		for (var i = 0, nameless = -1, start; i < frames.length; i++) {
			start = START_NAME.test(frames[i].title);
			if (frames[i].is_named && !WRAPPER.test(frames[i].title) && (!start || nameless < 0)) { return i; }
			if (start) { break; }
			if (!frames[i].is_named && nameless < 0) { nameless = i; }
		}
		return nameless >= 0 ? nameless : Math.max(frames.length - 1, 0);
	}
	function number_threads() {
		var index = {};
		snaps.forEach(function (s) { s.threads.forEach(function (t) { if (index[t[0]] === undefined) { index[t[0]] = d.threads.push([t[0], t[1]]) - 1; } }); });
		d.own = all.map(function (r) { return index[r.site.thread]; });
	}
	// Pairs of a record and a label, in order; texts, as they may be any word, are keys of maps.
	function number_labels() {
		var index = new Map(), last = 0;
		all.forEach(function (r) {
			r.labels = new Map();
			snaps.forEach(function (s) { if (s.sites[r.key]) { s.sites[r.key].labels.forEach(function (l, text) { r.labels.set(text, 0); }); } });
			r.labels.forEach(function (none, text) {
				if (!index.has(text)) { index.set(text, index.size); }
				d.label_pairs.push(r.at - last, index.get(text));
				last = r.at;
				pairs.push([r, text]);
			});
		});
		d.labels = Array.from(index.keys());
		if (!d.labels.length) { delete d.labels; delete d.label_pairs; }
	}
	// GAP,COLUMNS, and each of these columns with its share of a thousand; null where no age is told.
	function ages(snap) {
		var out = [], last = 0;
		all.forEach(function (r) {
			var s = snap.sites[r.key], sum = 0, some = [];
			if (!s || !s.ages) { return; }
			s.ages.forEach(function (b) { sum += b; });
			s.ages.forEach(function (b, i) { if (b > 0) { some.push(i, 1000 * b / sum); } });
			if (some.length) { out.push(r.at - last, some.length / 2); some.forEach(function (x) { out.push(x); }); last = r.at; }
		});
		return out.length ? out : null;
	}
	// What changed: GAP, objects, bytes.
	function changes(before, now) {
		for (var cells = [], last = 0, i = 0; 2 * i < now.length; i++) {
			if (now[2 * i] === before[2 * i] && now[2 * i + 1] === before[2 * i + 1]) { continue; }
			cells.push(i - last, now[2 * i] - before[2 * i], now[2 * i + 1] - before[2 * i + 1]);
			last = i;
		}
		return cells;
	}
	// The snapshots, each with what changed since the one before.
	function tell() {
		var before = new Float64Array(2 * all.length), before_labels = new Float64Array(2 * pairs.length);
		return snaps.map(function (snap) {
			var now = new Float64Array(2 * all.length), labels = new Float64Array(2 * pairs.length), out;
			all.forEach(function (r) { var s = snap.sites[r.key]; if (s) { now[2 * r.at] = s.objects; now[2 * r.at + 1] = s.bytes; } });
			pairs.forEach(function (p, i) { var s = snap.sites[p[0].key], l = s && s.labels.get(p[1]); if (l) { labels[2 * i] = l[0]; labels[2 * i + 1] = l[1]; } });
			out = { file: '', pid: '', time: snap.time, clock: snap.clock, kind: 'live', rate: snap.rate, live: snap.live, meta: snap.meta, threads: snap.threads,
				cells: changes(before, now), ages: ages(snap), label_parts: changes(before_labels, labels) };
			before = now; before_labels = labels;
			return out;
		});
	}
	// Rows as Leaks in jeprof makes them: by owner and its callers.
	function find_suspects() {
		var rows = {}, last = snaps.length - 1;
		if (snaps.length < LEAKS.LEAST) { return; }
		all.forEach(function (r) {
			var key = r.path.slice(0, r.path.length - r.folded).join(' '), row = rows[key];
			row = rows[key] = row || { record: r, values: snaps.map(function () { return 0; }), variances: snaps.map(function () { return 0; }) };
			snaps.forEach(function (snap, i) { var s = snap.sites[r.key]; if (s) { count(row, i, s, snap.rate); } });
		});
		Object.keys(rows).forEach(function (k) {
			var row = rows[k], found = row.values[last] > row.values[0] ? judge(row.values, row.variances) : null, node, i, minutes;
			if (!found) { return; }
			for (node = row.record.node, i = row.record.folded; i > 0; i--) { node -= d.up[node]; }
			minutes = snaps[found.to].time === null || snaps[found.from].time === null ? 0 : (snaps[found.to].time - snaps[found.from].time) / 60;
			d.suspects.push([node, found.grown, minutes > 0 ? found.grown / minutes : null, minutes > 0 ? found.error / minutes : null, found.up, found.steps, row.values[last]]);
		});
		d.suspects.sort(function (a, b) { return b[1] - a[1] || a[0] - b[0]; });
	}
	function count(row, i, s, rate) {
		var share = rate && s.objects > 0 ? 1 - Math.exp(-s.bytes / s.objects / rate) : 1, bytes = s.bytes / share;
		row.values[i] += bytes;
		row.variances[i] += variance_of(bytes, s.objects, share);
	}
}
