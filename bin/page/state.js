// The state of the view, which the address of the page holds, and the events that change it. A
// change draws only what depends on it. begin() shows a process; report.js (jeprof) and live.js
// (jeprofd) call it when they have the data.

/**
 * The letters of the state's members in the address of the page. People keep links with them, so
 * they must not change.
 * @type {{[member: string]: string}}
 */
const LETTERS = { process: 'p', snapshot: 's', compared: 'a', part: 't', zoomed: 'z', name: 'f',
	search: 'q', metric: 'm', colour: 'c', direction: 'g', is_whole: 'w', order: 'k' };
// The values of metric, colour, direction and order, the default first. In the address the order
// stands as a whole word, the others as their first letters.
const METRICS = /** @type {const} */ (['bytes', 'objects']);
const COLOURS = /** @type {const} */ (['name', 'module', 'growth', 'age']);
const DIRECTIONS = /** @type {const} */ (['icicle', 'flame']);
const ORDERS = /** @type {const} */ (['self', 'cum', 'objects', 'growth']);
/**
 * The default of each member: the address has only members that differ from it. begin() sets its
 * snapshot to first_shown(); select_again() of live.js sets it to null first, so that the address
 * has the snapshot which begin() then shows.
 * @type {State}
 */
const usual = { ...state };

/**
 * The number that a text is, if is_good() says so of it, else the other value.
 * @template T
 * @param {string | undefined} text
 * @param {(x: number) => boolean} is_good
 * @param {T} other
 */
function number_of(text, is_good, other) {
	const number = text ? Number(text) : NaN;
	return is_good(number) ? number : other;
}

/**
 * The value that a text stands for, else the first.
 * @template {string} T
 * @param {string | undefined} text
 * @param {readonly T[]} values
 * @param {boolean} is_letter  the text is the first letter of the value, else the whole value
 */
function value_of(text, values, is_letter) {
	return values.find(value => text === (is_letter ? value[0] : value)) || values[0];
}

/**
 * Whether x is a whole number from a bound to below a length.
 * @param {number} x
 * @param {number} from
 * @param {number} length
 */
function is_index(x, from, length) {
	return x >= from && x < length && x % 1 === 0;
}

/** What the address says, as texts by letters. */
function address() {
	/** @type {{[letter: string]: string}} */
	const said = {};
	location.hash.slice(1).split('&').forEach(part => {
		const [key, ...text] = part.split('=');
		try {
			said[key] = decodeURIComponent(text.join('='));
		} catch (error) {
			said[key] = '';
		}
	});
	return said;
}

/** The index of the process that the address names; 0 if it names none that there is. */
function process_of_address() {
	return number_of(address().p, x => is_index(x, 1, view.tabs.length), 0);
}

/**
 * The newest snapshot with stacks; the largest one if the newest has less than a tenth of its
 * bytes, as of a program that frees all at its end.
 */
function first_shown() {
	const { full } = view.model, { snaps } = view.data, last = full[full.length - 1];
	const most = full.reduce((best, snapshot) =>
		snaps[snapshot].live[0] > snaps[best].live[0] ? snapshot : best, last);
	return snaps[last].live[0] * 10 < snaps[most].live[0] ? most : last;
}

/** Takes the state from the address, except for the process; what is not valid is the default. */
function read_address() {
	const said = address(), { model, data } = view;
	/** @param {number} x */
	const is_snapshot = x => model.full.includes(x);
	Object.assign(state, {
		snapshot: number_of(said.s, is_snapshot, first_shown()),
		compared: number_of(said.a, is_snapshot, null),
		part: number_of(said.t, x => model.choices().some(choice => choice.part === x), ALL),
		zoomed: number_of(said.z, x => is_index(x, 0, model.node_count), 0),
		name: number_of(said.f, x => is_index(x, 1, data.names.length), 0),
		search: said.q || '',
		metric: value_of(said.m, METRICS, true),
		colour: value_of(said.c, COLOURS, true),
		direction: value_of(said.g, DIRECTIONS, true),
		is_whole: said.w === '1',
		order: value_of(said.k, ORDERS, false),
	});
}

