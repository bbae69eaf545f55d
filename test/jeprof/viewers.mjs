// Opens exports of jeprof in the viewers that they are for, and prints the sum that each found: npm's pprof-format, the page of npm's
// speedscope and the dh_view.html of valgrind in a headless Chromium, which must fetch nothing but files.
// usage: node viewers.mjs pprof|speedscope|dhat EXPORT      with MODULES, a directory with node_modules
import fs from 'node:fs';
import path from 'node:path';
import zlib from 'node:zlib';
import { createRequire } from 'node:module';

const modules = path.resolve(process.env.MODULES);
const require = createRequire(modules + '/');
const [what, file] = process.argv.slice(2);

function pprof() {
	const { Profile } = require('pprof-format');
	const p = Profile.decode(zlib.gunzipSync(fs.readFileSync(file)));
	const word = (i) => p.stringTable.strings[Number(i)];
	const at = p.sampleType.findIndex((t) => word(t.type) === 'inuse_space');
	if (p.sampleType.map((t) => word(t.type) + '/' + word(t.unit)).join() !== 'alloc_objects/count,alloc_space/bytes,inuse_objects/count,inuse_space/bytes') {
		throw new Error('sample types');
	}
	const known = new Set(p.location.map((l) => Number(l.id)));
	p.sample.forEach((s) => s.locationId.forEach((id) => { if (!known.has(Number(id))) { throw new Error('location ' + id); } }));
	if (!p.mapping.some((m) => /^[0-9a-f]{8,}$/.test(word(m.buildId)))) { throw new Error('no build-id'); }
	if (!p.location.some((l) => l.line.some((x) => Number(x.line) > 0))) { throw new Error('no lines'); }
	return p.sample.reduce((sum, s) => sum + Number(s.value[at]), 0);
}

async function with_page(visit) {
	const { chromium } = require('playwright-core');
	const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args: ['--no-sandbox', '--allow-file-access-from-files'] });
	try {
		const page = await browser.newPage({ viewport: { width: 1200, height: 800 } });
		const errors = [];
		page.on('pageerror', (e) => errors.push(String(e)));
		const found = await visit(page);
		if (errors.length) { throw new Error(errors.join('; ')); }
		return found;
	} finally {
		await browser.close();
	}
}

// Its table of functions (key 3) tells the self size of each, to two digits: they must add up to the weights.
async function speedscope(page) {
	const home = path.join(modules, 'node_modules/speedscope/dist/release');
	const script = path.join(fs.mkdtempSync('/tmp/viewers-'), 'profile.js');
	fs.writeFileSync(script, `speedscope.loadFileFromBase64("export.json", ${JSON.stringify(fs.readFileSync(file).toString('base64'))})`);
	await page.goto(`file://${home}/index.html#localProfilePath=${script}`);
	await page.waitForFunction(() => /live bytes/.test(document.body.innerText), null, { timeout: 60000 });
	fs.rmSync(path.dirname(script), { recursive: true });
	await page.keyboard.press('3');
	await page.waitForFunction(() => /Symbol Name/.test(document.body.innerText), null, { timeout: 60000 });
	if (process.env.PICTURE) { await page.screenshot({ path: process.env.PICTURE }); }
	const text = await page.evaluate(() => document.body.innerText);
	const scale = { B: 1, KB: 1024, MB: 1024 ** 2, GB: 1024 ** 3 };
	const self = [...text.matchAll(/^\t([\d.]+) (B|KB|MB|GB) \(/gm)].map((x) => Number(x[1]) * scale[x[2]]);
	const shown = self.reduce((x, y) => x + y, 0);
	const sum = JSON.parse(fs.readFileSync(file, 'utf8')).profiles[0].weights.reduce((a, b) => a + b, 0);
	if (!(Math.abs(sum - shown) <= self.length * 0.0051 * scale.MB)) { throw new Error('speedscope shows ' + shown + ', the weights are ' + sum); }
	return sum;
}

async function dhat(page) {
	await page.goto(`file://${process.env.DH_VIEW || '/usr/libexec/valgrind/dh_view.html'}`);
	await page.locator('input[type=file]').setInputFiles(file);
	await page.waitForFunction(() => /At t-end/.test(document.body.innerText), null, { timeout: 60000 });
	const text = await page.evaluate(() => document.body.innerText);
	if (process.env.PICTURE) { await page.screenshot({ path: process.env.PICTURE }); }
	return Number(/At t-end:\s*([\d,]+) bytes/.exec(text)[1].replace(/,/g, ''));
}

const sum = what === 'pprof' ? pprof() : await with_page(what === 'speedscope' ? speedscope : dhat);
console.log(String(sum));
