// The flame graph: boxes narrower than a pixel are not drawn.
var ROW = 18, hues = [];
function hash(s) { for (var h = 7, i = 0; i < s.length; i++) { h = (h * 31 + s.charCodeAt(i)) | 0; } return h >>> 0; }
function colour(node) {
	if (S.c === 'g') {
		var x = T[node] - T0[node], most = Math.max(T[node], T0[node]), k = most ? Math.round(Math.min(1, Math.abs(x) / most) * 55) : 0;
		return 'hsl(' + (x < 0 ? 212 : 4) + ',' + (k ? 85 : 0) + '%,' + (88 - k * 0.6) + '%)';
	}
	if (!node) { return '#c4c8cf'; }
	if (S.c === 'a') { return age_colour(A ? median_age(A.node, AGES * node, A.span) : null); }
	var f = d.name[node], h;
	if (S.c === 'm') { h = d.module_of[f]; return 'hsl(' + (h * 137.5 + 20) % 360 + ',60%,' + (66 + f % 5 * 3) + '%)'; }
	if (hues[f]) { return hues[f]; }
	h = hash(d.names[f]);
	return hues[f] = 'hsl(' + (8 + h % 42) + ',' + (70 + h % 25) + '%,' + (60 + (h >> 8) % 18) + '%)';
}
// From the young, which are yellow, to the old, which are blue, by the logarithm of the age.
function age_colour(seconds) {
	var most = Math.log(1 + Math.max(A && A.span || 3600, 60));
	return seconds === null ? '#c4c8cf' : 'hsl(' + Math.round(50 + 170 * Math.min(1, Math.log(1 + seconds) / most)) + ',65%,66%)';
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
	if (A && T[node]) { text += ', half of it older than ' + age_text(median_age(A.node, AGES * node, A.span)); }
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
