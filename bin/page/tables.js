// The tables: functions, callers and callees, growth, suspects, heaviest stacks, labels, threads,
// figures of the snapshot. Called by show() and begin() of state.js, which say when each changes;
// fill_functions() also by the button for more rows. Cells are those of fill() in tools.js.

// The most rows of the table of labels and of that of threads.
const SHOWN_PARTS = 100;
/** @type {Column} */
const STACK_COLUMN = ['stack, from the owner to its callers', 't'];
/** @type {Column} */
const MARGIN_COLUMN = ['\u00b1 margin', 'opt'];
const SUSPECTS_OF_SERIES = 'What grew in nearly all steps and goes on growing; not what was loaded'
	+ ' once, filled and then stayed, or came and went.';
const SUSPECTS_OF_ONE = 'By the ages of what lives in this one snapshot: bytes of all ages, in'
	+ ' proportion to the time; not what is only old (a table, a full cache) or only young.';

/** The sums of the snapshot compared with, null if none is. */
function sums_before() {
	return state.compared === null ? null : view.model.sums(state.compared);
}

/**
 * The names of all functions whose cum is not 0 now or before, in the order of the state. The list
 * is kept until what it depends on changes.
 * @param {Sums} now
 * @param {Sums | null} before
 */
function ordered_names(now, before) {
	const key = [state.snapshot, state.part, state.compared, state.order].join();
	if (view.ordered.key !== key) {
		const by = state.order === 'growth' ? growth_of_names(now, before) : now[state.order];
		const list = [...view.data.names.keys()].slice(1)
			.filter(name => now.cum[name] || before && before.cum[name]);
		list.sort((a, b) => by[b] - by[a] || now.cum[b] - now.cum[a] || a - b);
		view.ordered = { key, list };
	}
	return view.ordered.list;
}

/**
 * By name, by how many bytes self has grown; without a snapshot compared with, self.
 * @param {Sums} now
 * @param {Sums | null} before
 */
function growth_of_names(now, before) {
	return before ? now.self.map((bytes, name) => bytes - before.self[name]) : now.self;
}

/**
 * A column of the table of functions; a click on its title orders the functions by it.
 * @param {State['order']} order
 * @param {string} title
 * @returns {Column}
 */
function order_column(order, title = order) {
	return [title, '', link(title + (state.order === order ? ' \u25be' : ''), () => {
		change({ order });
	})];
}

/** Fills the table of functions, those that the search found first; and callers and callees. */
function fill_functions() {
	const now = view.model.sums(state.snapshot), before = sums_before(), { hits } = view;
	const names = ordered_names(now, before);
	const list = hits ? [...names.filter(name => hits[name]), ...names.filter(name => !hits[name])]
		: names;
	/** @type {Column[]} */
	const columns = [order_column('self'), ['%', 'opt'], MARGIN_COLUMN,
		order_column('cum', 'cumulative'), ['%', 'opt'], order_column('objects'),
		['mean size', 'opt'], ...view.ages ? [/** @type {Column} */ (['age', 'opt'])] : [],
		...before ? [order_column('growth')] : [], ['function', 't']];
	fill('functions', columns, list.slice(0, view.rows).map(name => ({
		is_hit: Boolean(hits && hits[name]), cells: cells_of_function(name, now, before) })));
	const more = list.length - view.rows;
	control('more').hidden = more <= 0;
	control('more').textContent = `${Math.min(100, more)} of ${more} more functions`;
	fill_neighbours(now);
}

/**
 * The row of a function, by its name. Its shares are of the bytes of the part that is shown.
 * @param {number} name
 * @param {Sums} now
 * @param {Sums | null} before
 * @returns {Cell[]}
 */
function cells_of_function(name, now, before) {
	const self = now.self[name], objects = now.objects[name], all = view.model.live(state.snapshot);
	/** @type {Cell[]} */
	const cells = [size_text(self), percent(self, all),
		self ? margin_text(now.variance[name], now.samples[name]) : '',
		size_text(now.cum[name]), percent(now.cum[name], all),
		objects ? String(Math.trunc(objects)) : '', objects ? size_text(self / objects) : ''];
	if (view.ages) {
		cells.push(age_text(median_age(view.ages.name, AGES * name, view.ages.span)));
	}
	if (before) {
		cells.push(change_cell(self - before.self[name]));
	}
	return [...cells, name_link(name)];
}

/**
 * A change with its sign and colour.
 * @param {number} bytes
 * @returns {Cell}
 */
function change_cell(bytes) {
	return { style: change_class(bytes), text: signed(bytes, size_text) };
}

