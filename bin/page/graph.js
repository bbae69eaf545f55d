// The flame graph, of view.totals: where its boxes lie, their colours, what is told of one. Boxes
// narrower than a pixel are not drawn. Called by show() and the events of state.js. x, y and widths
// are CSS pixels; x and y begin at the top left corner of the canvas. Below a node are those that
// it calls, above it its callers, whichever of them the screen shows on top.

/**
 * A box: the node, its left edge, width and row (0: the root); whether its node is a caller of the
 * zoomed one, direct or not; its upper edge, which draw_graph() sets.
 * @typedef {object} Box
 * @property {number} node
 * @property {number} x
 * @property {number} width
 * @property {number} row
 * @property {boolean} is_above
 * @property {number} y
 */
const ROW_HEIGHT = 18;
// The colour of an age that is not known, and of the root, unless growth is coloured.
const GREY = '#c4c8cf';

/**
 * A hash of a text: a whole number from 0 to 2^32 - 1.
 * @param {string} text
 */
function text_hash(text) {
	let hash = 7;
	for (let i = 0; i < text.length; i++) {
		hash = (hash * 31 + text.charCodeAt(i)) | 0;
	}
	return hash >>> 0;
}

/**
 * The colour of a node, as the state says. What a search has found gets another: see draw_box().
 * @param {number} node
 */
function box_colour(node) {
	if (state.colour === 'growth') {
		return growth_colour(node);
	}
	if (!node) {
		return GREY;
	}
	if (state.colour === 'age') {
		return age_colour(age_of(node));
	}
	const name = view.model.name_of[node];
	return state.colour === 'module' ? module_colour(name) : name_colour(name);
}

/**
 * Red for what has grown since the snapshot compared with, or if none is since the first, blue for
 * what has shrunk; the larger the change is as a share of the larger of the two sizes, the darker.
 * Grey if that is below 1 percent.
 * @param {number} node
 */
function growth_colour(node) {
	const now = view.totals[node];
	const before = /** @type {Float64Array} */ (view.totals_before)[node];
	const growth = now - before, most = Math.max(now, before);
	const depth = most ? Math.round(Math.min(1, Math.abs(growth) / most) * 55) : 0;
	return `hsl(${growth < 0 ? 212 : 4},${depth ? 85 : 0}%,${88 - depth * 0.6}%)`;
}

/**
 * From yellow for 0 to blue for the time that the profiler has run (at least a minute, an hour if
 * that time is not known), by the logarithm of the age.
 * @param {number | null} seconds
 */
function age_colour(seconds) {
	if (seconds === null) {
		return GREY;
	}
	const most = Math.log(1 + Math.max(view.ages && view.ages.span || 3600, 60));
	const share = Math.min(1, Math.log(1 + seconds) / most);
	return `hsl(${Math.round(50 + 170 * share)},65%,66%)`;
}

/**
 * The colour of a name by its object file; names of one file differ a little in lightness.
 * @param {number} name
 */
function module_colour(name) {
	const module = view.data.module_of[name];
	return `hsl(${(module * 137.5 + 20) % 360},60%,${66 + name % 5 * 3}%)`;
}

/**
 * A warm colour that the name always has.
 * @param {number} name
 */
function name_colour(name) {
	if (!view.hues[name]) {
		const hash = text_hash(view.data.names[name]);
		view.hues[name] = `hsl(${8 + hash % 42},${70 + hash % 25}%,${60 + (hash >> 8) % 18}%)`;
	}
	return view.hues[name];
}

/**
 * The age that half of the bytes of a node exceed, in seconds; null if it is not known.
 * @param {number} node
 */
function age_of(node) {
	return view.ages && median_age(view.ages.node, AGES * node, view.ages.span);
}

/**
 * How much of the bytes of a node has an age that is known, in percent.
 * @param {number} node
 */
function known_share(node) {
	const { ages, model } = view, all = model.totals(state.snapshot, 'bytes', false)[node];
	const aged = ages && ages.node.subarray(AGES * node, AGES * (node + 1));
	return percent(aged ? Math.min(aged.reduce((sum, bytes) => sum + bytes, 0), all) : 0, all);
}

/**
 * The visible boxes: those of the zoomed node and of its callers have the whole width; those of the
 * nodes below the zoomed one have a width in proportion to their totals.
 * @param {number} width
 */
function lay_boxes(width) {
	const above = view.model.frames(state.zoomed).slice(1).reverse();
	const nodes = state.zoomed ? [0, ...above] : [];
	/** @type {Box[]} */
	const boxes = nodes.map((node, row) => ({ node, x: 0, width, row, is_above: true, y: 0 }));
	const waiting = [{ node: state.zoomed, x: 0, width, row: nodes.length, is_above: false, y: 0 }];
	for (let box = waiting.pop(); box; box = waiting.pop()) {
		boxes.push(box);
		waiting.push(...boxes_below(box));
	}
	return boxes;
}

/**
 * The boxes of the children of a box's node, the widest first, without those narrower than a pixel.
 * @param {Box} box
 */
function boxes_below(box) {
	const { totals, model } = view;
	const nodes = Array.from(model.children_of(box.node)).filter(node => totals[node] > 0);
	nodes.sort((p, q) => totals[q] - totals[p] || p - q);
	/** @type {Box[]} */
	const boxes = [];
	let x = box.x;
	for (const node of nodes) {
		const width = box.width * totals[node] / totals[box.node];
		if (width < 1) {
			break;
		}
		boxes.push({ node, x, width, row: box.row + 1, is_above: false, y: 0 });
		x += width;
	}
	return boxes;
}

