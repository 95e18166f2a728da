'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const app = document.getElementById('app');
const SVG = 'http://www.w3.org/2000/svg';

function el(tag, attrs, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attrs || {})) {
    if (key === 'onclick' || key === 'oninput') node[key] = value;
    else if (value !== null && value !== undefined) node.setAttribute(key, value);
  }
  for (const child of children) if (child !== null && child !== undefined) node.append(child);
  return node;
}
function svg(tag, attrs, title) {
  const node = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attrs)) node.setAttribute(key, value);
  if (title) {
    const t = document.createElementNS(SVG, 'title');
    t.textContent = title;
    node.append(t);
  }
  return node;
}
const count = n => n === null ? '\u2013' : n.toLocaleString('en-US');
const percent = (x, digits = 1) => (x * 100).toFixed(digits) + ' %';
function show(value, format) {
  if (value === null) return '\u2013';
  if (format === 'percent') return percent(value, 2);
  if (format === 'number') return value.toFixed(1);
  if (format === 'count') return count(value);
  return String(value);
}
// White to orange to red.
function heat(share) {
  const hue = 48 - 40 * share;
  return `hsl(${hue}, ${60 + 30 * share}%, ${88 - 33 * share}%)`;
}

const functionIndex = new Map(data.functions.map((f, i) => [f.name, i]));
function linkOf(text) {
  const name = text.replace(/\+0x[0-9a-f]+$/, '');
  const index = functionIndex.get(name);
  if (index === undefined) return text;
  return el('a', {onclick: () => select('code', index, text), href: '#', title: 'source and assembly'}, text);
}

// A column that is unknown throughout (predictions and cycles of software records) only takes room; the facts above say so.
function known(table) {
  const keep = table.columns.map((_, i) => i).filter(i => !table.rows.length || table.rows.some(row => row[i] !== null));
  return {...table, columns: keep.map(i => table.columns[i]), rows: table.rows.map(row => keep.map(i => row[i]))};
}

// A narrow screen shows the names first: what scrolls out on the right are the numbers.
function forScreen(table) {
  if (window.innerWidth >= 760) return table;
  const names = new Set(['from', 'function', 'head', 'start', 'site', 'line', 'path', 'from_symbol', 'stop']);
  const order = table.columns.map((_, i) => i).sort((a, b) => names.has(table.columns[b].name) - names.has(table.columns[a].name) || a - b);
  return {...table, columns: order.map(i => table.columns[i]), rows: table.rows.map(row => order.map(i => row[i]))};
}

function tableView(original) {
  const table = forScreen(known(original));
  const box = el('div', {});
  const state = {key: -1, falling: true, words: ''};
  const search = el('input', {type: 'search', placeholder: 'filter rows', 'aria-label': 'filter rows', oninput: () => { state.words = search.value.toLowerCase(); fill(); }});
  const head = el('tr', {}), body = el('tbody', {});
  table.columns.forEach((column, i) => {
    head.append(el('th', {class: column.format === 'text' ? '' : 'num', tabindex: 0, onclick: () => {
      if (state.key === i) state.falling = !state.falling;
      else { state.key = i; state.falling = column.format !== 'text'; }
      fill();
    }}, column.title));
  });
  const numeric = i => table.columns[i].format !== 'text';
  const value = (row, i) => table.columns[i].format === 'address' && row[i] !== null ? BigInt(row[i]) : row[i];
  function fill() {
    let rows = table.rows;
    if (state.words) rows = rows.filter(row => row.some(cell => cell !== null && String(cell).toLowerCase().includes(state.words)));
    if (state.key >= 0) {
      rows = rows.slice().sort((a, b) => {
        const x = value(a, state.key), y = value(b, state.key);
        if (x === null || y === null) return (x === null) - (y === null);
        const order = x < y ? -1 : x > y ? 1 : 0;
        return state.falling ? -order : order;
      });
    }
    [...head.children].forEach((th, i) => i === state.key ? th.setAttribute('aria-sort', state.falling ? 'descending' : 'ascending') : th.removeAttribute('aria-sort'));
    body.replaceChildren(...rows.map(row => el('tr', {}, ...row.map((cell, i) => {
      const column = table.columns[i], text = show(cell, column.format);
      if (numeric(i)) {
        const td = el('td', {class: 'num'});
        if (column.name === 'share' && cell !== null) td.append(el('span', {class: 'bar', style: `width:${Math.round(cell * 60)}px`}));
        td.append(text);
        return td;
      }
      const wide = column.name === 'path' || column.name === 'advice' || column.name === 'meaning';
      return el('td', {class: 'text' + (wide ? ' wide' : ''), title: text}, wide ? text : linkOf(text));
    }))));
    if (!rows.length) body.append(el('tr', {}, el('td', {colspan: table.columns.length, class: 'dim'}, table.rows.length ? 'no row matches' : 'nothing to show')));
  }
  fill();
  if (table.rows.length > 8) box.append(search);
  box.append(el('div', {class: 'scroll'}, el('table', {}, el('thead', {}, head), body)));
  if (table.notes.length) box.append(el('ul', {class: 'notes'}, ...table.notes.map(note => el('li', {}, note))));
  return box;
}