/**
 * Fills the tables of callers and callees of the chosen function; hides them if none is chosen.
 * @param {Sums} now
 */
function fill_neighbours(now) {
	const { data, model } = view, { name } = state, cum = now.cum[name];
	element('s-one').hidden = !name;
	if (!name) {
		return;
	}
	const all = model.live(state.snapshot), totals = model.totals(state.snapshot, 'bytes', false);
	element('one-name').textContent = data.names[name];
	element('one-sum').textContent = `self ${size_text(now.self[name])} `
		+ `(${percent(now.self[name], all)}), cumulative ${size_text(cum)} `
		+ `(${percent(cum, all)}), in ${data.modules[data.module_of[name]]}`;
	model.around(name, totals).forEach((rows, i) => {
		fill(['callers', 'callees'][i], [['bytes'], ['%'], ['function', 't']],
			rows.map(row => neighbour(row, cum)));
	});
}

/**
 * The row of a caller or callee; the name 0 stands for no caller.
 * @param {{name: number, bytes: number}} row
 * @param {number} cum  bytes of the chosen function
 */
function neighbour({ name, bytes }, cum) {
	return { cells: [size_text(bytes), percent(bytes, cum),
		name ? name_link(name) : make('span', '(none: it is a root)', 'dim')] };
}

/**
 * Whether chance alone may have made this change of a stack: it is less than its margin.
 * @param {Stack} stack
 */
function is_noise(stack) {
	return Math.abs(stack.bytes) < margin_of(stack.variance, stack.samples);
}

/** Fills the table of stacks that changed most since the snapshot compared with, else the first. */
function fill_growth() {
	const { model, data } = view, { snapshot } = state, key = element('growth-key');
	const since = state.compared === null ? model.full[0] : state.compared;
	if (since === snapshot) {
		key.textContent = 'Choose two snapshots.';
		element('growth').replaceChildren();
		return;
	}
	const from = data.snaps[since], to = data.snaps[snapshot];
	const before = model.live(since), now = model.live(snapshot);
	const minutes = from.time === null || to.time === null ? 0 : (to.time - from.time) / 60;
	const most = model.stacks(snapshot, since, false);
	key.textContent = `${from.clock || from.file} \u2192 ${to.clock || to.file}: `
		+ `${size_text(before)} \u2192 ${size_text(now)}, ${signed(now - before, size_text)}`;
	fill('growth', [['change'], MARGIN_COLUMN, ['rate', 'opt'], ['objects', 'opt'], STACK_COLUMN],
		most.list.map(stack => ({ cells: cells_of_growth(stack, minutes) })));
	if (most.count > most.list.length) {
		key.textContent += `; the ${most.list.length} of ${most.count} stacks that changed most:`;
	}
}

/**
 * The row of a changed stack; minutes: between the snapshots, 0 if not known.
 * @param {Stack} stack
 * @param {number} minutes
 * @returns {Cell[]}
 */
function cells_of_growth(stack, minutes) {
	const names = path_names(stack.node).slice(0, 6).join(' < ');
	const rate = minutes > 0 ? signed(stack.bytes / minutes, size_text) + '/min' : '-';
	const style = is_noise(stack) ? 'dim' : change_class(stack.bytes);
	return [{ style, text: signed(stack.bytes, size_text) },
		margin_text(stack.variance, stack.samples), rate, signed(Math.trunc(stack.objects), String),
		names + (is_noise(stack) ? '  (within noise)' : '')];
}

/** Fills the table of suspects; hides it if there are none. */
function fill_suspects() {
	const { suspects } = view.data;
	element('s-suspects').hidden = !suspects.length;
	if (suspects.length) {
		element('suspects-key').textContent = suspects[0][5] ? SUSPECTS_OF_SERIES : SUSPECTS_OF_ONE;
	}
	fill('suspects', [['rate'], MARGIN_COLUMN, ['grown'], [held_title(), 'opt'],
		['steps up', 'opt'], STACK_COLUMN],
		suspects.map(suspect => ({ cells: cells_of_suspect(suspect) })));
}

/**
 * The row of a suspect, whose members are those of Suspect; a click on its function shows it in the
 * last snapshot.
 * @param {Suspect} suspect
 * @returns {Cell[]}
 */
