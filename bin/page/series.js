// Makes the data of the page (Data and Snap in model.js) from profiles that were fetched.
// make_snapshot() makes a snapshot of one profile, its stacks summed by names and thread;
// make_data() makes Data of all snapshots. The counts of a profile are estimates. Of records and
// labels Data has the counts as they were sampled, so that Model can tell their errors; its other
// counts stay estimates. Of a site whose objects have B bytes on average, the share
// 1 - exp(-B / interval) was sampled. scripts/join-page makes the regular expressions WRAPPER
// (functions that only hand memory on) of wrappers.txt and START_NAME of starts.txt, and the
// thresholds LEAKS of leaks.txt. Called by live.js and by tests under node.

/**
 * A ProfileFrame (pprof.js) with a title: its name, or its module in brackets.
 * @typedef {{title: string, is_named: boolean, line: string, module: string}} Frame
 */
/**
 * What one stack of one thread holds. objects, bytes and those of labels are estimates until
 * take_back_estimate() makes of them what was sampled; ages stay estimates.
 * @typedef {object} Site
 * @property {Frame[]} frames  from the leaf on
 * @property {number} thread   its number
 * @property {number} objects
 * @property {number} bytes
 * @property {Map<string, {objects: number, bytes: number}>} labels  what each label has of it
 * @property {Float64Array | null} ages  bytes by column, estimates; null: no ages are told
 */
/**
 * One profile. The key of a site is made of the titles of its frames and its thread; the other
 * members are as in Snap.
 * @typedef {object} Snapshot
 * @property {Map<string, Site>} sites
 * @property {[number, string, number, number][]} threads  the one with the most bytes first
 * @property {number[]} live         bytes, objects, estimated
 * @property {number} rate
 * @property {number | null} time    see steady_time()
 * @property {string} clock
 * @property {{[key: string]: string}} meta
 */
/**
 * A record of Data: all sites with the same key, at most one in each snapshot.
 * @typedef {object} DataRecord
 * @property {string} key
 * @property {Site} site      the first with this key
 * @property {number[]} path  indices of names, from the child of the root to the leaf
 * @property {number} at      its index among the records
 * @property {number} node    of its leaf
 * @property {number} folded  see count_folded()
 */

/**
 * A profile as a snapshot.
 * @param {Profile} profile
 * @returns {Snapshot}
 */
function make_snapshot(profile) {
	const rate = profile.period > 1 ? profile.period : 0;
	/** @type {Map<string, Site>} */
	const sites = new Map();
	/** @type {Map<number, [number, string, number, number]>} */
	const threads = new Map();
	const live = [0, 0];
	profile.samples.forEach(sample => {
		add_sample(site_of(sites, sample), sample);
		const thread = thread_of(threads, sample);
		thread[2] += sample.bytes;
		thread[3] += sample.objects;
		live[0] += sample.bytes;
		live[1] += sample.objects;
	});
	sites.forEach(site => take_back_estimate(site, rate));
	return { sites, live, rate, time: steady_time(profile), meta: profile.comments,
		threads: [...threads.values()].sort((a, b) => b[2] - a[2] || a[0] - b[0]),
		clock: profile.time === null ? '' : clock_text(new Date(profile.time * 1000)) };
}

/**
 * The site of a sample; the first sample makes an empty one.
 * @param {Map<string, Site>} sites
 * @param {Sample} sample
 */
function site_of(sites, { frames: told, thread }) {
	const frames = told.map(titled), key = [...frames.map(f => f.title), thread].join('\n');
	const site = sites.get(key) || { frames, thread, objects: 0, bytes: 0, labels: new Map(),
		ages: null };
	sites.set(key, site);
	return site;
}

/**
 * The frame of a profile with its title. To a frame whose name is not known jeprof gives the name
 * MODULE+0xOFFSET, jeprofd the name ''.
 * @param {ProfileFrame} frame
 * @returns {Frame}
 */
function titled({ name, line, module }) {
	return { title: name || `[${module}]`, line, module,
		is_named: Boolean(name) && !name.startsWith(module + '+0x') };
}

/**
 * The sums of the thread of a sample, an entry of threads of Snap; the first sample makes one of 0.
 * @param {Map<number, [number, string, number, number]>} threads
 * @param {Sample} sample
 */
function thread_of(threads, { thread, thread_name }) {
	const sums = threads.get(thread) || [thread, thread_name, 0, 0];
	threads.set(thread, sums);
	return sums;
}

/**
 * Adds a sample to its site. An age that is no bound of a column counts as 0.
 * @param {Site} site
 * @param {Sample} sample
 */
