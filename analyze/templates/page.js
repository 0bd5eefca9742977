"use strict";
// Draws the charts and the list of denials of a page. Data: src/render/html/data.rs. Texts from the log are only ever set
// as text. When all is drawn, the root element says so in `data-drawn`; a fault stands in `data-fault`.
(() => {
  const root = document.documentElement;
  window.addEventListener("error", (event) => { root.dataset.fault = event.message; });
  const data = JSON.parse(document.getElementById("data").textContent);
  const text = data.texts;
  const MB = 1024 * 1024;
  const SHAPES = { passed: "●", denied: "✕", failed: "▲", refused: "▲" };
  const state = { along: data.axes.time ? "time" : "call", process: -1, plots: [] };

  function make(tag, props, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(props || {})) {
      if (name === "class") element.className = value;
      else if (name in element) element[name] = value;
      else element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  }

  const colour = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const processes = () => data.processes.filter((_, index) => state.process < 0 || state.process === index);
  // Of what is kept over time and over calls, the one that is shown.
  const side = (pair) => pair[state.along === "time" ? 0 : 1];
  const place = (mark) => mark[state.along === "time" ? 0 : 1];

  function plain(value, decimals) {
    const shown = value.toFixed(Math.min(Math.max(decimals, 0), 9));
    return shown.includes(".") ? shown.replace(/\.?0+$/, "") : shown;
  }
  function seconds(value, step) {
    const [unit, name] = Math.abs(value) >= 1 || value === 0 ? [1, "s"] : Math.abs(value) >= 1e-3 ? [1e3, "ms"] : [1e6, "µs"];
    const decimals = step ? Math.ceil(-Math.log10(step * unit) + 1) : 3;
    return plain(value * unit, decimals) + " " + name;
  }

  // What an axis can show: all of it, whatever is chosen.
  const ends = (() => {
    const bars = data.outcomes;
    const last = (pair) => pair ? [pair.from, pair.to] : [0, 1];
    const widen = ([from, to]) => to > from ? [from - (to - from) * 0.01, to + (to - from) * 0.02] : [from - 0.5, to + 0.5];
    return { time: widen(last(bars[0])), call: widen(last(bars[1])) };
  })();

  // Curves of several processes on one x axis: a column each, with gaps where another one has its corner.
  function align(lines) {
    const corners = [];
    lines.forEach(([xs, ys], line) => xs.forEach((x, i) => corners.push([x, line, ys[i]])));
    corners.sort((a, b) => a[0] - b[0]);
    const columns = [corners.map((corner) => corner[0])];
    lines.forEach((_, line) => columns.push(corners.map((corner) => corner[1] === line ? corner[2] : null)));
    if (!corners.length) columns.forEach((column, i) => column.push(...(i ? [null, null] : ends[state.along])));
    return columns;
  }

  function draw(u, paint) {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    paint(ctx, devicePixelRatio);
    ctx.restore();
  }
  function dashed(u, value) {
    if (value === null || value === undefined) return;
    draw(u, (ctx, ratio) => {
      const y = u.valToPos(value, "y", true);
      ctx.strokeStyle = colour("limit");
      ctx.lineWidth = 1.5 * ratio;
      ctx.setLineDash([7 * ratio, 5 * ratio]);
      ctx.beginPath();
      ctx.moveTo(u.bbox.left, y);
      ctx.lineTo(u.bbox.left + u.bbox.width, y);
      ctx.stroke();
    });
  }
  // Where more time may have passed than the axis shows. The sign stands in the gap, which ends there.
  function breaks(u) {
    if (state.along !== "time") return;
    const places = processes().flatMap((process) => process.breaks).sort((a, b) => a - b);
    draw(u, (ctx, ratio) => {
      ctx.strokeStyle = ctx.fillStyle = colour("ink");
      ctx.lineWidth = ratio;
      ctx.setLineDash([2 * ratio, 3 * ratio]);
      ctx.font = `${12 * ratio}px system-ui, sans-serif`;
      ctx.textBaseline = "top";
      ctx.textAlign = "right";
      let last = -Infinity;
      for (const at of places) {
        const x = u.valToPos(at, "x", true);
        if (x - last < 18 * ratio) continue;
        last = x;
        ctx.beginPath();
        ctx.moveTo(x, u.bbox.top);
        ctx.lineTo(x, u.bbox.top + u.bbox.height);
        ctx.stroke();
        ctx.fillText("≥", x - 3 * ratio, u.bbox.top + 2 * ratio);
      }
    });
  }
  function sign(ctx, kind, x, y, size) {
    ctx.beginPath();
    if (kind === "passed") {
      ctx.arc(x, y, size * 0.8, 0, 2 * Math.PI);
      ctx.fill();
    } else if (kind === "denied") {
      ctx.moveTo(x - size, y - size);
      ctx.lineTo(x + size, y + size);
      ctx.moveTo(x - size, y + size);
      ctx.lineTo(x + size, y - size);
      ctx.stroke();
    } else {
      ctx.moveTo(x, y - size);
      ctx.lineTo(x + size, y + size);
      ctx.lineTo(x - size, y + size);
      ctx.closePath();
      ctx.fill();
    }
  }

  // Marks by kind, later kinds on top: passes are the few that one looks for among many denials.
  function marks(u, kinds, height) {
    // So many that they touch each other are drawn smaller, passes most of all, or they would hide all denials below them.
    const many = kinds.reduce((sum, [, list]) => sum + list.length, 0) > 2000;
    draw(u, (ctx, ratio) => {
      const { min, max } = u.scales.x;
      ctx.lineWidth = 2 * ratio;
      for (const [kind, list] of kinds) {
        ctx.fillStyle = ctx.strokeStyle = colour(kind === "refused" ? "denied" : kind);
        for (const mark of list) {
          const x = place(mark);
          const size = (many ? (kind === "passed" ? 2 : 3.5) : 4.5) * ratio;
          if (x >= min && x <= max) sign(ctx, kind, u.valToPos(x, "x", true), u.valToPos(height(mark), "y", true), size);
        }
      }
    });
  }

  // The mark nearest to the cursor, within a finger's breadth.
  function nearest(u, kinds, height) {
    const { left, top } = u.cursor;
    let best = null, least = 18;
    for (const [kind, list] of kinds) {
      for (const mark of list) {
        const distance = Math.hypot(u.valToPos(place(mark), "x") - left, u.valToPos(height(mark), "y") - top);
        if (distance < least) [best, least] = [{ kind, mark }, distance];
      }
    }
    return best;
  }

  const moment = (mark) => `${text.call} ${mark[1]}` + (data.axes.time ? ` · ${seconds(mark[0])}` : "");
  const at = (x) => state.along === "time" ? seconds(x) : `${text.call} ${Math.round(x)}`;
  function before(u, line, x) {
    const [xs, ys] = [u.data[0], u.data[line]];
    let found = null;
    for (let i = 0; i < xs.length && xs[i] <= x; i++) if (ys[i] !== null) found = ys[i];
    return found;
  }

  function keys(list) {
    return make("span", { class: "keys" }, ...list.map(([shape, name, label]) =>
      make("span", {}, make("i", { class: "c-" + name, ariaHidden: "true" }, shape), label)));
  }

  // A chart: heading, keys, buttons, plot, and a line that tells what the cursor is on.
  function chart(id, title, legend, options) {
    const box = make("div", { class: "plot", id: "plot-" + id });
    const told = make("output", {});
    const button = (label, name, act) => make("button", { type: "button", ariaLabel: name, title: name, onclick: act }, label);
    const zoom = (grow, shift) => {
      const { min, max } = u.scales.x, [from, to] = ends[state.along];
      const half = (max - min) / 2 * grow, middle = (min + max) / 2 + (max - min) * shift;
      const [left, right] = [Math.max(middle - half, from), Math.min(middle + half, to)];
      if (right > left) u.setScale("x", { min: left, max: right });
    };
    const figure = make("figure", {},
      make("div", { class: "title" }, make("strong", {}, title), keys(legend)), box, told,
      make("div", { class: "controls" },
        button("+", text.zoom_in, () => zoom(0.5, 0)), button("−", text.zoom_out, () => zoom(2, 0)),
        button("◀", text.left, () => zoom(1, -0.25)), button("▶", text.right, () => zoom(1, 0.25)),
        button(text.reset, text.reset, () => u.setScale("x", { min: ends[state.along][0], max: ends[state.along][1] }))));
    if (options.note) figure.append(make("figcaption", {}, options.note));
    document.getElementById("charts").append(figure);

    const axis = (more) => ({ stroke: colour("ink"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 },
      font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif", labelSize: 20, labelGap: 0, ...more });
    const along = state.along === "time"
      ? { label: data.axes.time, values: (_, ticks) => ticks.map((tick) => tick < 0 ? "" : seconds(tick, ticks[1] - ticks[0])) }
      : { label: data.axes.call, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7],
          values: (_, ticks) => ticks.map((tick) => tick < 1 ? "" : String(tick)) };
    const u = new uPlot({
      width: Math.max(box.clientWidth, 240), height: 260, legend: { show: false },
      scales: { x: { time: false, range: (_, min, max) => [min, max] }, y: { range: options.range } },
      axes: [axis({ space: 70, size: 30, ...along }), axis({ label: options.label, size: 62, values: (_, ticks) => ticks.map((tick) => plain(tick, 3)) })],
      cursor: { drag: { x: true, y: false, setScale: true }, points: { show: false }, y: false },
      series: [{}, ...options.lines.map(() => ({ stroke: colour("curve"), width: 1.5, spanGaps: true, points: { show: false } }))],
      hooks: {
        draw: [options.paint],
        setCursor: [(u) => { told.textContent = u.cursor.left >= 0 ? options.tell(u, u.posToVal(u.cursor.left, "x")) : ""; }],
      },
    }, align(options.lines), box);
    // Reset shows the whole axis, and not only as far as the curve goes.
    u.setScale("x", { min: ends[state.along][0], max: ends[state.along][1] });
    box.addEventListener("dblclick", () => u.setScale("x", { min: ends[state.along][0], max: ends[state.along][1] }));
    state.plots.push([u, box]);
  }

  const all = (kind) => processes().flatMap((process) => process[kind]);
  const most = (values, least) => values.reduce((most, value) => value > most ? value : most, least);
  const drawn = (count) => count.drawn === count.all ? "" : `${text.drawn} ${count.drawn} / ${count.all}`;

  function tokens() {
    const kinds = ["denied", "failed", "passed"].map((kind) => [kind, all(kind)]);
    const lines = processes().map((process) => side(process.level));
    const capacity = most(processes().map((process) => process.capacity || 0), 0);
    if (!kinds.some(([, list]) => list.length)) return;
    const levels = kinds.flatMap(([, list]) => list.map((mark) => mark[2]));
    const high = most(levels, Math.max(capacity, 1)), low = -most(levels.map((level) => -level), 0);
    const legend = [["━", "curve", text.level]];
    if (capacity) legend.push(["┅", "limit", text.capacity]);
    for (const kind of ["passed", "denied", "failed"]) {
      if (kind !== "failed" || all(kind).length) legend.push([SHAPES[kind], kind, text[kind]]);
    }
    chart("tokens", text.tokens, legend, {
      label: text.tokens, lines, note: drawn(data.launches),
      range: () => [low - (high - low) * 0.08, high + (high - low) * 0.12],
      paint: (u) => { dashed(u, capacity || null); breaks(u); marks(u, kinds, (mark) => mark[2]); },
      tell: (u, x) => {
        const found = nearest(u, kinds, (mark) => mark[2]);
        if (found) return `${SHAPES[found.kind]} ${moment(found.mark)} · ${text[found.kind]} · ${text.tokens} ${plain(found.mark[2], 3)}`;
        return at(x);
      },
    });
  }

  function memory() {
    const refused = [["refused", all("refused")]];
    // Corners come in pairs, so that straight lines between them are steps.
    const lines = processes().map((process) => { const [xs, ys] = side(process.live); return [xs, ys.map((y) => y / MB)]; });
    const quota = most(processes().map((process) => process.quota || 0), 0) / MB;
    const live = lines.reduce((top, [, ys]) => most(ys, top), 0);
    if (!live && !refused[0][1].length) return;
    // A request far beyond the quota would press the curve flat: it stands at the upper edge.
    const top = Math.max(live, quota, live || quota ? 0 : most(refused[0][1].map((mark) => mark[2] / MB), 1)) * 1.25;
    const height = (mark) => Math.min(mark[2] / MB, top * 0.96);
    const legend = [["━", "curve", text.live]];
    if (quota) legend.push(["┅", "limit", text.quota]);
    if (refused[0][1].length) legend.push([SHAPES.refused, "denied", text.refused]);
    const labelled = refused[0][1].length <= 12;
    chart("memory", text.live, legend, {
      label: text.live + " (MB)", lines, note: drawn(data.requests),
      range: () => [-top * 0.04, top],
      paint: (u) => {
        dashed(u, quota || null);
        breaks(u);
        marks(u, refused, height);
        if (labelled) draw(u, (ctx, ratio) => {
          ctx.fillStyle = colour("denied");
          ctx.font = `${12 * ratio}px system-ui, sans-serif`;
          ctx.textBaseline = "middle";
          for (const mark of refused[0][1]) {
            const label = `${plain(mark[2] / MB, 2)} MB`, x = u.valToPos(place(mark), "x", true), y = u.valToPos(height(mark), "y", true);
            const fits = x + ctx.measureText(label).width + 9 * ratio < u.bbox.left + u.bbox.width;
            ctx.textAlign = fits ? "left" : "right";
            ctx.fillText(label, x + (fits ? 9 : -9) * ratio, y);
          }
        });
      },
      tell: (u, x) => {
        const found = nearest(u, refused, height);
        if (found) return `${SHAPES.refused} ${moment(found.mark)} · ${text.denied} · ${text.would_be} ${plain(found.mark[2] / MB, 2)} MB`;
        const levels = processes().map((process, i) => [process.name, before(u, i + 1, x)]).filter(([, value]) => value !== null);
        const shown = levels.slice(0, 3).map(([name, value]) => `${levels.length > 1 ? name + " " : ""}${plain(value, 2)} MB`);
        return [at(x), ...shown].join(" · ");
      },
    });
  }

  function outcomes() {
    const bars = side(data.outcomes), names = ["passed", "denied", "failed"];
    const total = bars.counts.reduce((sum, [a, b, c]) => sum + a + b + c, 0);
    if (!total || state.process >= 0) return;
    const width = (bars.to - bars.from) / bars.counts.length || 1;
    const top = most(bars.counts.map(([a, b, c]) => a + b + c), 1) * 1.1;
    chart("outcomes", text.launches, names.filter((_, i) => i < 2 || bars.counts.some((bar) => bar[2])).map((name) => ["■", name, text[name]]), {
      label: text.launches, lines: [[[], []]],
      range: () => [0, top],
      paint: (u) => draw(u, (ctx) => {
        bars.counts.forEach((bar, i) => {
          const [left, right] = [0, 1].map((end) => u.valToPos(bars.from + (i + end) * width, "x", true));
          let below = 0;
          bar.forEach((count, kind) => {
            if (!count) return;
            ctx.fillStyle = colour(names[kind]);
            const [low, high] = [below, below + count].map((value) => u.valToPos(value, "y", true));
            const gap = Math.min(1, (right - left) * 0.1);
            ctx.fillRect(left + gap, high, Math.max(right - left - 2 * gap, 1), low - high);
            // Hatched besides: colour alone does not tell them apart for everyone.
            if (kind === 1) hatch(ctx, left + gap, high, Math.max(right - left - 2 * gap, 1), low - high);
            below += count;
          });
        });
      }),
      tell: (_, x) => {
        const i = Math.floor((x - bars.from) / width), bar = bars.counts[i];
        if (!bar) return "";
        const from = bars.from + i * width;
        const span = state.along === "time" ? `${seconds(from)} – ${seconds(from + width)}`
          : `${text.call} ${Math.ceil(from)} – ${Math.max(Math.ceil(from + width) - 1, Math.ceil(from))}`;
        return [span, ...names.map((name, kind) => `${text[name]} ${bar[kind]}`)].join(" · ");
      },
    });
  }
  function hatch(ctx, x, y, w, h) {
    ctx.save();
    ctx.beginPath();
    ctx.rect(x, y, w, h);
    ctx.clip();
    ctx.strokeStyle = colour("paper");
    ctx.lineWidth = devicePixelRatio;
    ctx.beginPath();
    const step = 6 * devicePixelRatio;
    for (let at = x - h; at < x + w; at += step) { ctx.moveTo(at, y + h); ctx.lineTo(at + h, y); }
    ctx.stroke();
    ctx.restore();
  }

  function charts() {
    state.plots.forEach(([u]) => u.destroy());
    state.plots = [];
    document.querySelectorAll("#charts figure").forEach((figure) => figure.remove());
    tokens();
    memory();
    outcomes();
    document.getElementById("hint").textContent = state.plots.length ? text.hover : text.none;
  }

  function views() {
    const box = document.getElementById("views");
    if (data.axes.time) {
      const buttons = ["time", "call"].map((along) => make("button", {
        type: "button", onclick: () => { state.along = along; press(); charts(); },
      }, data.axes[along]));
      const press = () => buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(state.along === ["time", "call"][i])));
      press();
      box.append(...buttons);
    }
    if (data.processes.length > 1) {
      const choice = select([text.all, ...data.processes.map((process) => process.name)]);
      choice.onchange = () => { state.process = choice.selectedIndex - 1; charts(); };
      box.append(choice);
    }
  }
  const select = (names) => make("select", {}, ...names.map((name) => make("option", {}, name)));

  function denials() {
    const { rows, names, all } = data.denials, PAGE = 100;
    const used = (column) => [...new Set(rows.map((row) => row[column]).filter((value) => value !== null))].sort((a, b) => a - b);
    const [apis, owners] = [used(3), used(0)];
    const api = select([text.all, ...apis.map((id) => names[id])]);
    const owner = select([text.all, ...owners.map((id) => data.processes[id].name)]);
    const kernel = make("input", { type: "search" }), from = make("input", { type: "number", step: "any" }), to = make("input", { type: "number", step: "any" });
    const label = (name, field) => make("label", {}, name, field);
    const by = data.axes.time ? "s" : text.call;
    if (all) {
      document.getElementById("filters").append(label("API", api));
      if (owners.length > 1) document.getElementById("filters").append(label("pid", owner));
      if (used(5).length) document.getElementById("filters").append(label("kernel", kernel));
      document.getElementById("filters").append(label(`≥ (${by})`, from), label(`≤ (${by})`, to));
    }
    const body = document.getElementById("rows"), more = document.getElementById("more");
    const cell = (value, numeric) => make("td", numeric ? { class: "n" } : {}, value === null || value === undefined ? "" : String(value));
    let limit = PAGE;
    function list() {
      const word = kernel.value.trim().toLowerCase();
      const [low, high] = [from, to].map((field) => field.value === "" ? null : Number(field.value));
      const found = rows.filter((row) => {
        const x = data.axes.time ? row[2] : row[1];
        return (!api.selectedIndex || row[3] === apis[api.selectedIndex - 1]) && (!owner.selectedIndex || row[0] === owners[owner.selectedIndex - 1])
          && (!word || (row[5] !== null && names[row[5]].toLowerCase().includes(word)))
          && (low === null || x >= low) && (high === null || x <= high);
      });
      body.replaceChildren(...found.slice(0, limit).map((row) => make("tr", {},
        cell(row[1], true), cell(row[2] === null ? "—" : row[2].toFixed(6) + " s", true), cell(data.processes[row[0]].name), cell(names[row[3]]),
        cell(row[4]), cell(row[5] === null ? "" : names[row[5]]), cell(row[6] === null ? "" : plain(row[6], 3), true), cell(row[7], true))));
      const listed = rows.length < all ? ` (${text.of} ${all}; hook-analyze --outcome denied --csv FILE)` : "";
      document.getElementById("matching").textContent = all ? `${text.matching}: ${found.length} / ${rows.length}${listed}` : text.none;
      more.hidden = found.length <= limit;
      more.textContent = text.more;
    }
    for (const field of [api, owner, kernel, from, to]) field.addEventListener("input", () => { limit = PAGE; list(); });
    more.onclick = () => { limit += 5 * PAGE; list(); };
    list();
  }

  views();
  charts();
  denials();
  new ResizeObserver(() => state.plots.forEach(([u, box]) => {
    if (box.clientWidth && box.clientWidth !== u.width) u.setSize({ width: box.clientWidth, height: 260 });
  })).observe(document.getElementById("charts"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", charts);
  root.dataset.drawn = state.plots.map(([, box]) => box.id.slice(5)).join(" ");
})();