/**
 * The value of a member of the state, as the address has it.
 * @param {string} member
 * @param {string | number | boolean | null} value
 */
function address_text(member, value) {
	if (['metric', 'colour', 'direction'].includes(member)) {
		return String(value)[0];
	}
	return value === null ? '' : String(value === true ? 1 : value);
}

/** Puts the state into the address, without the members that are as in usual. */
function write_address() {
	/** @type {{[member: string]: any}} */
	const now = state, before = /** @type {{[member: string]: any}} */ (usual);
	const text = '#' + Object.keys(LETTERS).filter(member => now[member] !== before[member])
		.map(member => LETTERS[member] + '='
			+ encodeURIComponent(address_text(member, now[member]))).join('&');
	try {
		history.replaceState(null, '', text);
	} catch (error) {
		location.replace(text);
	}
}

/**
 * Changes the state and the address, and shows the change. A change to colour by growth also
 * compares with the first snapshot, if none is compared.
 * @param {Partial<ShownState>} changes
 */
function change(changes) {
	Object.assign(state, changes);
	if (changes.colour === 'growth' && state.compared === null) {
		state.compared = view.model.full[0];
	}
	show(changes);
	write_address();
}

/**
 * Finds the names that match the search, sets view.hits, and says how many they are and what stacks
 * with them hold.
 */
function find_names() {
	const { names } = view.data, text = state.search, found = element('found');
	view.hits = null;
	found.textContent = '';
	if (!text) {
		return;
	}
	const is_found = matcher(text), hits = new Uint8Array(names.length);
	let count = 0;
	for (let name = 1; name < names.length; name++) {
		hits[name] = is_found(names[name]) ? 1 : 0;
		count += hits[name];
	}
	const sum = view.model.share(state.snapshot, state.metric, state.is_whole, hits);
	view.hits = hits;
	found.textContent = `${count} names: ${amount_text(sum)}, ${percent(sum, view.totals[0])}`;
}

/**
 * Returns a function that tells whether a name matches the regular expression in the text, or, if
 * the text is none, contains the text. Both ignore case.
 * @param {string} text
 * @returns {(name: string) => boolean}
 */
function matcher(text) {
	try {
		const pattern = new RegExp(text, 'i');
		return name => pattern.test(name);
	} catch (error) {
		const word = text.toLowerCase();
		return name => name.toLowerCase().includes(word);
	}
}

/** Sets the totals and ages of the view by the state; zooms out of nodes that hold nothing. */
function take_sums() {
	const { model } = view, { metric, is_whole, compared } = state;
	const since = compared === null && state.colour === 'growth' ? model.full[0] : compared;
	model.show_only(state.part);
	view.totals = model.totals(state.snapshot, metric, is_whole);
	view.totals_before = since === null ? null : model.totals(since, metric, is_whole);
	view.ages = model.ages(state.snapshot);
	while (state.zoomed && !view.totals[state.zoomed]) {
		state.zoomed = model.parent[state.zoomed];
	}
}

/** Sets the controls to what the state says; the list of parts may lack the one that is shown. */
function set_controls() {
	const { compared, search, zoomed } = state, part = String(state.part);
	const by_age = /** @type {HTMLElement} */ (element('colour').querySelector('[value=age]'));
	by_age.hidden = !view.ages;
	control('snap').value = String(state.snapshot);
	control('from').value = compared === null ? '' : String(compared);
	const thread = control('thread');
	thread.value = part;
	if (thread.value !== part) {
		const { text } = view.model.choices().filter(choice => choice.part === state.part)[0];
		thread.append(option(text, part));
		thread.value = part;
	}
	control('metric').value = state.metric;
	control('colour').value = state.colour;
	control('whole').checked = state.is_whole;
	if (control('find').value !== search) {
		control('find').value = search;
	}
	control('way').textContent = state.direction === 'flame' ? 'as an icicle (f)' : 'as flames (f)';
	control('out').disabled = !zoomed;
}

/**
 * Draws what depends on members of the state that have changed; without changes, all but what only
 * begin() fills: the lists to choose from and the suspects. The graph is drawn each time.
 * @param {Partial<ShownState>} [changes]
 */
