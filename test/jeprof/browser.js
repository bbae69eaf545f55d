// In place of a browser, for the tests of the page under node: elements, each made when it is first
// asked for, that hold texts and children, and a pen that draws nothing. What the page shows is the
// textContent of an element. Used by report.t and live_page.t.
const pen = new Proxy({}, { get: (_, member) => member === 'measureText' ? () => ({ width: 6 })
	: () => {} });

globalThis.Node = class {
	constructor() {
		Object.assign(this, { children: [], dataset: {}, style: {}, classList: { add() {} },
			clientWidth: 800 });
	}

	get textContent() {
		return this.children.map(child => child instanceof Node ? child.textContent : child).join('');
	}

	set textContent(text) {
		this.children = [text];
	}

	append(...children) {
		this.children.push(...children);
	}

	replaceChildren(...children) {
		this.children = children;
	}

	addEventListener() {}

	setAttribute() {}

	querySelector() {
		return new Node();
	}

	getContext() {
		return pen;
	}
};

const elements = {};
globalThis.element = id => elements[id] = elements[id] || new Node();
globalThis.window = globalThis;
globalThis.addEventListener = () => {};
globalThis.document = { addEventListener() {}, createElement: () => new Node(),
	getElementById: element, querySelectorAll: () => [] };
globalThis.location = { hash: '' };
globalThis.history = { replaceState(data, title, text) { location.hash = text; } };
globalThis.getComputedStyle = () => ({ getPropertyValue: () => '' });
globalThis.matchMedia = () => ({ addEventListener() {} });