// The function from top to bottom: blocks by heat, taken branches as arcs (down on the right, up on the left).
function branchMap(f, jump) {
  const code = f.code, W = 200, top = 8;
  const seen = code.map((_, i) => i).filter(i => (code[i].e || 0) > 0 || code[i].x > 0);
  const keep = seen.length && code.length > 260 ? seen : code.map((_, i) => i);
  const step = Math.max(2, Math.min(9, 520 / Math.max(keep.length, 1)));
  const H = top * 2 + keep.length * step;
  const y = new Map(keep.map((index, row) => [code[index].a, top + row * step]));
  const root = svg('svg', {viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': 'branch map of ' + f.name, preserveAspectRatio: 'none', style: `height:min(74vh, ${H}px)`});
  const most = Math.max(1, ...code.map(i => Math.max(i.e || 0, i.x || 0)));
  for (const index of keep) {
    const i = code[index], n = Math.max(i.e || 0, i.x || 0);
    const r = svg('rect', {x: 80, y: y.get(i.a), width: 40, height: Math.max(step - .4, 1.2), fill: n ? heat(Math.sqrt(n / most)) : 'var(--line)', rx: 1}, `${i.a}: ${i.t}\n${count(n)} times`);
    r.style.cursor = 'pointer';
    r.onclick = () => jump(i.a);
    root.append(r);
  }
  const arcs = f.arcs.filter(a => y.has(a[0]) && y.has(a[1])).sort((a, b) => a[2] - b[2]).slice(-120);
  const heaviest = Math.max(1, ...arcs.map(a => a[2]));
  for (const [from, to, n, missed, known] of arcs) {
    const y1 = y.get(from) + step / 2, y2 = y.get(to) + step / 2, down = y2 > y1;
    const reach = Math.min(76, 10 + Math.abs(y2 - y1) * .45);
    const x = down ? 120 : 80, cx = down ? 120 + reach : 80 - reach;
    const rate = known ? missed / known : 0;
    root.append(svg('path', {d: `M${x} ${y1} C${cx} ${y1} ${cx} ${y2} ${x} ${y2}`, fill: 'none', stroke: rate > .05 ? 'var(--hot)' : 'var(--cold)',
      'stroke-width': (.8 + 3.2 * Math.sqrt(n / heaviest)).toFixed(2), opacity: .75, 'vector-effect': 'non-scaling-stroke'},
      `${from} \u2192 ${to}\n${count(n)} times` + (known ? `, mispredicted ${percent(rate)}` : '')));
  }
  return el('div', {class: 'map'}, root, el('small', {}, 'blocks by how often they ran; arcs are taken branches, right: forward, left: back; orange: mispredicted above 5 %'));
}

function branchNote(i) {
  const parts = [];
  if (i.k === 'cond' && i.p !== null && i.x + i.p > 0) parts.push('taken ' + percent(i.x / (i.x + i.p)));
  else if (i.x) parts.push('taken ' + count(i.x) + '\u00d7');
  if (i.w) parts.push('mispredicted ' + percent(i.m / i.w));
  if (i.g && i.g.length && (i.g.length > 1 || i.k === 'ind_call' || i.k === 'ind_jump' || i.k === 'ret'))
    parts.push('to ' + i.g.slice(0, 3).map(t => `${t[0]} ${percent(t[1] / Math.max(i.x, 1))}`).join(', ') + (i.g.length > 3 ? ', \u2026' : ''));
  return parts.join(', ');
}

function codeView(f, focus) {
  const lines = new Map(f.source.map(s => [s[0] + ':' + s[1], s[2]]));
  const most = Math.max(1, ...f.code.map(i => Math.max(i.e || 0, i.x || 0)));
  const body = el('tbody', {}), rows = new Map();
  // A narrow screen has room for the code; cycles and addresses are in the tables, too.
  const narrow = window.innerWidth < 760, cycles = !narrow && f.code.some(i => i.c), columns = narrow ? 2 : cycles ? 4 : 3;
  let last = '';
  f.code.forEach(i => {
    const n = Math.max(i.e || 0, i.x || 0);
    if (i.s) body.append(el('tr', {}, el('td', {colspan: columns, class: 'dim'}, `\u22ef ${i.s} instruction${i.s > 1 ? 's' : ''} never seen`)));
    const place = i.f >= 0 && i.l ? i.f + ':' + i.l : '';
    if (place && place !== last) {
      last = place;
      const where = `${f.files[i.f]}:${i.l}` + (i.n ? ' in ' + i.n : '');
      const text = (lines.get(place) || '').replace(/^ {4,}/, m => ' '.repeat(Math.min(m.length, 12)));
      body.append(narrow ? el('tr', {class: 'src'}, el('td', {class: 'line', colspan: 2}, el('span', {class: 'dim'}, where), ' ' + text.trim()))
        : el('tr', {class: 'src'}, el('td', {colspan: columns - 1}, where), el('td', {class: 'line'}, text)));
    }
    const share = n / most;
    const row = el('tr', {class: i.b ? 'block' : ''},
      el('td', {class: 'num', style: n ? `background:${heat(Math.sqrt(share))};color:#1b1f24` : ''}, n ? count(n) : ''),
      cycles ? el('td', {class: 'num dim'}, i.c ? i.c.toFixed(1) : '') : null,
      narrow ? null : el('td', {class: 'num dim'}, i.a),
      el('td', {class: 'asm'}, i.t, ' ', el('span', {class: i.w && i.m / i.w > .05 ? 'note bad' : 'note'}, i.k ? branchNote(i) : '')));
    rows.set(i.a, row);
    body.append(row);
  });
  const box = el('div', {class: 'code'}, el('table', {}, el('thead', {}, el('tr', {}, ...['RAN', ...(cycles ? ['CYCLES'] : []), ...(narrow ? [] : ['ADDRESS']), 'CODE'].map(t => el('th', {class: t === 'CODE' ? '' : 'num'}, t)))), body));
  const jump = address => {
    const row = rows.get(address);
    if (!row) return;
    for (const other of box.querySelectorAll('.target')) other.classList.remove('target');
    row.classList.add('target');
    box.scrollTop = row.offsetTop - box.clientHeight / 3;
  };
  if (focus) setTimeout(() => jump((BigInt('0x' + f.start) + BigInt(focus)).toString(16)), 0);
  return el('div', {class: 'split'}, branchMap(f, jump), box);
}

function codePage(index, place) {
  if (!data.functions.length) return el('p', {class: 'dim'}, 'The code of these functions is not on this machine, so there is nothing to annotate.');
  const f = data.functions[index];
  const offset = place && (place.match(/\+0x([0-9a-f]+)$/) || [])[1];
  const list = el('div', {class: 'list'}, ...data.functions.map((g, i) => el('button', {'aria-selected': i === index, onclick: () => select('code', i)}, g.name, ' ', el('small', {}, count(g.branches)))));
  return el('div', {class: 'grid'}, list, el('div', {}, el('h2', {}, f.name, ' ', el('span', {class: 'dim'}, f.object)), codeView(f, offset ? '0x' + offset : null)));
}

function flamePage() {
  const box = el('div', {class: 'flame'}), where = el('p', {class: 'at'});
  const info = el('p', {class: 'dim'}, 'Top: the function that a sample hit. Below it: what came before it (or after it, for stacks that follow the sample). Click to zoom, click the top to go back.');
  const colour = name => { let h = 0; for (const c of name) h = (h * 31 + c.charCodeAt(0)) >>> 0; return `hsl(${20 + h % 40}, 75%, ${66 + h % 14}%)`; };
  // Names do not fit into narrow cells, and a finger has no tooltips: what is zoomed in to is said in words.
  function draw(root) {
    where.textContent = `${root[0]}: ${count(root[1])} stacks (${percent(root[1] / data.flame[1])})`;
    const W = Math.max(320, box.clientWidth || 900), rowHeight = 18;
    let depth = 0;
    const cells = [];
    (function walk(node, x, w, d) {
      if (w < 1) return;
      depth = Math.max(depth, d);
      cells.push([node, x, w, d]);
      let at = x;
      for (const child of node[2].slice().sort((a, b) => b[1] - a[1])) { const cw = w * child[1] / node[1]; walk(child, at, cw, d + 1); at += cw; }
    })(root, 0, W, 0);
    const H = (depth + 1) * rowHeight;
    const picture = svg('svg', {viewBox: `0 0 ${W} ${H}`, height: H, role: 'img', 'aria-label': 'flame graph of paths'});
    for (const [node, x, w, d] of cells) {
      const y = d * rowHeight;
      const r = svg('rect', {x, y, width: w, height: rowHeight - 1, fill: colour(node[0])}, `${node[0]}\n${count(node[1])} stacks (${percent(node[1] / data.flame[1])})`);
      r.onclick = () => draw(node === root ? data.flame : node);
      picture.append(r);
      if (w > 34) {
        const text = svg('text', {x: x + 3, y: y + 12.5});
        const room = Math.floor((w - 6) / 6.7);
        text.textContent = node[0].length > room ? node[0].slice(0, Math.max(room - 1, 1)) + '\u2026' : node[0];
        picture.append(text);
      }
    }
    box.replaceChildren(picture);
  }
  setTimeout(() => draw(data.flame), 0);
  return el('div', {}, info, where, box);
}

function overview() {
  const q = data.quality, box = el('div', {});
  box.append(el('h2', {}, 'Is it enough?'), el('ul', {}, ...q.reasons.map(r => el('li', {}, r))));
  const first = data.tables.find(t => t.name === 'mispredict' && t.rows.length) || data.tables.find(t => t.name === 'branches');
  if (first) box.append(el('h2', {}, first.title), tableView({...first, rows: first.rows.slice(0, 12)}));
  const functions = data.tables.find(t => t.name === 'functions');
  if (functions) box.append(el('h2', {style: 'margin-top:20px'}, functions.title), tableView({...functions, rows: functions.rows.slice(0, 12)}));
  return box;
}

const pages = [['overview', 'Overview', overview]];
if (data.functions.length) pages.push(['code', 'Code', (index, place) => codePage(index || 0, place)]);
if (data.flame) pages.push(['flame', 'Flame graph', flamePage]);
const short = {edges: 'Edges', lines: 'Lines', calls: 'Indirect calls', ranges: 'Ranges', mispredict: 'Mispredictions', paths: 'Paths', stops: 'Stops'};
for (const table of data.tables) pages.push([table.name, short[table.name] || table.title, () => el('div', {}, el('h2', {}, table.title), tableView(table))]);

const main = el('main', {}), tabs = el('nav', {role: 'tablist'});
function select(name, ...rest) {
  const page = pages.find(p => p[0] === name) || pages[0];
  for (const tab of tabs.children) tab.setAttribute('aria-selected', tab.dataset.name === page[0]);
  main.replaceChildren(page[2](...rest));
  try { history.replaceState(null, '', '#' + page[0] + (rest.length && rest[0] ? '/' + rest[0] : '')); } catch (_) { /* file pages of some browsers */ }
  return false;
}
for (const [name, title] of pages) {
  const tab = el('button', {role: 'tab', onclick: () => select(name)}, title);
  tab.dataset.name = name;
  tabs.append(tab);
}
document.addEventListener('click', event => { if (event.target.tagName === 'A') event.preventDefault(); });

const s = data.summary, chips = [
  [count(s.samples), 'samples'], [count(s.branches), 'branches'], [count(s.distinct_branches), 'different'],
  [s.unknown_prediction === s.branches ? 'unknown' : percent(1 - s.unknown_prediction / Math.max(s.branches, 1), 0), 'predictions known'],
  [s.contiguous ? 'yes' : 'no', 'contiguous'], [data.quality.verdict.replace('_', ' '), 'verdict', data.quality.verdict]];
app.append(el('h1', {}, 'brink report'), el('ul', {class: 'facts'}, ...data.facts.map(line => el('li', {}, line))),
  el('div', {class: 'chips'}, ...chips.map(([value, label, kind]) => el('div', {class: 'chip ' + (kind || '')}, el('b', {}, value), el('span', {}, label)))),
  tabs, main);
const [start, index] = location.hash.slice(1).split('/');
select(start || 'overview', ...(index ? [Number(index)] : []));
