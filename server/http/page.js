'use strict';
/* The page of pith serve: conversations in this browser, answers as they come, what the server does
 * meanwhile. What a model says reaches the document as text nodes alone. */

const $ = (id) => document.getElementById(id);

/* make('p', {class: 'x', onclick: f}, child or text, ...) */
function make(tag, with_, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(with_ || {})) {
    if (k.startsWith('on')) e.addEventListener(k.slice(2), v);
    else if (v === true) e.setAttribute(k, '');
    else if (v !== false && v != null) e.setAttribute(k, v);
  }
  e.append(...children.filter((c) => c != null));
  return e;
}

/* --- Markdown: text to nodes ------------------------------------------------------------------- */

const INLINE = new RegExp(
  ['(`+)([^]*?[^`])\\1(?!`)', '\\[([^\\]\\n]+)\\]\\((https?://[^\\s()]+)\\)', '\\*\\*(?=\\S)([^]+?)\\*\\*',
    '__(?=\\S)([^]+?)__', '~~(?=\\S)([^]+?)~~', '\\*(?=[^\\s*])([^*\\n]+?)\\*', '(?<![\\w])_(?=\\S)([^_\\n]+?)_(?![\\w])',
    '(https?://[^\\s<>"\'`)\\]]*[^\\s<>"\'`)\\].,;:!?])'].join('|'));

function link(text, address) {
  return make('a', {href: address, target: '_blank', rel: 'noopener noreferrer nofollow', title: address}, text);
}

/* Appends a line's words; depth bounds what is nested. */
function inline(to, text, depth = 0) {
  while (text) {
    const m = depth < 6 ? INLINE.exec(text) : null;
    if (!m) break;
    to.append(text.slice(0, m.index));
    text = text.slice(m.index + m[0].length);
    const nest = (tag, inner) => {
      const e = make(tag);
      inline(e, inner, depth + 1);
      to.append(e);
    };
    if (m[1]) to.append(make('code', {}, m[2].length > 2 ? m[2].replace(/^ ([^]*) $/, '$1') : m[2]));
    else if (m[3]) to.append(link(m[3], m[4]));
    else if (m[5] || m[6]) nest('strong', m[5] || m[6]);
    else if (m[7]) nest('del', m[7]);
    else if (m[8] || m[9]) nest('em', m[8] || m[9]);
    else to.append(link(m[10], m[10]));
  }
  to.append(text);
}

function lines_of(to, lines) {
  lines.forEach((line, i) => {
    if (i) to.append(/( {2}|\\)$/.test(lines[i - 1]) ? make('br') : '\n');
    inline(to, line.replace(/( {2,}|\\)$/, ''));
  });
  return to;
}

function code_block(language, text) {
  const copy = make('button', {type: 'button', onclick: () => copy_text(copy, text)}, 'Copy');
  return make('div', {class: 'block'}, make('div', {}, make('span', {}, language || 'text'), copy),
    make('pre', {tabindex: '0'}, make('code', {}, text)));
}

async function copy_text(button, text) {
  const was = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = 'Copied';
  } catch (e) {
    button.textContent = 'Not allowed';
  }
  setTimeout(() => { button.textContent = was; }, 1500);
}

const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const cells = (line) => line.trim().replace(/^\||\|$/g, '').split(/(?<!\\)\|/).map((c) => c.trim().replace(/\\\|/g, '|'));
const is_rule = (line) => /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/.test(line) && line.includes('-');

function table(lines) {
  const sides = cells(lines[1]).map((c) => (/:$/.test(c) ? (/^:/.test(c) ? 'center' : 'right') : 'left'));
  const row = (line, tag) => make('tr', {}, ...cells(line).map((c, i) => {
    const e = make(tag);
    e.style.textAlign = sides[i] || 'left';
    inline(e, c);
    return e;
  }));
  return make('div', {class: 'scroll'}, make('table', {}, make('thead', {}, row(lines[0], 'th')),
    make('tbody', {}, ...lines.slice(2).map((l) => row(l, 'td')))));
}