/**
 * Draws the graph; lays the boxes anew if the width has changed, or what they depend on in the
 * state, or the model (then begin() has cleared view.laid).
 */
function draw_graph() {
	const width = element('flame').clientWidth;
	const { snapshot, part, metric, is_whole, zoomed } = state;
	const key = [snapshot, part, metric, is_whole, zoomed, width].join();
	if (view.laid.key !== key) {
		view.laid = { key, boxes: lay_boxes(width) };
	}
	const rows = view.laid.boxes.reduce((most, box) => Math.max(most, box.row + 1), 0);
	const pen = painter('flame', rows * ROW_HEIGHT + 2);
	pen.font = '11px monospace';
	pen.textBaseline = 'middle';
	const letter = pen.measureText('m').width, colour = css('--fg');
	view.laid.boxes.forEach(box => {
		const row = state.direction === 'flame' ? rows - 1 - box.row : box.row;
		box.y = row * ROW_HEIGHT + 1;
		draw_box(pen, box, letter, colour);
	});
	pen.globalAlpha = 1;
}

/**
 * Draws a box with as much of its name as fits, and a frame around the focused one while the graph
 * has the keyboard. What a search has found is violet, whatever colour is chosen. Callers of the
 * zoomed node, and what a search has not found, are faint.
 * @param {CanvasRenderingContext2D} pen
 * @param {Box} box
 * @param {number} letter  width of a letter
 * @param {string} colour  of text
 */
function draw_box(pen, box, letter, colour) {
	const name = view.model.name_of[box.node], text = view.data.names[name];
	const is_hit = view.hits && view.hits[name];
	const is_faint = box.is_above || view.hits && !is_hit;
	const room = Math.floor((box.width - 6) / letter);
	pen.globalAlpha = is_faint ? 0.45 : 1;
	pen.fillStyle = is_hit ? '#c061cb' : box_colour(box.node);
	pen.fillRect(box.x, box.y, Math.max(box.width - 0.6, 0.5), ROW_HEIGHT - 1);
	if (room >= 3) {
		pen.globalAlpha = 1;
		pen.fillStyle = is_faint ? colour : '#111';
		pen.fillText(text.length <= room ? text : text.slice(0, room - 2) + '..', box.x + 3,
			box.y + ROW_HEIGHT / 2);
	}
	if (box.node === view.focused && document.activeElement === element('flame')) {
		pen.globalAlpha = 1;
		pen.strokeStyle = colour;
		pen.lineWidth = 2;
		pen.strokeRect(box.x + 1, box.y + 1, Math.max(box.width - 2, 1), ROW_HEIGHT - 3);
	}
}

/**
 * The box under the mouse, undefined if there is none.
 * @param {MouseEvent} event
 */
function box_at(event) {
	const { left, top } = element('flame').getBoundingClientRect();
	const x = event.clientX - left, y = event.clientY - top;
	return view.laid.boxes.find(box => x >= box.x && x < box.x + box.width
		&& y >= box.y && y < box.y + ROW_HEIGHT);
}

/**
 * Says in words what a node holds: below the graph, and as the title of the graph's element.
 * @param {number} node
 */
function tell_node(node) {
	const { totals, totals_before, data } = view, name = view.model.name_of[node];
	const zoomed = totals[state.zoomed], age = totals[node] ? age_of(node) : null;
	let text = `${data.names[name]}: ${amount_text(totals[node])}, `
		+ percent(totals[node], totals[0]);
	if (node !== state.zoomed && zoomed !== totals[0]) {
		text += ` (${percent(totals[node], zoomed)} of the zoomed)`;
	}
	if (totals_before && state.compared !== null) {
		const growth = signed(totals[node] - totals_before[node], amount_text);
		text += `, ${growth} since the snapshot compared with`;
	}
	if (age !== null) {
		const known = known_share(node);
		const whole = known === '100.0%' ? 'it' : 'the ' + known + ' whose age is known';
		text += `, half of ${whole} older than ${age_text(age)}`;
	}
	if (node) {
		text += `  [${data.modules[data.module_of[name]]}]`;
	}
	element('told').textContent = text;
	element('flame').title = text;
}

/**
 * The next box in the direction of an arrow key: the parent's, the widest child's (the leftmost, by
 * boxes_below()), or a neighbour in the same row; undefined if there is none.
 * @param {Box} own
 * @param {string} key
 */
function box_beside(own, key) {
	const { parent } = view.model, { boxes } = view.laid;
	const key_of_parent = state.direction === 'flame' ? 'ArrowDown' : 'ArrowUp';
	if (key === key_of_parent) {
		return boxes.find(box => box.node === parent[own.node]);
	}
	const is_down = /Up|Down/.test(key);
	const near = boxes.filter(box => is_down ? parent[box.node] === own.node : box.row === own.row)
		.sort((p, q) => p.x - q.x);
	return near[is_down ? 0 : near.indexOf(own) + (key === 'ArrowRight' ? 1 : -1)];
}

/**
 * Moves the focus of the keyboard from its box, by an arrow key.
 * @param {string} key
 */
function move_focus(key) {
	const { boxes } = view.laid;
	const own = boxes.find(box => box.node === view.focused) || boxes[0];
	const to = box_beside(own, key);
	if (to) {
		view.focused = to.node;
		draw_graph();
		tell_node(to.node);
	}
}
