// Draws the figures one after another, in the reader's colours, and copies tables.
"use strict";

(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const phone = matchMedia("(max-width: 40rem)");

  function layout(figure) {
    const style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue("--ink");
    const line = style.getPropertyValue("--line");
    const axis = (own) => ({ ...own, gridcolor: line, linecolor: line, zerolinecolor: line, automargin: true });
    return {
      height: 330, margin: { l: 55, r: 10, t: 10, b: 50 }, showlegend: false, hovermode: "closest",
      font: { color: ink, family: "system-ui, sans-serif", size: 12 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      xaxis: axis(figure.xaxis), yaxis: axis(figure.yaxis), hoverlabel: { namelength: -1 },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: style.getPropertyValue("--dim"), activecolor: ink },
    };
  }

  // Plotly's legend takes its room from the figure and gives every name that of the longest; this one wraps as text does.
  const marks = {
    circle: "M9 5a4 4 0 1 1 8 0a4 4 0 1 1-8 0z", square: "M9.5 1.5h7v7h-7z", diamond: "M13 0l5 5-5 5-5-5z",
    "triangle-up": "M13 .5l4.5 8h-9z", "triangle-down": "M13 9.5l4.5-8h-9z", cross: "M11.5.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
    x: "M9 2.8L10.8 1 13 3.2 15.2 1 17 2.8 14.8 5 17 7.2 15.2 9 13 6.8 10.8 9 9 7.2 11.2 5z",
    star: "M13 0l1.5 3.4 3.7.3-2.8 2.4.9 3.6L13 7.8 9.7 9.7l.9-3.6L7.8 3.7l3.7-.3z",
  };

  function drawLegend(id) {
    const place = document.getElementById(`${id}-legend`);
    place.replaceChildren(...figures[id].data.map((trace, i) => {
      const entry = document.createElement("button");
      entry.type = "button";
      entry.title = "show or hide this curve";
      const stroke = `stroke="${trace.line.color}" stroke-width="${trace.line.dash === "dot" ? 2 : Math.min(trace.line.width, 6)}"`;
      const dash = trace.line.dash === "dot" ? ' stroke-dasharray="3 3"' : "";
      const mark = trace.marker ? `<path fill="${trace.marker.color}" d="${marks[trace.marker.symbol]}"/>` : "";
      entry.innerHTML = `<svg width="26" height="10" aria-hidden="true"><path ${stroke}${dash} d="M0 5h26"/>${mark}</svg>`;
      entry.append(trace.name);
      entry.setAttribute("aria-pressed", String(trace.visible !== false));
      entry.addEventListener("click", () => {
        trace.visible = trace.visible === false;
        entry.setAttribute("aria-pressed", String(trace.visible));
        Plotly.restyle(id, { visible: trace.visible }, [i]);
      });
      return entry;
    }));
  }

  // The ticks that were chosen suit the whole range: who zooms gets Plotly's own.
  function zoomed(place, change) {
    for (const axis of ["xaxis", "yaxis"]) {
      const mode = change[`${axis}.autorange`] ? "array" : `${axis}.range[0]` in change ? "auto" : "";
      if (mode && figures[place.id][axis].tickvals) Plotly.relayout(place, { [`${axis}.tickmode`]: mode });
    }
  }

  async function draw(id) {
    const place = document.getElementById(id);
    const figure = figures[id];
    await Plotly.react(place, figure.data, layout(figure), {
      responsive: true, displaylogo: false, displayModeBar: matchMedia("(hover: hover)").matches ? "hover" : false });
    drawLegend(id);
    place.removeAllListeners("plotly_relayout");
    place.on("plotly_relayout", (change) => zoomed(place, change));
  }

  // What is folded has no width: it is drawn when it is unfolded.
  const place = (id) => document.getElementById(id);
  const unfolded = () => Object.keys(figures).filter((id) => !place(id).closest("details:not([open])"));
  const told = document.documentElement.dataset;
  told.figures = told.drawn = 0;
  let run = 0;
  async function drawAll(ids = unfolded(), mine = ++run) {
    told.figures = Number(told.figures) + ids.length;
    for (const id of ids) {
      if (mine === run) await draw(id); // else all are drawn again, in another width or other colours
      ++told.drawn;
      await new Promise((done) => setTimeout(done)); // the page stays alive meanwhile
    }
  }

  // Chapters lie open on a wide screen, and are folded on a phone but the one that a link leads to.
  const chapters = [...document.querySelectorAll("details.chapter")];
  function fold() {
    for (const chapter of chapters) chapter.open = !phone.matches || `#${chapter.parentElement.id}` === location.hash;
  }
  function unfoldTarget(hash) {
    const chapter = hash.length > 1 && document.getElementById(hash.slice(1))?.querySelector("details.chapter");
    if (chapter) chapter.open = true;
  }
  for (const chapter of chapters) {
    chapter.addEventListener("toggle", () => {
      if (chapter.open) drawAll(unfolded().filter((id) => chapter.contains(place(id)) && !place(id).data), run);
    });
  }
  phone.addEventListener("change", fold);
  addEventListener("hashchange", () => unfoldTarget(location.hash));
  fold();

  async function copy(text, button) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // A page opened from a file may not write to the clipboard by itself.
      const area = document.body.appendChild(document.createElement("textarea"));
      area.value = text;
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    button.textContent = "copied";
    setTimeout(() => (button.textContent = "copy"), 1500);
  }

  const separated = (table) =>
    [...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent.trim()).join("\t")).join("\n");

  // Contents: beside the page where there is room, else folded above it.
  const contents = document.querySelector("nav details");
  const roomy = matchMedia("(min-width: 75rem)");
  const unfold = () => (contents.open = roomy.matches);
  roomy.addEventListener("change", unfold);
  unfold();
  const seen = new Set();
  const spy = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) seen[isIntersecting ? "add" : "delete"](target);
    const first = [...document.querySelectorAll("main > section")].find((section) => seen.has(section));
    contents.querySelectorAll("a").forEach((link) =>
      link.classList.toggle("here", first !== undefined && link.hash === `#${first.id}`));
  });
  document.querySelectorAll("main > section").forEach((section) => spy.observe(section));

  document.addEventListener("click", (event) => {
    const button = event.target;
    if (button.closest("nav a") && !roomy.matches) contents.open = false;
    const link = button.closest("a[href^='#']");
    if (link) unfoldTarget(link.hash);
    if (button.className === "copy") copy(separated(button.parentElement.querySelector("table")), button);
    if (button.className === "copy-text") copy(button.parentElement.querySelector("code").textContent, button);
  });
  dark.addEventListener("change", () => drawAll());
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) drawAll(); // a phone changes its height while it scrolls
    width = innerWidth;
  });
  drawAll();
})();
