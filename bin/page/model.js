// The model of a report: decodes the data of the page (Data) and adds up; it uses no element of the
// page. Counts as they were sampled become estimates by the rule of Dump::estimate in jeprof,
// rounded to 1/1024 as there, so that they add up to what top says. Data come from jeprof report
// (bin/jeprof.d/report.pl) or from make_data() (series.js). Models are made by report.js, live.js
// and tests under node, and asked by all of the view. A node is one call path from the root. A
// record is the samples of one stack; its owner is the innermost frame that does not only hand
// memory on, as a wrapper of malloc does.
'use strict';

/**
 * The data of a page. A name, module, node, record, thread or label is told by its index, if
 * nothing else is said. A list that tells several numbers of each has them one after the other. A
 * "difference" is an index minus the index in the entry before, in the first entry minus 0.
 * @typedef {object} Data
 * @property {string} [index]               what is counted, inuse_space if missing
 * @property {string[]} names               of functions; name 0, "all", is that of the root
 * @property {string[]} modules             names of the object files
 * @property {number[]} module_of           of each name its module
 * @property {number[]} up                  of each node, in preorder: its index minus that of its
 *                                          parent; 0 for the root, node 0
 * @property {ArrayLike<number>} [name]     of each node its name; if missing, see step and fresh
 * @property {number[]} [step]              of each node but the root: index of its name in the list
 *                                          of names that nodes before it have below the name of its
 *                                          parent; the length of this list: a new name of fresh
 * @property {number[]} [fresh]             the names that such lists get, in the order of nodes
 * @property {number[]} records             of each: difference of the node of its leaf, number of
 *                                          steps up from its leaf to its owner
 * @property {[number, string][]} [threads] number of each in the profile, its name
 * @property {number[]} [own]               thread of each record; -1: it has several, see pairs
 * @property {number[]} [pairs]             of each: difference of the record, a thread that has a
 *                                          part of this record
 * @property {string[]} [labels]
 * @property {number[]} [label_pairs]       as pairs, with a label in place of the thread
 * @property {{[node: number]: string[]}} lines  of a leaf the source lines of its frames, from
 *                                          the leaf on; '': not known
 * @property {Suspect[]} suspects
 * @property {Snap[]} snaps
 */
/**
 * What keeps growing: node of the owner, bytes grown, bytes a minute and the standard error of
 * these (null: not known), steps between snapshots that go up, all steps (0: judged by the ages in
 * one snapshot), live bytes.
 * @typedef {[number, number, number | null, number | null, number, number, number]} Suspect
 */
/**
 * One snapshot.
 * @typedef {object} Snap
 * @property {string} file
 * @property {string} pid
 * @property {number | null} time           seconds since any moment, the same for all
 *                                          snapshots; null: not known
 * @property {string} clock                 the time of the wall clock as a text; '': not known
 * @property {string} kind                  why it was made
 * @property {number} rate                  sampling interval in bytes; 0: counts are exact
 * @property {number[]} live                bytes, objects, estimated
 * @property {{[key: string]: string}} meta  metadata of the profile
 * @property {[number, string, number, number][]} threads  number, name, bytes, objects, estimated
 * @property {number[]} [cells]             of each record whose counts differ from those in the
 *                                          last snapshot before that has cells: difference of the
 *                                          record, by how many the sampled objects and the sampled
 *                                          bytes rose; missing: only live and threads are known
 * @property {number[]} [parts]             as cells, of pairs
 * @property {number[]} [label_parts]       as cells, of label_pairs
 * @property {number[] | null} [ages]       of each record with ages: difference of the record,
 *                                          number of columns, and of each of these its index (see
 *                                          AGE_BOUNDS), thousandths of the bytes of the record
 */
/** Counts as they were sampled, of each record or of each pair.
 * @typedef {{objects: Float64Array, bytes: Float64Array}} Counts */
/** A record, and the index of the thread or label that has a part of it.
 * @typedef {{record: number, index: number}} Pair */
/** Of each record; samples: the objects that were sampled.
 * @typedef {object} Estimates
 * @property {Float64Array} bytes
 * @property {Float64Array} objects
 * @property {Float64Array} variance  of the bytes, in bytes squared
 * @property {Float64Array} samples */
