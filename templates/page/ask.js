/** Asking: numbers, words and questions, answered from sizes, from the walk's own questions, and from what steps say. */

import { el, shapeEl } from "./dom.js";
import { chapterAt, facts, sceneAt } from "./facts.js";
import { move, place } from "./place.js";
import { findWord } from "./words.js";

const MOST = 4;
const SMALL = new Set(
  "a an the is are was were what why how where when does do of in on to it and or for with by".split(" "),
);

/** A text as its words: lower case, without marks, hyphens as gaps. */
export function wordsIn(text) {
  return text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, " ")
    .trim()
    .split(" ")
    .filter((word) => word && !SMALL.has(word));
}

/** What the page can say to a query beyond a list of steps. */
export function drawAnswers(query) {
  const sizes = sayNumbers(query);
  const questions = findQuestions(query);
  const told = findTold(query);
  return [
    ...drawWord(query),
    ...sizes.map((text) => el("p", { class: "answer" }, text)),
    ...told.map(({ text, chapter }) => el("div", { class: "answer" }, el("p", {}, ...spell(text)), leadTo(chapter))),
    ...questions.map(({ question, text, chapter }) =>
      el(
        "details",
        { open: questions.length === 1 },
        el("summary", {}, question),
        el("p", {}, ...spell(text)),
        leadTo(chapter),
      ),
    ),
  ];
}

/** A word of the run, and the way to it: in the attention where it asks, and on the map. */
function drawWord(query) {
  const found = findWord(query);
  if (!found) return [];
  const says = `“${query.trim()}” is word ${found.word + 1} of those that ask in ${found.attention} attention.`;
  const go = () => move({ view: "attention", ...found });
  return [
    el("p", { class: "answer" }, says),
    el("p", {}, el("button", { type: "button", onclick: go }, "to this word")),
  ];
}

function spell(text) {
  return text.map((part) => (typeof part === "string" ? part : shapeEl(part.shape, part.axes)));
}

function leadTo({ station, title, phase, turn }) {
  const go = () => move({ view: "walk", step: "", station, phase, turn });
  return el("p", {}, el("button", { type: "button", onclick: go }, `to station ${station}, ${title}`));
}

/** What the walk says in this pass with all the words of a query. */
function findTold(query) {
  const wanted = wordsIn(query).filter((word) => !/^\d+$/.test(word));
  if (!wanted.length) return [];
  const chapters = facts.stations.flatMap(({ number }) => chapterAt({ station: number }, sceneAt(place)) ?? []);
  const told = chapters.flatMap((chapter) => chapter.text.map((text) => ({ text, chapter })));
  return told
    .filter(({ text }) => {
      const said = wordsIn(text.filter((part) => typeof part === "string").join(" "));
      return wanted.every((word) => said.some((one) => alike(one, word)));
    })
    .slice(0, MOST);
}

/** Numbers of a query that are a size of this model: "950 is tgt_vocab". */
function sayNumbers(query) {
  const numbers = (query.match(/\d[\d,]*/g) ?? []).map((text) => Number(text.replaceAll(",", "")));
  return numbers.flatMap((number) => {
    const names = Object.keys(facts.sizes).filter((name) => facts.sizes[name] === number);
    return names.length ? [`${number.toLocaleString("en")} is ${names.join(", and ")}.`] : [];
  });
}

/** The questions of the walk that share most words with a query. */
function findQuestions(query) {
  const wanted = new Set(wordsIn(query).filter((word) => !/^\d+$/.test(word)));
  if (!wanted.size) return [];
  const found = new Map();
  for (const chapter of facts.chapters) {
    for (const [question, text] of chapter.answers) {
      if (found.has(question)) continue;
      const asked = wordsIn(question);
      const said = new Set(text.flatMap((part) => (typeof part === "string" ? wordsIn(part) : [])));
      let score = 0;
      for (const word of wanted) score += asked.some((one) => alike(one, word)) ? 3 : said.has(word) ? 1 : 0;
      found.set(question, { question, text, chapter, score: score / (3 * wanted.size) });
    }
  }
  return [...found.values()]
    .filter((one) => one.score >= 0.5)
    .sort((one, other) => other.score - one.score)
    .slice(0, MOST);
}

function alike(one, other) {
  const [short, long] = one.length < other.length ? [one, other] : [other, one];
  return short === long || (short.length > 3 && long.startsWith(short));
}
