// Last part of the view in jeprofd: fetches the profile of a running process at an interval, or
// once that of a dead one. series.js converts the kept profiles to the data form of a report of
// files (Data in model.js). Above SNAPSHOTS_MAX, every second one of the older half is dropped.
// The selection survives new data: it is stored by names and times, because index numbers change.
// So do the length of the table of functions, the focused box and unfolded stacks.
// follow() is the first call of the page, which scripts/join-page writes behind this file; it reads
// where to fetch, and how often, from the element "data" (bin/agent/page.c).

const SNAPSHOTS_MAX = 60;
// Seconds from the end of a fetch to the next one, if the element "data" does not say it.
const USUAL_SECONDS = 10;
/**
 * The snapshots in the order in which they came; the timer of the next fetch, which the end of a
 * fetch sets if there is no pause. So at no time are there two fetches or two timers.
 * @type {{snapshots: Snapshot[], timer: number, is_fetching: boolean, is_paused: boolean}}
 */
const feed = { snapshots: [], timer: 0, is_fetching: false, is_paused: false };

/**
 * Shows a message.
 * @param {string} text
 */
function say(text) {
	element('live-state').textContent = text;
}

/** Begins to fetch, and makes the buttons work. */
function follow() {
	// there is one process, which fetch_profile() shows
	listen(() => {});
	if (element('data').dataset.interval === '0') {
		// it is dead: its profile does not change
		fetch_profile();
		return;
	}
	control('live-pause').onclick = () => {
		if (feed.is_paused) {
			go_on();
		} else {
			pause();
		}
	};
	document.querySelectorAll('[data-verb]').forEach(button => {
		const { dataset } = /** @type {HTMLElement} */ (button);
		/** @type {HTMLElement} */ (button).onclick = () => send_verb(String(dataset.verb));
	});
	fetch_next();
}

/** Fetches a profile; when that has ended, sets the timer for the next one, at least a second. */
function fetch_next() {
	const seconds = Math.max(Number(element('data').dataset.interval) || USUAL_SECONDS, 1);
	feed.is_fetching = true;
	fetch_profile().then(() => {
		feed.is_fetching = false;
		if (!feed.is_paused) {
			feed.timer = window.setTimeout(fetch_next, seconds * 1000);
		}
	});
}

/** Begins a pause: fetches no more; a fetch that has begun is still shown. */
function pause() {
	feed.is_paused = true;
	window.clearTimeout(feed.timer);
	control('live-pause').textContent = 'go on';
	say('paused');
}

/** Ends a pause; the next fetch is at once, unless one is under way. */
function go_on() {
	feed.is_paused = false;
	control('live-pause').textContent = 'pause';
	say('waits for a profile');
	if (!feed.is_fetching) {
		fetch_next();
	}
}

/**
 * Sends a verb of jeprofd for the process, and shows the text of its answer or the failure.
 * @param {string} verb
 */
function send_verb(verb) {
	if (verb === 'stop') {
		// a scrape would start it again
		pause();
	}
	fetch(verb, { method: 'POST', credentials: 'same-origin' }).then(answer => answer.text())
		.then(say, error => say(error.message));
}

/** Fetches a profile and shows it. Never rejects: a failure is shown as a message. */
async function fetch_profile() {
	try {
		const answer = await fetch(String(element('data').dataset.from),
			{ cache: 'no-store', credentials: 'same-origin' });
		if (!answer.ok) {
			throw new Error((await answer.text()).trim() || 'status ' + answer.status);
		}
		const is_other = add_profile(read_profile(new Uint8Array(await bytes_of_answer(answer))));
		const { length } = feed.snapshots, { clock } = feed.snapshots[length - 1];
		say(`${length} ${length === 1 ? 'snapshot' : 'snapshots'}, the last at ${clock.slice(11)}`
			+ (is_other ? '; of another process than before, with the same pid' : ''));
	} catch (error) {
		say('no new snapshot: ' + /** @type {Error} */ (error).message);
	}
}

/**
 * The bytes of an answer, unpacked: by the browser if the server said "Content-Encoding: gzip",
 * else here if they begin as gzip does. Throws if this browser cannot unpack.
 * @param {Response} answer
 */
async function bytes_of_answer(answer) {
	const bytes = await answer.arrayBuffer();
	const head = new Uint8Array(bytes, 0, Math.min(2, bytes.byteLength));
	if (head[0] !== 0x1f || head[1] !== 0x8b) {
		return bytes;
	}
	const stream = unpacked(bytes);
	if (!stream) {
		throw new Error('this browser is too old to unpack the profile');
	}
	return stream.arrayBuffer();
}

