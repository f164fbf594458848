// Shows a picture that the kernel drew, its sentences, and a message when there is no picture for a position.

const SVG = "http://www.w3.org/2000/svg";

/** Text smaller than this many pixels is not shrunk any further: the picture scrolls instead. */
const LEGIBLE = 9;

const ELEMENTS = new Set(
  ("svg g a path polygon polyline ellipse circle rect line text tspan textPath title desc " +
    "defs marker pattern clipPath linearGradient radialGradient stop use").split(" "),
);

/** Parses a picture; throws on anything that is not plain SVG: scripts, handlers, foreign content, odd links. */
function parse(source) {
  const svg = new DOMParser().parseFromString(source, "image/svg+xml").documentElement;
  if (svg.localName !== "svg") throw new Error("it is not well-formed SVG");
  for (const node of [svg, ...svg.querySelectorAll("*")]) {
    if (node.namespaceURI !== SVG || !ELEMENTS.has(node.localName)) {
      throw new Error(`it holds the element ${node.localName}`);
    }
    for (const { localName, value } of node.attributes) {
      if (/^on/i.test(localName)) throw new Error(`it holds the handler ${localName}`);
      if (localName === "href" && !/^(#|https?:)/i.test(value)) throw new Error("it holds a link to elsewhere");
    }
  }
  return document.importNode(svg, true);
}

/** Gives a picture its name, and a width between its natural one and the least at which its text is legible. */
function prepare(svg) {
  // The title would be the tooltip of the whole picture: as a label it serves only those who need it.
  const title = svg.querySelector(":scope > title");
  svg.setAttribute("role", "group");
  svg.setAttribute("aria-label", title?.textContent.trim() || "Picture of the program");
  svg.removeAttribute("aria-labelledby");
  title?.remove();

  const units = svg.viewBox.baseVal?.width;
  if (!units) return svg;
  const relative = svg.width.baseVal.unitType === SVGLength.SVG_LENGTHTYPE_PERCENTAGE;
  const natural = relative ? units : svg.width.baseVal.value;
  const sizes = Array.from(svg.querySelectorAll("text"), (text) => parseFloat(text.getAttribute("font-size")));
  const smallest = Math.min(...sizes.filter((size) => size > 0));
  const least = Number.isFinite(smallest) ? Math.min(natural, (units * LEGIBLE) / smallest) : 0;
  svg.style.width = `${natural}px`;
  svg.style.minWidth = `${least}px`;
  return svg;
}

/** ipywidgets leaves the handles of its sliders without a name; gives those beside this picture their label. */
function nameSliders(explorer) {
  for (const handle of explorer.querySelectorAll('[role="slider"]:not([aria-label])')) {
    const label = handle.closest(".jupyter-widgets")?.querySelector(".widget-label")?.textContent.trim();
    if (label) handle.setAttribute("aria-label", label);
  }
}

function element(tag, className, attributes = {}) {
  const made = document.createElement(tag);
  made.className = className;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

/** Makes a list of lines; a line that is indented further than the one before it begins a list below that one. */
function nested(lines) {
  const open = [{ indent: 0, list: document.createElement("ul") }];
  for (const line of lines) {
    const indent = line.search(/\S/);
    while (open.length > 1 && indent < open.at(-1).indent) open.pop();
    const above = open.at(-1).list.lastElementChild;
    if (above && indent > open.at(-1).indent) {
      const list = document.createElement("ul");
      above.append(list);
      open.push({ indent, list });
    }
    const item = document.createElement("li");
    item.textContent = line.trim();
    open.at(-1).list.append(item);
  }
  return open[0].list;
}

function render({ model, el }) {
  const root = element("div", "jaxprviz-viewer");
  const status = element("p", "jaxprviz-message", { role: "status", "aria-live": "polite" });
  const frame = element("div", "jaxprviz-picture");
  const words = element("details", "jaxprviz-words", { open: "" });
  const summary = element("summary", "");
  summary.textContent = "In words";
  root.append(status, frame, words);
  el.append(root);

  // While a reader is at the sliders, picture and message only ever grow: what is below them keeps its place.
  const tallest = new Map();
  const grow = (holder, height) => {
    tallest.set(holder, Math.max(tallest.get(holder) ?? 0, height));
    holder.style.minHeight = `${tallest.get(holder)}px`;
  };
  const measure = () => {
    grow(frame, frame.firstElementChild?.getBoundingClientRect().height ?? 0);
    grow(status, status.textContent ? status.offsetHeight : 0);
    // A part that scrolls must be reachable without a mouse.
    if (frame.scrollWidth > frame.clientWidth) frame.tabIndex = 0;
    else frame.removeAttribute("tabindex");
  };
  const release = () => {
    for (const holder of tallest.keys()) holder.style.minHeight = "";
    tallest.clear();
    measure();
  };
  const left = (event) => {
    if (!event.currentTarget.contains(event.relatedTarget)) release();
  };

  let explorer = null;
  let width = 0;
  const named = new MutationObserver(() => nameSliders(explorer));
  const sized = new ResizeObserver(() => {
    if (root.clientWidth === width) {
      measure();
    } else {
      width = root.clientWidth;
      release();
    }
    // The sliders are not there yet when this is made, but are when it is first laid out, or later.
    const around = explorer ? null : el.closest(".jaxprviz-explorer");
    if (!around) return;
    explorer = around;
    nameSliders(explorer);
    named.observe(explorer, { childList: true, subtree: true });
    explorer.addEventListener("pointerleave", left);
    explorer.addEventListener("focusout", left);
  });
  for (const part of [root, frame, status]) sized.observe(part);

  let refused = "";
  const parts = {
    svg() {
      const source = model.get("svg");
      const left = frame.scrollLeft;
      refused = "";
      for (const old of frame.children) sized.unobserve(old);
      try {
        frame.replaceChildren(...(source ? [prepare(parse(source))] : []));
      } catch (error) {
        frame.replaceChildren();
        refused = `The picture is not shown: ${error.message}.`;
      }
      for (const made of frame.children) sized.observe(made);
      frame.scrollLeft = left;
      parts.message();
    },
    text() {
      const lines = model.get("text").split("\n").filter((line) => line.trim());
      words.replaceChildren(summary, nested(lines));
      words.hidden = lines.length === 0;
    },
    message() {
      const message = [model.get("message"), refused].filter(Boolean).join("\n");
      // A live region speaks when its content changes: the same message is not said twice.
      if (status.textContent !== message) status.textContent = message;
    },
    stale() {
      root.classList.toggle("jaxprviz-stale", model.get("stale"));
    },
  };
  for (const [name, update] of Object.entries(parts)) {
    update();
    model.on(`change:${name}`, update);
  }

  return () => {
    for (const [name, update] of Object.entries(parts)) model.off(`change:${name}`, update);
    sized.disconnect();
    named.disconnect();
    explorer?.removeEventListener("pointerleave", left);
    explorer?.removeEventListener("focusout", left);
  };
}

export default { render };
