// Reads a profile.proto of pprof, as jeprofd serves it under debug/pprof/heap, unpacked from gzip.
// Knows only the fields that the page shows; passes over others. Throws an Error where the bytes
// end too early, a wire type is unknown, a text or a location is named that is not there, or there
// are no values inuse_objects and inuse_space; a mapping or function that is not there is not known
// ("?", ""). It does not check that a field has the wire type of profile.proto. Called by live.js
// (read_profile) and by tests under node. Fields are known by their numbers in profile.proto. A
// cursor is an object whose `at` is the index of the byte that is read next.

/**
 * name: of the function, "" if not known. line: "file:line", or "". module: the name of the object
 * file without its directories, "?" if not known.
 * @typedef {{name: string, line: string, module: string}} ProfileFrame
 */
/**
 * @typedef {object} Sample
 * @property {ProfileFrame[]} frames  from the leaf on
 * @property {number} objects         live, estimated
 * @property {number} bytes           live, estimated
 * @property {number} thread          its number; 0: not told
 * @property {string} thread_name
 * @property {string} label           as the program named it; "": none
 * @property {number | null} age      lower bound of its column of ages (AGE_BOUNDS in model.js), in
 *                                    seconds; null: not told
 */
/**
 * @typedef {object} Profile
 * @property {number | null} time    seconds since 1970; null: not told
 * @property {number} period         mean bytes between two samples; 0: not told
 * @property {{[key: string]: string}} comments  metadata
 * @property {Sample[]} samples
 */
/**
 * Values of fields by the numbers of the fields: numbers of varints, bytes of others. Of a field
 * that comes several times, the last.
 * @typedef {{[field: number]: any}} Message
 */

/**
 * The varint at cursor.at, which moves behind it. Throws if it has more than 10 bytes. It is exact
 * up to 2^53. A negative number is rounded to a multiple of 2048, so -1 is 0; only differences have
 * such numbers, and the page fetches none.
 * @param {Uint8Array} bytes
 * @param {{at: number}} cursor
 */
function read_number(bytes, cursor) {
	let number = 0, unit = 1, byte = 0;
	do {
		if (cursor.at >= bytes.length || unit > 1e20) {
			throw new Error('the profile is cut off');
		}
		byte = bytes[cursor.at++];
		number += (byte & 127) * unit;
		unit *= 128;
	} while (byte & 128);
	// a negative one is told as 2^64 more
	return number >= 2 ** 63 ? number - 2 ** 64 : number;
}

/**
 * Calls take(field, value) for each field of a message; the value of a varint is a number, that of
 * every other field its bytes.
 * @param {Uint8Array} bytes
 * @param {(field: number, value: any) => void} take
 */
function each_field(bytes, take) {
	const cursor = { at: 0 };
	while (cursor.at < bytes.length) {
		const key = read_number(bytes, cursor), field = Math.floor(key / 8);
		if (key % 8 === 0) {
			take(field, read_number(bytes, cursor));
			continue;
		}
		const size = size_of_field(key % 8, bytes, cursor);
		if (size < 0 || size > bytes.length - cursor.at) {
			throw new Error('the profile is cut off');
		}
		cursor.at += size;
		take(field, bytes.subarray(cursor.at - size, cursor.at));
	}
}

/**
 * The size in bytes of a value that is no varint. Of wire type 2 the size is read at the cursor,
 * which moves behind it; it may be negative in damaged bytes.
 * @param {number} kind  the wire type
 * @param {Uint8Array} bytes
 * @param {{at: number}} cursor
 */
function size_of_field(kind, bytes, cursor) {
	switch (kind) {
	case 1:
		return 8;
	case 2:
		return read_number(bytes, cursor);
	case 5:
		return 4;
	default:
		throw new Error('the profile is damaged');
	}
}

/**
 * All fields of a message.
 * @param {Uint8Array} bytes
 */
function read_message(bytes) {
	/** @type {Message} */
	const message = {};
	each_field(bytes, (field, value) => {
		message[field] = value;
	});
	return message;
}

/**
 * The numbers in a value of a repeated field.
 * @param {number | Uint8Array} value  one number, or the bytes of several varints (packed)
 */
function read_numbers(value) {
	if (typeof value === 'number') {
		return [value];
	}
	const numbers = [], cursor = { at: 0 };
	while (cursor.at < value.length) {
		numbers.push(read_number(value, cursor));
	}
	return numbers;
}

/**
 * The metadata in comments, as values by keys; lines of another form are passed over.
 * @param {string[]} lines  KEY=VALUE
 */
function read_comments(lines) {
	/** @type {{[key: string]: string}} */
	const comments = {};
	lines.forEach(line => {
		const at = line.indexOf('=');
		if (at > 0) {
			comments[line.slice(0, at)] = line.slice(at + 1);
		}
	});
	return comments;
}

// Takes the fields of a profile, in whichever order they come. Samples are kept as bytes; they are
// read afterwards, when all that they name is known. The maps are by ids of the profile. texts is
// its string table; time is in nanoseconds since 1970, period in bytes, 0 if not told; objects_at
// and bytes_at are indices in the list of values that each sample has.
class ProfileReader {
	/** @param {Uint8Array} bytes */
	constructor(bytes) {
		/** @type {string[]} */
		this.texts = [];
		/** @type {Message[]} */
		this.types = [];
		/** @type {Uint8Array[]} */
		this.samples = [];
		/** @type {Map<number, Message>} */
		this.mappings = new Map();
		/** @type {Map<number, Message>} */
		this.functions = new Map();
		/** @type {Map<number, {mapping: number, lines: Message[]}>} */
		this.locations = new Map();
		/**
		 * The frames of locations, made by kept_frames().
		 * @type {Map<number, ProfileFrame[]>}
		 */
		this.frames = new Map();
		/**
		 * Indices of texts.
		 * @type {number[]}
		 */
		this.comments = [];
		this.time = 0;
		this.period = 0;
		const decoder = new TextDecoder();
		each_field(bytes, (field, value) => this.take_field(field, value, decoder));
		const names = this.types.map(type => this.text(type[1]));
		this.objects_at = names.indexOf('inuse_objects');
		this.bytes_at = names.indexOf('inuse_space');
		if (this.objects_at < 0 || this.bytes_at < 0) {
			throw new Error('the profile says nothing of live objects');
		}
	}

