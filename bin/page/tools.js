// First part of the view, which draws what the model adds up: texts of numbers, canvases, elements. The parts of the
// view (tools, graph, course, tables, state) share one scope; scripts/join-page joins them in this order.
var m, d, S = {}, T, T0, A = null, hit = null, rows = 25, order = {}, boxes = [], laid = {}, chosen = 0;
function $(id) { return document.getElementById(id); }
function size(b) {
	var u = 0, x = b;
	while (Math.abs(x) >= 1023.95 && u < 4) { x /= 1024; u++; }
	return u ? x.toFixed(1) + 'BKMGT'[u] : Math.trunc(x) + 'B';
}
function amount(x) { return S.m === 'o' ? Math.trunc(x) + ' objects' : size(x); }
function age_text(s) {
	var units = [[86400, 'd', 2], [3600, 'h', 2], [60, 'm', 2], [1, 's', 0]], u;
	if (s === null) { return ''; }
	u = units.find(function (x) { return s >= x[0] * x[2]; });
	return (s / u[0]).toFixed(s / u[0] < 9.95 ? 1 : 0) + u[1];
}
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
