/** The chosen word wherever it stands: on the map's pictures and in the prose; and words of the map that can be chosen. */

import { siteAt } from "./attention.js";
import { byId } from "./dom.js";
import { sceneAt } from "./facts.js";
import { move, place } from "./place.js";
import { wordsAt } from "./sites.js";

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
  for (const text of byId("stage").querySelectorAll(".note > text")) {
    text.classList.toggle("lit_word", word !== null && text.textContent.trim() === word);
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

/** Choose the word that was touched on the map, where it is one that asks; whether it was. */
export function chooseWord(target) {
  const text = target.closest(".note:not([data-about]) > text");
  const word = text && /\p{L}/u.test(text.textContent) ? askingWords().indexOf(text.textContent.trim()) : -1;
  if (word < 0) return false;
  move({ view: "attention", word: place.word === word ? -1 : word });
  return true;
}
