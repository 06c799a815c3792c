// Draws a results file (docs/file_formats.md): statements, line charts, heat maps and tables.
'use strict';
(() => {
  const results = JSON.parse(document.getElementById('results').textContent);
  const main = document.querySelector('main');
  const charts = [];

  function make(tag, parent, text, className) {
    const element = document.createElement(tag);
    if (text !== undefined && text !== null) element.textContent = text;
    if (className) element.className = className;
    if (parent) parent.append(element);
    return element;
  }
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const tint = (series, i) => '--s' + ((series.colour ?? i) % 10);
  function short(value) {
    if (value === null || value === undefined) return '–';
    if (typeof value !== 'number') return String(value);
    if (value !== 0 && (Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3)) return value.toExponential(2);
    return String(Number(value.toPrecision(4)));
  }

  function statements(list) {
    make('h2', main, 'The statements');
    const table = make('table', make('div', main, null, 'scroll'));
    const head = make('tr', make('thead', table));
    ['statement', '', 'what was found', 'number'].forEach((text) => make('th', head, text));
    const body = make('tbody', table);
    for (const s of list) {
      const row = make('tr', body);
      make('td', row, s.name);
      make('td', row, s.verdict, 'verdict ' + s.verdict);
      make('td', row, s.text);
      make('td', row, s.number);
    }
  }

  // All x of all series, and each series on them: [x, y0, low0, high0, y1, ...] with nulls.
  function aligned(figure) {
    const keep = (axis, value) => value !== null && (!axis.log || value > 0) ? value : null;
    const xs = [...new Set(figure.series.flatMap((s) => s.x))].filter((x) => keep(figure.x, x) !== null);
    xs.sort((a, b) => a - b);
    const at = new Map(xs.map((x, i) => [x, i]));
    const columns = [xs];
    for (const s of figure.series) {
      for (const key of ['y', 'low', 'high']) {
        const column = new Array(xs.length).fill(null);
        (s[key] || []).forEach((y, i) => {
          if (at.has(s.x[i])) column[at.get(s.x[i])] = keep(figure.y, y);
        });
        columns.push(column);
      }
    }
    return columns;
  }

  function seriesOptions(figure) {
    const options = [{}], bands = [];
    figure.series.forEach((s, i) => {
      const points = { show: s.x.length < 40, size: 6 };
      options.push({ label: s.name, stroke: () => colour(tint(s, i)), width: 2, spanGaps: true, points, dash: s.dash ? [6, 4] : undefined });
      for (let edge = 0; edge < 2; ++edge) {
        options.push({ label: '', stroke: 'transparent', width: 0, spanGaps: true, points: { show: false } });
      }
      if (s.low && s.high) bands.push({ series: [3 * i + 3, 3 * i + 2], fill: () => colour(tint(s, i)) + '26' });
    });
    return { options, bands };
  }

  function legend(figure, parent, toggle) {
    const row = make('div', parent, null, 'legend');
    return figure.series.map((s, i) => {
      const button = make('button', row);
      button.type = 'button';
      button.setAttribute('aria-pressed', 'true');
      make('i', button).style.background = `var(${tint(s, i)})`;
      button.append(s.name);
      const value = make('output', button);
      button.addEventListener('click', () => {
        const show = button.getAttribute('aria-pressed') !== 'true';
        button.setAttribute('aria-pressed', String(show));
        toggle(i, show);
      });
      return value;
    });
  }

  function lines(figure, parent) {
    const data = aligned(figure);
    const { options, bands } = seriesOptions(figure);
    let chart;
    const values = legend(figure, parent, (i, show) => {
      for (let part = 1; part <= 3; ++part) chart.setSeries(3 * i + part, { show });
    });
    const readout = make('div', parent, ' ', 'note');
    const axis = (a, size) => ({
      label: a.label, stroke: () => colour('--ink'), size, labelSize: 22, font: '12px system-ui', labelFont: '13px system-ui',
      grid: { stroke: () => colour('--line'), width: 1 }, ticks: { stroke: () => colour('--line') },
      values: (u, splits) => splits.map((v) => v === null ? '' : short(v)),
    });
    const hover = (u) => {
      const i = u.cursor.idx;
      readout.textContent = i === null || i === undefined ? '\u00a0' : `${figure.x.label} ${short(data[0][i])}`;
      values.forEach((value, s) => { value.textContent = i === null || i === undefined ? '' : short(data[3 * s + 1][i]); });
    };
    const width = () => Math.max(240, parent.clientWidth);
    chart = new uPlot({
      width: width(), height: 320, series: options, bands, legend: { show: false }, hooks: { setCursor: [hover] },
      scales: { x: { time: false, distr: figure.x.log ? 3 : 1 }, y: { distr: figure.y.log ? 3 : 1 } },
      axes: [axis(figure.x, 40), axis(figure.y, 64)], cursor: { drag: { x: false, y: false } },
    }, data, parent);
    charts.push({ chart, width });
  }

  function heat(figure, parent) {
    const all = figure.values.flat().filter((v) => v !== null);
    const low = Math.min(...all), high = Math.max(...all);
    const table = make('table', make('div', parent, null, 'scroll'), null, 'heat');
    const head = make('tr', table);
    make('th', head, figure.label || '');
    figure.columns.forEach((text) => make('th', head, text));
    figure.values.forEach((values, r) => {
      const row = make('tr', table);
      make('th', row, figure.rows[r]);
      values.forEach((value, c) => {
        const cell = make('td', row, short(value));
        cell.title = `${figure.rows[r]}, ${figure.columns[c]}: ${short(value)}`;
        const part = value === null ? 0 : (value - low) / (high - low || 1);
        cell.style.background = `color-mix(in srgb, var(--s0) ${Math.round(75 * part)}%, var(--soft))`;
      });
    });
  }

  function table(figure, parent) {
    const element = make('table', make('div', parent, null, 'scroll'));
    const head = make('tr', make('thead', element));
    figure.columns.forEach((text) => make('th', head, text));
    const body = make('tbody', element);
    for (const values of figure.rows) {
      const row = make('tr', body);
      values.forEach((value) => make('td', row, short(value), typeof value === 'number' ? 'number' : ''));
    }
  }

  const draw = { lines, heat, table };
  make('h1', main, results.title);
  make('p', main, results.summary);
  if (results.statements && results.statements.length > 0) statements(results.statements);
  for (const section of results.sections) {
    make('h2', main, section.title);
    for (const text of section.text || []) make('p', main, text);
    for (const figure of section.figures || []) {
      const element = make('figure', main);
      make('h3', element, figure.title);
      draw[figure.type](figure, element);
      if (figure.note) make('figcaption', element, figure.note, 'note');
    }
  }
  const footer = make('footer', main);
  make('h2', footer, 'How this was made');
  make('pre', footer, results.command);
  table({ columns: ['setting', 'value'], rows: Object.entries(results.settings).map(([k, v]) => [k, String(v)]) }, footer);

  const redraw = () => charts.forEach(({ chart }) => chart.redraw(false));
  const resize = () => charts.forEach(({ chart, width }) => {
    if (chart.width !== width()) chart.setSize({ width: width(), height: 320 });
  });
  addEventListener('resize', resize);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  const light = (on) => {
    if (on) document.documentElement.dataset.theme = 'light'; else delete document.documentElement.dataset.theme;
    redraw();
  };
  addEventListener('beforeprint', () => light(true));
  addEventListener('afterprint', () => light(false));
  document.documentElement.dataset.drawn = String(charts.length);
})();