function show(changes) {
	/** @param {(keyof State)[]} members */
	const has_any = (...members) => !changes || members.some(member => member in changes);
	const is_compared_anew = state.compared !== view.drawn_compared;
	take_sums();
	set_controls();
	if (has_any('search', 'snapshot', 'metric', 'is_whole', 'part')) {
		find_names();
	}
	if (has_any('snapshot', 'compared', 'part') || is_compared_anew) {
		draw_course();
		fill_growth();
	}
	draw_graph();
	tell_node(state.zoomed);
	if (has_any('snapshot', 'compared', 'search', 'order', 'name', 'part') || is_compared_anew) {
		fill_functions();
	}
	if (has_any('snapshot', 'part')) {
		fill_stacks();
		fill_others();
	}
	view.drawn_compared = state.compared;
}

/** Draws the canvases again, after a change of the window and for the printer. */
function draw_again() {
	if (view.is_begun) {
		draw_course();
		draw_graph();
	}
}

/** From a flame graph to icicles, or back. */
function turn_graph() {
	change({ direction: state.direction === 'flame' ? 'icicle' : 'flame' });
}

/** The next way to colour the graph. */
function next_colour() {
	const colours = COLOURS.filter(colour => colour !== 'age' || view.ages);
	change({ colour: colours[(colours.indexOf(state.colour) + 1) % colours.length] });
}

/**
 * Chooses the snapshot with stacks before (-1) or after (1) the one that is shown; nothing if there
 * is none.
 * @param {number} step
 */
function step_snapshot(step) {
	const { full } = view.model, to = full[full.indexOf(state.snapshot) + step];
	if (to !== undefined) {
		change({ snapshot: to });
	}
}

/** Ends the search; if there is none, zooms out to the caller of the zoomed node. */
function step_out() {
	if (state.search) {
		change({ search: '' });
	} else if (state.zoomed) {
		view.focused = state.zoomed;
		change({ zoomed: view.model.parent[state.zoomed] });
	}
}

/** Moves the focus of the keyboard to the search. */
function go_to_search() {
	control('find').focus();
	control('find').select();
}

/**
 * What keys do wherever the focus is, but in a field.
 * @type {Map<string, () => void>}
 */
const KEYS = new Map([
	['/', go_to_search],
	['[', () => step_snapshot(-1)],
	[']', () => step_snapshot(1)],
	['f', turn_graph],
	['c', next_colour],
	['w', () => change({ is_whole: !state.is_whole })],
]);

/**
 * Does what a key says; Escape also in a field.
 * @param {KeyboardEvent} event
 */
function take_key(event) {
	const field = /** @type {HTMLInputElement} */ (event.target), { key } = event;
	const is_typing = /^(INPUT|SELECT|TEXTAREA)$/.test(field.tagName) && field.type !== 'checkbox';
	if (event.ctrlKey || event.metaKey || event.altKey) {
		return;
	}
	if (key === 'Escape') {
		step_out();
		if (is_typing) {
			field.blur();
		}
	} else if (!is_typing) {
		take_letter(event);
	}
}

/**
 * Does what a key means that was not typed into a field.
 * @param {KeyboardEvent} event
 */
function take_letter(event) {
	const { key } = event, act = KEYS.get(key), is_arrow = key.startsWith('Arrow');
	const is_in_graph = document.activeElement === element('flame');
	if (key === '/' || is_arrow && is_in_graph) {
		event.preventDefault();
	}
	if (act) {
		act();
	} else if (is_arrow && is_in_graph) {
		move_focus(key);
	} else if (key === 'Enter' && is_in_graph) {
		change({ zoomed: view.focused });
	}
}

/**
 * Makes an event of a control change the state by the control's value.
 * @param {string} id
 * @param {(value: string) => Partial<ShownState>} changes
 * @param {'onchange' | 'oninput'} event
 */
function listen_to(id, changes, event = 'onchange') {
	control(id)[event] = () => change(changes(control(id).value));
}

/**
 * Sets the events of the graph: a click on a box zooms, a double click chooses its function, the
 * mouse over it tells what it holds.
 */