	/**
	 * Takes one field of the profile.
	 * @param {number} field  by its number in profile.proto
	 * @param {any} value
	 * @param {TextDecoder} decoder
	 */
	take_field(field, value, decoder) {
		switch (field) {
		case 1:
			this.types.push(read_message(value));
			break;
		case 2:
			this.samples.push(value);
			break;
		case 3:
			keep_by_id(this.mappings, read_message(value));
			break;
		case 4:
			this.take_location(value);
			break;
		case 5:
			keep_by_id(this.functions, read_message(value));
			break;
		case 6:
			this.texts.push(decoder.decode(value));
			break;
		case 9:
			this.time = value;
			break;
		case 12:
			this.period = value;
			break;
		case 13:
			this.comments.push(...read_numbers(value));
			break;
		default:
		}
	}

	/**
	 * Keeps a location by its id, which is field 1.
	 * @param {Uint8Array} bytes
	 */
	take_location(bytes) {
		const location = { mapping: 0, lines: /** @type {Message[]} */ ([]) };
		let id = 0;
		each_field(bytes, (field, value) => {
			if (field === 1) {
				id = value;
			} else if (field === 2) {
				location.mapping = value;
			} else if (field === 4) {
				location.lines.push(read_message(value));
			}
		});
		this.locations.set(id, location);
	}

	/**
	 * A text by its index; throws if there is none.
	 * @param {number} index
	 */
	text(index) {
		if (this.texts[index] === undefined) {
			throw new Error('the profile names a text that it does not have');
		}
		return this.texts[index];
	}

	/**
	 * The frames of a location, the innermost first: one for each line (function), or one without a
	 * name if it has no lines. Throws if there is no such location.
	 * @param {number} id
	 * @returns {ProfileFrame[]}
	 */
	frames_of(id) {
		const location = this.locations.get(id);
		if (!location) {
			throw new Error('the profile names a place that it does not have');
		}
		const { 5: file } = this.mappings.get(location.mapping) || {};
		const module = file ? this.text(file).replace(/^.*\//, '') : '?';
		return location.lines.length ? location.lines.map(line => this.frame_of(line, module))
			: [{ name: '', line: '', module }];
	}

	/**
	 * The frame of a line of a location: field 1 is the id of the function, 2 the source line.
	 * @param {Message} line
	 * @param {string} module
	 */
	frame_of({ 1: id, 2: number }, module) {
		const { 2: name, 4: path } = this.functions.get(id) || {};
		const file = path ? this.text(path) : '';
		return { name: name ? this.text(name) : '', line: file && number ? `${file}:${number}` : '',
			module };
	}

	/**
	 * The frames of a location, made once.
	 * @param {number} id
	 */
	kept_frames(id) {
		const frames = this.frames.get(id) || this.frames_of(id);
		this.frames.set(id, frames);
		return frames;
	}

	/**
	 * One sample, of its bytes.
	 * @param {Uint8Array} bytes
	 */
	read_sample(bytes) {
		/** @type {Sample} */
		const sample = { frames: [], objects: 0, bytes: 0, thread: 0, thread_name: '', label: '',
			age: null };
		/** @type {number[]} */
		const values = [];
		each_field(bytes, (field, value) => {
			if (field === 1) {
				read_numbers(value).forEach(id => sample.frames.push(...this.kept_frames(id)));
			} else if (field === 2) {
				values.push(...read_numbers(value));
			} else if (field === 3) {
				this.take_label(sample, read_message(value));
			}
		});
		sample.objects = values[this.objects_at] || 0;
		sample.bytes = values[this.bytes_at] || 0;
		return sample;
	}

	/**
	 * Takes a label of the profile, a key with a text or a number, into the sample. The key "label"
	 * has what the program set as thread.prof.label.
	 * @param {Sample} sample
	 * @param {Message} label
	 */
	take_label(sample, { 1: key = 0, 2: text = 0, 3: number = 0 }) {
		switch (this.text(key)) {
		case 'thread_id':
			sample.thread = number;
			break;
		case 'thread':
			sample.thread_name = this.text(text);
			break;
		case 'age':
			sample.age = number;
			break;
		case 'label':
			sample.label = this.text(text);
			break;
		default:
		}
	}
}

/**
 * Keeps a message by its id.
 * @param {Map<number, Message>} known
 * @param {Message} message  whose field 1 is its id
 */
function keep_by_id(known, message) {
	known.set(message[1], message);
}

/**
 * The profile in these bytes.
 * @param {Uint8Array} bytes
 * @returns {Profile}
 */
function read_profile(bytes) {
	const reader = new ProfileReader(bytes), { time, period } = reader;
	return { time: time ? time / 1e9 : null, period,
		comments: read_comments(reader.comments.map(index => reader.text(index))),
		samples: reader.samples.map(sample => reader.read_sample(sample)) };
}
