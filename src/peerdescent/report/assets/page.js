"use strict";
(() => {
  const { colours, charts, added } = JSON.parse(document.getElementById("data").textContent);
  const DARK = ["#4FA8E0", "#FF8A3D", "#2DCB9B", "#E79CC6", "#F2B632", "#9AD8FF", "#FFFFFF"];
  // 7 colours, 5 line styles and 9 markers: coprime, so that no two of 315 methods look the same
  const DASHES = ["solid", "9px,4px", "2px,3px", "9px,3px,2px,3px", "16px,4px"];
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "star", "pentagon", "hexagram"];
  const Y = { loss: "risk", test_loss: "test loss", accuracy: "test accuracy (%)", ...added, consensus_error: "consensus error", gradient_norm: "gradient norm" };
  const X = { iteration: "iterations", epochs: "epochs", bytes_sent: "bytes sent", seconds: "computing time (s)", simulated_seconds: "simulated seconds" };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let printing = false;

  const known = (v) => v !== null && v !== undefined && Number.isFinite(v);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const safe = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  const number = (v) => (v === 0 ? "0" : Math.abs(v) >= 1e5 || Math.abs(v) < 1e-3 ? v.toExponential(3) : String(+v.toPrecision(4)));
  const inUnits = (v) => {
    const power = v > 0 ? Math.min(6, Math.floor(Math.log10(v) / 3)) : 0;
    return `${+(v / 1000 ** power).toPrecision(4)} ${["B", "kB", "MB", "GB", "TB", "PB", "EB"][power]}`;
  };
  const look = (curve) => {
    const palette = dark.matches && !printing ? DARK : colours;
    return { colour: palette[curve.look % palette.length], dash: DASHES[curve.look % DASHES.length], symbol: SYMBOLS[curve.look % SYMBOLS.length] };
  };
  const faint = (hex, alpha) => `rgba(${[1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)).join(",")},${alpha})`;

  // a column of a seed or of the mean, in the unit of the axis
  function column(series, name, chart, part = "mean") {
    const source = series[name === "epochs" ? "iteration" : name];
    const values = Array.isArray(source) ? source : source ? source[part] : series.iteration.map(() => null);
    if (name === "epochs") return values.map((v) => v / chart.epoch);
    return name === "accuracy" ? values.map((v) => (known(v) ? 100 * v : null)) : values;
  }

  // the lowest and the highest agent of a single seed, in the unit of the axis
  const agents = (series, y) => series.agents?.[y];
  const ofAgent = (ends, end, i, y) => (ends && known(ends[end][i]) ? (y === "accuracy" ? 100 : 1) * ends[end][i] : null);

  // the points that can be shown: finite, and positive on a logarithmic axis
  function points(series, chart, s) {
    const x = column(series, s.x, chart), y = column(series, s.y, chart);
    const std = column(series, s.y, chart, "std"), min = column(series, s.y, chart, "min");
    const banded = series[s.y] && !Array.isArray(series[s.y]);
    return series.iteration.flatMap((k, i) => {
      if (!known(x[i]) || !known(y[i]) || (s.logx[s.x] && x[i] <= 0) || (s.logy[s.y] && y[i] <= 0)) return [];
      const deviation = banded && known(std[i]) ? std[i] : null;
      const low = deviation === null ? y[i] : y[i] - deviation, ends = agents(series, s.y);
      const least = ofAgent(ends, "low", i, s.y), most = ofAgent(ends, "high", i, s.y);
      if (least !== null) return [{ k, x: x[i], y: y[i], std: null, agents: true, high: most, low: s.logy[s.y] && least <= 0 ? y[i] : least }];
      return [{ k, x: x[i], y: y[i], std: deviation, high: y[i] + (deviation ?? 0), low: s.logy[s.y] && low <= 0 ? min[i] : low }];
    });
  }

  const full = (curve) => curve.mean ?? curve.seeds[0];
  const equalSeeds = (chart) => new Set(chart.curves.map((c) => c.seeds.length)).size === 1;
  const sendsNothing = (curve) => !curve.seeds.some((seed) => (seed.bytes_sent ?? []).some((v) => v > 0));

  function hover(curve, p, s) {
    const deviation = p.std === null ? "" : ` ± ${number(+p.std.toPrecision(2))}`;
    const place = { epochs: (v) => `${number(v)} epochs, `, bytes_sent: (v) => `${inUnits(v)}, `, seconds: (v) => `${number(v)} s, `, simulated_seconds: (v) => `${number(v)} simulated s, ` }[s.x];
    return `<b>${safe(curve.label)}</b>: ${number(p.y)}${deviation}${s.y === "accuracy" ? " %" : ""}<br>at ${place ? place(p.x) : ""}k = ${p.k.toLocaleString("en")}`;
  }

  function line(curve, series, chart, s, thin) {
    const { colour, dash, symbol } = look(curve), shown = points(series, chart, s);
    return {
      type: "scatter", mode: thin ? "lines" : "lines+markers", name: safe(curve.label), showlegend: false,
      x: shown.map((p) => p.x), y: shown.map((p) => p.y), opacity: thin ? 0.5 : 1,
      line: { color: colour, dash: thin ? "solid" : dash, width: thin ? 1 : 2 },
      marker: { symbol, color: colour, size: 7, maxdisplayed: 8 },
      hoverinfo: "text", hovertext: shown.map((p) => hover(curve, p, s)), meta: { label: curve.label, part: thin ? "seed" : "line" },
    };
  }

  function band(curve, chart, s) {
    const shown = points(full(curve), chart, s).filter((p) => p.std !== null || p.agents), back = [...shown].reverse();
    return {
      type: "scatter", mode: "lines", fill: "toself", hoverinfo: "skip", showlegend: false, line: { width: 0 },
      fillcolor: faint(look(curve).colour, 0.17), meta: { label: curve.label, part: "band" },
      x: [...shown, ...back].map((p) => p.x), y: [...shown.map((p) => p.high), ...back.map((p) => p.low)],
    };
  }

  // where runs diverged: a cross at the last point that can be shown, or at the edge if it lies beyond
  function crosses(curve, chart, s, limits) {
    const ends = curve.seeds.filter((seed) => seed.diverged).map((seed) => [seed, points(seed, chart, s).pop()]).filter(([, p]) => p);
    return {
      type: "scatter", mode: "markers", showlegend: false, cliponaxis: false, meta: { label: curve.label, part: "end" },
      x: ends.map(([, p]) => p.x), y: ends.map(([, p]) => (limits ? Math.max(limits[0], Math.min(limits[1], p.y)) : p.y)),
      marker: { symbol: "x-thin", size: 12, line: { width: 3, color: look(curve).colour } }, hoverinfo: "text",
      hovertext: ends.map(([seed]) => `<b>${safe(curve.label)}</b>: diverged at k = ${seed.iteration.at(-1).toLocaleString("en")}`),
    };
  }

  // diverged curves must not flatten the others: the axis follows those that did not diverge
  function limits(visible, chart, s) {
    const span = (curves, all) => {
      const values = curves.flatMap((c) => (all ? c.seeds : [full(c)]).flatMap((t) => points(t, chart, s).flatMap((p) => [p.low, p.high])));
      return values.length ? [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))] : null;
    };
    const calm = span(visible.filter((c) => c.state !== "diverged")), wild = span(visible.filter((c) => c.state === "diverged"), true);
    if (!calm || !wild) return null;
    const [to, from] = s.logy[s.y] ? [Math.log10, (v) => 10 ** v] : [(v) => v, (v) => v];
    const [a, b] = calm.map(to), room = Math.max(b - a, s.logy[s.y] ? 1 : 1e-9);
    const [low, high] = [a - room, b + room];
    if (to(wild[0]) >= low && to(wild[1]) <= high) return null;
    return [from(Math.max(low, Math.min(a, to(wild[0])) - 0.05 * room)), from(Math.min(high, Math.max(b, to(wild[1])) + 0.05 * room))];
  }

  function layout(s, range, empty) {
    const ink = css("--ink"), grid = css("--grid");
    const axis = { gridcolor: grid, linecolor: css("--line"), zeroline: false, automargin: true, showline: true, ticks: "outside", tickcolor: css("--line"), exponentformat: "power" };
    const log = (on, ticks) => (on ? { type: "log", nticks: 6 } : { type: "linear", nticks: ticks });
    const units = { bytes_sent: { tickformat: "~s", ticksuffix: "B" }, iteration: { tickformat: ",d" } }[s.x] ?? {};
    const logy = s.logy[s.y], ends = range && (logy ? range.map(Math.log10) : range);
    return {
      xaxis: { ...axis, ...log(s.logx[s.x], innerWidth < 640 ? 5 : 9), ...units, title: { text: X[s.x] } },
      yaxis: { ...axis, ...log(logy, 8), title: { text: safe(Y[s.y]) }, ...(ends ? { range: ends } : { autorange: true }) },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink, family: "system-ui, sans-serif", size: 13 },
      margin: { l: 50, r: 14, t: 26, b: 44 }, modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--soft"), activecolor: css("--accent") }, showlegend: false, hovermode: "closest", hoverdistance: 30,
      hoverlabel: { bgcolor: css("--card"), bordercolor: css("--line"), font: { color: ink, size: 13 }, align: "left", namelength: -1 },
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom", uirevision: [s.x, s.y, s.logx[s.x], logy, empty].join(),
      annotations: empty ? [{ text: empty, showarrow: false, xref: "paper", yref: "paper", x: 0.5, y: 0.5, font: { size: 15 } }] : [],
    };
  }

  function remarks(chart, s) {
    const names = (curves) => curves.map((c) => c.label).join(", ");
    const texts = [], several = Math.max(...chart.curves.map((c) => c.seeds.length));
    if (several > 1) texts.push(`Lines are means over ${equalSeeds(chart) ? `${several} ` : ""}seeds, bands ± one sample standard deviation` + (s.logy[s.y] ? ", cut at the lowest seed where they would reach 0." : "."));
    if (several > 1 && chart.curves.some((c) => c.state !== "done")) texts.push("A mean ends where its first seed ends; thin lines are single seeds.");
    if (chart.curves.some((c) => c.seeds.length === 1 && agents(c.seeds[0], s.y))) texts.push(`${several > 1 ? "Bands of single seeds" : "Bands"} reach from the lowest to the highest agent.`);
    const withoutBytes = chart.curves.filter((c) => s.x === "bytes_sent" && sendsNothing(c));
    if (withoutBytes.length) texts.push(`Not drawn, no bytes sent: ${names(withoutBytes)}.`);
    const zero = chart.curves.filter((c) => !withoutBytes.includes(c) && s.logy[s.y] && column(full(c), s.y, chart).some(known) && !column(full(c), s.y, chart).some((v) => v > 0));
    if (zero.length) texts.push(`Not drawn, a logarithmic axis cannot show 0: ${names(zero)}.`);
    if (chart.curves.some((c) => c.state === "diverged")) texts.push("A cross marks the last finite value of a run that diverged.");
    return texts.join(" ");
  }

  function draw(chart) {
    const s = chart.now;
    const visible = chart.curves.filter((c) => !s.hidden.has(c.label) && !(s.x === "bytes_sent" && sendsNothing(c)));
    const range = limits(visible, chart, s);
    const traces = visible.flatMap((curve) => {
      const several = curve.seeds.length > 1;
      const singles = several && (curve.state !== "done" || !curve.mean) ? curve.seeds.map((seed) => line(curve, seed, chart, s, true)) : [];
      const main = !several || curve.mean ? [line(curve, full(curve), chart, s, false)] : [];
      const banded = several ? curve.mean : agents(curve.seeds[0], s.y);
      return [...(banded ? [band(curve, chart, s)] : []), ...singles, ...main, crosses(curve, chart, s, range)];
    }).filter((trace) => trace.x.length);
    const empty = traces.length ? "" : s.hidden.size === chart.curves.length ? "Every method is hidden" : "Nothing to draw yet";
    const options = { responsive: true, displaylogo: false, displayModeBar: matchMedia("(pointer: coarse)").matches ? false : "hover", modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]], toImageButtonOptions: { format: "svg", filename: "curves" } };
    Plotly.react(chart.plot, traces, layout(s, range, empty), options);
    chart.remarks.textContent = remarks(chart, s);
    for (const [curve, button] of chart.entries) {
      const { colour, dash } = look(curve);
      button.setAttribute("aria-pressed", String(!s.hidden.has(curve.label)));
      const stroke = button.querySelector("line");
      stroke.setAttribute("stroke", colour);
      stroke.setAttribute("stroke-dasharray", dash === "solid" ? "none" : dash.replace(/px/g, ""));
    }
    chart.toggles.forEach(([button, on]) => button.setAttribute("aria-pressed", String(on())));
  }

  function legend(chart) {
    const list = make("ul", { class: "legend", "aria-label": "Methods: click to hide one, double-click to show only it" });
    for (const curve of chart.curves) {
      const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      svg.setAttribute("viewBox", "0 0 44 14");
      svg.innerHTML = '<line x1="1" x2="43" y1="7" y2="7" stroke-width="2.5"/>';
      const text = make("span", {}, curve.label + (curve.seeds.length > 1 && !equalSeeds(chart) ? ` (${curve.seeds.length} seeds)` : ""));
      if (curve.mark) text.append(" ", make("span", { class: "mark" }, `${curve.state === "diverged" ? "✕" : "…"} ${curve.mark}`));
      const button = make("button", { type: "button", title: "Click to hide or show, double-click to show only this" }, svg, text);
      const hidden = chart.now.hidden;
      button.addEventListener("click", () => { hidden.delete(curve.label) || hidden.add(curve.label); draw(chart); });
      button.addEventListener("dblclick", () => {
        const others = chart.curves.filter((c) => c !== curve), alone = others.every((c) => hidden.has(c.label));
        hidden.clear();
        if (!alone) others.forEach((c) => hidden.add(c.label));
        draw(chart);
      });
      chart.entries.push([curve, button]);
      list.append(make("li", { class: curve.state }, button));
    }
    return list;
  }

  function choice(chart, words, key, names, caption) {
    const select = make("select", { name: key }, ...names.map((name) => make("option", { value: name }, words[name].replace(/ \((%|s)\)$/, ""))));
    select.addEventListener("change", () => { chart.now[key] = select.value; draw(chart); });
    return make("label", {}, caption, select);
  }

  function toggle(chart, name, axis) {
    const button = make("button", { type: "button", name, title: "Logarithmic or linear" }, `log ${axis}`);
    button.addEventListener("click", () => { chart.now[name][chart.now[axis]] = !chart.now[name][chart.now[axis]]; draw(chart); });
    chart.toggles.push([button, () => Boolean(chart.now[name][chart.now[axis]])]);
    return button;
  }

  // start with a logarithmic axis where values span more than a factor of ten and none is negative
  function spans(chart, y) {
    const calm = chart.curves.filter((c) => c.state !== "diverged"), curves = calm.length ? calm : chart.curves;
    const values = curves.flatMap((c) => c.seeds.flatMap((seed) => column(seed, y, chart))).filter(known);
    const positive = values.filter((v) => v > 0);
    if (y === "accuracy" || !positive.length || values.some((v) => v < 0 || (v === 0 && y === "loss"))) return false;
    return positive.reduce((a, b) => Math.max(a, b)) > 10 * positive.reduce((a, b) => Math.min(a, b));
  }

  function build(chart, figure) {
    const has = (name) => chart.curves.some((c) => c.seeds.some((seed) => (seed[name] ?? []).some((v) => known(v) && (name !== "bytes_sent" || v > 0))));
    const ys = Object.keys(Y).filter(has), xs = Object.keys(X).filter((x) => (x === "epochs" ? chart.epoch : x === "iteration" || has(x)));
    if (!ys.length) ys.push("loss");
    chart.now = { x: xs[0], y: ys[0], logx: {}, logy: Object.fromEntries(ys.map((y) => [y, spans(chart, y)])), hidden: new Set() };
    chart.entries = []; chart.toggles = [];
    chart.plot = make("div", { class: "plot", role: "img", "aria-label": `Curves: ${chart.title || chart.curves.map((c) => c.label).join(", ")}` });
    chart.remarks = make("p", { class: "remarks" });
    const scales = make("span", { class: "toggle" }, toggle(chart, "logy", "y"), toggle(chart, "logx", "x"));
    const controls = make("div", { class: "controls" }, choice(chart, Y, "y", ys, "Show"), choice(chart, X, "x", xs, "against"), scales);
    const hint = make("p", { class: "remarks hint" }, "Click a method to hide it, double-click to show only it.");
    figure.append(controls, chart.plot, legend(chart), ...(chart.curves.length > 1 ? [hint] : []), chart.remarks);
    draw(chart);
  }

  const redraw = () => charts.forEach(draw);
  const paper = (on) => { printing = on; document.documentElement.classList.toggle("paper", on); redraw(); };
  charts.forEach((chart, number) => build(chart, document.querySelector(`[data-chart="${number}"]`)));
  dark.addEventListener("change", redraw);
  addEventListener("beforeprint", () => paper(true));
  addEventListener("afterprint", () => paper(false));

  const copy = document.getElementById("copy"), command = document.getElementById("command");
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(command.textContent);
    } catch {
      getSelection().selectAllChildren(command);
      document.execCommand("copy");
    }
    copy.textContent = "Copied";
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  });
})();
