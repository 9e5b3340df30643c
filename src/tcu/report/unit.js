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
    const exponents = terms.filter((t) => t.significand !== 0n).map((t) => t.exponent);
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
  function alignedBlocks(a, b, c, row) {
    const { rules, x, y, output } = row;
    const order = rules.order ?? a.map((_, k) => k);
    const blocks = [];
    let accumulator = rules.late_c ? 0n : c;
    for (let start = 0; start < order.length; start += rules.block) {
      const pairs = order
        .slice(start, start + rules.block)
        .map((k) => [input(a[k], x, rules), input(b[k], y, rules), `k=${k}`]);
      blocks.push({ addend: accumulator, ...blockSum(pairs, accumulator, x, y, rules, output) });
      accumulator = blocks[blocks.length - 1].result;
    }
    const result = rules.late_c ? lateAddition(accumulator, c, rules, output) : accumulator;
    return { blocks, result };
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
  function dot(a, b, c, row) {
    const steps = [];
    for (let start = 0; start < a.length; start += row.k) {
      const pad = (codes) => Array.from({ length: row.k }, (_, k) => codes[start + k] ?? 0n);
      if (row.kind === "AlignedSum") {
        const found = alignedBlocks(pad(a), pad(b), c, row);
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
  function exactSum(a, b, c, row) {
    let total = decode(c, row.output);
    for (let k = 0; k < a.length; k += 1) {
      const product = multiply(decode(a[k], row.x), decode(b[k], row.y));
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