/** Of each name, estimates of the records that it owns; self and cum are bytes, cum those of all
 * records with this name in the path from the root, which is not counted, to the owner.
 * @typedef {object} Sums
 * @property {Float64Array} self
 * @property {Float64Array} cum
 * @property {Float64Array} objects
 * @property {Float64Array} variance
 * @property {Float64Array} samples */
/** Bytes by column of ages, AGES numbers of each node (with what is below it) and of each name (of
 * the records that it owns); span: seconds that the profiler has run, null: not known.
 * @typedef {{node: Float64Array, name: Float64Array, span: number | null}} Ages */
/** Sums of the records that end at a node, as Estimates has them, or how these changed.
 * @typedef {{node: number, bytes: number, objects: number, variance: number, samples: number}}
 * Stack */
/** What is shown.
 * @typedef {'bytes' | 'objects'} Metric */

// A column of ages has the bytes whose age lies in one interval. The upper bounds of the columns
// but the last, in seconds, and how many columns there are: as in bin/jeprof.d/ages.pl.
const AGE_BOUNDS = [1, 4, 16, 60, 240, 960, 3600, 14400, 57600];
const AGES = 10;
// The part (see Model) that is all memory.
const ALL = -1;
// Rows of a table of stacks.
const STACKS = 20;
// The most results that kept() keeps; before it adds one more, it drops all. To show one snapshot
// makes four to eight.
const RESULTS_MAX = 100;
// The share 1 - exp(-ratio) of a ratio below this is taken as the ratio, as 1 - exp would lose its
// digits. A share of a label below this is taken as none.
const NEARLY_NONE = 1e-9;

/**
 * Numbers that are all 0.
 * @param {number} length
 */
function zeros(length) {
	return new Float64Array(length);
}

/**
 * The variance of an estimate of bytes, in bytes squared, from this number of samples, which are
 * this share (0 to 1) of all objects: as in bin/jeprof.d/noise.pl.
 * @param {number} bytes
 * @param {number} samples
 * @param {number} share
 */
function variance_of(bytes, samples, share) {
	return samples > 0 && share < 1 ? bytes * bytes / samples * (1 - share) : 0;
}

/**
 * The margin of a sum of such estimates in bytes, by the sums of their variances and samples: 95 of
 * 100 intervals "estimate +- margin" hold the truth.
 * @param {number} variance
 * @param {number} samples
 */
function margin_of(variance, samples) {
	return variance > 0 && samples > 0 ? 1.96 * Math.sqrt(variance * (samples + 1) / samples) : 0;
}

/**
 * The bounds of a column of ages, in seconds: [from, to]. The column that span lies in ends at
 * span; those that begin later keep their bounds. The last column ends at span if it begins before
 * span, else at four times its beginning.
 * @param {number} column
 * @param {number | null} span  as in Ages
 */
function age_bounds(column, span) {
	const from = column ? AGE_BOUNDS[column - 1] : 0;
	const to = column < AGES - 1 ? AGE_BOUNDS[column] : Math.max(span || 0, 4 * from);
	return [from, span && from < span && to > span ? span : to];
}

/**
 * The age that half of the bytes exceed, in seconds; null if the columns hold no bytes.
 * @param {Float64Array} columns  bytes
 * @param {number} start  index of the first of AGES columns
 * @param {number | null} span
 */
function median_age(columns, start, span) {
	let all = 0, before = 0, bounds = [0, 0];
	for (let i = 0; i < AGES; i++) {
		all += columns[start + i];
	}
	if (!(all > 0)) {
		return null;
	}
	for (let i = 0; i < AGES; i++) {
		const bytes = columns[start + i];
		bounds = age_bounds(i, span);
		if (bytes > 0 && before + bytes >= all / 2) {
			return bounds[0] + (bounds[1] - bounds[0]) * (all / 2 - before) / bytes;
		}
		before += bytes;
	}
	return bounds[1];
}

/**
 * Rounds to 1/1024, as jeprof does.
 * @param {number} x
 */
function rounded(x) {
	return Math.floor(x * 1024 + 0.5) / 1024;
}

/**
 * The name of each node, of step and fresh of Data.
 * @param {Data} data
 */
function decoded_names(data) {
	const { up, step = [], fresh = [] } = data;
	/** @type {number[][]} */
	const followers = [];
	const name_of = new Int32Array(up.length);
	let known = 0;
	for (let i = 1; i < up.length; i++) {
		const above = name_of[i - up[i]];
		const list = followers[above] = followers[above] || [];
		if (step[i - 1] === list.length) {
			list.push(fresh[known++]);
		}
		name_of[i] = list[step[i - 1]];
	}
	return name_of;
}

