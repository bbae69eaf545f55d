// What scripts/check-fleet asks of npm's pprof-format and of a headless Chromium.
//   node fleet.mjs pprof FILE         every index of the profile is valid; prints the live bytes
//   node fleet.mjs pages URL PID WORD the pages of jeprofd at URL: the list has the process, its own page gets two profiles by itself
//                                     and shows WORD, a name; nothing is asked of anybody else; prints what the page says
// MODULES: a directory with node_modules
import fs from 'node:fs';
import path from 'node:path';
import zlib from 'node:zlib';
import { createRequire } from 'node:module';

const require = createRequire(path.resolve(process.env.MODULES) + '/');
const [what, ...words] = process.argv.slice(2);

function fail(text) { throw new Error(text); }

function pprof(file) {
	const { Profile } = require('pprof-format');
	const p = Profile.decode(zlib.gunzipSync(fs.readFileSync(file)));
	const strings = p.stringTable.strings;
	const word = (i) => strings[Number(i)] ?? fail('text ' + i);
	const ids = (list, name) => {
		const known = new Set(list.map((x) => Number(x.id)));
		if (known.has(0) || known.size !== list.length) { fail('ids of ' + name); }
		return (id) => known.has(Number(id)) || fail(name + ' ' + id);
	};
	const location = ids(p.location, 'location'), mapping = ids(p.mapping, 'mapping'), func = ids(p.function, 'function');
	if (strings[0] !== '') { fail('the first text is not ""'); }
	p.sampleType.forEach((t) => { word(t.type); word(t.unit); });
	p.function.forEach((f) => { word(f.name); word(f.systemName); word(f.filename); });
	p.mapping.forEach((m) => { word(m.filename); word(m.buildId); });
	p.comment.forEach(word);
	word(p.defaultSampleType);
	p.location.forEach((l) => { if (Number(l.mappingId)) { mapping(l.mappingId); } l.line.forEach((x) => func(x.functionId)); });
	p.sample.forEach((s) => {
		s.locationId.forEach(location);
		s.label.forEach((l) => { word(l.key); word(l.str); });
		if (s.value.length !== p.sampleType.length) { fail('values of a sample'); }
	});
	const at = p.sampleType.findIndex((t) => word(t.type) === 'inuse_space');
	return p.sample.reduce((sum, s) => sum + Number(s.value[at]), 0);
}

async function pages(url, pid, name) {
	const { chromium } = require('playwright-core');
	const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args: ['--no-sandbox'] });
	try {
		const page = await browser.newPage({ viewport: { width: 1200, height: 900 } });
		const errors = [];
		page.on('pageerror', (e) => errors.push(String(e)));
		page.on('request', (r) => { if (!r.url().startsWith(url)) { errors.push('asks ' + r.url()); } });
		await page.goto(url);
		await page.click(`a[href="/p/${pid}/"]`);
		await page.waitForFunction(() => /^2 snapshots/.test(document.getElementById('live-state').textContent), null, { timeout: 60000 });
		if (process.env.PICTURE) { await page.screenshot({ path: process.env.PICTURE }); }
		await page.waitForFunction((n) => document.getElementById('functions').innerText.includes(n), name, { timeout: 10000 });
		if (process.env.PICTURE) { await page.screenshot({ path: process.env.PICTURE }); }
		await page.click('#live-pause');
		const state = await page.textContent('#live-state');
		if (state !== 'paused') { fail('pause: ' + state); }
		if (errors.length) { fail(errors.join('; ')); }
		return (await page.innerText('#functions tr:nth-child(2)')).replace(/\s+/g, ' ');
	} finally {
		await browser.close();
	}
}

console.log(await { pprof, pages }[what](...words));