/**
 * Adds a profile to the snapshots and shows them; does nothing if its time is that of the last one.
 * Of another process, or another program after exec, it is the first one: those before it go.
 * @param {Profile} profile
 * @returns {boolean} whether it is of another process than those before
 */
function add_profile(profile) {
	const snapshot = make_snapshot(profile), last = feed.snapshots[feed.snapshots.length - 1];
	// a number that each start of a program draws anew; older libraries tell none
	const is_other = Boolean(last) && (last.meta.instance || '') !== (snapshot.meta.instance || '');
	if (last && !is_other && snapshot.time !== null && last.time === snapshot.time) {
		return false;
	}
	const kept = view.is_begun && !is_other ? selection() : null;
	let snapshots = is_other ? [snapshot] : [...feed.snapshots, snapshot];
	if (snapshots.length > SNAPSHOTS_MAX) {
		snapshots = snapshots.filter((_, i) => i % 2 === 0 || i > SNAPSHOTS_MAX / 2);
	}
	const model = new Model(make_data(snapshots));
	// one that this throws for is not kept: the next one is tried without it
	feed.snapshots = snapshots;
	view.models[0] = model;
	if (kept) {
		select_again(kept, model);
		begin(0, { rows: view.rows, focused: node_at(kept.focused, model), folds: view.folds });
	} else {
		begin(0);
	}
	return is_other;
}

/**
 * What the state and view.focused say by index numbers (State and View in tools.js), by names and
 * times; times as in Snap.
 * @typedef {object} Selection
 * @property {boolean} is_newest       whether the newest snapshot is shown
 * @property {number | null} snapshot  time of the snapshot that is shown
 * @property {boolean} is_compared
 * @property {number | null} compared  time of the snapshot compared with
 * @property {string[]} zoomed         names from the child of the root to the zoomed node
 * @property {string[]} focused        the same to the focused node
 * @property {string} name             of a function; '': none
 * @property {string} part             text of the thread or label that is shown alone, '': all
 */
/**
 * The selection of what is shown now.
 * @returns {Selection}
 */
function selection() {
	const { data, model } = view, { snapshot, compared } = state;
	const part = model.choices().find(choice => choice.part === state.part);
	return {
		is_newest: snapshot === model.full[model.full.length - 1],
		snapshot: data.snaps[snapshot].time,
		is_compared: compared !== null,
		compared: compared === null ? null : data.snaps[compared].time,
		zoomed: path_names(state.zoomed).reverse(),
		focused: path_names(view.focused).reverse(),
		name: state.name ? data.names[state.name] : '',
		part: part ? part.text : '',
	};
}

/**
 * Sets the state, and the address, to a selection, by the indices of a new model. In place of what
 * the model does not have: no function, all parts, the root.
 * @param {Selection} kept
 * @param {Model} model
 */
function select_again(kept, model) {
	const part = model.choices().find(choice => choice.text === kept.part);
	state.snapshot = kept.is_newest ? model.full[model.full.length - 1]
		: nearest_snapshot(kept.snapshot, model);
	state.compared = kept.is_compared ? nearest_snapshot(kept.compared, model) : null;
	state.name = kept.name ? Math.max(model.data.names.indexOf(kept.name), 0) : 0;
	state.part = part ? part.part : ALL;
	state.zoomed = node_at(kept.zoomed, model);
	usual.snapshot = null;
	write_address();
}

/**
 * The index of the snapshot nearest to a time, of those whose stacks are known.
 * @param {number | null} time  as in Snap
 * @param {Model} model
 */
function nearest_snapshot(time, { full, data }) {
	/** @param {number} snapshot */
	const distance = snapshot => Math.abs(Number(data.snaps[snapshot].time) - Number(time));
	return full.reduce((best, snapshot) => distance(snapshot) < distance(best) ? snapshot : best,
		full[full.length - 1]);
}

/**
 * The node of a stack; the root if the model has no such stack.
 * @param {string[]} names  from the child of the root on
 * @param {Model} model
 */
function node_at(names, model) {
	let node = 0;
	for (const name of names) {
		const below = model.children_of(node).find(child =>
			model.data.names[model.name_of[child]] === name);
		if (!below) {
			return 0;
		}
		node = below;
	}
	return node;
}
