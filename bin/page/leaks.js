// Which stacks keep growing, by the rules of Leaks in jeprof (bin/jeprof.d/leaks.pl); LEAKS are the thresholds of leaks.txt.
// A course is live bytes by snapshot, with the variance of each. judge() gives null, or { grown, error, up, steps, from, to }.
function judge(values, variances) {
	var fine = grouped(values, variances, Math.min(values.length, LEAKS.FINE)), v = fine.v, n = v.length - 1, came = 0, went = 0, up = 0, i, error;
	for (i = 1; i <= n; i++) { if (v[i] > v[i - 1]) { came += v[i] - v[i - 1]; } else { went += v[i - 1] - v[i]; } }
	if (v[n] <= v[0] || went > LEAKS.LOST * came) { return null; }
	error = Math.sqrt(Math.max(fine.w[n] - fine.w[0], 0) + 2 * Math.min(4 * went / came, 1) * fine.w[0]);
	if (v[n] - v[0] < LEAKS.SURE * error) { return null; }
	var coarse = grouped(v, fine.w, wanted_steps(v, fine.w)).v, last = coarse.length - 1;
	for (i = 1; i <= last; i++) { if (coarse[i] > coarse[i - 1]) { up++; } }
	if (up < LEAKS.STEPS * last || !still_grows(coarse) || straightness(coarse) < LEAKS.STRAIGHT) { return null; }
	return { grown: v[n] - v[0], error: error, up: up, steps: last, from: fine.at[0], to: fine.at[n] };
}
// Neighbours taken together: the least of each group, and which it was.
function grouped(values, variances, count) {
	var out = { v: [], w: [], at: [] }, group, i, least;
	for (group = 0; group < count; group++) {
		least = i = Math.floor(group * values.length / count);
		for (; i < Math.floor((group + 1) * values.length / count); i++) { if (values[i] < values[least]) { least = i; } }
		out.v.push(values[least]); out.w.push(variances[least]); out.at.push(least);
	}
	return out;
}
function wanted_steps(v, w) {
	var n = v.length - 1, wanted;
	if (!(w[n] > 0)) { return v.length; }
	wanted = Math.floor(v[n] * (v[n] - v[0]) / w[n] / LEAKS.PER_STEP) + 1;
	return wanted > v.length ? v.length : Math.max(wanted, LEAKS.LEAST);
}
function still_grows(v) {
	var n = v.length - 1, mean = (v[n] - v[0]) / n, third = Math.floor(n / 3 + 0.5) || 1;
	return v[n] - v[n - third] >= LEAKS.STILL * mean * third && v[n] - v[n - 1] >= LEAKS.LAST * mean;
}
function straightness(v) {
	var middle = (v.length - 1) / 2, mean = 0, xx = 0, xy = 0, yy = 0;
	v.forEach(function (x) { mean += x / v.length; });
	v.forEach(function (x, i) { xx += (i - middle) * (i - middle); xy += (i - middle) * (x - mean); yy += (x - mean) * (x - mean); });
	return yy > 0 ? xy * xy / xx / yy : 0;
}