function add_sample(site, { objects, bytes, label, age }) {
	site.objects += objects;
	site.bytes += bytes;
	if (label) {
		const sums = site.labels.get(label) || { objects: 0, bytes: 0 };
		sums.objects += objects;
		sums.bytes += bytes;
		site.labels.set(label, sums);
	}
	if (age !== null) {
		site.ages = site.ages || zeros(AGES);
		site.ages[age ? AGE_BOUNDS.indexOf(age) + 1 : 0] += bytes;
	}
}

/**
 * The share (0 to 1) of the objects of a site that was sampled. Only their average size,
 * bytes / objects, matters, so both may be estimates, or both as sampled. 1 where counts are exact
 * or there are no objects.
 * @param {number} bytes
 * @param {number} objects
 * @param {number} rate  as in Snap
 */
function sampled_share(bytes, objects, rate) {
	return rate && objects > 0 && bytes > 0 ? 1 - Math.exp(-bytes / objects / rate) : 1;
}

/**
 * Turns the estimates of a site and of its labels into what was sampled, by the share of the site.
 * @param {Site} site
 * @param {number} rate
 */
function take_back_estimate(site, rate) {
	const share = sampled_share(site.bytes, site.objects, rate);
	[site, ...site.labels.values()].forEach(sums => {
		sums.objects *= share;
		sums.bytes *= share;
	});
}

/**
 * Seconds on the monotonic clock, which nobody sets, if the profile tells them, so that times
 * between snapshots follow it; else seconds since 1970. All profiles of a process tell the same
 * one.
 * @param {Profile} profile
 */
function steady_time({ time, comments }) {
	const { monotonic_ms = '' } = comments;
	return /^\d{1,15}$/.test(monotonic_ms) ? Number(monotonic_ms) / 1000 : time;
}

/**
 * A time of the wall clock of this browser, as text.
 * @param {Date} time
 */
function clock_text(time) {
	/** @param {number} x */
	const two = x => String(x).padStart(2, '0');
	const day = [time.getFullYear(), two(time.getMonth() + 1), two(time.getDate())].join('-');
	return day + ' ' + [time.getHours(), time.getMinutes(), time.getSeconds()].map(two).join(':');
}

/**
 * The index of the owner, which is the number of frames before it. As Fold in jeprof: the owner is
 * the first frame that has a name and is no wrapper. The search ends at a start of a program or
 * thread; the start is the owner only if all frames before it have names. If the search finds no
 * owner, it is the first frame without a name, or if all have names, the last frame.
 * @param {Frame[]} frames  from the leaf on
 */
function count_folded(frames) {
	let nameless = -1;
	for (let i = 0; i < frames.length; i++) {
		const { title, is_named } = frames[i], is_start = START_NAME.test(title);
		if (is_named && !WRAPPER.test(title) && (!is_start || nameless < 0)) {
			return i;
		}
		if (is_start) {
			break;
		}
		nameless = !is_named && nameless < 0 ? i : nameless;
	}
	return nameless >= 0 ? nameless : Math.max(frames.length - 1, 0);
}

/**
 * Compares two records for sort(): by their paths, so that the tree is in preorder, then by thread.
 * @param {DataRecord} a
 * @param {DataRecord} b
 */
function by_path(a, b) {
	for (let i = 0; i < a.path.length && i < b.path.length; i++) {
		if (a.path[i] !== b.path[i]) {
			return a.path[i] - b.path[i];
		}
	}
	return a.path.length - b.path.length || a.site.thread - b.site.thread;
}

/**
 * How many numbers two lists have in common at their beginning.
 * @param {number[]} a
 * @param {number[]} b
 */
function count_same(a, b) {
	let same = 0;
	while (same < a.length && same < b.length && a[same] === b[same]) {
		same++;
	}
	return same;
}

/**
 * What changed, in the form of cells of Snap.
 * @param {Counts} before
 * @param {Counts} now
 */
function told_changes(before, now) {
	const cells = [];
	let last = 0;
	for (let i = 0; i < now.bytes.length; i++) {
		const objects = now.objects[i] - before.objects[i], bytes = now.bytes[i] - before.bytes[i];
		if (objects || bytes) {
			cells.push(i - last, objects, bytes);
			last = i;
		}
	}
	return cells;
}

/**
 * Counts of a list: for each of its entries what sums() returns, 0 where that is undefined.
 * @template T
 * @param {T[]} list
 * @param {(of: T) => {objects: number, bytes: number} | undefined} sums
 * @returns {Counts}
 */
function counted(list, sums) {
	const counts = no_counts(list.length);
	list.forEach((of, i) => {
		const { objects = 0, bytes = 0 } = sums(of) || {};
		counts.objects[i] = objects;
		counts.bytes[i] = bytes;
	});
	return counts;
}

/**
 * The number of a key, from 0, in the order in which keys came; a new key gets the next one.
 * @param {Map<string, number>} numbers
 * @param {string} key
 */
