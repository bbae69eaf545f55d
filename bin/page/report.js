// Last part of the view in a report of jeprof, whose data stand in the page: one script element for
// each process, "data", "data1" and so on (bin/jeprof.d/page.pl). scripts/join-page writes the call
// of start() behind this file.

/**
 * Shows a process by its index; its data are unpacked and its model is made when it is first shown.
 * Unpacking ends later: then the model is kept, and shown unless another process was chosen
 * meanwhile. If it fails, a sentence says why.
 * @param {number} process
 */
function open_process(process) {
	const store = element('data' + (process || '')), text = String(store.textContent);
	/** @param {string} data */
	const take = data => {
		view.models[process] = new Model(JSON.parse(data));
		if (process === process_of_address()) {
			begin(process);
		}
	};
	if (view.models[process]) {
		begin(process);
		return;
	}
	if (store.dataset.form !== 'gz') {
		take(text);
		return;
	}
	// Fails if the text is no base64, not what gzip wrote, or if unpacked() returns null.
	const unpack = async () => /** @type {Response} */ (unpacked(bytes_of(atob(text)))).text();
	unpack().then(take, () => {
		element('told').textContent =
			'The data are damaged, or this browser is too old to unpack them.';
	});
}

/**
 * The bytes of what atob() returned.
 * @param {string} letters  one for each byte
 */
function bytes_of(letters) {
	return new Uint8Array(letters.length).map((_, i) => letters.charCodeAt(i));
}

/**
 * Makes a click on the tab of a process set the address to that process alone, all other settings
 * at their defaults; the change of the address shows it (listen() in state.js). The left and right
 * arrow keys choose a neighbour.
 * @param {HTMLElement} tab
 * @param {number} process
 * @param {HTMLElement[]} tabs
 */
function prepare_tab(tab, process, tabs) {
	tab.onclick = () => {
		location.hash = process ? 'p=' + process : '';
	};
	tab.onkeydown = event => {
		const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key] || 0;
		const to = tabs[process + step];
		if (to && to !== tab) {
			to.focus();
			to.click();
		}
	};
}

/** Shows the process that the address names. */
function start() {
	/** @type {HTMLElement[]} */
	const tabs = Array.from(document.querySelectorAll('#tabs button'));
	tabs.forEach(prepare_tab);
	view.tabs = tabs;
	listen(open_process);
	open_process(process_of_address());
}