/**
 * Pairs as objects.
 * @param {number[]} told  pairs or label_pairs of Data
 */
function decoded_pairs(told) {
	/** @type {Pair[]} */
	const pairs = [];
	let record = 0;
	for (let i = 0; i < told.length; i += 2) {
		record += told[i];
		pairs.push({ record, index: told[i + 1] });
	}
	return pairs;
}

/**
 * Counts that are all 0, for so many records or pairs.
 * @param {number} length
 * @returns {Counts}
 */
function no_counts(length) {
	return { objects: zeros(length), bytes: zeros(length) };
}

/**
 * Adds to the counts, in place, what changed since the last snapshot that has cells (cells, parts
 * or label_parts of Snap).
 * @param {Counts} counts
 * @param {number[]} changes
 */
function add_changes(counts, changes) {
	let at = 0;
	for (let i = 0; i < changes.length; i += 3) {
		at += changes[i];
		counts.objects[at] += changes[i + 1];
		counts.bytes[at] += changes[i + 2];
	}
}

/**
 * Estimates that are all 0, for so many records.
 * @param {number} length
 * @returns {Estimates}
 */
function no_estimates(length) {
	return { bytes: zeros(length), objects: zeros(length),
		variance: zeros(length), samples: zeros(length) };
}

/**
 * Adds to a record the estimate from sampled objects and bytes; rate: see Snap.
 * @param {Estimates} sums
 * @param {number} record
 * @param {number} sampled
 * @param {number} sampled_bytes
 * @param {number} rate
 */
function add_estimate(sums, record, sampled, sampled_bytes, rate) {
	let objects = sampled, bytes = sampled_bytes;
	if (sampled && sampled_bytes && rate) {
		const ratio = sampled_bytes / sampled / rate;
		const share = ratio > NEARLY_NONE ? 1 - Math.exp(-ratio) : ratio;
		objects = rounded(sampled / share);
		bytes = rounded(sampled_bytes / share);
		if (objects > sampled) {
			sums.variance[record] += variance_of(bytes, sampled, sampled / objects);
		}
	}
	sums.objects[record] += objects;
	sums.bytes[record] += bytes;
	sums.samples[record] += sampled;
}

/**
 * Adds one record of some estimates to those at an index, or takes it away (sign -1); the variance
 * and the samples are added in both cases.
 * @param {Estimates} sums
 * @param {number} at
 * @param {Estimates} from
 * @param {number} record
 * @param {number} sign
 */
function add_record(sums, at, from, record, sign) {
	sums.bytes[at] += sign * from.bytes[record];
	sums.objects[at] += sign * from.objects[record];
	sums.variance[at] += from.variance[record];
	sums.samples[at] += from.samples[record];
}

/**
 * list: at most STACKS nodes, those with the largest sums of bytes, whatever their sign, the
 * largest first. count: how many nodes have at least half a byte or half an object.
 * @param {Estimates} sums  by index in nodes
 * @param {ArrayLike<number>} nodes
 */
function largest(sums, nodes) {
	/** @type {Stack[]} */
	const best = [];
	let count = 0, least = 0;
	// best is cut to 2 * STACKS each time that it has 4 * STACKS: one sort for many entries.
	const trim = () => {
		best.sort((x, y) => Math.abs(y.bytes) - Math.abs(x.bytes) || x.node - y.node);
		best.length = Math.min(best.length, 2 * STACKS);
		least = best.length < 2 * STACKS ? 0 : Math.abs(best[best.length - 1].bytes);
	};
	for (let i = 0; i < nodes.length; i++) {
		const bytes = Math.abs(sums.bytes[i]);
		if (bytes < 0.5 && Math.abs(sums.objects[i]) < 0.5) {
			continue;
		}
		count++;
		if (best.length >= 2 * STACKS && bytes <= least) {
			continue;
		}
		best.push({ node: nodes[i], bytes: sums.bytes[i], objects: sums.objects[i],
			variance: sums.variance[i], samples: sums.samples[i] });
		if (best.length >= 4 * STACKS) {
			trim();
		}
	}
	trim();
	return { list: best.slice(0, STACKS), count };
}