function number_in(numbers, key) {
	const number = numbers.has(key) ? Number(numbers.get(key)) : numbers.size;
	numbers.set(key, number);
	return number;
}

// Makes its member data, a Data, of snapshots. The methods are steps of the constructor, which
// calls them in the order in which one needs what another has made: labels() fills the pairs that
// snaps() needs.
class DataMaker {
	/** @param {Snapshot[]} snapshots  in the order of time */
	constructor(snapshots) {
		this.snapshots = snapshots;
		/**
		 * The index in names of Data by the title of a frame; 0 is the name of the root, "all".
		 * @type {Map<string, number>}
		 */
		this.names = new Map();
		// as in Data, like up, name and lines
		/** @type {number[]} */
		this.module_of = [0];
		/** @type {number[]} */
		this.up = [0];
		/** @type {number[]} */
		this.name = [0];
		/**
		 * Pairs of a record and a label.
		 * @type {{record: DataRecord, label: string}[]}
		 */
		this.pairs = [];
		/** @type {{[node: number]: string[]}} */
		this.lines = {};
		this.records = this.gather();
		const modules = this.number_names();
		this.records.forEach(record => {
			record.path = record.site.frames.map(frame => Number(this.names.get(frame.title)));
			record.path.reverse();
		});
		this.records.sort(by_path);
		this.plant();
		/** @type {Data} */
		this.data = { names: ['all', ...this.names.keys()], modules, module_of: this.module_of,
			name: this.name, up: this.up, lines: this.lines, records: this.told_records(),
			suspects: this.suspects(), ...this.threads(), ...this.labels(), snaps: this.snaps() };
	}

	/**
	 * A record for each key, without path and node yet.
	 * @returns {DataRecord[]}
	 */
	gather() {
		/** @type {Map<string, Site>} */
		const sites = new Map();
		this.snapshots.forEach(snapshot => snapshot.sites.forEach((site, key) => {
			sites.set(key, sites.get(key) || site);
		}));
		return [...sites].map(([key, site]) => ({ key, site, path: [], at: 0, node: 0,
			folded: count_folded(site.frames) }));
	}

	/** Numbers the titles of all frames, sorted, from 1; sets module_of; returns the modules. */
	number_names() {
		/** @type {Map<string, string>} */
		const module_of = new Map();
		/** @type {Map<string, number>} */
		const modules = new Map();
		this.records.forEach(({ site }) => site.frames.forEach(({ title, module }) => {
			module_of.set(title, module_of.get(title) || module);
		}));
		[...module_of.keys()].sort().forEach((title, i) => {
			this.names.set(title, i + 1);
			this.module_of.push(number_in(modules, String(module_of.get(title))));
		});
		return [...modules.keys()];
	}

	/** Makes up, name and lines of Data of the sorted records; sets node and at of each record. */
	plant() {
		/** @type {number[]} */
		let before = [];
		/** @type {number[]} */
		const nodes = [];
		this.records.forEach((record, at) => {
			nodes.length = count_same(record.path, before);
			record.path.slice(nodes.length).forEach(name => {
				this.up.push(this.name.length - (nodes.length ? nodes[nodes.length - 1] : 0));
				nodes.push(this.name.length);
				this.name.push(name);
			});
			before = record.path;
			record.at = at;
			record.node = nodes.length ? nodes[nodes.length - 1] : 0;
			const lines = record.site.frames.map(frame => frame.line);
			if (lines.some(Boolean)) {
				this.lines[record.node] = lines;
			}
		});
	}

	/** Makes the member records of Data. */
	told_records() {
		/** @type {number[]} */
		const told = [];
		let last = 0;
		this.records.forEach(({ node, folded }) => {
			told.push(node - last, folded);
			last = node;
		});
		return told;
	}

	/**
	 * Makes the members threads and own of Data; neither if there are less than two threads.
	 * @returns {Pick<Data, 'threads' | 'own'>}
	 */
	threads() {
		/** @type {Map<number, number>} */
		const numbers = new Map();
		/** @type {[number, string][]} */
		const threads = [];
		this.snapshots.forEach(snapshot => snapshot.threads.forEach(([thread, name]) => {
			if (!numbers.has(thread)) {
				numbers.set(thread, threads.push([thread, name]) - 1);
			}
		}));
		const own = this.records.map(record => Number(numbers.get(record.site.thread)));
		return threads.length < 2 ? {} : { threads, own };
	}

	/**
	 * Makes the members labels and label_pairs of Data, neither if there are no labels; fills
	 * this.pairs in the order of label_pairs.
	 * @returns {Pick<Data, 'labels' | 'label_pairs'>}
	 */
	labels() {
		/** @type {Map<string, number>} */
		const numbers = new Map();
		/** @type {number[]} */
		const label_pairs = [];
		let last = 0;
		this.records.forEach(record => this.labels_of(record).forEach(label => {
			label_pairs.push(record.at - last, number_in(numbers, label));
			last = record.at;
			this.pairs.push({ record, label });
		}));
		return numbers.size ? { labels: [...numbers.keys()], label_pairs } : {};
	}

