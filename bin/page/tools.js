// First part of the view, which draws what the model adds up: what is shown, texts of numbers,
// elements, tables, canvases. The parts of the view share one scope; scripts/join-page joins them.
// The elements are those of body.html, found by their ids, and a few around it that jeprof or
// jeprofd writes; state.js and tables.js hide the label l-thread and the sections s-NAME that have
// nothing to show. Called by all other parts of the view.

/**
 * What is chosen, and what the address of the page holds, by the letters of LETTERS in state.js.
 * Changed by change(), read_address() and begin() of state.js and by select_again() of live.js;
 * take_sums() zooms out of a node that holds nothing.
 * @typedef {object} State
 * @property {number} process          index of the process
 * @property {number | null} snapshot  null only in `usual` of state.js
 * @property {number | null} compared  the snapshot compared with
 * @property {number} part             what is shown alone, or ALL: see Model
 * @property {number} zoomed           the node that fills the graph
 * @property {number} name             the function whose callers are shown; 0: none
 * @property {string} search
 * @property {Metric} metric
 * @property {'name' | 'module' | 'growth' | 'age'} colour
 * @property {'icicle' | 'flame'} direction
 * @property {boolean} is_whole        whether wrappers of malloc are shown
 * @property {'self' | 'cum' | 'objects' | 'growth'} order  of the functions
 */
/**
 * A state that is shown.
 * @typedef {State & {snapshot: number}} ShownState
 */
/**
 * What is shown now. report.js and live.js set models, report.js tabs; begin() and show() of
 * state.js, what they call, and events set the rest.
 * @typedef {object} View
 * @property {Model[]} models              by process; each is made when it is first shown
 * @property {Element[]} tabs              of the processes; none if there is one
 * @property {boolean} is_begun            whether the following are set
 * @property {Model} model                 of the process that is shown
 * @property {Data} data                   its data
 * @property {Float64Array} totals         of each node, in the metric of the state
 * @property {Float64Array | null} totals_before  the same in the snapshot compared with; without
 *                                         one null, or where growth is coloured of the first
 * @property {Ages | null} ages            null: none are told
 * @property {Uint8Array | null} hits      of each name: 1 if the search found it; null: no search
 * @property {number} rows                 how many the table of functions has at most
 * @property {{key: string, list: number[]}} ordered  names in the order of this table; key: the
 *                                         members of the state on which the list depends
 * @property {{key: string, boxes: Box[]}} laid  boxes of the graph; key as before
 * @property {number} focused              node of the box that the keyboard or a click chose last
 * @property {Map<string, boolean>} folds  of the list of stacks those that a click has unfolded
 *                                         or folded: whether they are open; key: their names
 * @property {string[]} hues               by name its colour, of names that were drawn
 * @property {number | null} drawn_compared  state.compared when last drawn
 */
/** @type {ShownState} */
const state = { process: 0, snapshot: 0, compared: null, part: ALL, zoomed: 0, name: 0, search: '',
	metric: 'bytes', colour: 'name', direction: 'icicle', is_whole: false, order: 'self' };
/** @type {View} */
const view = /** @type {any} */ ({ models: [], tabs: [], is_begun: false, drawn_compared: null });

/**
 * The element with an id.
 * @param {string} id
 * @returns {HTMLElement}
 */
function element(id) {
	return /** @type {HTMLElement} */ (document.getElementById(id));
}

/**
 * The element with an id, if it is a field, a button or a list to choose from.
 * @param {string} id
 */
function control(id) {
	return /** @type {HTMLInputElement} */ (element(id));
}

/**
 * Bytes as short text: 1.5M; units are powers of 1024.
 * @param {number} bytes
 */
function size_text(bytes) {
	let unit = 0, x = bytes;
	while (Math.abs(x) >= 1023.95 && unit < 4) {
		x /= 1024;
		unit++;
	}
	return unit ? x.toFixed(1) + 'BKMGT'[unit] : Math.trunc(x) + 'B';
}

/**
 * A number of objects or of bytes, as the metric of the state says, as text.
 * @param {number} x
 */
function amount_text(x) {
	return state.metric === 'objects' ? Math.trunc(x) + ' objects' : size_text(x);
}

/** What the memory is called that the data count. */
function held_title() {
	return /^alloc/.test(view.data.index || '') ? 'ever allocated' : 'live';
}

/**
 * Seconds as short text: 45s, 12m, 3.2h; '' for null.
 * @param {number | null} seconds
 */
function age_text(seconds) {
	/** @type {[number, string, number][]} */
	const units = [[86400, 'd', 2], [3600, 'h', 2], [60, 'm', 2], [1, 's', 0]];
	if (seconds === null) {
		return '';
	}
	const [length, letter] = units.find(u => seconds >= u[0] * u[2]) || units[3];
	return (seconds / length).toFixed(seconds / length < 9.95 ? 1 : 0) + letter;
}

