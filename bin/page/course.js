// The course of memory over time, by snapshot: curves of live, allocated, resident and RSS. Called
// by show() and the events of state.js. A pen draws on the canvas; x and y are CSS pixels from its
// top left corner.

/**
 * A curve: its title; its colour, a property of style.css (behind its -- the name is also a class
 * of the key, k0); and a function that tells its figure in a snapshot, in bytes, null if the
 * snapshot has none.
 * @typedef {{title: string, colour: string, figure: (snap: Snap) => number | null}} Curve
 */
/** @type {Curve[]} */
const CURVES = [
	{ get title() { return held_title(); }, colour: '--k0', figure: snap => snap.live[0] },
	{ title: 'allocated (header)', colour: '--k1', figure: meta_figure('allocated') },
	{ title: 'resident', colour: '--k2', figure: meta_figure('resident') },
	{ title: 'RSS', colour: '--k3', figure: meta_figure('rss') },
];
// All but dots in pixels. top and bottom: y of the ends of a mark; bottom is also y of the figure
// 0, and rise tells how far above it the largest figure is. left, right: margins. dots: with more
// snapshots than this only the first curve has dots, and a figure without neighbours.
const COURSE = { height: 150, top: 8, bottom: 130, left: 60, right: 15, rise: 118, dots: 60 };

/**
 * Returns a function that tells the number of a key in the metadata of a snapshot, null if there is
 * none.
 * @param {string} key
 * @returns {(snap: Snap) => number | null}
 */
function meta_figure(key) {
	return snap => /^\d+$/.test(snap.meta[key] || '') ? Number(snap.meta[key]) : null;
}

/**
 * The x of each snapshot: by its time, or at equal distances if one has no time or the last is not
 * later than the first. That of a single one is in the middle.
 * @param {number} width
 */
function course_places(width) {
	const times = view.data.snaps.map(snap => snap.time), last = times.length - 1;
	const from = Number(times[0]), span = Number(times[last]) - from;
	const is_dated = times.every(time => time !== null) && span > 0;
	return times.map((time, i) => {
		const share = is_dated ? (Number(time) - from) / span : i / last;
		return COURSE.left + (width - COURSE.left - COURSE.right) * (last ? share : 0.5);
	});
}

/**
 * The larger of x and a figure; one of null counts as 0.
 * @param {number} x
 * @param {number | null} y
 */
function larger(x, y) {
	return Math.max(x, y || 0);
}

/**
 * Draws the scale, marks of the snapshot that is shown and of that compared with, and the curves;
 * makes the key below.
 */
function draw_course() {
	const pen = painter('course', COURSE.height), width = element('course').clientWidth;
	const lines = CURVES.map(curve => view.data.snaps.map(curve.figure));
	const most = lines.reduce((max, line) => line.reduce(larger, max), 1);
	const places = course_places(width);
	/** @param {number} value */
	const y = value => COURSE.bottom - COURSE.rise * value / most;
	draw_scale(pen, width, most, y);
	draw_mark(pen, places[state.snapshot], css('--fg'));
	if (state.compared !== null) {
		draw_mark(pen, places[state.compared], css('--up'));
	}
	lines.forEach((line, i) => {
		draw_curve(pen, i, line.map((value, k) => value === null ? null
			: { x: places[k], y: y(value) }));
	});
	element('course-key').replaceChildren(...CURVES
		.filter((_, i) => lines[i].some(value => value !== null)).map(key_of_curve));
}

/**
 * Draws lines for 0, half and all of the largest figure, most (bytes), and the times of the first
 * and the last snapshot; y() tells where a figure lies.
 * @param {CanvasRenderingContext2D} pen
 * @param {number} width
 * @param {number} most
 * @param {(value: number) => number} y
 */
function draw_scale(pen, width, most, y) {
	const { snaps } = view.data, right = width - COURSE.right;
	pen.font = '11px sans-serif';
	pen.strokeStyle = css('--line');
	pen.fillStyle = css('--dim');
	[0, most * 0.5, most].forEach(value => {
		pen.beginPath();
		pen.moveTo(COURSE.left, y(value));
		pen.lineTo(right, y(value));
		pen.stroke();
		pen.textAlign = 'right';
		pen.fillText(size_text(value), COURSE.left - 5, y(value) + 4);
	});
	pen.textAlign = 'left';
	pen.fillText((snaps[0].clock || '').slice(11), COURSE.left, COURSE.height - 4);
	if (snaps.length > 1) {
		pen.textAlign = 'right';
		pen.fillText((snaps[snaps.length - 1].clock || '').slice(11), right, COURSE.height - 4);
	}
}

/**
 * Draws the mark of a snapshot, a dashed vertical line.
 * @param {CanvasRenderingContext2D} pen
 * @param {number} x
 * @param {string} colour
 */
function draw_mark(pen, x, colour) {
	pen.strokeStyle = colour;
	pen.setLineDash([4, 3]);
	pen.beginPath();
	pen.moveTo(x, COURSE.top);
	pen.lineTo(x, COURSE.bottom);
	pen.stroke();
	pen.setLineDash([]);
}

/**
 * Draws a curve, with a gap where it has no figure (null). The first curve has a dot at each point,
 * the others only if there are few snapshots, or where no line leads to the point.
 * @param {CanvasRenderingContext2D} pen
 * @param {number} number  index in CURVES
 * @param {({x: number, y: number} | null)[]} points
 */
function draw_curve(pen, number, points) {
	const colour = css(CURVES[number].colour);
	pen.fillStyle = colour;
	pen.strokeStyle = colour;
	pen.lineWidth = number ? 1.2 : 2.4;
	pen.beginPath();
	points.forEach((point, i) => {
		if (point) {
			pen[points[i - 1] ? 'lineTo' : 'moveTo'](point.x, point.y);
		}
	});
	pen.stroke();
	points.forEach((point, i) => {
		if (point && (!number || points.length <= COURSE.dots
			|| !points[i - 1] && !points[i + 1])) {
			pen.beginPath();
			pen.arc(point.x, point.y, number ? 1.8 : 3.5, 0, 7);
			pen.fill();
		}
	});
}

/**
 * The colour and title of a curve, for the key below the picture.
 * @param {Curve} curve
 */
function key_of_curve(curve) {
	const made = make('span', '', 'one');
	made.append(make('i', '', curve.colour.slice(2)), curve.title + '  ');
	return made;
}

/**
 * Shows the snapshot nearest to a click, of those whose stacks are known; with the shift key
 * compares with it.
 * @param {MouseEvent} event
 */
function pick_snapshot(event) {
	const { left, width } = element('course').getBoundingClientRect();
	const places = course_places(width), x = event.clientX - left;
	const nearest = view.model.full.reduce((best, snapshot) =>
		Math.abs(places[snapshot] - x) < Math.abs(places[best] - x) ? snapshot : best);
	change(event.shiftKey ? { compared: nearest } : { snapshot: nearest });
}
