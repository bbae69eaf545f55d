// Last part of the view in jeprofd: fetches the profile of a running process at an interval, and converts the last profiles to
// the data form of a report of files (see Model). At most MOST snapshots are kept; when there are more, every second one of the
// older half is dropped. The selection survives new data: it is stored by names and times, because index numbers change.
var MOST = 60, series = [];
function say(text) { $('live-state').textContent = text; }
function follow() {
	var every = Math.max(+$('data').dataset.interval || 10, 1) * 1000, timer = null;
	listen();
	if ($('data').dataset.interval === '0') { take(); return; }	// it is dead: its profile does not change
	function next() { timer = null; take().then(function () { timer = setTimeout(next, every); }); }
	$('live-pause').onclick = function () {
		var stop = timer !== null;
		if (stop) { clearTimeout(timer); timer = null; say('paused'); } else { next(); }
		this.textContent = stop ? 'go on' : 'pause';
	};
	document.querySelectorAll('[data-verb]').forEach(function (b) {
		b.onclick = function () {
			if (b.dataset.verb === 'stop' && timer !== null) { $('live-pause').click(); }	// a scrape would start it again
			fetch(b.dataset.verb, { method: 'POST', credentials: 'same-origin' }).then(function (r) { return r.text(); }).then(say, function (e) { say(e.message); });
		};
	});
	next();
}
function take() {
	return fetch($('data').dataset.from, { cache: 'no-store', credentials: 'same-origin' }).then(function (r) {
		if (!r.ok) { return r.text().then(function (t) { throw new Error(t.trim() || 'status ' + r.status); }); }
		return unpacked(r);
	}).then(function (bytes) {
		add(Profile(new Uint8Array(bytes)));
		say(series.length + (series.length === 1 ? ' snapshot' : ' snapshots') + ', the last at ' + series[series.length - 1].clock.slice(11));
	}).catch(function (e) { say('no new snapshot: ' + e.message); });
}
// A server may say "Content-Encoding: gzip", then the browser has unpacked it; else it starts as gzip does.
function unpacked(r) {
	return r.arrayBuffer().then(function (b) {
		var head = new Uint8Array(b, 0, Math.min(2, b.byteLength));
		if (head[0] !== 0x1f || head[1] !== 0x8b) { return b; }
		if (!window.DecompressionStream) { throw new Error('this browser is too old to unpack the profile'); }
		return new Response(new Blob([b]).stream().pipeThrough(new DecompressionStream('gzip'))).arrayBuffer();
	});
}
function add(profile) {
	var before = d ? looked_at() : null, last = series[series.length - 1], snap = Snapshot(profile);
	if (last && snap.time !== null && last.time === snap.time) { return; }
	series.push(snap);
	if (series.length > MOST) { series = series.filter(function (x, i) { return i % 2 === 0 || i > MOST / 2; }); }
	var model = Model(Series(series));
	if (before) { look_at(before, model); }
	models[0] = model;
	begin(0);
}
// What the address of the page says in numbers, by names and times.
function looked_at() {
	return { s: S.s === m.full[m.full.length - 1] ? null : d.snaps[S.s].time, a: S.a === null ? null : d.snaps[S.a].time, has_a: S.a !== null,
		z: path_text(S.z).reverse(), f: S.f ? d.names[S.f] : null, t: (m.choices().find(function (c) { return c[0] === S.t; }) || [])[1] };
}
function look_at(x, model) {
	var data = model.d, last = model.full[model.full.length - 1];
	function nearest(time) {
		return model.full.reduce(function (b, s) { return Math.abs(data.snaps[s].time - time) < Math.abs(data.snaps[b].time - time) ? s : b; }, last);
	}
	S.s = x.s === null ? last : nearest(x.s);
	S.a = x.has_a ? nearest(x.a) : null;
	S.f = x.f === null ? 0 : Math.max(data.names.indexOf(x.f), 0);
	S.t = (model.choices().find(function (c) { return c[1] === x.t; }) || [-1])[0];
	S.z = x.z.reduce(function (node, name) {
		for (var k = model.kids[node]; node >= 0 && k < model.kids[node + 1]; k++) { if (data.names[data.name[model.list[k]]] === name) { return model.list[k]; } }
		return -1;
	}, 0);
	if (S.z < 0) { S.z = 0; }
	START.s = null;
	to_address();
}