function cells_of_suspect([node, grown, rate, error, up, steps, live]) {
	const { full, name_of } = view.model, names = path_names(node), stack = make('span');
	stack.append(link(names[0], () => {
		change({ snapshot: full[full.length - 1], zoomed: node, name: name_of[node] });
		element('flame').scrollIntoView({ block: 'nearest' });
	}), names.slice(1, 6).map(name => ' < ' + name).join(''));
	return [rate === null ? '-' : signed(rate, size_text) + '/min',
		error === null ? '-' : '\u00b1' + size_text(1.96 * error),
		{ style: 'up', text: signed(grown, size_text) }, size_text(live),
		steps ? `${up}/${steps}` : '-', stack];
}

/** Fills the list of the heaviest stacks of the snapshot, with wrappers of malloc. */
function fill_stacks() {
	element('stacks').replaceChildren(...view.model.stacks(state.snapshot, null, true).list
		.map(folded_stack));
}

/**
 * A stack as an element to unfold; its frames are made when it is first opened. The first two of
 * the list are open, and what a click has unfolded stays so.
 * @param {Stack} stack
 * @param {number} number  index in the list
 */
function folded_stack(stack, number) {
	const made = make('details'), names = path_names(stack.node);
	const all = view.model.live(state.snapshot), lines = view.data.lines[stack.node] || [];
	const margin = stack.variance ? ' ' + margin_text(stack.variance, stack.samples) : '';
	const unfold = () => {
		if (made.open && made.children.length === 1) {
			made.append(list_of_frames(names, lines));
		}
	};
	const summary = make('summary', `${size_text(stack.bytes)}${margin}, `
		+ `${percent(stack.bytes, all)}, ${Math.trunc(stack.objects)} objects: `
		+ names.slice(0, 4).join(' < '));
	const key = names.join('\n'), is_open = view.folds.get(key);
	summary.onclick = () => view.folds.set(key, !made.open);
	made.append(summary);
	made.open = is_open === undefined ? number < 2 : is_open;
	unfold();
	made.ontoggle = unfold;
	return made;
}

/**
 * The frames of a stack, each with its source line if that is known.
 * @param {string[]} names
 * @param {string[]} lines
 */
function list_of_frames(names, lines) {
	const list = make('ol');
	names.forEach((name, i) => {
		const item = make('li', name + ' ');
		if (lines[i]) {
			item.append(make('span', lines[i], 'dim'));
		}
		list.append(item);
	});
	return list;
}

/**
 * The text of a part (see Model) as a link that shows the part alone, or all again if it is shown
 * alone; the plain text if part is -1, which is a thread that the model does not know.
 * @param {number} part
 * @param {string} text
 */
function part_link(part, text) {
	const is_shown = part === state.part;
	return part < 0 ? text : link(text + (is_shown ? ' (shown alone; click for all)' : ''), () => {
		change({ part: is_shown ? ALL : part });
	});
}

/**
 * Fills the table of threads or labels of all memory, whatever part is shown; title is "thread" or
 * "label", count how many there are, of which rows has the first. Hides it if there are none.
 * @param {string} title
 * @param {{part: number, text: string, bytes: number, objects: number}[]} rows
 * @param {number} count
 */
function fill_parts(title, rows, count) {
	const all = view.data.snaps[state.snapshot].live[0];
	/** @type {Row[]} */
	const told = rows.map(({ part, text, bytes, objects }) => ({ cells: [size_text(bytes),
		percent(bytes, all), String(Math.trunc(objects)), part_link(part, text)] }));
	if (count > rows.length) {
		told.push({ cells: ['', '', '', `${count - rows.length} more`] });
	}
	element(`s-${title}s`).hidden = !count;
	fill(title + 's', [['bytes'], ['%'], ['objects'], [title, 't']], told);
}

/** Fills the tables of labels, of threads and of the metadata of the snapshot. */
function fill_others() {
	const { snaps, threads = [], labels } = view.data, snap = snaps[state.snapshot];
	const by_label = labels ? view.model.by_label(state.snapshot) : [];
	fill_parts('label', by_label.slice(0, SHOWN_PARTS), by_label.length);
	fill_parts('thread', snap.threads.slice(0, SHOWN_PARTS)
		.map(([number, name, bytes, objects]) => ({ bytes, objects,
			part: threads.findIndex(thread => thread[0] === number),
			text: number + (name ? ' ' + name : '') })), snap.threads.length);
	const about = [['file', snap.file], ['time', snap.clock], ['reason', snap.kind],
		['pid', snap.pid], ['sampling interval', String(snap.rate)]].filter(row => row[1]);
	const meta = Object.keys(snap.meta).sort().map(key => [key, snap.meta[key]]);
	fill('meta', [['', 't'], ['', 't']], [...about, ...meta].map(cells => ({ cells })), false);
}