function listen_to_graph() {
	const graph = element('flame');
	/** @type {Box | undefined} */
	let clicked;
	graph.onclick = event => {
		// the first click of a double one has zoomed: another box may be here now
		if (event.detail > 1) {
			return;
		}
		clicked = box_at(event);
		if (clicked) {
			view.focused = clicked.node;
			change({ zoomed: clicked.node });
		}
	};
	graph.ondblclick = () => {
		if (clicked) {
			change({ name: view.model.name_of[clicked.node] });
		}
	};
	graph.onmousemove = event => {
		const box = box_at(event);
		tell_node(box ? box.node : state.zoomed);
		graph.style.cursor = box ? 'pointer' : '';
	};
	graph.onfocus = draw_graph;
	graph.onblur = draw_graph;
}

/** Sets the events of all controls. */
function listen_to_controls() {
	listen_to('snap', value => ({ snapshot: Number(value) }));
	listen_to('from', value => ({ compared: value === '' ? null : Number(value) }));
	listen_to('metric', value => ({ metric: value_of(value, METRICS, false) }));
	listen_to('thread', value => ({ part: Number(value) }));
	listen_to('colour', value => ({ colour: value_of(value, COLOURS, false) }));
	listen_to('find', search => ({ search }), 'oninput');
	listen_to('whole', () => ({ is_whole: control('whole').checked }));
	control('way').onclick = turn_graph;
	control('out').onclick = () => change({ zoomed: 0 });
	control('more').onclick = () => {
		view.rows += 100;
		fill_functions();
	};
	element('course').onclick = pick_snapshot;
}

/**
 * Sets the events of the page that may come before begin() has shown a process; called once, at
 * the start.
 * @param {(process: number) => void} open  shows another process, or the first one
 */
function listen(open) {
	window.addEventListener('hashchange', () => {
		if (!view.is_begun || process_of_address() !== state.process) {
			open(process_of_address());
			return;
		}
		read_address();
		show();
	});
	['resize', 'beforeprint', 'afterprint'].forEach(event => {
		window.addEventListener(event, draw_again);
	});
	matchMedia('(prefers-color-scheme:dark)').addEventListener('change', () => {
		if (view.is_begun) {
			show();
		}
	});
}

/**
 * Shows a process by its index, whose model must be there, as the address says; kept: what the
 * address does not hold.
 * @param {number} process
 * @param {Pick<View, 'rows' | 'focused' | 'folds'>} kept
 */
function begin(process, kept = { rows: 25, focused: 0, folds: new Map() }) {
	const model = view.models[process];
	if (!view.is_begun) {
		listen_to_controls();
		listen_to_graph();
		document.addEventListener('keydown', take_key);
	}
	Object.assign(view, { is_begun: true, model, data: model.data, hues: [],
		ordered: { key: '', list: [] }, laid: { key: '', boxes: [] } }, kept);
	state.process = process;
	fill_choices();
	view.tabs.forEach((tab, i) => {
		tab.setAttribute('aria-selected', String(i === process));
	});
	document.querySelectorAll('.process').forEach((words, i) => {
		/** @type {HTMLElement} */ (words).hidden = i !== process;
	});
	usual.snapshot = first_shown();
	read_address();
	fill_suspects();
	show();
}

/** Fills the lists to choose from: snapshots with stacks, and the first 1000 threads and labels. */
function fill_choices() {
	const { model, data } = view;
	const snapshots = () => model.full.map(snapshot => {
		const { clock, kind, live } = data.snaps[snapshot];
		return option((clock ? clock.slice(11) + ' ' : '') + kind + ' ' + size_text(live[0]),
			snapshot);
	});
	element('snap').replaceChildren(...snapshots());
	element('from').replaceChildren(option('none', ''), ...snapshots());
	element('s-course').hidden = data.snaps.length < 2;
	element('l-thread').hidden = !data.threads && !data.labels;
	element('thread').replaceChildren(...[{ part: ALL, text: 'all' },
		...model.choices().slice(0, 1000)].map(({ part, text }) => option(text, part)));
}