/**
 * Adds to the bytes of a name.
 * @param {Map<number, number>} bytes
 * @param {number} name
 * @param {number} more
 */
function add_to(bytes, name, more) {
	bytes.set(name, (bytes.get(name) || 0) + more);
}

// Tells sums of all memory, or of a part of it: that of one thread or of one label. A part is a
// number: ALL; the index of a thread; label_base + the index of a label; and after those of all
// labels, label_base + no_label, the memory without a label.
class Model {
	/** @param {Data} data */
	constructor(data) {
		const nodes = data.up.length, records = data.records.length / 2;
		this.data = data;
		this.node_count = nodes;
		this.record_count = records;
		this.part = ALL;
		this.labels = data.labels || [];
		this.label_base = (data.threads || []).length;
		this.no_label = this.labels.length;
		// Of each node: its name; its parent, -1 for the root; 1 if no node above has its name;
		// the index in children, a list of nodes, at which its children begin.
		this.name_of = data.name || decoded_names(data);
		this.parent = new Int32Array(nodes);
		this.is_topmost = new Uint8Array(nodes);
		this.child_start = new Int32Array(nodes + 1);
		this.children = new Int32Array(nodes);
		// Of each record: the node of its leaf, and that of its owner.
		this.leaf = new Int32Array(records);
		this.owner = new Int32Array(records);
		this.pairs = decoded_pairs(data.pairs || []);
		this.label_pairs = decoded_pairs(data.label_pairs || []);
		/**
		 * The indices of the snapshots that have cells; of the others only sums are known.
		 * @type {number[]}
		 */
		this.full = [...data.snaps.keys()].filter(i => data.snaps[i].cells);
		this.counts = this.first_counts();
		/**
		 * What kept() keeps.
		 * @type {Map<string, any>}
		 */
		this.results = new Map();
		this.read_tree();
		this.list_children();
		this.read_records();
	}

	/** Fills parent and is_topmost. */
	read_tree() {
		const { parent, name_of } = this, { up, names } = this.data;
		const depth = new Int32Array(this.node_count), met = new Int32Array(names.length);
		/** @type {number[]} */
		const path = [];
		for (let i = 0; i < this.node_count; i++) {
			parent[i] = i ? i - up[i] : -1;
			depth[i] = i ? depth[parent[i]] + 1 : 0;
			while (path.length > depth[i]) {
				met[Number(path.pop())]--;
			}
			this.is_topmost[i] = met[name_of[i]]++ ? 0 : 1;
			path.push(name_of[i]);
		}
	}

	/** Fills children and child_start. */
	list_children() {
		const { parent, child_start, children } = this;
		for (let i = 1; i < this.node_count; i++) {
			child_start[parent[i] + 1]++;
		}
		for (let i = 0; i < this.node_count; i++) {
			child_start[i + 1] += child_start[i];
		}
		const next = child_start.slice();
		for (let i = 1; i < this.node_count; i++) {
			children[next[parent[i]]++] = i;
		}
	}

	/** Fills leaf and owner. */
	read_records() {
		const { records } = this.data;
		let node = 0;
		for (let i = 0; i < this.record_count; i++) {
			node += records[2 * i];
			this.leaf[i] = node;
			this.owner[i] = node;
			for (let folded = records[2 * i + 1]; folded > 0; folded--) {
				this.owner[i] = this.parent[this.owner[i]];
			}
		}
	}

	/** The counts before the first snapshot: of records, of pairs and of label_pairs. */
	first_counts() {
		return { snapshot: -1, all: no_counts(this.record_count),
			pairs: no_counts(this.pairs.length), labels: no_counts(this.label_pairs.length) };
	}

	/**
	 * The counts of a snapshot of full; they are valid until the next call. One copy is kept, which
	 * goes on from snapshot to snapshot, as copies of all may not fit in memory.
	 * @param {number} snapshot
	 */
	counts_of(snapshot) {
		const counts = this.counts.snapshot > snapshot ? this.first_counts() : this.counts;
		this.full.filter(i => i > counts.snapshot && i <= snapshot).forEach(i => {
			const { cells = [], parts = [], label_parts = [] } = this.data.snaps[i];
			add_changes(counts.all, cells);
			add_changes(counts.pairs, parts);
			add_changes(counts.labels, label_parts);
		});
		counts.snapshot = snapshot;
		this.counts = counts;
		return counts;
	}

