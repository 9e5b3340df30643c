// What one matrix instruction computes, in exact integers: model/definition.py once more, for a page.
// A number is {kind, negative, significand, exponent} with BigInt significands, a code is a BigInt.
// tests/test_explorer.py runs these functions beside the library, bit for bit.
"use strict";

const TcuUnit = (() => {
  const one = 1n;
  const power = (n) => one << BigInt(n);
  const bitLength = (n) => (n === 0n ? 0 : n.toString(2).length);
  const zero = (negative = false) => ({ kind: "finite", negative, significand: 0n, exponent: 0 });

  // Formats: {name, bits, exponentBits, fractionBits, bias, leastField, specials, integer, signed}
  const emin = (f) => f.leastField - f.bias;
  const signCode = (f) => (f.signed ? power(f.bits - 1) : 0n);
  const magnitudes = (f) => power(f.bits - (f.signed ? 1 : 0));
  const hasInfinity = (f) => f.specials === "IEEE";
  const maxFinite = (f) =>
    hasInfinity(f)
      ? ((power(f.exponentBits) - one) << BigInt(f.fractionBits)) - one
      : magnitudes(f) - (f.specials === "last" ? 2n : one);
  const infinityCode = (f) => maxFinite(f) + one;
  const nanCode = (f) => magnitudes(f) - (f.specials === "negative zero" ? 0n : one);

  function decode(code, f) {
    if (f.integer) {
      const value = f.signed && code & signCode(f) ? code - power(f.bits) : code;
      return { kind: "finite", negative: value < 0n, significand: value < 0n ? -value : value, exponent: 0 };
    }
    const negative = (code & signCode(f)) !== 0n;
    const magnitude = code & (magnitudes(f) - one);
    const fraction = magnitude & (power(f.fractionBits) - one);
    const field = Number(magnitude >> BigInt(f.fractionBits));
    if (f.specials === "negative zero" && code === nanCode(f)) return { ...zero(negative), kind: "nan" };
    if (magnitude > maxFinite(f)) {
      if (hasInfinity(f) && fraction === 0n) return { kind: "inf", negative, significand: 0n, exponent: 0 };
      return { kind: "nan", negative, significand: fraction << BigInt(52 - f.fractionBits), exponent: 0 };
    }
    const significand = field < f.leastField ? fraction : fraction | power(f.fractionBits);
    return { kind: "finite", negative, significand, exponent: Math.max(field, f.leastField) - f.bias - f.fractionBits };
  }

  function roundShift(magnitude, shift, rounding, negative) {
    if (shift <= 0) return magnitude << BigInt(-shift);
    const quotient = magnitude >> BigInt(shift);
    const remainder = magnitude & (power(shift) - one);
    const half = power(shift - 1);
    let up = false;
    if (rounding === "RNE") up = remainder > half || (remainder === half && (quotient & one) === one);
    else if (rounding === "RO") up = remainder > 0n && (quotient & one) === 0n;
    else if (rounding !== "RZ") up = remainder > 0n && negative === (rounding === "RD");
    return quotient + (up ? one : 0n);
  }

  // null: the format has no NaN
  function encode(number, f, rounding = "RNE", saturate = false) {
    const none = number.kind === "finite" && number.significand === 0n;
    if (!f.signed && number.kind !== "nan" && (none ? f.leastField === 0 : number.negative)) return nanCode(f);
    const sign = number.negative ? signCode(f) : 0n;
    if (number.kind === "nan") {
      if (f.specials === "none") return null;
      if (!hasInfinity(f)) return sign | nanCode(f);
      const payload = number.significand >> BigInt(52 - f.fractionBits);
      return sign | infinityCode(f) | power(f.fractionBits - 1) | payload;
    }
    const largest = saturate || f.specials === "none";
    const overflowed = largest ? maxFinite(f) : hasInfinity(f) ? infinityCode(f) : nanCode(f);
    if (number.kind === "inf") return sign | overflowed;
    const signed = (code) => (code === 0n && f.specials === "negative zero" ? code : sign | code);
    if (none) return signed(0n);
    const leading = bitLength(number.significand) - 1 + number.exponent;
    const exponent = Math.max(leading, emin(f));
    const shift = exponent - f.fractionBits - number.exponent;
    const rounded = roundShift(number.significand, shift, rounding, number.negative);
    let code = (BigInt(exponent - emin(f)) << BigInt(f.fractionBits)) + rounded;
    if (f.leastField === 0) code = code > power(f.fractionBits) ? code - power(f.fractionBits) : 0n;
    return signed(code <= maxFinite(f) ? code : overflowed);
  }

  // Exact sums and products of finite numbers

  function add(x, y) {
    const exponent = Math.min(x.exponent, y.exponent);
    const whole = (n) => (n.negative ? -n.significand : n.significand) << BigInt(n.exponent - exponent);
    const total = whole(x) + whole(y);
    return { kind: "finite", negative: total < 0n, significand: total < 0n ? -total : total, exponent };
  }

  function multiply(x, y) {
    const negative = x.negative !== y.negative;
    if (x.kind === "nan" || y.kind === "nan") return { ...zero(), kind: "nan" };
    if (x.kind === "inf" || y.kind === "inf") {
      const none = [x, y].some((n) => n.kind === "finite" && n.significand === 0n);
      return { ...zero(none ? false : negative), kind: none ? "nan" : "inf" };
    }
    return { kind: "finite", negative, significand: x.significand * y.significand, exponent: x.exponent + y.exponent };
  }

  // The code of a sum in which inf or NaN take part; null where none does. operands: in which a NaN is sought, in order.
  function special(numbers, operands, rules, f) {
    const infinite = numbers.filter((n) => n.kind === "inf");
    const both = infinite.some((n) => n.negative) && infinite.some((n) => !n.negative);
    if (both || numbers.some((n) => n.kind === "nan")) return nanOf(operands, rules, f);
    if (infinite.length === 0) return null;
    return infinityCode(f) | (infinite[0].negative ? signCode(f) : 0n);
  }

  function nanOf(operands, rules, f) {
    const quiet = power(f.fractionBits - 1);
    if (rules.nan_rule === "nvidia" && f.bits !== 64) return nanCode(f);
    if (rules.nan_rule === "arm") return infinityCode(f) | quiet;
    const order = rules.nan_rule === "nvidia" ? [...operands.slice(1), operands[0]] : operands;
    const found = order.find((n) => n.kind === "nan");
    return found ? encode(found, f) : signCode(f) | infinityCode(f) | quiet;
  }

  // Aligned sums

  function flushed(n, f, flush) {
    const subnormal = n.kind === "finite" && n.significand < power(f.fractionBits);
    return flush && subnormal ? { ...n, significand: 0n } : n;
  }

  function input(code, f, rules) {
    return flushed(decode(code, f), f, rules.flush_inputs);
  }

  function zeroOf(code, rules, f) {
    const magnitude = code & (signCode(f) - one);
    const zeroed = magnitude === 0n || (rules.flush_outputs && magnitude < power(f.fractionBits));
    return zeroed ? (rules.signed_zeros ? code & signCode(f) : 0n) : code;
  }

  function round(number, rules, f) {
    const kept = Math.min(f.fractionBits, rules.output_fraction_bits ?? f.fractionBits);
    const narrow = { ...f, bits: f.bits - f.fractionBits + kept, fractionBits: kept };
    const code = encode(number, narrow, rules.rounding, rules.saturate);
    return zeroOf(code << BigInt(f.fractionBits - kept), rules, f);
  }

  function blockSum(pairs, c, x, y, rules, f) {
    const addend = input(c, f, rules);
    const nothing = { terms: [], common: null, unit: null, total: 0n };
    const products = pairs.flatMap(([p, q]) => [p, q]);
    const operands = rules.nan_rule === "c first" ? [addend, ...products] : [...products, addend];
    const code = special([...pairs.map(([p, q]) => multiply(p, q)), addend], operands, rules, f);
    if (code !== null) return { ...nothing, result: code };
    const terms = [{ name: "c", negative: addend.negative, significand: addend.significand,
      lowest: addend.exponent, exponent: addend.exponent + f.fractionBits }];
    for (const [p, q, name] of pairs) {
      const significand = p.significand * q.significand;
      const lowest = p.exponent + q.exponent;
      const exponent = rules.normalized_products
        ? lowest + bitLength(significand) - 1
        : lowest + x.fractionBits + y.fractionBits;
      terms.push({ name, negative: p.negative !== q.negative, significand, lowest, exponent });
    }
    return alignedTerms(terms, rules, f);
  }

  function alignedTerms(terms, rules, f) {
    const nothing = { terms: [], common: null, unit: null, total: 0n };
    const exponents = terms.filter((t) => t.significand !== 0n || t.cancelled).map((t) => t.exponent);
    if (exponents.length === 0) {
      return { ...nothing, terms, result: round(zero(terms.every((t) => t.negative)), rules, f) };
    }
    const common = Math.max(...exponents, rules.exponent_floor ?? -Infinity);
    const unit = common - rules.fraction_bits;
    let total = 0n;
    for (const t of terms) {
      const shift = unit - t.lowest;
      t.aligned = shift >= 0 ? t.significand >> BigInt(shift) : t.significand << BigInt(-shift);
      t.lost = shift > 0 && t.aligned << BigInt(shift) !== t.significand;
      total += t.negative ? -t.aligned : t.aligned;
    }
    if (rules.carry_bits !== null) total = BigInt.asIntN(rules.fraction_bits + 2 + rules.carry_bits, total);
    const negative = total < 0n || terms.every((t) => t.negative && t.aligned === 0n);
    const sum = { kind: "finite", negative, significand: total < 0n ? -total : total, exponent: unit };
    return { terms, common, unit, total, result: round(sum, rules, f) };
  }

  function lateAddition(p, q, rules, f) {
    const numbers = [input(p, f, rules), input(q, f, rules)];
    const operands = rules.nan_rule === "c first" ? [numbers[1], numbers[0]] : numbers;
    const code = special(numbers, operands, rules, f);
    if (code !== null) return code;
    const sum = add(...numbers);
    if (sum.significand === 0n) sum.negative = numbers.every((n) => n.negative);
    return zeroOf(encode(sum, f, "RNE", rules.saturate), rules, f);
  }

  // One instruction with an aligned sum: its blocks and its result
  function alignedBlocks(a, b, c, row, scales) {
    const { rules, output } = row;
    let { x, y } = row;
    if (rules.through_binary16) {
      const half = { bits: 16, exponentBits: 5, fractionBits: 10, bias: 15, leastField: 1, specials: "IEEE", signed: true };
      a = a.map((code) => encode(decode(code, x), half));
      b = b.map((code) => encode(decode(code, y), half));
      x = y = half;
    }
    const number = (code, f, own, k) => {
      const n = input(code, f, rules);
      if (!row.scale) return n;
      const by = decode(own[Math.floor(k / row.perScale)], row.scale);
      return by.kind === "nan" ? by : { ...n, exponent: n.exponent + by.exponent };
    };
    const order = rules.order ?? a.map((_, k) => k);
    const blocks = [];
    let accumulator = rules.late_c ? 0n : c;
    for (let start = 0; start < order.length; start += rules.block) {
      const pairs = order
        .slice(start, start + rules.block)
        .map((k) => [number(a[k], x, scales[0], k), number(b[k], y, scales[1], k), `k=${k}`]);
      blocks.push({ addend: accumulator, ...blockSum(pairs, accumulator, x, y, rules, output) });
      accumulator = blocks[blocks.length - 1].result;
    }
    const result = rules.late_c ? lateAddition(accumulator, c, rules, output) : accumulator;
    return { blocks, result };
  }

  // Sums of groups of products, aligned by their scales alone

  function groupedBlocks(a, b, c, row, scales) {
    const { rules, x, y, output } = row;
    const blocks = [];
    for (let start = 0; start < a.length; start += rules.block) {
      const addend = decode(c, output);
      const terms = [{ name: "c", negative: addend.negative, significand: addend.significand,
        lowest: addend.exponent, exponent: addend.exponent + output.fractionBits }];
      const specials = [addend];
      for (let at = start; at < Math.min(start + rules.block, a.length); at += rules.group) {
        const last = Math.min(at + rules.group, a.length);
        const [p, q] = scales.map((own) => decode(own[Math.floor(at / row.perScale)], row.scale));
        if (p.kind === "nan" || q.kind === "nan") {
          specials.push({ ...zero(), kind: "nan" });
          continue;
        }
        const products = [];
        for (let k = at; k < last; k += 1) products.push(multiply(decode(a[k], x), decode(b[k], y)));
        const total = multiply(multiply(products.reduce(add), { ...p, negative: false }), { ...q, negative: false });
        const present = products.some((n) => n.significand !== 0n) && p.significand * q.significand !== 0n;
        terms.push({ name: `k=${at}..${last - 1}`, negative: total.significand !== 0n && total.negative,
          significand: total.significand, lowest: total.exponent,
          exponent: p.exponent + q.exponent + 2 * row.scale.fractionBits, cancelled: present && total.significand === 0n });
      }
      const plain = { fraction_bits: rules.fraction_bits, exponent_floor: rules.exponent_floor, rounding: "RZ",
        carry_bits: null, nan_rule: "nvidia" };
      const code = special(specials, specials, plain, output);
      const nothing = { terms: [], common: null, unit: null, total: 0n, result: code };
      blocks.push({ addend: c, ...(code === null ? alignedTerms(terms, plain, output) : nothing) });
      c = blocks[blocks.length - 1].result;
    }
    return { blocks, result: c };
  }

  // Exact blocks, flushed trees and late sums: steps {name, exact, result}, or {name, exact, kept} where the unit holds more

  const whole = (n) => (n.negative ? -n.significand : n.significand);
  const finite = (value, exponent) =>
    ({ kind: "finite", negative: value < 0n, significand: value < 0n ? -value : value, exponent });

  function floorTo(n, place) {
    return n.exponent >= place ? n : finite(whole(n) >> BigInt(place - n.exponent), place);
  }

  function towardZero(n, place) {
    return n.exponent >= place ? n : { ...n, significand: n.significand >> BigInt(place - n.exponent), exponent: place };
  }

  const listed = (names, first) =>
    names.length < 3 ? names.join(" + ") : `products ${first} to ${first + names.length - 1}`;

  function sumSteps(a, b, c, row, first, start) {
    const { rules, x, y, output } = row;
    const steps = [];
    const size = rules.block ?? rules.group;
    for (let at = 0; at < a.length; at += size) {
      const ks = a.slice(at, at + size).map((_, k) => at + k);
      const names = ks.map((k) => `a${first + k}·b${first + k}`);
      const part = { row, steps, names, start, first: first + at, label: listed(names, first + at) };
      if (row.kind === "FlushedTree") {
        const read = (code, f) => {
          const n = decode(code, f);
          return n.kind === "finite" && n.significand < power(f.fractionBits) ? zero() : n;
        };
        c = tree(ks.map((k) => multiply(read(a[k], x), read(b[k], y))), read(c, output), part);
      } else {
        const products = ks.map((k) => multiply(decode(a[k], x), decode(b[k], y)));
        c = row.kind === "ExactBlock" ? exactBlock(products, c, part) : lateSum(products, c, part);
      }
      start = "sum";
    }
    return { steps, result: c };
  }

  const NVIDIA = { nan_rule: "nvidia" };

  function exactBlock(products, c, { row, steps, start, label }) {
    const terms = [decode(c, row.output), ...products];
    const code = special(terms, terms, NVIDIA, row.output);
    const exact = code === null ? terms.reduce(add) : null;
    const result = code ?? encode(exact, row.output);
    steps.push({ name: `${start} + ${label}`, exact, result });
    return result;
  }

  function tree(products, c, { row, steps, names, start, first, label }) {
    const f = row.output;
    const step = (name, exact) => {
      let code = exact.kind === "nan" ? nanCode(f) : encode(exact, f);
      if ((code & (signCode(f) - one)) < power(f.fractionBits)) code &= signCode(f);
      steps.push({ name, exact: exact.kind === "finite" ? exact : null, result: code });
      return decode(code, f);
    };
    const sum = (p, q) => {
      const infinite = [p, q].filter((n) => n.kind === "inf");
      if (p.kind === "nan" || q.kind === "nan") return { ...zero(), kind: "nan" };
      if (infinite.length === 2 && p.negative !== q.negative) return { ...zero(), kind: "nan" };
      if (infinite.length) return infinite[0];
      const total = add(p, q);
      const zeros = p.significand === 0n && q.significand === 0n;
      return total.significand === 0n ? zero(zeros && p.negative && q.negative) : total;
    };
    let sums = products.map((n, k) => [k, k + 1, step(names[k], n)]);
    while (sums.length > 1) {
      const next = [];
      for (let k = 0; k + 1 < sums.length; k += 2) {
        const [[from, , left], [, to, right]] = [sums[k], sums[k + 1]];
        next.push([from, to, step(listed(names.slice(from, to), first + from), sum(left, right))]);
      }
      if (sums.length % 2) next.push(sums[sums.length - 1]);
      sums = next;
    }
    step(`${start} + ${names.length === 2 ? `(${label})` : label}`, sum(c, sums[0][2]));
    return steps[steps.length - 1].result;
  }

  function lateSum(products, c, { row, steps, start, label }) {
    const { rules, x, y, output } = row;
    const addend = decode(c, output);
    const top = (n) => bitLength(n.significand) - 1 + n.exponent;
    products = products.map((n) => (n.kind === "finite" && n.significand && top(n) >= 128 ? { ...n, kind: "inf" } : n));
    const code = special([...products, addend], [], NVIDIA, output);
    if (code !== null) {
      steps.push({ name: `${start} + ${label}`, exact: null, result: code });
      return code;
    }
    const kept = rules.fraction_bits;
    const exponent = (n) => n.exponent + x.fractionBits + y.fractionBits;
    const sums = [];
    let exact = zero();
    for (let group = 0; group < rules.groups; group += 1) {
      const members = products.filter((n, k) => k % rules.groups === group && n.significand !== 0n);
      if (members.length === 0) continue;
      const own = Math.max(...members.map(exponent));
      sums.push([own, members.map((n) => towardZero(n, own - kept)).reduce(add)]);
      exact = add(exact, members.reduce(add));
    }
    const largest = sums.length ? Math.max(...sums.map(([own]) => own)) : null;
    const cut = sums.reduce((total, [, n]) => add(total, floorTo(n, largest - kept)), zero());
    steps.push({ name: label, exact, kept: cut });
    const mine = Math.max(addend.exponent + output.fractionBits, emin(output));
    const common = largest === null ? mine : Math.max(largest, mine);
    const dropped = rules.drops_small_c && mine < common - kept - 1;
    let total = add(floorTo(cut, common - rules.late_bits - 1), dropped ? zero() : floorTo(addend, common - kept));
    if (total.significand !== 0n) total = floorTo(total, Math.max(top(total), emin(output)) - rules.late_bits);
    steps.push({ name: `${start} + products`, exact: add(cut, addend), kept: total });
    const result = encode(total.significand === 0n ? zero() : total, output);
    steps.push({ name: "rounded", exact: total, result });
    return result;
  }

  // Chains

  // Whether a number is below the smallest normal one when rounded as if exponents went on.
  function isTiny(n, rounding, f) {
    const shift = bitLength(n.significand) - f.fractionBits - 1;
    const rounded = roundShift(n.significand, shift, rounding, n.negative);
    return bitLength(rounded) - 1 + n.exponent + shift < emin(f);
  }

  // Numbers, and products of two, added exactly and rounded once.
  function chainSum(addends, rules, f) {
    const terms = addends.map((one) => (one.length === 1 ? one[0] : multiply(one[0], one[1])));
    const infinite = terms.filter((n) => n.kind === "inf");
    const both = infinite.some((n) => n.negative) && infinite.some((n) => !n.negative);
    if (both || terms.some((n) => n.kind === "nan")) return { exact: null, result: nanOf(addends.flat(), rules, f) };
    if (infinite.length) return { exact: null, result: encode(infinite[0], f) };
    let exact = terms.reduce(add);
    if (exact.significand === 0n) {
      const zeros = terms.every((n) => n.significand === 0n);
      const alike = zeros && terms.every((n) => n.negative === terms[0].negative);
      exact = zero(alike ? terms[0].negative : rules.rounding === "RD");
    }
    const tiny = exact.significand !== 0n && rules.flush_outputs && isTiny(exact, rules.rounding, f);
    return { exact, result: encode(tiny ? zero(exact.negative) : exact, f, rules.rounding) };
  }

  // One instruction with a chain: its steps and its result; first, start: what they call the first k, and c.
  function chainSteps(a, b, c, row, first, start) {
    const { rules, x, y, output } = row;
    const steps = [];
    const step = (name, ks, ...addends) => {
      const found = chainSum(addends, rules, output);
      steps.push({ name, products: ks.map((k) => first + k), ...found });
      return found.result;
    };
    const product = (k) => [flushed(decode(a[k], x), x, rules.flush_inputs), flushed(decode(b[k], y), y, rules.flush_inputs)];
    const number = (code) => [flushed(decode(code, output), output, rules.flush_outputs)];
    const lanes = Array.from({ length: rules.lanes }, () => [0n, "0"]);
    if (!rules.late_c) lanes[0] = [c, start];
    const order = rules.order ?? a.map((_, k) => k);
    for (let at = 0; at < order.length; at += rules.group) {
      const ks = order.slice(at, at + rules.group);
      const lane = (at / rules.group) % rules.lanes;
      const names = ks.map((k) => `a${first + k}·b${first + k}`);
      let terms = ks.map(product);
      if (rules.rounded_products) terms = terms.map((term, n) => number(step(names[n], [ks[n]], term)));
      const [before, beforeName] = lanes[lane];
      let code;
      if (rules.group > 1) {
        const joint = number(step(names.join(" + "), ks, ...terms));
        code = step(`${beforeName} + pair`, ks, number(before), joint);
      } else if (rules.rounded_products) {
        code = step(`${beforeName} + product`, ks, number(before), ...terms);
      } else {
        code = step(`${names[0]} + ${beforeName}`, ks, ...terms, number(before));
      }
      lanes[lane] = [code, rules.lanes > 1 ? `sum ${lane}` : "sum"];
    }
    let [result, name] = lanes[0];
    for (const [code, other] of lanes.slice(1)) {
      result = step(`${name} + ${other}`, [], number(result), number(code));
      name = "sum";
    }
    if (rules.late_c) result = step(`${start} + ${name}`, [], number(c), number(result));
    return { steps, result };
  }

  function integerDot(a, b, c, row) {
    const value = (code, f) => {
      const n = decode(code, f);
      return n.negative ? -n.significand : n.significand;
    };
    let total = value(c, row.output);
    a.forEach((code, k) => (total += value(code, row.x) * value(b[k], row.y)));
    if (row.rules.saturate) {
      const limit = power(31);
      total = total >= limit ? limit - one : total < -limit ? -limit : total;
    }
    return BigInt.asUintN(32, total);
  }

  // One element of D = A·B + C with every step; a and b of any length, padded with zeros to whole instructions.
  // scales: codes of those of A and of B, which are 1 where they are not given.
  function dot(a, b, c, row, scales = [[], []]) {
    const steps = [];
    for (let start = 0; start < a.length; start += row.k) {
      const pad = (codes) => Array.from({ length: row.k }, (_, k) => codes[start + k] ?? 0n);
      const own = row.scale && scales.map((codes) => Array.from({ length: row.k / row.perScale },
        (_, s) => codes[start / row.perScale + s] ?? encode({ ...zero(), significand: one }, row.scale)));
      if (row.kind === "ExactBlock" || row.kind === "FlushedTree" || row.kind === "LateSum") {
        const found = sumSteps(pad(a), pad(b), c, row, start, start ? "sum" : "c");
        steps.push({ start, blocks: [], chain: found.steps, result: found.result });
        c = found.result;
      } else if (row.kind === "GroupedSum") {
        const found = groupedBlocks(pad(a), pad(b), c, row, own);
        steps.push({ start, ...found });
        c = found.result;
      } else if (row.kind === "AlignedSum") {
        const found = alignedBlocks(pad(a), pad(b), c, row, own ?? [[], []]);
        steps.push({ start, ...found });
        c = found.result;
      } else if (row.kind === "FusedChain") {
        const found = chainSteps(pad(a), pad(b), c, row, start, start ? "sum" : "c");
        steps.push({ start, blocks: [], chain: found.steps, result: found.result });
        c = found.result;
      } else {
        c = integerDot(pad(a), pad(b), c, row);
      }
    }
    return { steps, result: c };
  }

  // The exact sum as a number; null where inf or NaN take part.
  function exactSum(a, b, c, row, scales = [[], []]) {
    let total = decode(c, row.output);
    for (let k = 0; k < a.length; k += 1) {
      let product = multiply(decode(a[k], row.x), decode(b[k], row.y));
      for (const code of row.scale ? scales.map((own) => own[Math.floor(k / row.perScale)]) : []) {
        if (code !== undefined) product = multiply(product, decode(code, row.scale));
      }
      if (product.kind !== "finite" || total.kind !== "finite") return null;
      total = add(total, product);
    }
    return total.kind === "finite" ? total : null;
  }

  // Text to a number that every format rounds as it rounds the text: 1.5, 1e-3, 2^-24, 3*2^-5, 0x1.8p-3, inf, nan.
  const LOWEST = -1140;
  const NUMBER = new RegExp(
    "^([+-]?)(?:(inf|nan)|0x([0-9a-f]*)\\.?([0-9a-f]*)(?:p([+-]?\\d+))?|" +
      "(?:(\\d+|\\d*\\.\\d+|\\d+\\.)[*·])?2(?:\\^|\\*\\*)\\(?([+-]?\\d+)\\)?|(\\d*)\\.?(\\d*)(?:e([+-]?\\d+))?)$", "i");

  function parse(text) {
    const match = NUMBER.exec(text.replace(/\s/g, "").replace("−", "-"));
    if (match === null) return null;
    const [, sign, name, hexWhole, hexRest, hexPower, scale, exponent, whole, rest, tens] = match;
    const negative = sign === "-";
    if (name) return { ...zero(negative), kind: name.toLowerCase(), significand: /nan/i.test(name) ? power(51) : 0n };
    const far = [hexPower, exponent, tens].some((part) => part !== undefined && Math.abs(Number(part)) > 4000);
    if (far) return null;
    let up = 0n;
    let down = one;
    const scaled = (by, to) => (to >= 0 ? (up *= by ** BigInt(to)) : (down *= by ** BigInt(-to)));
    const decimal = (head, tail) => {
      up = BigInt((head + tail) || "0");
      scaled(10n, -tail.length);
    };
    if (hexWhole !== undefined) {
      if (!(hexWhole + hexRest)) return null;
      up = BigInt(`0x${hexWhole + hexRest}`);
      scaled(2n, Number(hexPower ?? 0) - 4 * hexRest.length);
    } else if (exponent !== undefined) {
      const [head, tail = ""] = (scale ?? "1").split(".");
      decimal(head, tail);
      scaled(2n, Number(exponent));
    } else {
      if (!(whole + rest)) return null;
      decimal(whole, rest);
      scaled(10n, Number(tens ?? 0));
    }
    const shifted = up << BigInt(-LOWEST);
    const quotient = shifted / down;
    const sticky = quotient * down === shifted ? 0n : one;
    return { kind: "finite", negative, significand: 2n * quotient + sticky, exponent: LOWEST - 1 };
  }

  return { decode, encode, dot, exactSum, parse, bitLength };
})();

if (typeof module !== "undefined") module.exports = TcuUnit;
