/** The chosen word wherever it stands: on the map's pictures and in the prose; and words of the map that can be chosen. */

import { siteAt } from "./attention.js";
import { byId } from "./dom.js";
import { sceneAt, scenesOf } from "./facts.js";
import { move, place } from "./place.js";
import { listSites, wordsAt } from "./sites.js";

const WATCHED = ["word", "phase", "turn", "view", "attention", "sequence", "station", "map", "start"];

/** The words that ask in the attention that is looked at. */
function askingWords() {
  const chosen = siteAt(sceneAt(place));
  return chosen ? wordsAt(chosen.site, chosen.sequence).queries : [];
}

/** Light the chosen word on the map and in the text beside it. */
export function lightWord(changed) {
  if (!WATCHED.some((name) => changed.has(name))) return;
  const word = place.word >= 0 ? (askingWords()[place.word] ?? null) : null;
  for (const shown of byId("stage").querySelectorAll("[data-word]")) {
    shown.classList.toggle("lit_word", shown.dataset.word === word);
  }
  if (!globalThis.CSS?.highlights) return;
  CSS.highlights.delete("word");
  if (word !== null) CSS.highlights.set("word", new Highlight(...findRanges(word)));
}

/** Where a word stands in the prose. */
function findRanges(word) {
  const ranges = [];
  const walker = document.createTreeWalker(byId("views"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (!node.parentElement.closest("p, dd, li, summary")) continue;
    const quoted = `“${word}”`;
    for (let at = node.data.indexOf(quoted); at >= 0; at = node.data.indexOf(quoted, at + 1)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + quoted.length);
      ranges.push(range);
    }
  }
  return ranges;
}

/** Choose the word that was touched on the map, in an attention where it asks; whether it was. */
export function chooseWord(target) {
  const word = target.closest("[data-word]")?.dataset.word;
  const found = word ? findAsked(word) : null;
  if (!found) return false;
  const again = place.word === found.word && place.attention === found.attention;
  move({ view: "attention", ...found, word: again ? -1 : found.word });
  return true;
}

/** Where a word that somebody wrote asks, as a place to go to with the number of the word; null where it does not. */
export function findWord(text) {
  const word = text.trim();
  if (!word || /^\d+$/.test(word)) return null;
  return findAsked(word) ?? findAsked(word.toLowerCase());
}

/** Where a word asks: in the attention that is looked at, in another one beside it, or in the last turn. */
function findAsked(word) {
  const chosen = siteAt(sceneAt(place));
  const here = askingWords().indexOf(word);
  if (here >= 0) return { attention: chosen.site.kind, word: here };
  for (const scene of [sceneAt(place), ...scenesOf("inference").slice(-1)]) {
    for (const site of listSites(scene)) {
      const at = wordsAt(site).queries.indexOf(word);
      if (at < 0) continue;
      const { phase, turn } = scene;
      return { attention: site.kind, word: at, phase, turn, layer: 0, head: 0, sequence: 0 };
    }
  }
  return null;
}
