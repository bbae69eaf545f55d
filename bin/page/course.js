// The course of memory over time, by snapshot.
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
