// The script of the pages: how long ago times were, charts, the picture of who waits for whom, and
// whether the page is live. All data comes from attributes that the server wrote; texts of others
// are only ever set as text.
(() => {
  "use strict";
  const skew = Number(document.body.dataset.now) - Date.now(); // the clock of the server
  const now = () => Date.now() + skew;

  // span is the function of the same name on the server.
  function span(ms) {
    const s = Math.floor(ms / 1000);
    if (s < 1) return "under 1 s";
    if (s < 60) return s + " s";
    if (s < 3600) return Math.floor(s / 60) + " min " + (s % 60) + " s";
    if (s < 86400) return Math.floor(s / 3600) + " h " + Math.floor((s % 3600) / 60) + " min";
    return Math.floor(s / 86400) + " d " + Math.floor((s % 86400) / 3600) + " h";
  }

  function set(el, text) {
    if (el.textContent !== text) el.textContent = text;
  }

  function tick() {
    const t = now();
    for (const el of document.querySelectorAll("time[data-ago]")) set(el, span(t - Date.parse(el.dateTime)));
    for (const el of document.querySelectorAll("time[data-left]")) set(el, span(Date.parse(el.dateTime) - t));
    for (const el of document.querySelectorAll("progress[data-until]")) {
      el.value = Math.max(0, (Date.parse(el.dataset.until) - t) / 1000);
    }
  }

  const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Charts.
  const charts = new Map();
  function drawChart(el) {
    if (!window.uPlot) return;
    const data = JSON.parse(el.dataset.series), n = (data.grants || []).length;
    const xs = Array.from({length: n}, (_, i) => data.from + i * data.step);
    const rate = el.dataset.chart === "rate";
    const rows = rate ? [xs, data.grants || [], data.waits || []] : [xs, data.longest || []];
    if (n > 0) { // the last step is the current one: it is drawn up to now
      xs.push(Math.min(Math.max(now() / 1000, xs[n - 1]), data.from + n * data.step));
      for (const row of rows.slice(1)) row.push(row[n - 1]);
    }
    const old = charts.get(el), from = data.from, to = Math.max(data.from + n * data.step, data.from + 60);
    if (old) {
      old.setData(rows, false);
      old.setScale("x", {min: from, max: to});
      return;
    }
    const axis = {stroke: css("--dim"), grid: {stroke: css("--line"), width: 1}, ticks: {show: false}, font: "12px system-ui, sans-serif"};
    const line = (label, name) => ({label, stroke: css(name), width: 1.6, fill: css(name) + "22", points: {show: false}, paths: uPlot.paths.stepped({align: 1})});
    const plot = new uPlot({
      width: el.clientWidth, height: 180, legend: {show: false}, cursor: {y: false, points: {show: false}},
      scales: {x: {time: true}, y: {range: (u, min, max) => [0, Math.max(max || 0, 1) * 1.1]}},
      series: rate ? [{}, line("granted", "--chart1"), line("had to wait", "--chart2")] : [{}, line("waited", "--chart3")],
      axes: [{...axis, size: 28, space: 60, incrs: [60, 120, 300, 600, 900, 1800, 3600, 7200, 14400], values: (u, vals) => vals.map(v => new Date(v * 1000).toLocaleTimeString([], {hour: "2-digit", minute: "2-digit", hour12: false}))}, {...axis, size: 42}],
      hooks: {setCursor: [u => {
        const i = u.cursor.idx;
        el.title = i == null ? "" : new Date(u.data[0][i] * 1000).toLocaleTimeString() + ": " +
          u.series.slice(1).map((s, k) => s.label + " " + (u.data[k + 1][i] ?? 0)).join(", ");
      }]},
    }, rows, el);
    plot.setScale("x", {min: from, max: to});
    charts.set(el, plot);
  }

  // The picture: dagre computes where nodes and edges are.
  const ns = "http://www.w3.org/2000/svg";
  function shape(name, attributes, parent) {
    const el = document.createElementNS(ns, name);
    for (const [k, v] of Object.entries(attributes)) el.setAttribute(k, v);
    if (parent) parent.append(el);
    return el;
  }
  const short = s => s.length > 30 ? s.slice(0, 29) + "…" : s;

  function drawGraph(el) {
    if (!window.dagre || el.drawn === el.dataset.graph) return;
    el.drawn = el.dataset.graph;
    const data = JSON.parse(el.dataset.graph);
    const g = new dagre.graphlib.Graph();
    g.setGraph({rankdir: "LR", nodesep: 14, ranksep: el.clientWidth < 600 ? 26 : 54, marginx: 6, marginy: 6});
    g.setDefaultEdgeLabel(() => ({}));
    for (const n of data.nodes) {
      n.label = short(n.text);
      g.setNode(n.id, {...n, width: Math.max(64, n.label.length * 7.4 + 26), height: n.sub ? 44 : 32});
    }
    for (const e of data.edges) g.setEdge(e.from, e.to, {...e});
    dagre.layout(g);
    const size = g.graph(), fit = (el.clientWidth - 30) / size.width, scale = fit < 1 && fit > .6 ? fit : 1;
    const svg = shape("svg", {width: Math.ceil(size.width * scale), height: Math.ceil(size.height * scale), viewBox: `0 0 ${size.width} ${size.height}`});
    const edges = g.edges().map(e => g.edge(e)).sort((a, b) => Boolean(a.bad) - Boolean(b.bad));
    for (const e of edges) drawEdge(svg, e);
    for (const id of g.nodes()) drawNode(svg, g.node(id));
    el.replaceChildren(svg);
  }

  function drawEdge(svg, e) {
    const kind = (e.waits ? " waits" : "") + (e.bad ? " bad" : ""), p = e.points;
    let d = `M${p[0].x},${p[0].y}`;
    for (let i = 1; i < p.length - 1; i++) {
      const x = (p[i].x + p[i + 1].x) / 2, y = (p[i].y + p[i + 1].y) / 2;
      d += ` Q${p[i].x},${p[i].y} ${i === p.length - 2 ? p[i + 1].x : x},${i === p.length - 2 ? p[i + 1].y : y}`;
    }
    shape("path", {class: "edge" + kind, d}, svg);
    const a = p[p.length - 2], b = p[p.length - 1], angle = Math.atan2(b.y - a.y, b.x - a.x) * 180 / Math.PI;
    shape("path", {class: "tip" + kind, d: "M0,0 L-8,-4 L-8,4 Z", transform: `translate(${b.x},${b.y}) rotate(${angle})`}, svg);
  }

  function drawNode(svg, n) {
    let parent = svg;
    if (n.path) parent = shape("a", {href: n.path}, svg);
    const group = shape("g", {class: "node" + (n.lock ? " lock" : "") + (n.bad ? " bad" : ""), transform: `translate(${n.x},${n.y})`}, parent);
    shape("title", {}, group).textContent = n.text;
    shape("rect", {class: "box", x: -n.width / 2, y: -n.height / 2, width: n.width, height: n.height, rx: n.lock ? 8 : n.height / 2}, group);
    const text = shape("text", {"text-anchor": "middle", y: n.sub ? -1 : 4.5}, group);
    text.textContent = n.label;
    if (n.sub) shape("text", {"text-anchor": "middle", y: 14, class: "sub"}, group).textContent = n.sub;
  }

  // The form of Break is outside of the live part: it says so if the holder has changed.
  function checkForm() {
    const form = document.querySelector("details[data-fence]"), shown = document.getElementById("fence");
    if (!form || !shown) return;
    const changed = form.dataset.fence !== shown.dataset.fence;
    form.querySelector(".changed").hidden = !changed;
  }

  function draw() {
    for (const el of charts.keys()) if (!el.isConnected) { charts.get(el).destroy(); charts.delete(el); }
    document.querySelectorAll("[data-chart]").forEach(drawChart);
    document.querySelectorAll("[data-graph]").forEach(drawGraph);
    checkForm();
  }

  let due = false;
  const live = document.getElementById("live");
  if (live) {
    // The callback runs before the next frame is painted, so empty times are never seen.
    new MutationObserver(() => {
      tick();
      if (due) return;
      due = true;
      requestAnimationFrame(() => { due = false; draw(); });
    }).observe(live, {childList: true, subtree: true, attributes: true, attributeFilter: ["data-series", "data-graph", "data-fence", "datetime"]});
  }
  setInterval(tick, 1000);
  tick();
  draw();

  window.addEventListener("resize", () => {
    for (const [el, plot] of charts) plot.setSize({width: el.clientWidth, height: 180});
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const [el, plot] of [...charts]) { plot.destroy(); charts.delete(el); drawChart(el); }
  });

  // Whether the page is live.
  const state = document.getElementById("state");
  function say(value, text) {
    if (!state) return;
    state.dataset.state = value;
    set(state.querySelector(".label"), text);
  }
  document.addEventListener("htmx:sse:after:connection", () => say("on", "live"));
  document.addEventListener("htmx:sse:error", e => {
    say("again", "connects again");
    if (e.detail && e.detail.status === 401) location.reload(); // the session has ended
  });
  document.addEventListener("htmx:sse:close", () => say("off", "not live"));

  // A page that the browser keeps for its Back button must not keep its connection: there are six.
  window.addEventListener("pagehide", () => live?._htmx?.sse?.abortController?.abort());
  window.addEventListener("pageshow", e => { if (e.persisted) location.reload(); });

  // "/" goes to the search.
  document.addEventListener("keydown", e => {
    if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, select, textarea")) return;
    const field = document.querySelector("[data-key='/']");
    if (field) { e.preventDefault(); field.focus(); field.select(); }
  });
})();
