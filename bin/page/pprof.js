// Reads a profile.proto of pprof, unpacked: what jeprofd serves under debug/pprof/heap. Knows only the fields that the page
// shows; passes over others. Throws an Error where the bytes are no such message.
// Profile(bytes) gives { time: seconds or null, period: bytes, comments: { KEY: VALUE }, samples: [{ frames, objects, bytes, thread, label, age }] };
// frames from the leaf on: { name, line: "file:line" or "", module }; a frame without a name is { name: "", ... }.
function Profile(bytes) {
	var strings = [], types = [], samples = [], mappings = {}, functions = {}, locations = {}, comments = [], time = 0, period = 0, at;
	var text = new TextDecoder();
	fields(bytes, function (field, value) {
		if (field === 1) { types.push(message(value)[1]); }
		if (field === 2) { samples.push(value); }
		if (field === 3) { at = message(value); mappings[at[1]] = at; }
		if (field === 4) { at = located(value); locations[at.id] = at; }
		if (field === 5) { at = message(value); functions[at[1]] = at; }
		if (field === 6) { strings.push(text.decode(value)); }
		if (field === 9) { time = value; }
		if (field === 12) { period = value; }
		if (field === 13) { comments = comments.concat(list(value)); }
	});
	types = types.map(string);
	var objects = types.indexOf('inuse_objects'), space = types.indexOf('inuse_space'), known = {};
	if (objects < 0 || space < 0) { throw new Error('the profile says nothing of live objects'); }
	return { time: time ? time / 1e9 : null, period: period, comments: pairs(comments.map(string)), samples: samples.map(sample) };

	// The number at at.i of b, which moves on.
	function varint(b, at) {
		var x = 0, unit = 1, c;
		do {
			if (at.i >= b.length || unit > 1e20) { throw new Error('the profile is cut off'); }
			c = b[at.i++];
			x += (c & 127) * unit;
			unit *= 128;
		} while (c & 128);
		return x >= 9223372036854775808 ? x - 18446744073709551616 : x;	// a negative one takes ten bytes
	}
	// Calls take(field, number or bytes) for each field of a message.
	function fields(b, take) {
		var at = { i: 0 }, key, kind, size;
		while (at.i < b.length) {
			key = varint(b, at);
			kind = key % 8;
			if (kind === 0) { take(Math.floor(key / 8), varint(b, at)); continue; }
			if (kind !== 2 && kind !== 1 && kind !== 5) { throw new Error('the profile is damaged'); }
			size = kind === 2 ? varint(b, at) : kind === 1 ? 8 : 4;
			if (size < 0 || size > b.length - at.i) { throw new Error('the profile is cut off'); }
			take(Math.floor(key / 8), b.subarray(at.i, at.i += size));
		}
	}
	// A message whose fields are each there once: by number.
	function message(b) {
		var out = {};
		fields(b, function (field, value) { out[field] = value; });
		return out;
	}
	// Repeated numbers: packed, or one.
	function list(value) {
		if (typeof value === 'number') { return [value]; }
		for (var out = [], at = { i: 0 }; at.i < value.length;) { out.push(varint(value, at)); }
		return out;
	}
	function string(i) {
		if (strings[i] === undefined) { throw new Error('the profile names a text that it does not have'); }
		return strings[i];
	}
	function located(b) {
		var l = { id: 0, mapping: 0, address: 0, lines: [] };
		fields(b, function (field, value) {
			if (field === 1) { l.id = value; }
			if (field === 2) { l.mapping = value; }
			if (field === 3) { l.address = value; }
			if (field === 4) { l.lines.push(message(value)); }
		});
		return l;
	}
	// The frames of a location, the innermost first; one without a name where it has none.
	function frames(id) {
		var l = locations[id], map = l && mappings[l.mapping], module = map && map[5] ? string(map[5]).replace(/^.*\//, '') : '?';
		if (!l) { throw new Error('the profile names a place that it does not have'); }
		if (!l.lines.length) { return [{ name: '', line: '', module: module }]; }
		return l.lines.map(function (x) {
			var f = functions[x[1]] || {}, file = f[4] ? string(f[4]) : '';
			return { name: f[2] ? string(f[2]) : '', line: file && x[2] ? file + ':' + x[2] : '', module: module };
		});
	}
	function sample(b) {
		var s = { frames: [], objects: 0, bytes: 0, thread: 0, thread_name: '', label: '', age: null }, values = [];
		fields(b, function (field, value) {
			if (field === 1) { list(value).forEach(function (id) { known[id] = known[id] || frames(id); s.frames = s.frames.concat(known[id]); }); }
			if (field === 2) { values = values.concat(list(value)); }
			if (field === 3) { label(s, message(value)); }
		});
		s.objects = values[objects] || 0;
		s.bytes = values[space] || 0;
		return s;
	}
	function label(s, l) {
		var key = string(l[1] || 0);
		if (key === 'thread_id') { s.thread = l[3] || 0; }
		if (key === 'thread') { s.thread_name = string(l[2] || 0); }
		if (key === 'age') { s.age = l[3] || 0; }	// seconds at least
		if (key === 'label') { s.label = string(l[2] || 0); }
	}
	function pairs(lines) {
		var out = {};
		lines.forEach(function (l) { var i = l.indexOf('='); if (i > 0) { out[l.slice(0, i)] = l.slice(i + 1); } });
		return out;
	}
}