	/**
	 * Chooses the part that estimates(), totals(), sums(), stacks(), share(), ages() and live()
	 * tell from now on.
	 * @param {number} part
	 */
	show_only(part) {
		this.part = part;
	}

	/**
	 * The result of count(); if one is kept for the key, this one, and count() is not called.
	 * @template T
	 * @param {(string | number | boolean | null)[]} key
	 * @param {() => T} count
	 * @returns {T}
	 */
	kept(key, count) {
		const text = key.join();
		if (!this.results.has(text)) {
			const result = count();
			if (this.results.size === RESULTS_MAX) {
				this.results.clear();
			}
			this.results.set(text, result);
		}
		return this.results.get(text);
	}

	/**
	 * The estimates of a snapshot of full for each record, of one part.
	 * @param {number} snapshot
	 * @param {number} part
	 */
	estimates(snapshot, part = this.part) {
		return this.kept(['estimates', snapshot, part], () => {
			const label = part - this.label_base;
			return this.labels.length && label >= 0 ? this.estimates_of_label(snapshot, label)
				: this.estimates_of_thread(snapshot, part);
		});
	}

	/**
	 * The estimates of a snapshot for each record, of a thread or of ALL.
	 * @param {number} snapshot
	 * @param {number} thread  or ALL
	 */
	estimates_of_thread(snapshot, thread) {
		const { own = [] } = this.data, { rate } = this.data.snaps[snapshot];
		const sums = no_estimates(this.record_count);
		const { all: { objects, bytes }, pairs: shared } = this.counts_of(snapshot);
		for (let r = 0; r < this.record_count; r++) {
			if (bytes[r] && (thread === ALL || own[r] === thread)) {
				add_estimate(sums, r, objects[r], bytes[r], rate);
			}
		}
		this.pairs.forEach(({ record, index }, i) => {
			if (index === thread && shared.bytes[i]) {
				add_estimate(sums, record, shared.objects[i], shared.bytes[i], rate);
			}
		});
		return sums;
	}

	/**
	 * Calls take() for each record and label that has some of it, with the shares (0 to 1) that the
	 * label has of its sampled objects and bytes, as in bin/jeprof.d/labels.pl.
	 * @param {number} snapshot
	 * @param {(record: number, label: number, objects: number, bytes: number) => void} take
	 */
	each_label(snapshot, take) {
		const { all: counts, labels: told } = this.counts_of(snapshot);
		this.label_pairs.forEach(({ record, index }, i) => {
			const objects = counts.objects[record], bytes = counts.bytes[record];
			if (told.objects[i] || told.bytes[i]) {
				take(record, index, objects ? Math.min(told.objects[i] / objects, 1) : 0,
					bytes ? Math.min(told.bytes[i] / bytes, 1) : 0);
			}
		});
	}

	/**
	 * The estimates of a label for each record: the estimate of the record times the share that the
	 * label has of its samples; for no_label the share that all labels leave.
	 * @param {number} snapshot
	 * @param {number} label
	 */
	estimates_of_label(snapshot, label) {
		const all = this.estimates(snapshot, ALL), sums = no_estimates(this.record_count);
		const has = no_counts(this.record_count), is_rest = label === this.no_label;
		this.each_label(snapshot, (record, of, objects, bytes) => {
			if (is_rest || of === label) {
				has.objects[record] += objects;
				has.bytes[record] += bytes;
			}
		});
		for (let r = 0; r < this.record_count; r++) {
			const objects = is_rest ? 1 - has.objects[r] : has.objects[r];
			const bytes = is_rest ? 1 - has.bytes[r] : has.bytes[r];
			if (objects < NEARLY_NONE && bytes < NEARLY_NONE) {
				continue;
			}
			sums.objects[r] = all.objects[r] * Math.max(objects, 0);
			sums.samples[r] = all.samples[r] * Math.max(objects, 0);
			sums.bytes[r] = all.bytes[r] * Math.max(bytes, 0);
			if (sums.objects[r] > sums.samples[r]) {
				sums.variance[r] = variance_of(sums.bytes[r], sums.samples[r],
					sums.samples[r] / sums.objects[r]);
			}
		}
		return sums;
	}