/* Items of one depth, with what is indented below each. */
function list(lines, depth) {
  const first = ITEM.exec(lines[0]), indent = first[1].length, ordered = /\d/.test(first[2]);
  const e = make(ordered ? 'ol' : 'ul', ordered ? {start: parseInt(first[2], 10)} : {});
  for (let i = 0; i < lines.length;) {
    const body = [ITEM.exec(lines[i])[3]];
    for (i++; i < lines.length; i++) {
      const m = ITEM.exec(lines[i]);
      if (m && m[1].length <= indent) break;
      body.push(lines[i].replace(new RegExp('^\\s{0,' + (indent + 4) + '}'), (s) => (m ? s.slice(indent + 1) : '')));
    }
    const li = make('li');
    if (depth < 8) blocks(li, body, depth + 1, true);
    else lines_of(li, body);
    e.append(li);
  }
  return e;
}

/* Whether a line belongs to the list that begins with `first`; a blank one does if the next can. */
function goes_on(first, line, next) {
  const a = ITEM.exec(first), b = ITEM.exec(line);
  if (b) return b[1].length > a[1].length || /\d/.test(a[2]) === /\d/.test(b[2]);
  if (line.trim()) return /^\s/.test(line);
  return next !== undefined && !!next.trim() && (/^\s{2,}\S/.test(next) || (ITEM.test(next) && goes_on(first, next)));
}

