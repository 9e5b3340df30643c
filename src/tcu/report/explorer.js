// The MMA explorer: operands in, every step of one dot product out. Arithmetic is TcuUnit's alone.
"use strict";

(() => {
  const { formats, units } = JSON.parse(document.getElementById("catalogue").textContent);
  const form = document.getElementById("explorer-form");
  const answer = document.getElementById("explorer-answer");
  const MAX_TERMS = 16;
  const MAX_CUT = 32;

  const PRESETS = {
    "small addends beside 1 (Fasi et al.)": { c: "1", terms: [["1", "2^-24"], ["1", "2^-24"]] },
    "one bit more: 1 + 2^-25 four times": { c: "1", terms: Array(4).fill(["1", "2^-25"]) },
    "no guard digit: 1 - (1 - 2^-24)": { c: "-0x1.fffffep-1", terms: [["1", "1"]] },
    "not monotonic: raise c to 1": { c: "0x1.fffffep-1", terms: Array(4).fill(["1", "2^-24"]) },
    "exact products": { c: "0", terms: Array(4).fill(["0x1.ffcp-1", "0x1.ffcp-1"]) },
    "cancellation: 1024 + 2^-14 - 1024": { c: "0", terms: [["32", "32"], ["1", "2^-14"], ["-32", "32"]] },
    "more than one block": { c: "1", terms: Array.from({ length: 9 }, (_, k) => ["1", k === 8 ? "-1" : "2^-24"]) },
    "inf · 0": { c: "1", terms: [["inf", "0"]] },
  };

  // One scale for A and one for B: no scale has fewer products than the form takes.
  const state = { unit: "V100", row: 0, scales: ["1", "1"], ...structuredClone(Object.values(PRESETS)[0]) };

  // Small helpers for elements and numbers

  function make(name, attributes = {}, ...content) {
    const node = Object.assign(document.createElement(name), attributes);
    node.append(...content);
    return node;
  }

  const rowsOf = (unit) => units[unit].instructions.filter((row) => row.kind !== "ExactInteger");
  const resolved = (row) => ({ ...row, x: formats[row.x], y: formats[row.y], output: formats[row.output],
    scale: row.scale === null ? null : formats[row.scale] });
  const inputs = (row) => (row.x === row.y ? row.x : `${row.x}·${row.y}`);
  const scaled = (row) => (row.scale ? `, a ${row.scale} for ${row.perScale}` : "");
  const signature = (row) => `${row.name} ${inputs(row)} → ${row.output}, k = ${row.k}${scaled(row)}`;
  const current = () => resolved(rowsOf(state.unit)[state.row]);

  const hex = (code, f) => `0x${code.toString(16).padStart(Math.ceil(f.bits / 4), "0")}`;

  function scientific(n) {
    const shift = Math.max(0, TcuUnit.bitLength(n.significand) - 60);
    const value = Number(n.significand >> BigInt(shift)) * 2 ** Math.max(-1000, n.exponent + shift);
    return String(Number((n.negative ? -value : value).toPrecision(12)));
  }

  function show(n) {
    if (n === null) return "–";
    if (n.kind === "nan") return "NaN";
    const sign = n.negative ? "-" : "";
    if (n.kind === "inf") return `${sign}inf`;
    if (n.significand === 0n) return `${sign}0`;
    let [odd, exponent] = [n.significand, n.exponent];
    while ((odd & 1n) === 0n) [odd, exponent] = [odd >> 1n, exponent + 1];
    if (odd === 1n && Math.abs(exponent) > 6) return `${sign}2^${exponent}`;
    if (odd < 64n && exponent < -6) return `${sign}${odd}·2^${exponent}`;
    if (exponent >= -12 && TcuUnit.bitLength(odd) + exponent < 53) return scientific(n);
    const near = [1n, -1n].map((d) => [odd - d, d]).find(([m]) => m > 0n && (m & (m - 1n)) === 0n);
    if (near) {
      const top = TcuUnit.bitLength(near[0]) - 1 + exponent;
      const head = top === 0 ? "1" : Math.abs(top) <= 6 && top > 0 ? String(2 ** top) : `2^${top}`;
      const plus = (near[1] > 0n) !== n.negative ? "+" : "-";
      return `${sign}${head} ${plus} 2^${exponent}`;
    }
    return `≈ ${scientific(n)}`;
  }

  const showCode = (code, f) => show(TcuUnit.decode(code, f));

  // The number next to a code, upwards or downwards: codes of one sign are in order
  function neighbour(code, f, up) {
    const sign = 1n << BigInt(f.signed ? f.bits - 1 : f.bits);
    const negative = (code & sign) !== 0n;
    const ordered = negative ? -(code & (sign - 1n)) : code;
    const next = ordered + (up ? 1n : -1n);
    const magnitude = next < 0n ? -next : next;
    if (magnitude >= sign || (next < 0n && !f.signed)) return code;
    const found = next < 0n ? sign | magnitude : magnitude;
    return TcuUnit.decode(found, f).kind === "nan" ? code : found;
  }

  function exactText(n) {
    if (n.kind !== "finite") return show(n);
    if (n.significand === 0n) return n.negative ? "-0" : "0";
    let [odd, exponent] = [n.significand, n.exponent];
    while ((odd & 1n) === 0n) [odd, exponent] = [odd >> 1n, exponent + 1];
    return `${n.negative ? "-" : ""}0x${odd.toString(16)}p${exponent}`;
  }

  function codeOf(text, f) {
    const n = TcuUnit.parse(text);
    return n === null ? null : TcuUnit.encode(n, f);
  }

  // The form

  function choice(label, options, value, change) {
    const select = make("select", { ariaLabel: label });
    options.forEach(([key, text]) => select.append(make("option", { value: key, selected: key === value }, text)));
    select.addEventListener("change", () => change(select.value));
    return make("label", {}, `${label} `, select);
  }

  function operand(label, text, f, change) {
    const input = make("input", { value: text, ariaLabel: label, spellcheck: false, autocapitalize: "off" });
    const told = () => {
      input.classList.toggle("wrong", codeOf(input.value, f) === null);
      change(input.value);
    };
    input.addEventListener("input", told);
    const step = (up) => {
      const code = codeOf(input.value, f);
      if (code === null) return;
      const n = TcuUnit.decode(neighbour(code, f, up), f);
      const short = show(n);
      input.value = TcuUnit.parse(short) !== null && codeOf(short, f) === neighbour(code, f, up) ? short : exactText(n);
      told();
    };
    const arrow = (up) => {
      const button = make("button", { type: "button", ariaLabel: `${label} one ${up ? "up" : "down"}` }, up ? "▲" : "▼");
      button.addEventListener("click", () => step(up));
      return button;
    };
    input.classList.toggle("wrong", codeOf(text, f) === null);
    return make("span", { className: "operand" }, input, arrow(true), arrow(false));
  }

  function drawForm() {
    const row = current();
    form.replaceChildren();
    const top = make("div", { className: "row" });
    top.append(
      choice("unit", Object.keys(units).map((name) => [name, name]), state.unit, (name) => {
        const wanted = signature(rowsOf(state.unit)[state.row]).split(",")[0];
        state.unit = name;
        const rows = rowsOf(name);
        state.row = Math.max(0, rows.findIndex((one) => signature(one).split(",")[0] === wanted));
        drawAll();
      }),
      choice("instruction", rowsOf(state.unit).map((one, at) => [String(at), signature(one)]), String(state.row), (at) => {
        state.row = Number(at);
        drawAll();
      }),
      choice("example", [["", "–"], ...Object.keys(PRESETS).map((name) => [name, name])], "", (name) => {
        if (name) Object.assign(state, structuredClone(PRESETS[name]));
        drawAll();
      }),
    );
    form.append(top);
    form.append(make("div", { className: "row" }, make("span", { className: "term" }, "c"),
      operand("c", state.c, row.output, (text) => { state.c = text; drawAnswer(); })));
    if (row.scale) {
      ["A", "B"].forEach((name, at) => form.append(make("div", { className: "row" },
        make("span", { className: "term" }, `scale of ${name}`),
        operand(`scale of ${name}`, state.scales[at], row.scale, (text) => { state.scales[at] = text; drawAnswer(); }))));
    }
    state.terms.forEach((pair, k) => {
      const remove = make("button", { type: "button", ariaLabel: `remove product ${k}` }, "–");
      remove.addEventListener("click", () => { state.terms.splice(k, 1); drawAll(); });
      form.append(make("div", { className: "row" }, make("span", { className: "term" }, `a${k}·b${k}`),
        operand(`a${k}`, pair[0], row.x, (text) => { pair[0] = text; drawAnswer(); }), "·",
        operand(`b${k}`, pair[1], row.y, (text) => { pair[1] = text; drawAnswer(); }), remove));
    });
    const more = make("button", { type: "button", disabled: state.terms.length >= MAX_TERMS }, "+ product");
    more.addEventListener("click", () => { state.terms.push(["1", "1"]); drawAll(); });
    form.append(make("div", { className: "row" }, more));
  }

  // The answer

  function bitsOf(significand, lowest, high, unit, low, cutClass) {
    // The digits from 2^high down to 2^low, a bar after the last kept one.
    const cell = make("span", { className: "bits" });
    const top = TcuUnit.bitLength(significand) - 1 + lowest;
    let text = "";
    let kind = "";
    const flush = () => {
      if (text) cell.append(make("span", { className: kind }, text));
      text = "";
    };
    for (let e = high; e >= low; e -= 1) {
      if (e === unit - 1) {
        flush();
        cell.append(make("span", { className: "bar" }, "│"));
      }
      const at = e - lowest;
      const digit = at >= 0 && (significand >> BigInt(at)) & 1n ? "1" : "0";
      const blank = e < unit && (significand === 0n || e < lowest);
      const now = blank ? "" : e < unit ? (digit === "1" || e <= top ? cutClass : "fill") : e > top ? "fill" : "";
      if (now !== kind) flush();
      kind = now;
      text += blank ? " " : digit;
    }
    flush();
    return cell;
  }

  function drawBlock(block, f, names, part) {
    if (block.common === null) {
      return make("p", {}, block.terms.length
        ? "Every term is zero, so is the sum."
        : "Nothing is aligned: inf or NaN takes part.");
    }
    const terms = block.terms
      .map((t, at) => ({ ...t, name: at === 0 ? names.addend : names.term(t.name) }))
      .filter((t) => t.significand !== 0n || t.cancelled);
    const totalSize = block.total < 0n ? -block.total : block.total;
    const high = Math.max(block.common, TcuUnit.bitLength(totalSize) - 1 + block.unit);
    const lowest = Math.min(block.unit, ...terms.map((t) => {
      let [s, e] = [t.significand, t.lowest];
      if (s === 0n) return block.unit;
      while ((s & 1n) === 0n) [s, e] = [s >> 1n, e + 1];
      return e;
    }));
    const low = Math.max(lowest, block.unit - MAX_CUT);
    const body = make("tbody");
    const line = (name, value, exponent, bits, style = "") => body.append(make("tr", { className: style },
      make("td", { className: "name" }, name), make("td", {}, value), make("td", {}, exponent), make("td", {}, bits)));
    for (const t of terms) {
      line(t.name, show({ kind: "finite", negative: t.negative, significand: t.significand, exponent: t.lowest }),
        String(t.exponent), bitsOf(t.significand, t.lowest, high, block.unit, low, "cut"));
    }
    const sum = { kind: "finite", negative: block.total < 0n, significand: totalSize, exponent: block.unit };
    line("sum", show(sum), "", bitsOf(totalSize, block.unit, high, block.unit, low, "cut"));
    const result = TcuUnit.decode(block.result, f);
    line(names.rounding, show(result), "", result.kind === "finite"
      ? bitsOf(result.significand, result.exponent, high, block.unit, low, "cut") : "overflow", "good");
    const head = make("tr", {}, ...["term", "value", "exp", `bits, from 2^${high} to 2^${low}`]
      .map((text) => make("th", {}, text)));
    const lost = terms.filter((t) => t.lost).map((t) => t.name);
    const told = lost.length ? `Bits of ${lost.join(", ")} are cut.` : "Nothing is cut.";
    return make("div", {},
      make("p", {}, `${part}The largest exponent is ${block.common}, the last kept bit 2^${block.unit}. ${told}`),
      make("div", { className: "table" }, make("table", {}, make("thead", {}, head), body)));
  }

  // Every rounded operation; those of the padding alone are left out.
  function drawChain(steps, count, row) {
    const body = make("tbody");
    steps.flatMap((step) => step.chain).forEach((one) => {
      if (one.products?.length && Math.min(...one.products) >= count) return;
      body.append(make("tr", {}, make("td", { className: "name" }, one.name),
        make("td", {}, one.exact === null ? "–" : show(one.exact)), make("td", {}, one.kept ? show(one.kept) : showCode(one.result, row.output))));
    });
    const how = row.kind === "LateSum" ? "kept" : `rounded (${row.rules.rounding ?? "RNE"})`;
    const head = make("tr", {}, ...["step", "exact", how].map((name) => make("th", {}, name)));
    return make("div", { className: "table" }, make("table", {}, make("thead", {}, head), body));
  }

  function drawAnswer() {
    const row = current();
    const a = state.terms.map(([x]) => codeOf(x, row.x));
    const b = state.terms.map(([, y]) => codeOf(y, row.y));
    const c = codeOf(state.c, row.output);
    const scales = row.scale ? state.scales.map((text) => [codeOf(text, row.scale)]) : [[], []];
    answer.replaceChildren();
    if ([...a, ...b, c, ...scales.flat()].includes(null)) {
      answer.append(make("p", { className: "lost" }, "One of the operands is no number."));
      return;
    }
    const found = TcuUnit.dot(a.length ? a : [0n], b.length ? b : [0n], c, row, scales);
    const several = found.steps.length > 1 || found.steps.some((step) => step.blocks.length > 1);
    found.steps.forEach((step) => step.blocks.forEach((block, at) => {
      const busy = block.terms.slice(1).some((t) => t.significand !== 0n || t.cancelled);
      if ((step.start || at) && !busy && block.result === block.addend) return;
      const first = step.start === 0 && at === 0;
      const names = {
        addend: row.rules.late_c ? "sum so far" : first ? "c" : "sum so far",
        term: (name) => row.kind === "GroupedSum" ? name : `a${step.start + Number(name.slice(2))}·b${step.start + Number(name.slice(2))}`,
        rounding: row.rules.rounding ?? "RZ",
      };
      const part = several ? `Block ${at + 1}${found.steps.length > 1 ? ` of instruction ${step.start / row.k + 1}` : ""}: ` : "";
      answer.append(drawBlock(block, row.output, names, part));
    }));
    if (row.kind === "AlignedSum" && row.rules.late_c) answer.append(make("p", {}, "The blocks start from zero; c comes last, by an IEEE addition."));
    if (found.steps.some((step) => step.chain)) answer.append(drawChain(found.steps, a.length, row));
    const exact = TcuUnit.exactSum(a, b, c, row, scales);
    const nearest = exact === null ? null : TcuUnit.encode(exact, row.output);
    answer.append(make("p", { className: "answer", id: "explorer-result" },
      `d = ${showCode(found.result, row.output)}  (${hex(found.result, row.output)})`));
    if (exact !== null) {
      const same = nearest === found.result;
      answer.append(make("p", { className: same ? "good" : "differs" },
        `Exactly ${show(exact)}; correctly rounded ${showCode(nearest, row.output)} (${hex(nearest, row.output)}): ` +
        (same ? "the same bits." : "not what the unit returns.")));
    }
    drawOthers(a, b, c, row, scales);
  }

  function drawOthers(a, b, c, row, scales) {
    const groups = new Map();
    for (const unit of Object.keys(units)) {
      for (const one of rowsOf(unit)) {
        const full = resolved(one);
        if (full.x !== row.x || full.y !== row.y || full.output !== row.output) continue;
        if (full.scale !== row.scale || full.perScale !== row.perScale) continue;
        const code = TcuUnit.dot(a.length ? a : [0n], b.length ? b : [0n], c, full, scales).result;
        const who = groups.get(code) ?? new Set();
        who.add(rowsOf(unit).filter((r) => r.x === one.x && r.output === one.output).length > 1
          ? `${unit} ${one.name}` : unit);
        groups.set(code, who);
      }
    }
    const body = make("tbody");
    groups.forEach((who, code) => body.append(make("tr", {},
      make("td", { className: "name" }, showCode(code, row.output)), make("td", {}, hex(code, row.output)),
      make("td", { style: "white-space: normal" }, [...who].join(", ")))));
    answer.append(make("p", { className: "dim" }, "The same inputs on every unit that has these formats:"),
      make("div", { className: "table" }, make("table", {}, body)));
  }

  function drawAll() {
    drawForm();
    drawAnswer();
  }

  if (window.self !== window.top) document.body.className = "framed"; // another page has the heading
  drawAll();
})();
