// One row explained: f and the Shapley values of its columns, from the arrays of the model.
(() => {
  const box = document.getElementById("what-if-model");
  if (!box) return;
  const model = JSON.parse(box.textContent);
  const view = document.getElementById("what-if-view");
  const N_EXACT = 8;
  const N_PAIRS = 64; // of opposite orders
  const MOST_BARS = 10;

  const decoded = (text, Kind) => {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    return new Kind(bytes.buffer);
  };
  // A model from its arrays: the inputs of its components by column of the table, and what follows from them.
  const machine = (arrays) => {
    const bias = decoded(arrays.bias, Float64Array);
    const W = decoded(arrays.W, Float64Array);
    const nodes = decoded(arrays.nodes, Float64Array);
    const v = decoded(arrays.v, Float64Array);
    const H = decoded(arrays.H, Float32Array);
    const table = decoded(arrays.table, Float32Array);
    const S = bias.length;
    const stride = arrays.n_tables > 1 ? 4 * arrays.n_cells : 0;

    const inputs = (row) => {
      const parts = Array.from({ length: arrays.n_groups }, () => new Float64Array(S));
      arrays.linear.forEach((column, c) => {
        const part = parts[arrays.linear_group[c]];
        for (let m = 0; m < S; m++) part[m] += row[column] * W[c * S + m];
      });
      arrays.curves.forEach((column, c) => {
        const part = parts[arrays.curve_group[c]];
        let k = arrays.first[c];
        while (k < arrays.first[c + 1] - 2 && row[column] >= nodes[k + 1]) k++;
        const share = Math.min(Math.max((row[column] - nodes[k]) / (nodes[k + 1] - nodes[k]), -1e6), 1e6);
        for (let m = 0; m < S; m++) part[m] += H[k * S + m] + share * (H[(k + 1) * S + m] - H[k * S + m]);
      });
      return parts;
    };

    const answer = (u) => {
      const f = arrays.intercept.slice();
      for (let m = 0; m < S; m++) {
        const inside = Math.min(Math.max(u[m], -0.5), arrays.n_cells - 0.5);
        const k = Math.min(Math.floor(inside + 0.5), arrays.n_cells - 1);
        const t = inside - k;
        const at = m * stride + 4 * k;
        const z = ((table[at + 3] * t + table[at + 2]) * t + table[at + 1]) * t + table[at];
        for (let o = 0; o < f.length; o++) f[o] += v[o * S + m] * z;
      }
      return f;
    };
    return { bias, inputs, answer };
  };

  const { bias, inputs, answer } = machine(model);
  const O = model.intercept.length;

  const added = (u, part, sign) => u.map((value, m) => value + sign * part[m]);

  // A fixed sequence of numbers, so that the same row has the same reasons every time.
  const shuffled = (places, seed) => {
    const order = places.slice();
    let state = seed * 2654435761 + 1;
    for (let i = order.length - 1; i > 0; i--) {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      const j = Math.floor((state / 2 ** 32) * (i + 1)); // its low bits repeat soon
      [order[i], order[j]] = [order[j], order[i]];
    }
    return order;
  };

  const enumerated = (active, parts, start) => {
    const n = active.length;
    const worth = new Array(1 << n);
    const us = new Array(1 << n);
    us[0] = start;
    worth[0] = answer(start);
    for (let s = 1; s < 1 << n; s++) {
      const bit = 31 - Math.clz32(s);
      us[s] = added(us[s ^ (1 << bit)], parts[active[bit]], 1);
      worth[s] = answer(us[s]);
    }
    const weight = [1 / n];
    for (let k = 1; k < n; k++) weight.push((weight[k - 1] * k) / (n - k));
    const values = model.columns.map(() => new Float64Array(O));
    for (let s = 0; s < 1 << n; s++) {
      let size = 0;
      for (let b = 0; b < n; b++) size += (s >> b) & 1;
      for (let b = 0; b < n; b++) {
        if ((s >> b) & 1) continue;
        for (let o = 0; o < O; o++) values[active[b]][o] += weight[size] * (worth[s | (1 << b)][o] - worth[s][o]);
      }
    }
    return values;
  };

  const walked = (active, parts, start) => {
    const values = model.columns.map(() => new Float64Array(O));
    const end = active.reduce((u, j) => added(u, parts[j], 1), start);
    for (let pair = 0; pair < N_PAIRS; pair++) {
      const order = shuffled(active, pair + 1);
      for (const [from, sign] of [[start, 1], [end, -1]]) {
        let u = from;
        let before = answer(u);
        for (const j of order) {
          u = added(u, parts[j], sign);
          const after = answer(u);
          for (let o = 0; o < O; o++) values[j][o] += (sign * (after[o] - before[o])) / (2 * N_PAIRS);
          before = after;
        }
      }
    }
    return values;
  };

  const atBase = inputs(model.base);
  const start = atBase.reduce((u, part) => added(u, part, 1), bias);
  const base = answer(start);

  const explained = (row) => {
    const parts = inputs(row).map((part, j) => part.map((value, m) => value - atBase[j][m]));
    const active = parts.map((_, j) => j).filter((j) => parts[j].some((value) => value !== 0));
    if (!active.length) return { f: base, values: model.columns.map(() => new Float64Array(O)) };
    const values = (active.length <= N_EXACT ? enumerated : walked)(active, parts, start);
    return { f: answer(active.reduce((u, j) => added(u, parts[j], 1), start)), values };
  };

  // Quantiles are the outputs in order: which output of a row is which quantile.
  const ranked = (f) => f.map((_, o) => o).sort((a, b) => f[a] - f[b] || a - b);

  const linked = (f, output) => {
    if (model.link === "sort") return f[ranked(f)[output]];
    if (model.link === "exp") return Math.exp(Math.min(f[output], 30));
    if (model.link === "sigmoid") return 1 / (1 + Math.exp(-f[0]));
    if (model.link !== "softmax") return f[output];
    const top = Math.max(...f);
    const odds = f.map((value) => Math.exp(value - top));
    return odds[output] / odds.reduce((a, b) => a + b);
  };

  // The interval of a row: its answer, and what errors reach in units of their usual size there.
  const { bands } = model;
  const spread = bands && bands.spread ? machine(bands.spread) : null;
  const limits = (f, values) => {
    if (!bands) return null;
    let size = Math.exp(bands.least);
    if (spread) {
      const [part] = spread.inputs([...f, ...bands.columns.map((column) => values[column])]);
      size = Math.exp(Math.min(Math.max(spread.answer(added(spread.bias, part, 1))[0], bands.least), bands.most));
    }
    const middle = linked(f, 0);
    return [middle - bands.below * size, middle + bands.above * size].map((x) => Math.max(x, bands.floor ?? -Infinity));
  };

  // The view.
  const plain = new Intl.NumberFormat("en", { maximumSignificantDigits: 4, useGrouping: "min2" });
  const format = (x) => (x !== 0 && Math.abs(x) < 1e-3 ? x.toExponential(1) : plain.format(x)).replaceAll("-", "−");
  const node = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };

  let at = 0;
  let { output } = model;
  let row = model.rows[0].slice();
  const picker = node("input", { type: "number", id: "what-if-row", min: 1, max: model.rows.length, value: 1 });
  const which = node("span", { class: "aside" });
  const back = node("button", { type: "button", id: "what-if-reset" }, "As it was");
  const head = node("div", { class: "picker" }, node("label", { for: "what-if-row" }, "Row"), picker, which, back);
  if (model.outputs.length > 1) {
    const select = node("select", { id: "what-if-output", "aria-label": "Answer" });
    model.outputs.forEach((name, o) => select.append(node("option", { value: o }, name)));
    select.value = output;
    select.addEventListener("change", () => { output = Number(select.value); draw(); });
    head.append(select);
  }
  const controls = node("div", { class: "controls" });
  const told = node("p", { class: "answer", id: "what-if-answer", "aria-live": "polite" });
  const fan = node("div", { class: "fan" });
  const bars = node("ol", { class: "fall", "aria-label": "What each column adds" });
  const note = node("p", { class: "note" });
  view.append(head, node("div", { class: "halves" }, controls, node("div", {}, told, fan, bars, note)));

  // The quantiles of a row as nested bands, on the range of the outermost over all rows.
  const reach = model.levels.length ? model.rows.map((values) => explained(values).f).flat() : [];
  const drawFan = (f) => {
    if (!model.levels.length) return;
    const quantiles = ranked(f).map((o) => f[o]);
    const low = Math.min(...reach, ...quantiles);
    const high = Math.max(...reach, ...quantiles);
    const share = (value) => (100 * (value - low)) / (high - low || 1);
    const last = quantiles.length - 1;
    const parts = quantiles.slice(0, quantiles.length >> 1).map((left, i) => {
      const band = node("i");
      band.style.left = `${share(left)}%`;
      band.style.width = `${share(quantiles[last - i]) - share(left)}%`;
      return band;
    });
    const tick = node("b");
    tick.style.left = `${share(quantiles[output])}%`;
    const words = quantiles.map((value, i) => `${model.levels[i]}: ${format(value)}`);
    fan.replaceChildren(
      node("div", { class: "track", role: "img", "aria-label": `Quantiles ${words.join(", ")}` }, ...parts, tick),
      node("ol", { "aria-hidden": "true" }, ...words.map((word) => node("li", {}, word))),
    );
    view.dataset.quantiles = JSON.stringify(quantiles);
  };

  const level = (column) => {
    const own = column.features.map((feature) => row[feature]);
    return column.levels.findIndex(([, values]) => values.every((value, i) => value === own[i]));
  };

  // A date from its days since 1970, and the encoded columns that it becomes.
  const DAY = 86400000;
  const FORMS = { days: [0, 10], minutes: [0, 16], time: [11, 16] };
  const dateOf = (column) => {
    const [days, , , hour] = column.features.map((feature) => row[feature]);
    if (column.gaps && row[column.features.at(-1)]) return "missing";
    const moment = column.date === "time" ? Math.floor(days) + hour / 24 : days;
    const text = new Date(Math.round(moment * 1440) * 60000).toISOString().replace("T", " ");
    return text.slice(...FORMS[column.date]);
  };
  const setDate = (column, day) => {
    const old = row[column.features[0]];
    const days = Math.min(Math.max(Math.floor(day) + (old - Math.floor(old)), column.low), column.high);
    const whole = Math.floor(days);
    const ofYear = whole - Date.UTC(new Date(whole * DAY).getUTCFullYear(), 0, 1) / DAY + 1;
    const parts = [days, ofYear, (((whole + 3) % 7) + 7) % 7, ...(column.date === "days" ? [] : [(days - whole) * 24])];
    column.features.forEach((feature, i) => { row[feature] = parts[i] ?? 0; });
  };

  const shown = (column) => {
    if (column.date) return dateOf(column);
    if (column.kind === "level") return level(column) < 0 ? "?" : column.levels[level(column)][0];
    if (column.kind !== "number" && column.features.length > 1) return "";
    return column.features.slice(1).some((feature) => row[feature]) ? "missing" : format(row[column.features[0]]);
  };

  const made = model.controls.map((j) => {
    const column = model.columns[j];
    const id = `what-if-${j}`;
    const value = node("output", { for: id });
    let input;
    if (column.kind !== "level") {
      input = node("input", { type: "range", id, min: column.low, max: column.high, step: column.step });
      input.addEventListener("input", () => {
        if (column.date) setDate(column, Number(input.value));
        else column.features.forEach((feature, i) => { row[feature] = i ? 0 : Number(input.value); });
        draw();
      });
    } else {
      input = node("select", { id });
      column.levels.forEach(([label], i) => input.append(node("option", { value: i }, label)));
      input.addEventListener("change", () => {
        column.levels[Number(input.value)][1].forEach((number, i) => { row[column.features[i]] = number; });
        draw();
      });
    }
    controls.append(node("label", { for: id }, column.name), ...(column.kind === "level" ? [] : [value]), input);
    return { column, input, value };
  });

  const place = () => {
    for (const { column, input } of made) {
      input.value = column.kind === "level" ? level(column) : row[column.features[0]];
    }
  };

  const draw = () => {
    const { f, values } = explained(row);
    const was = linked(explained(model.rows[at]).f, output);
    const now = linked(f, output);
    const moved = row.some((value, i) => value !== model.rows[at][i]);
    told.replaceChildren(
      node("span", {}, model.outputs[output]), node("strong", {}, format(now)),
      node("span", {}, moved ? `was ${format(was)}` : ""),
    );
    const ends = limits(f, row);
    if (ends) {
      const share = plain.format(100 * bands.coverage);
      told.append(node("span", { class: "range" }, `${share} % between ${format(ends[0])} and ${format(ends[1])}`));
      view.dataset.limits = JSON.stringify(ends);
    }
    for (const { column, value } of made) value.textContent = shown(column);
    which.textContent = `of ${model.rows.length}: row ${model.numbers[at].toLocaleString("en")} of the data`;
    back.disabled = !moved;
    drawFan(f);
    const own = model.link === "sort" ? ranked(f)[output] : output; // the output whose reasons are shown
    const sorted = values.map((value, j) => [j, value[own]]).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
    const seen = (value) => Math.abs(value) > 1e-4 * Math.abs(sorted[0][1]);
    const lines = sorted.slice(0, MOST_BARS).filter(([, value]) => seen(value)).map(([j, value]) => {
      const text = shown(model.columns[j]);
      return [text ? `${model.columns[j].name} = ${text}` : model.columns[j].name, value];
    });
    const rest = sorted.slice(lines.length).filter(([, value]) => value !== 0);
    const others = rest.reduce((sum, [, value]) => sum + value, 0);
    if (seen(others)) lines.push([`${rest.length} more`, others]);
    let end = f[own];
    const spans = lines.map(([name, value]) => {
      const from = end - value;
      const span = [name, value, Math.min(from, end), Math.max(from, end)];
      end = from;
      return span;
    });
    const low = Math.min(base[own], f[own], ...spans.map((span) => span[2]));
    const high = Math.max(base[own], f[own], ...spans.map((span) => span[3]));
    const share = (value) => (100 * (value - low)) / (high - low || 1);
    bars.replaceChildren(...spans.map(([name, value, left, right]) => {
      const bar = node("i", { class: value < 0 ? "down" : "up" });
      bar.style.left = `${share(left)}%`;
      bar.style.width = `${share(right) - share(left)}%`;
      return node("li", {}, node("span", { class: "name", title: name }, name), node("span", { class: "track" }, bar),
        node("span", { class: "value" }, (value < 0 ? "−" : "+") + format(Math.abs(value))));
    }));
    const before = { exp: " (a logarithm)", sigmoid: " (log odds)", softmax: " (a score)" }[model.link] ?? "";
    note.textContent = `From ${format(base[own])} at the means of all columns to ${format(f[own])}${before}.`;
    view.dataset.f = f[own];
    view.dataset.values = JSON.stringify(values.map((value) => value[own]));
  };

  const pick = (number) => {
    at = Math.min(Math.max(Math.round(number) || 1, 1), model.rows.length) - 1;
    picker.value = at + 1;
    row = model.rows[at].slice();
    place();
    draw();
  };
  picker.addEventListener("change", () => pick(Number(picker.value)));
  back.addEventListener("click", () => pick(at + 1));
  pick(1);
})();