/* Appends paragraphs, lists and so on; `tight`: a lone paragraph without its element. */
function blocks(to, lines, depth = 0, tight = false) {
  let i = 0;
  const take = (while_) => {
    const from = i;
    while (i < lines.length && while_(lines[i], i)) i++;
    return lines.slice(from, i);
  };
  while (i < lines.length) {
    const line = lines[i];
    const fence = /^\s*(`{3,}|~{3,})\s*([^\s`]*)/.exec(line);
    const heading = /^(#{1,6})\s+(.*?)\s*#*\s*$/.exec(line);
    if (!line.trim()) i++;
    else if (fence) {
      i++;
      const body = take((l) => !l.trim().startsWith(fence[1]));
      i++;
      to.append(code_block(fence[2], body.join('\n')));
    } else if (heading) {
      const e = make('h' + Math.min(4, heading[1].length));
      inline(e, heading[2]);
      to.append(e);
      i++;
    } else if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) {
      to.append(make('hr'));
      i++;
    } else if (/^\s*>/.test(line) && depth < 8) {
      const quote = make('blockquote');
      blocks(quote, take((l) => /^\s*>/.test(l)).map((l) => l.replace(/^\s*> ?/, '')), depth + 1);
      to.append(quote);
    } else if (ITEM.test(line)) {
      to.append(list(take((l, n) => goes_on(line, l, lines[n + 1])).filter((l) => l.trim()), depth));
    } else if (line.includes('|') && i + 1 < lines.length && is_rule(lines[i + 1]) && lines[i + 1].includes('|')) {
      to.append(table(take((l) => l.includes('|'))));
    } else {
      const from = i;
      const body = take((l, n) => l.trim() && (n === from || !/^\s*(`{3,}|~{3,}|>|#{1,6}\s)/.test(l)) &&
        (n === from || !ITEM.test(l)));
      to.append(lines_of(tight && from === 0 ? document.createDocumentFragment() : make('p'), body));
    }
  }
}

function words(text) {
  const e = make('div', {class: 'words'});
  blocks(e, text.replace(/\r\n?/g, '\n').split('\n'));
  return e;
}

/* --- what the browser keeps --------------------------------------------------------------------- */

const FIELDS = [
  ['temperature', 'Temperature', 0, 5, 0.05, '0.7'], ['max_tokens', 'Longest answer', 1, 1e6, 1, ''],
  ['top_p', 'Top-p', 0.01, 1, 0.01, ''], ['top_k', 'Top-k', 0, 1e6, 1, ''],
  ['min_p', 'Min-p', 0, 1, 0.01, ''], ['seed', 'Seed', 0, 2 ** 31, 1, ''],
  ['repetition_penalty', 'Repetition', 0.1, 10, 0.05, ''], ['presence_penalty', 'Presence', -2, 2, 0.1, ''],
];

function kept(key, otherwise) {
  try {
    const value = JSON.parse(localStorage.getItem('pith.' + key));
    return value == null || typeof value !== typeof otherwise || Array.isArray(value) !== Array.isArray(otherwise) ? otherwise : value;
  } catch (e) {
    return otherwise;
  }
}

function keep(key, value) {
  try {
    localStorage.setItem('pith.' + key, JSON.stringify(value));
  } catch (e) {
    say('This browser keeps nothing more: export or delete a conversation.');
  }
}

let all = kept('conversations', []).filter((c) => c && typeof c.id === 'string' && Array.isArray(c.turns));
let settings = kept('settings', {});
let here = null; /* the conversation that is shown */
let running = null; /* {conversation, turn, abort}: the answer that comes */

function fresh() {
  const same = all.find((c) => !c.turns.length);
  if (same) return same;
  const c = {id: Date.now().toString(36) + Math.random().toString(36).slice(2, 8), title: 'New conversation', turns: []};
  all.unshift(c);
  return c;
}

function save() {
  keep('conversations', all.filter((c) => c.turns.length));
}

/* --- the list of conversations -------------------------------------------------------------------- */

function show_list() {
  $('list').replaceChildren(...all.map((c) => {
    const open = make('button', {class: 'open', type: 'button', title: c.title, 'aria-current': c === here ? 'true' : false,
      onclick: () => { go(c); shut(); }}, c.title);
    const rename = make('button', {class: 'more', type: 'button', 'aria-label': 'Rename ' + c.title, title: 'Rename',
      onclick: () => rename_in(item, c)}, '✎');
    const remove = make('button', {class: 'more', type: 'button', 'aria-label': 'Delete ' + c.title, title: 'Delete',
      onclick: () => {
        if (remove.dataset.sure) return delete_one(c);
        remove.dataset.sure = '1';
        remove.textContent = 'sure?';
        setTimeout(() => { delete remove.dataset.sure; remove.textContent = '✕'; }, 3000);
      }}, '✕');
    const item = make('li', {class: c === here ? 'here' : null}, open, rename, remove);
    return item;
  }));
  $('title').textContent = here && here.turns.length ? here.title : 'pith';
  document.title = here && here.turns.length ? here.title + ' · pith' : 'pith';
}

function rename_in(item, c) {
  const input = make('input', {'aria-label': 'Title', value: c.title});
  let done = false;
  const end = (take) => {
    if (done) return;
    done = true;
    if (take && input.value.trim()) c.title = input.value.trim().slice(0, 200);
    save();
    show_list();
  };
  input.addEventListener('keydown', (e) => {
    if (e.key === 'Enter') end(true);
    if (e.key === 'Escape') { e.stopPropagation(); end(false); }
  });
  input.addEventListener('blur', () => end(true));
  item.replaceChildren(input);
  input.select();
}

function delete_one(c) {
  if (running && running.conversation === c) running.abort.abort();
  all = all.filter((x) => x !== c);
  save();
  go(c === here ? all[0] || fresh() : here);
}

function go(c) {
  here = c;
  show_list();
  show_turns();
  $('input').focus();
}

/* --- the conversation -------------------------------------------------------------------------- */

function tool_of(label, act, name) {
  return make('button', {type: 'button', onclick: act, 'aria-label': name}, label);
}

function facts_of(t) {
  const f = t.facts;
  if (!f) return '';
  const parts = [];
  if (f.tokens) parts.push(f.tokens + ' tokens');
  if (f.tokens > 1 && f.seconds > f.first) parts.push(((f.tokens - 1) / (f.seconds - f.first)).toFixed(1) + ' a second');
  if (f.first) parts.push('first after ' + f.first.toFixed(2) + ' s');
  if (f.cached) parts.push(f.cached + ' of the prompt known');
  if (t.why === 'length') parts.push('cut at the longest answer');
  if (t.why === 'stopped') parts.push('stopped');
  return parts.join(' · ');
}

function answer_body(t, live) {
  const body = make('div', {class: 'body'});
  if (t.reasoning) body.append(make('details', {open: live && !t.content}, make('summary', {}, live && !t.content ? 'Thinking…' : 'Thoughts'), words(t.reasoning)));
  if (t.content) body.append(words(t.content));
  for (const call of t.calls || []) body.append(code_block('calls ' + call.name, call.arguments));
  if (t.problem) body.append(make('div', {class: 'problem', role: 'alert'}, t.problem));
  if (live) body.append(make('span', {class: 'waiting'}));
  return body;
}

function turn_element(t, at) {
  const live = running && running.turn === t;
  const e = make('article', {class: 'turn ' + t.role, 'aria-label': t.role === 'user' ? 'You' : 'Answer'});
  const tools = make('div', {class: 'tools'});
  if (t.role === 'user') {
    e.append(make('div', {class: 'body'}, t.content));
    tools.append(tool_of('Edit', () => edit(e, at), 'Edit this message'));
  } else {
    e.append(answer_body(t, live));
    if (!live) tools.append(tool_of('Retry', () => retry(at), 'Answer again'));
    if (!live && t.content) {
      const copy = tool_of('Copy', () => copy_text(copy, t.content), 'Copy this answer');
      tools.append(copy);
    }
    tools.append(make('span', {class: 'facts'}, facts_of(t)));
  }
  e.append(tools);
  return e;
}

const near_end = () => $('log').scrollHeight - $('log').scrollTop - $('log').clientHeight < 80;
const to_end = () => { $('log').scrollTop = $('log').scrollHeight; };

function show_turns() {
  const log = $('log');
  log.replaceChildren(...here.turns.map(turn_element));
  if (!here.turns.length) log.append(make('div', {class: 'empty'}, make('b', {}, 'What shall it be?'),
    'The model runs on this server, and what you write goes nowhere else.'));
  const busy = !!running && running.conversation === here;
  $('send').hidden = busy;
  $('stop').hidden = !busy;
  to_end();
}

/* The last turn anew, while it grows. */
function show_last() {
  if (!running || running.conversation !== here) return;
  const follow = near_end(), last = $('log').lastElementChild;
  const e = turn_element(running.turn, here.turns.length - 1);
  if (last) last.replaceWith(e);
  if (follow) to_end();
}

function edit(e, at) {
  const area = make('textarea', {'aria-label': 'Message'});
  area.value = here.turns[at].content;
  const back = () => show_turns();
  const again = () => {
    if (!area.value.trim() || running) return;
    here.turns.length = at;
    ask(area.value);
  };
  area.addEventListener('keydown', (k) => {
    if (k.key === 'Escape') { k.stopPropagation(); back(); }
    if (k.key === 'Enter' && !k.shiftKey && !k.isComposing) { k.preventDefault(); again(); }
  });
  e.replaceChildren(area, make('div', {class: 'tools'}, tool_of('Send', again), tool_of('Leave', back)));
  area.focus();
}

function retry(at) {
  if (running) return;
  here.turns.length = at;
  answer(here);
}

function ask(text) {
  if (!here.turns.length) here.title = text.trim().split('\n')[0].slice(0, 60);
  here.turns.push({role: 'user', content: text});
  all = [here, ...all.filter((c) => c !== here)];
  answer(here);
}

/* --- asking the server --------------------------------------------------------------------------- */

let model = null, talks = true; /* false: the model has no template for conversations */

function headers() {
  const h = {'Content-Type': 'application/json'}, key = sessionStorage.getItem('pith.key');
  if (key) h.Authorization = 'Bearer ' + key;
  return h;
}

async function get(path) {
  const r = await fetch(path, {headers: headers()});
  if (!r.ok) throw await problem_of(r);
  return r;
}

/* What went wrong, in words. */
async function problem_of(r) {
  let text = '';
  try {
    text = (await r.json()).error.message;
  } catch (e) {
    text = r.statusText;
  }
  const again = r.headers.get('Retry-After');
  const e = new Error(
    r.status === 401 ? 'The server wants an API key: it goes into the settings.' :
    r.status === 429 ? 'The server has too much to do' + (again ? '; it asks to wait ' + again + ' s.' : '.') :
    r.status === 503 ? 'The server is not ready: ' + text : text || 'The server answered ' + r.status + '.');
  e.status = r.status;
  e.said = text;
  return e;
}

function numbers() {
  const out = {};
  for (const [name] of FIELDS) {
    const value = settings[name] === undefined ? FIELDS.find((f) => f[0] === name)[5] : settings[name];
    if (value !== '' && isFinite(value)) out[name] = Number(value);
  }
  return out;
}

function messages_of(c) {
  const list = c.turns.filter((t) => t.role === 'user' || t.content || t.calls)
    .map((t) => ({role: t.role, content: t.content || ''}));
  return settings.system ? [{role: 'system', content: settings.system}, ...list] : list;
}

function body_of(c) {
  const more = {...numbers(), model, stream: true, stream_options: {include_usage: true}};
  if (talks) return ['/v1/chat/completions', {...more, messages: messages_of(c)}];
  const prompt = messages_of(c).map((m) => m.content).join('\n\n') + '\n\n';
  return ['/v1/completions', {...more, prompt}];
}

/* The data of server-sent events, as they come. */
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    const parts = (rest + value).split(/\r?\n\r?\n/);
    rest = parts.pop();
    for (const part of parts) {
      const data = part.split(/\r?\n/).filter((l) => l.startsWith('data:')).map((l) => l.slice(5).trimStart()).join('\n');
      if (data === '[DONE]') return;
      if (data) yield JSON.parse(data);
    }
  }
}

function take_calls(t, calls) {
  t.calls = t.calls || [];
  for (const c of calls) {
    const i = c.index === undefined ? t.calls.length : c.index;
    const to = t.calls[i] = t.calls[i] || {name: '', arguments: ''};
    if (c.function && c.function.name) to.name += c.function.name;
    if (c.function && c.function.arguments) to.arguments += c.function.arguments;
  }
}

function take_event(t, j, begin) {
  if (j.error) throw new Error(j.error.message || 'the answer broke off');
  const choice = j.choices && j.choices[0];
  if (choice) {
    if (!t.facts.first) t.facts.first = (performance.now() - begin) / 1000;
    const d = choice.delta || {content: choice.text};
    if (d.content) t.content += d.content;
    if (d.reasoning_content) t.reasoning = (t.reasoning || '') + d.reasoning_content;
    if (d.tool_calls) take_calls(t, d.tool_calls);
    if (choice.finish_reason) t.why = choice.finish_reason;
  }
  if (j.usage) {
    t.facts.tokens = j.usage.completion_tokens;
    t.facts.cached = (j.usage.prompt_tokens_details || {}).cached_tokens || 0;
  }
}

async function stream(c, t, abort, changed) {
  const begin = performance.now();
  t.facts = {};
  try {
    if (!model) await find_model();
    const [path, body] = body_of(c);
    const r = await fetch(path, {method: 'POST', headers: headers(), body: JSON.stringify(body), signal: abort.signal});
    if (!r.ok) throw await problem_of(r);
    for await (const j of events(r)) {
      take_event(t, j, begin);
      changed();
    }
    if (!t.why) t.problem = 'The answer broke off.';
  } finally {
    t.facts.seconds = (performance.now() - begin) / 1000;
  }
}

async function answer(c) {
  const t = {role: 'assistant', content: ''}, abort = new AbortController();
  let drawn = 0, due = 0;
  const changed = () => {
    if (due) return;
    due = setTimeout(() => { due = 0; drawn = performance.now(); show_last(); }, Math.max(0, 60 - (performance.now() - drawn)));
  };
  c.turns.push(t);
  running = {conversation: c, turn: t, abort};
  say('Answering');
  show_list();
  show_turns();
  try {
    await stream(c, t, abort, changed);
  } catch (e) {
    if (e.name === 'AbortError') t.why = 'stopped';
    else if (talks && e.status === 400 && /template/i.test(e.said)) {
      talks = false; /* asked again as plain text */
      clearTimeout(due);
      running = null;
      c.turns.pop();
      return answer(c);
    } else {
      t.problem = e instanceof TypeError ? 'The server cannot be reached.' : e.message;
      if (e.status === 401) { open_side(true); $('key').focus(); }
    }
  }
  clearTimeout(due);
  running = null;
  if (all.includes(c)) save();
  if (c === here) show_turns();
  say(t.problem || (t.why === 'stopped' ? 'Stopped' : 'Answered'));
}

function stop() {
  if (running) running.abort.abort();
}

function say(text) {
  $('status').textContent = text;
}

/* --- gauges -------------------------------------------------------------------------------------- */

/* Name, the value between two readings of /metrics (a: now, b: before, s: seconds apart), its text. */
const per_cent = (x) => (100 * x).toFixed(0) + '%';
const rise = (a, b, name) => (a[name] || 0) - (b[name] || 0);
const GAUGES = [
  ['Tokens/s', (a, b, s) => rise(a, b, 'vllm:generation_tokens_total') / s, (x) => x.toFixed(1)],
  ['First token', (a, b) => {
    const n = rise(a, b, 'vllm:time_to_first_token_seconds_count');
    return n > 0 ? rise(a, b, 'vllm:time_to_first_token_seconds_sum') / n : null;
  }, (x) => (x < 1 ? (1000 * x).toFixed(0) + ' ms' : x.toFixed(1) + ' s')],
  ['Waiting', (a) => a['vllm:num_requests_waiting'], (x) => x.toFixed(0)],
  ['Batch', (a) => a['pith:sequences'], (x) => x.toFixed(0)],
  ['Pages in use', (a) => (a['pith:pages'] ? (a['pith:pages_used'] || 0) / a['pith:pages'] : null), per_cent],
  ['Prompt known', (a) => (a['vllm:prefix_cache_queries_total'] > 0 ?
    a['vllm:prefix_cache_hits_total'] / a['vllm:prefix_cache_queries_total'] : null), per_cent],
];
const history = GAUGES.map(() => []);
let before = null;

function read_metrics(text) {
  const out = {};
  for (const line of text.split('\n')) {
    const m = /^([a-zA-Z_:][\w:]*)(?:\{[^}]*\})?\s+(\S+)/.exec(line);
    if (m) out[m[1]] = (out[m[1]] || 0) + Number(m[2]);
  }
  return out;
}

function spark(values) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  const line = document.createElementNS('http://www.w3.org/2000/svg', 'polyline');
  const most = Math.max(1e-9, ...values);
  svg.setAttribute('viewBox', '0 0 100 20');
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('aria-hidden', 'true');
  line.setAttribute('vector-effect', 'non-scaling-stroke');
  line.setAttribute('points', values.map((v, i) => (100 - 2 * (values.length - 1 - i)) + ',' + (18.5 - 17 * v / most).toFixed(1)).join(' '));
  svg.append(line);
  return svg;
}

function show_gauges(now, seconds) {
  $('gauges').replaceChildren(...GAUGES.map(([name, value, text], i) => {
    const v = before ? value(now, before, seconds) : null, past = history[i];
    const known = typeof v === 'number' && isFinite(v);
    if (known) past.push(v);
    if (past.length > 50) past.shift();
    const last = past.length ? past[past.length - 1] : null;
    return make('div', {class: 'gauge'}, make('span', {}, name), make('b', {}, last === null ? '–' : text(last)), spark(past));
  }));
}

async function watch() {
  const seconds = 2;
  try {
    if (!document.hidden) {
      const now = read_metrics(await (await get('/metrics')).text());
      now.at = performance.now();
      show_gauges(now, before ? (now.at - before.at) / 1000 : seconds);
      before = now;
    }
  } catch (e) {
    before = null;
  }
  setTimeout(watch, 1000 * seconds);
}

/* --- the rest of the page -------------------------------------------------------------------------- */

async function find_model() {
  model = (await (await get('/v1/models')).json()).data[0].id;
  $('model').textContent = model;
}

function open_panel(panel, button, open) {
  $(panel).classList.toggle('shown', open);
  $(button).setAttribute('aria-expanded', String(open));
}
const open_side = (open) => open_panel('side', 'open-side', open);
const open_list = (open) => open_panel('list-panel', 'open-list', open);
function shut() {
  open_side(false);
  open_list(false);
}

function fit() {
  const e = $('input');
  e.style.height = 'auto';
  e.style.height = e.scrollHeight + 2 + 'px';
}

function submit(e) {
  e.preventDefault();
  const text = $('input').value;
  if (!text.trim() || running) return;
  $('input').value = '';
  fit();
  ask(text);
}

function build_fields() {
  $('fields').append(...FIELDS.map(([name, label, least, most, step, usual]) => {
    const input = make('input', {type: 'number', min: least, max: most, step, placeholder: 'auto', name,
      oninput: () => { if (input.validity.valid) { settings[name] = input.value; keep('settings', settings); } }});
    input.value = settings[name] === undefined ? usual : settings[name];
    return make('label', {}, label, input);
  }));
  $('system').value = settings.system || '';
  $('system').addEventListener('input', () => { settings.system = $('system').value; keep('settings', settings); });
  $('key').value = sessionStorage.getItem('pith.key') || '';
  $('key').addEventListener('change', () => {
    sessionStorage.setItem('pith.key', $('key').value);
    find_model().then(() => say('The key is good.'), (e) => say(e.message));
  });
  $('settings').addEventListener('submit', (e) => e.preventDefault());
}

function set_theme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
}

function turn_theme() {
  const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === 'dark' :
    matchMedia('(prefers-color-scheme: dark)').matches;
  settings.theme = dark ? 'light' : 'dark';
  set_theme(settings.theme);
  keep('settings', settings);
}

function export_all() {
  const blob = new Blob([JSON.stringify(all.filter((c) => c.turns.length), null, 1)], {type: 'application/json'});
  const a = make('a', {href: URL.createObjectURL(blob), download: 'conversations.json'});
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 1000);
}

function begin() {
  set_theme(settings.theme);
  build_fields();
  $('composer').addEventListener('submit', submit);
  $('stop').addEventListener('click', stop);
  $('new').addEventListener('click', () => { go(fresh()); shut(); });
  $('export').addEventListener('click', export_all);
  $('theme').addEventListener('click', turn_theme);
  $('open-list').addEventListener('click', () => { open_side(false); open_list(!$('list-panel').classList.contains('shown')); });
  $('open-side').addEventListener('click', () => { open_list(false); open_side(!$('side').classList.contains('shown')); });
  $('input').addEventListener('input', fit);
  $('input').addEventListener('keydown', (e) => {
    if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) submit(e);
  });
  document.addEventListener('keydown', (e) => {
    if (e.key !== 'Escape') return;
    if (running) stop();
    else shut();
  });
  go(all[0] || fresh());
  find_model().catch((e) => {
    say(e.message);
    if (e.status === 401) { open_side(true); $('key').focus(); }
  });
  watch();
}

begin();