/**
 * The text of a change, with its sign.
 * @param {number} x
 * @param {(x: number) => string} text
 */
function signed(x, text) {
	return (x > 0 ? '+' : '') + text(x);
}

/**
 * A share of all as text in percent; '-' if all is 0.
 * @param {number} part
 * @param {number} all
 */
function percent(part, all) {
	return all ? (100 * part / all).toFixed(1) + '%' : '-';
}

/**
 * The margin of a sum of bytes as text; '' if it is 0.
 * @param {number} variance
 * @param {number} samples
 */
function margin_text(variance, samples) {
	const margin = margin_of(variance, samples);
	return margin ? '\u00b1' + size_text(margin) : '';
}

/**
 * The class of a change in style.css, which gives its colour.
 * @param {number} x
 */
function change_class(x) {
	if (x > 0) {
		return 'up';
	}
	return x < 0 ? 'down' : 'dim';
}

/**
 * The names of a stack that ends at a node, from the leaf on, without the root.
 * @param {number} node
 */
function path_names(node) {
	const { data, model } = view;
	return model.frames(node).map(at => data.names[model.name_of[at]]);
}

/**
 * A new element.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {string} [text]
 * @param {string} [style]  its class
 * @returns {HTMLElementTagNameMap[K]}
 */
function make(tag, text, style) {
	const made = document.createElement(tag);
	if (text !== undefined) {
		made.textContent = text;
	}
	if (style) {
		made.className = style;
	}
	return made;
}

/**
 * A link that does something on this page.
 * @param {string} text
 * @param {() => void} act
 */
function link(text, act) {
	const made = make('a', text);
	made.setAttribute('href', '#');
	made.onclick = event => {
		event.preventDefault();
		act();
	};
	return made;
}

/**
 * A link that shows the callers and callees of a function.
 * @param {number} name
 */
function name_link(name) {
	return link(view.data.names[name], () => {
		change({ name });
		if (name) {
			element('s-one').scrollIntoView({ block: 'nearest' });
		}
	});
}

/**
 * An option of a list to choose from.
 * @param {string} text
 * @param {string | number} value
 */
function option(text, value) {
	const made = make('option', text);
	made.value = String(value);
	return made;
}

/**
 * A column: its title, the class of its cells, and what stands in the place of the title.
 * @typedef {[string, string?, Node?]} Column
 */
/**
 * style: a class besides that of the column.
 * @typedef {string | Node | {style: string, text: string}} Cell
 */
/**
 * is_hit: whether the search found it.
 * @typedef {{is_hit?: boolean, cells: Cell[]}} Row
 */
/**
 * Replaces the rows of a table.
 * @param {string} id
 * @param {Column[]} columns
 * @param {Row[]} rows
 * @param {boolean} has_head
 */
function fill(id, columns, rows, has_head = true) {
	const head = make('tr');
	columns.forEach(([title, style, content]) => {
		const cell = make('th', title, style);
		if (content) {
			cell.replaceChildren(content);
		}
		head.append(cell);
	});
	const body = rows.map(row => {
		const made = make('tr', undefined, row.is_hit ? 'hit' : '');
		made.append(...row.cells.map((cell, i) => filled_cell(cell, columns[i][1])));
		return made;
	});
	element(id).replaceChildren(...has_head ? [head] : [], ...body);
}

/**
 * A cell as an element.
 * @param {Cell} cell
 * @param {string} [style]  of its column
 */
function filled_cell(cell, style) {
	const made = make('td', undefined, style);
	if (typeof cell !== 'object' || cell instanceof Node) {
		made.append(cell);
		return made;
	}
	made.classList.add(cell.style);
	made.append(cell.text);
	return made;
}

/**
 * The value of a property of style.css, "--fg".
 * @param {string} name
 */
function css(name) {
	return getComputedStyle(document.documentElement).getPropertyValue(name);
}

/**
 * Empties a canvas and gives it a height; returns what draws on it. Both are in pixels of the page
 * (CSS); the canvas itself has the pixels of the screen, or less, as browsers show none that is
 * higher than 32767 pixels.
 * @param {string} id
 * @param {number} height
 */
function painter(id, height) {
	const canvas = /** @type {HTMLCanvasElement} */ (element(id));
	const ratio = Math.min(window.devicePixelRatio || 1, 32767 / height);
	const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
	canvas.width = canvas.clientWidth * ratio;
	canvas.height = height * ratio;
	canvas.style.height = height + 'px';
	pen.setTransform(ratio, 0, 0, ratio, 0, 0);
	return pen;
}

/**
 * A Response whose body is what gzip packed into these bytes, and fails to be read if they are
 * damaged; null if this browser cannot unpack.
 * @param {ArrayBuffer | Uint8Array} bytes
 */
function unpacked(bytes) {
	const { DecompressionStream } = /** @type {any} */ (window);
	return DecompressionStream ? new Response(new Blob([bytes]).stream()
		.pipeThrough(new DecompressionStream('gzip'))) : null;
}