	/**
	 * Rows of label_parts() with their bytes and objects, estimated, those that have at least half
	 * a byte; the most bytes first.
	 * @param {number} snapshot
	 */
	by_label(snapshot) {
		const all = this.estimates(snapshot, ALL), rest = this.no_label;
		const sums = no_counts(rest + 1);
		for (let r = 0; r < this.record_count; r++) {
			sums.objects[rest] += all.objects[r];
			sums.bytes[rest] += all.bytes[r];
		}
		this.each_label(snapshot, (record, label, objects, bytes) => {
			sums.objects[label] += all.objects[record] * objects;
			sums.objects[rest] -= all.objects[record] * objects;
			sums.bytes[label] += all.bytes[record] * bytes;
			sums.bytes[rest] -= all.bytes[record] * bytes;
		});
		return this.label_parts().map((row, label) => ({ ...row, bytes: sums.bytes[label],
			objects: sums.objects[label] })).filter(row => row.bytes >= 0.5)
			.sort((x, y) => y.bytes - x.bytes || x.part - y.part);
	}

	/** All labels, and last the memory without a label, as parts with their texts. */
	label_parts() {
		return [...this.labels, '(no label)'].map((text, label) => ({ text,
			part: this.label_base + label }));
	}

	/**
	 * The parts that can be shown alone: threads by their numbers, then labels.
	 * @returns {{part: number, text: string}[]}
	 */
	choices() {
		const threads = (this.data.threads || []).map(([number, name], part) => ({ number, part,
			text: number + (name ? ' ' + name : '') }));
		threads.sort((x, y) => x.number - y.number);
		const labels = this.labels.length ? this.label_parts() : [];
		return [...threads, ...labels.map(({ part, text }) => ({ part, text: 'label: ' + text }))];
	}

	/**
	 * Of each record the node at which it ends: its leaf, with wrappers of malloc, if is_whole,
	 * else its owner.
	 * @param {boolean} is_whole
	 */
	ends(is_whole) {
		return is_whole ? this.leaf : this.owner;
	}

	/**
	 * nodes: those at which records end, each once, sorted. places: of each record the index of its
	 * node in nodes.
	 * @param {boolean} is_whole
	 */
	end_nodes(is_whole) {
		return this.kept(['ends', is_whole], () => {
			const ends = this.ends(is_whole), place = new Int32Array(this.node_count);
			const nodes = ends.slice().sort().filter((node, i, all) => !i || node !== all[i - 1]);
			nodes.forEach((node, i) => {
				place[node] = i;
			});
			return { nodes, places: ends.map(node => place[node]) };
		});
	}

	/**
	 * For each node the estimates, added up, of the records that end at it or at a descendant.
	 * @param {number} snapshot
	 * @param {Metric} metric
	 * @param {boolean} is_whole
	 */
	totals(snapshot, metric, is_whole) {
		return this.kept(['totals', snapshot, this.part, metric, is_whole], () => {
			const sums = zeros(this.node_count), ends = this.ends(is_whole);
			this.estimates(snapshot)[metric].forEach((value, record) => {
				sums[ends[record]] += value;
			});
			for (let i = this.node_count - 1; i > 0; i--) {
				sums[this.parent[i]] += sums[i];
			}
			return sums;
		});
	}

	/**
	 * The sums of each name, in the part that is shown.
	 * @param {number} snapshot
	 * @returns {Sums}
	 */
	sums(snapshot) {
		return this.kept(['sums', snapshot, this.part], () => {
			const { names } = this.data, totals = this.totals(snapshot, 'bytes', false);
			const own = no_estimates(names.length), from = this.estimates(snapshot);
			const cum = zeros(names.length);
			for (let r = 0; r < this.record_count; r++) {
				add_record(own, this.name_of[this.owner[r]], from, r, 1);
			}
			for (let i = 1; i < this.node_count; i++) {
				if (this.is_topmost[i]) {
					cum[this.name_of[i]] += totals[i];
				}
			}
			return { self: own.bytes, cum, objects: own.objects, variance: own.variance,
				samples: own.samples };
		});
	}

	/**
	 * The ages of what lives in the part that is shown; null if the snapshot has none.
	 * @param {number} snapshot
	 * @returns {Ages | null}
	 */
	ages(snapshot) {
		const { ages, meta } = this.data.snaps[snapshot];
		return ages ? this.kept(['ages', snapshot, this.part], () => ({
			...this.add_ages(ages, this.estimates(snapshot).bytes),
			span: Number(meta.profiled_ms) / 1000 || null })) : null;
	}