	/**
	 * The labels that a record has in any snapshot.
	 * @param {DataRecord} record
	 */
	labels_of({ key }) {
		/** @type {Set<string>} */
		const labels = new Set();
		this.snapshots.forEach(({ sites }) => {
			const site = sites.get(key);
			(site ? [...site.labels.keys()] : []).forEach(label => labels.add(label));
		});
		return labels;
	}

	/**
	 * Makes the member snaps of Data.
	 * @returns {Snap[]}
	 */
	snaps() {
		let before = no_counts(this.records.length), labels_before = no_counts(this.pairs.length);
		return this.snapshots.map(({ sites, time, clock, rate, live, meta, threads }) => {
			const now = counted(this.records, record => sites.get(record.key));
			const labels_now = counted(this.pairs, ({ record, label }) => {
				const site = sites.get(record.key);
				return site && site.labels.get(label);
			});
			const snap = { file: '', pid: '', kind: 'live', time, clock, rate, live, meta, threads,
				cells: told_changes(before, now), ages: this.ages(sites),
				label_parts: told_changes(labels_before, labels_now) };
			before = now;
			labels_before = labels_now;
			return snap;
		});
	}

	/**
	 * Makes the member ages of a Snap; null where no age is told.
	 * @param {Map<string, Site>} sites
	 */
	ages(sites) {
		/** @type {number[]} */
		const told = [];
		let last = 0;
		this.records.forEach(({ key, at }) => {
			const { ages = null } = sites.get(key) || {}, columns = ages ? shares(ages) : [];
			if (columns.length) {
				told.push(at - last, columns.length / 2, ...columns);
				last = at;
			}
		});
		return told.length ? told : null;
	}

	/**
	 * Makes the member suspects of Data, as Leaks in jeprof finds them: of records with the same
	 * owner and callers together; what grew by most bytes first.
	 */
	suspects() {
		if (this.snapshots.length < LEAKS.LEAST) {
			return [];
		}
		/** @type {Suspect[]} */
		const suspects = [];
		this.courses().forEach(({ record, values, variances }) => {
			const last = values.length - 1;
			const growth = values[last] > values[0] ? judged(values, variances) : null;
			if (growth) {
				suspects.push(this.suspect(record, growth, values[last]));
			}
		});
		return suspects.sort((a, b) => b[1] - a[1] || a[0] - b[0]);
	}

	/**
	 * The courses (see leaks.js) of all owners with their callers: estimates of bytes and their
	 * variances by snapshot, and the first record of each.
	 */
	courses() {
		/** @type {Map<string, {record: DataRecord, values: number[], variances: number[]}>} */
		const courses = new Map();
		this.records.forEach(record => {
			const key = record.path.slice(0, record.path.length - record.folded).join(' ');
			const course = courses.get(key) || { record, values: this.snapshots.map(() => 0),
				variances: this.snapshots.map(() => 0) };
			courses.set(key, course);
			this.snapshots.forEach(({ sites, rate }, i) => {
				const { objects = 0, bytes = 0 } = sites.get(record.key) || {};
				const share = sampled_share(bytes, objects, rate);
				course.values[i] += bytes / share;
				course.variances[i] += variance_of(bytes / share, objects, share);
			});
		});
		return courses;
	}

	/**
	 * A record whose course grows as a Suspect; live: bytes in the last snapshot.
	 * @param {DataRecord} record
	 * @param {Growth} growth
	 * @param {number} live
	 * @returns {Suspect}
	 */
	suspect({ node: leaf, folded }, { grown, error, up, steps, from, to }, live) {
		const [before, now] = [this.snapshots[from].time, this.snapshots[to].time];
		const minutes = before === null || now === null ? 0 : (now - before) / 60;
		let node = leaf;
		for (let i = 0; i < folded; i++) {
			node -= this.up[node];
		}
		return [node, grown, minutes > 0 ? grown / minutes : null,
			minutes > 0 ? error / minutes : null, up, steps, live];
	}
}

/**
 * Of each column that has bytes its index and its share in thousandths: as in ages of Snap.
 * @param {Float64Array} ages
 */
function shares(ages) {
	const sum = ages.reduce((all, bytes) => all + bytes, 0);
	/** @type {number[]} */
	const told = [];
	ages.forEach((bytes, column) => {
		if (bytes > 0) {
			told.push(column, 1000 * bytes / sum);
		}
	});
	return told;
}

/**
 * The data of the page, of snapshots in the order of time.
 * @param {Snapshot[]} snapshots
 */
function make_data(snapshots) {
	return new DataMaker(snapshots).data;
}
