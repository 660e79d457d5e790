// Search that also works where the site is opened as files: SEARCH_PAGES holds the text of every
// section, as {page, title, parts: [[anchor, title, text], …]}.
"use strict";
const SAME = {
  excel: ["xlsx", "spreadsheet"], spreadsheet: ["xlsx", "excel"], pay: ["payment", "withdrawal"],
  payment: ["withdrawal"], cost: ["fee"], mismatch: ["difference", "break"], s3: ["bucket"],
  unmatched: ["unexplained"], money: ["amount"], cron: ["schedule"], audit: ["anchor"],
  month: ["period"], reconciliation: ["reconcile"], rounding: ["exact", "decimal"], speed: ["settlement"], holdings: ["balance"],
};
const LEFT_OUT = new Set(("a an and are as at be by can do does for from how i in is it its my not " +
  "of on or our the to up was what when where which who why with").split(" "));
const KINDS = [["recipes/", 1.5], ["guides/maintaining", 0.5], ["guides/for-assistants", 0.5], ["guides/", 1.25], ["commands/", 1.2], ["reference/interface", 0.6],
  ["reference/errors", 0.7], ["reference/models", 0.7], ["reference/index", 0.8], ["reference/", 1.3],
  ["notebooks/tables", 0.8], ["notebooks/", 1], ["changelog", 0.4], ["index", 0.5]];

const stem = word => word.replace(/ies$/, "y").replace(/(ss)es$/, "$1").replace(/([^su])s$/, "$1");
const words = text => (text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []).map(stem);
const counted = text => {
  const found = new Map();
  for (const word of words(text)) found.set(word, (found.get(word) ?? 0) + 1);
  return found;
};
const times = (counts, term) => {
  let found = counts.get(term) ?? 0;
  const root = term.length > 5 ? term.slice(0, Math.max(5, term.length - 3)) : term;
  if (root.length > 3) {
    for (const [word, count] of counts) {
      if (word !== term && word.startsWith(root)) found += count * 0.4;
    }
  }
  return found;
};
const PARTS = SEARCH_PAGES.flatMap(({page, title, parts}) => parts.map(
  ([anchor, head, text]) => ({page, title, anchor, head, text, pageWords: counted(title),
    headWords: counted(head), textWords: counted(text)})));

// The pages that hold most of the query, best first, each with its best part.
function find(query) {
  const terms = [...new Set(words(query))].filter(word => !LEFT_OUT.has(word));
  const best = new Map(), weights = new Map();
  for (const term of terms) {
    const ways = [term, ...(SAME[term] ?? []).map(stem)];
    const holding = PARTS.filter(part => ways.some(way => times(part.textWords, way) > 0
      || times(part.headWords, way) > 0)).length;
    weights.set(term, [ways, Math.log(1 + PARTS.length / (1 + holding))]);
  }
  for (const part of PARTS) {
    let score = 0, met = 0;
    for (const [ways, weight] of weights.values()) {
      const most = counts => Math.max(...ways.map((way, n) => times(counts, way) * (n ? 0.7 : 1)));
      const [inPage, inHead, inText] = [part.pageWords, part.headWords, part.textWords].map(most);
      if (inPage + inHead + inText === 0) continue;
      met += 1;
      score += weight * (3 * Math.min(inPage, 1) + 4 * Math.min(inHead, 1)
        + Math.sqrt(Math.min(inText, 6)));
    }
    score *= (met / terms.length) ** 2;
    score *= (KINDS.find(([start]) => part.page.startsWith(start)) ?? ["", 1])[1];
    if (score > (best.get(part.page)?.score ?? 0)) best.set(part.page, {...part, score, terms});
  }
  return [...best.values()].sort((a, b) => b.score - a.score || (a.page < b.page ? -1 : 1));
}

// The stretch of the text that holds most of the terms.
function excerpt({text, terms}) {
  const pieces = text.split(/\s+/), length = 32;
  const hits = pieces.map(piece => words(piece).some(
    word => terms.some(term => word === term || (term.length > 4 && word.startsWith(term)))) ? 1 : 0);
  let start = 0, most = -1, sum = 0;
  hits.forEach((hit, end) => {
    sum += hit - (end >= length ? hits[end - length] : 0);
    if (sum > most) [most, start] = [sum, Math.max(0, end - length + 1)];
  });
  const shown = document.createElement("p");
  if (start) shown.append("… ");
  pieces.slice(start, start + length).forEach((piece, place) => {
    const mark = document.createElement(hits[start + place] ? "mark" : "span");
    mark.textContent = piece;
    shown.append(mark, " ");
  });
  if (start + length < pieces.length) shown.append("…");
  return shown;
}

const place = document.getElementById("found");
const query = new URLSearchParams(location.search).get("q");
if (place && query) {
  const found = find(query).slice(0, 20);
  const said = document.createElement("p");
  said.textContent = found.length ? `${found.length} pages for “${query}”, the best first.`
    : `No page holds “${query}”; try other words, or the list of tasks on the first page.`;
  place.append(said);
  for (const one of found) {
    const box = document.createElement("div"), link = document.createElement("a");
    box.className = "found";
    link.href = `${one.page}.html${one.anchor ? `#${one.anchor}` : ""}`;
    link.textContent = one.head === one.title ? one.title : `${one.title} › ${one.head}`;
    box.append(link, excerpt(one));
    place.append(box);
  }
  document.querySelectorAll('input[name="q"]').forEach(input => { input.value = query; });
}
