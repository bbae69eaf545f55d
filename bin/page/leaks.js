// Which stacks keep growing, by the rules of Leaks in jeprof (bin/jeprof.d/leaks.pl). LEAKS are the
// thresholds, which bin/page/leaks.txt explains; scripts/join-page adds them. Called by series.js
// (judged). A course is the live bytes of a stack by snapshot, estimated, or some of these values.

/**
 * The values that grouped() took from a list, their variances, and their indices in that list.
 * @typedef {{values: number[], variances: number[], places: number[]}} Course
 */
/**
 * Bytes grown and their standard error; how many steps between neighbours of the coarse course (see
 * judged()) go up, of how many; the snapshots of the first and last value of the fine course.
 * @typedef {object} Growth
 * @property {number} grown
 * @property {number} error
 * @property {number} up
 * @property {number} steps
 * @property {number} from
 * @property {number} to
 */

/**
 * How a course of at least LEAKS.LEAST values grows; null if it does not keep growing. The growth
 * and its error are those of a fine course of at most LEAKS.FINE values; the steps are those of a
 * coarse one, made of it, in which a step brings enough samples on average.
 * @param {number[]} values  bytes by snapshot
 * @param {number[]} variances
 * @returns {Growth | null}
 */
function judged(values, variances) {
	const fine = grouped(values, variances, Math.min(values.length, LEAKS.FINE));
	const last = fine.values.length - 1, grown = fine.values[last] - fine.values[0];
	const error = error_of_growth(fine);
	if (error === null || grown < LEAKS.SURE * error) {
		return null;
	}
	const coarse = grouped(fine.values, fine.variances, wanted_points(fine)).values;
	const up = coarse.filter((value, i) => value > coarse[i - 1]).length;
	const steps = coarse.length - 1;
	if (up < LEAKS.STEPS * steps || !still_grows(coarse) || straightness(coarse) < LEAKS.STRAIGHT) {
		return null;
	}
	return { grown, error, up, steps, from: fine.places[0], to: fine.places[last] };
}

/**
 * The standard error of the growth from the first value to the last, in bytes; null if it did not
 * grow, or too much of what came went again (LEAKS.LOST). Samples that stayed count in both ends,
 * so their error cancels out. Where some went, others may have come instead: then the variance of
 * the first value counts in both ends, by four times the share that went; LOST keeps that below 1.
 * @param {Course} course
 */
function error_of_growth({ values, variances }) {
	const last = values.length - 1;
	let came = 0, went = 0;
	for (let i = 1; i <= last; i++) {
		came += Math.max(values[i] - values[i - 1], 0);
		went += Math.max(values[i - 1] - values[i], 0);
	}
	if (values[last] <= values[0] || went > LEAKS.LOST * came) {
		return null;
	}
	return Math.sqrt(Math.max(variances[last] - variances[0], 0)
		+ 8 * went / came * variances[0]);
}

/**
 * The course of the least value (the first of several) of each of so many groups of neighbours; so
 * of values that go up and down it has the floor.
 * @param {number[]} values
 * @param {number[]} variances
 * @param {number} count  of groups, at most as many as values
 * @returns {Course}
 */
function grouped(values, variances, count) {
	/** @type {number[]} */
	const places = [];
	for (let group = 0; group < count; group++) {
		let least = Math.floor(group * values.length / count);
		for (let i = least; i < Math.floor((group + 1) * values.length / count); i++) {
			least = values[i] < values[least] ? i : least;
		}
		places.push(least);
	}
	return { values: places.map(i => values[i]), variances: places.map(i => variances[i]), places };
}

/**
 * How many values a course should be grouped into, so that each step brings LEAKS.PER_STEP samples
 * on average: at least LEAKS.LEAST, at most as many as it has, which is LEAKS.LEAST or more. The
 * last variance by the last value is the bytes of a sample.
 * @param {Course} course
 */
function wanted_points({ values, variances }) {
	const last = values.length - 1;
	if (!(variances[last] > 0)) {
		return values.length;
	}
	const samples = values[last] * (values[last] - values[0]) / variances[last];
	const wanted = Math.floor(samples / LEAKS.PER_STEP) + 1;
	return wanted > values.length ? values.length : Math.max(wanted, LEAKS.LEAST);
}

/**
 * Whether these values grow fast enough in the last third (LEAKS.STILL) and in the last step
 * (LEAKS.LAST), compared with the mean growth of a step.
 * @param {number[]} values
 */
function still_grows(values) {
	const last = values.length - 1, mean = (values[last] - values[0]) / last;
	const third = Math.floor(last / 3 + 0.5);
	return values[last] - values[last - third] >= LEAKS.STILL * mean * third
		&& values[last] - values[last - 1] >= LEAKS.LAST * mean;
}

/**
 * How well a straight line fits these values, which are not all equal: r squared, 0 to 1.
 * @param {number[]} values
 */
function straightness(values) {
	const middle = (values.length - 1) / 2;
	const mean = values.reduce((sum, value) => sum + value / values.length, 0);
	let xx = 0, xy = 0, yy = 0;
	values.forEach((value, i) => {
		xx += (i - middle) * (i - middle);
		xy += (i - middle) * (value - mean);
		yy += (value - mean) * (value - mean);
	});
	return xy * xy / xx / yy;
}
