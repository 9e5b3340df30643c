// Draws the figures one after another, in the reader's colours, and copies tables.
"use strict";

(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const colours = ["#2f7ed8", "#f28f43", "#3aa57a", "#c0504d", "#8e63ce", "#a08415", "#1fa3b8", "#d65f9b",
    "#7d8b99", "#6b9e23", "#b5651d", "#5566cc"];

  function layout(figure, width) {
    const style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue("--ink");
    const line = style.getPropertyValue("--line");
    const axis = (own) => ({ ...own, gridcolor: line, linecolor: line, zerolinecolor: line, automargin: true });
    const longest = Math.max(...figure.data.map((trace) => trace.name.length));
    const columns = Math.max(1, Math.floor(width / (longest * 7 + 50)));
    const legend = Math.ceil(figure.data.length / columns) * 20;
    return {
      height: 330 + legend, margin: { l: 55, r: 10, t: 10, b: 60 + legend }, colorway: colours,
      font: { color: ink, family: "system-ui, sans-serif", size: 12 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      xaxis: axis(figure.xaxis), yaxis: axis(figure.yaxis), showlegend: true,
      legend: { orientation: "h", y: 0, yref: "container", yanchor: "bottom", x: 0 }, hovermode: "closest",
      hoverlabel: { namelength: -1 },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: style.getPropertyValue("--dim"), activecolor: ink },
    };
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
    await Plotly.react(place, figure.data, layout(figure, place.clientWidth), {
      responsive: true, displaylogo: false, displayModeBar: matchMedia("(hover: hover)").matches ? "hover" : false });
    place.removeAllListeners("plotly_relayout");
    place.on("plotly_relayout", (change) => zoomed(place, change));
  }

  async function drawAll() {
    let drawn = 0;
    for (const id of Object.keys(figures)) {
      await draw(id);
      document.documentElement.dataset.drawn = ++drawn;
      await new Promise((done) => setTimeout(done)); // the page stays alive meanwhile
    }
  }

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
    if (button.className === "copy") copy(separated(button.parentElement.querySelector("table")), button);
    if (button.className === "copy-text") copy(button.parentElement.querySelector("code").textContent, button);
  });
  dark.addEventListener("change", drawAll);
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) drawAll(); // a phone changes its height while it scrolls
    width = innerWidth;
  });
  document.documentElement.dataset.figures = Object.keys(figures).length;
  drawAll();
})();