	/**
	 * Sums of ages by node and by name.
	 * @param {number[]} told  ages of Snap
	 * @param {Float64Array} bytes  of each record
	 */
	add_ages(told, bytes) {
		const node = zeros(AGES * this.node_count);
		const name = zeros(AGES * this.data.names.length);
		let record = 0;
		for (let i = 0; i < told.length; i += 2 + 2 * told[i + 1]) {
			record += told[i];
			const owner = this.owner[record];
			for (let k = i + 2; k < i + 2 + 2 * told[i + 1]; k += 2) {
				const share = bytes[record] * told[k + 1] / 1000;
				node[AGES * owner + told[k]] += share;
				name[AGES * this.name_of[owner] + told[k]] += share;
			}
		}
		for (let i = this.node_count - 1; i > 0; i--) {
			for (let k = 0; k < AGES; k++) {
				node[AGES * this.parent[i] + k] += node[AGES * i + k];
			}
		}
		return { node, name };
	}

	/**
	 * Callers and callees of a name, two lists, the most first; name 0 as a caller means that there
	 * is none. A name that calls itself is one of its callees, with the bytes of its inner calls;
	 * their callees are told too, so the callees may add up to more than the name has.
	 * @param {number} name
	 * @param {Float64Array} totals  of each node, in bytes
	 */
	around(name, totals) {
		/** @type {[Map<number, number>, Map<number, number>]} */
		const [callers, callees] = [new Map(), new Map()];
		for (let i = 1; i < this.node_count; i++) {
			if (this.name_of[i] !== name || !totals[i]) {
				continue;
			}
			if (this.is_topmost[i]) {
				add_to(callers, this.name_of[this.parent[i]], totals[i]);
			}
			this.children_of(i).filter(child => totals[child]).forEach(child => {
				add_to(callees, this.name_of[child], totals[child]);
			});
		}
		return [callers, callees].map(sums => [...sums].map(([of, bytes]) => ({ name: of, bytes }))
			.sort((a, b) => b.bytes - a.bytes || a.name - b.name));
	}

	/**
	 * The nodes of the children of a node.
	 * @param {number} node
	 */
	children_of(node) {
		return this.children.subarray(this.child_start[node], this.child_start[node + 1]);
	}

	/**
	 * What largest() returns for the nodes at which records end: of their sums, or if since is not
	 * null, of how these changed since that snapshot.
	 * @param {number} snapshot
	 * @param {number | null} since
	 * @param {boolean} is_whole
	 */
	stacks(snapshot, since, is_whole) {
		return this.kept(['stacks', snapshot, this.part, since, is_whole], () => {
			const { nodes, places } = this.end_nodes(is_whole), sums = no_estimates(nodes.length);
			const now = this.estimates(snapshot);
			const before = since === null ? null : this.estimates(since);
			places.forEach((place, record) => {
				add_record(sums, place, now, record, 1);
				if (before) {
					add_record(sums, place, before, record, -1);
				}
			});
			return largest(sums, nodes);
		});
	}

	/**
	 * The nodes from this one up to the child of the root.
	 * @param {number} node
	 */
	frames(node) {
		const path = [];
		for (let at = node; at > 0; at = this.parent[at]) {
			path.push(at);
		}
		return path;
	}

	/**
	 * The sum of the records that have a name in their path that is hit; each counts once.
	 * @param {number} snapshot
	 * @param {Metric} metric
	 * @param {boolean} is_whole
	 * @param {Uint8Array} hits  of each name: 1 if it is hit
	 */
	share(snapshot, metric, is_whole, hits) {
		const is_on = new Uint8Array(this.node_count), ends = this.ends(is_whole);
		let sum = 0;
		for (let i = 1; i < this.node_count; i++) {
			is_on[i] = is_on[this.parent[i]] || hits[this.name_of[i]];
		}
		this.estimates(snapshot)[metric].forEach((value, record) => {
			sum += is_on[ends[record]] ? value : 0;
		});
		return sum;
	}

	/**
	 * The live bytes of the part that is shown, estimated.
	 * @param {number} snapshot
	 */
	live(snapshot) {
		return this.part === ALL ? this.data.snaps[snapshot].live[0]
			: this.totals(snapshot, 'bytes', false)[0];
	}
}
