/** The camera goes to the chosen word on the map, where it cannot be seen as the window is. */

import { elementOf } from "./anchor.js";
import { siteAt } from "./attention.js";
import { byId } from "./dom.js";
import { sceneAt } from "./facts.js";
import { place } from "./place.js";
import { boxOf, comeNear, currentView, glideTo } from "./view.js";

const SEEN = 5; // a word of fewer pixels is not seen

/** Go to the word that was chosen just now: its nearest mark, or the row that it has in the weights of its attention. */
export function flyToWord(changed) {
  if (!leadsToWord(changed)) return;
  const words = byId("stage").querySelector(".unfolded") ? [] : listLit();
  if (words.length) {
    const view = currentView();
    const far = ({ x, y, width, height }) =>
      Math.hypot(x + width / 2 - view.x - view.width / 2, y + height / 2 - view.y - view.height / 2);
    if (!words.some(isSeen)) glideTo(words.reduce((one, other) => (far(boxOf(other)) < far(boxOf(one)) ? other : one)));
    return;
  }
  const chosen = siteAt(sceneAt(place));
  const box = chosen && elementOf(chosen.site.softmax);
  if (box && !isSeen(box)) comeNear(box);
}

/** Whether a change chooses a word, and nothing else that the map would go to. */
export function leadsToWord(changed) {
  const others = ["step", "station", "start", "map", "block"];
  return changed.has("word") && place.word >= 0 && !others.some((name) => changed.has(name));
}

/** Where the map has the chosen word; what might have been said only where it stands nowhere else. */
function listLit() {
  const lit = [...byId("stage").querySelectorAll(".lit_word")];
  const said = lit.filter((one) => !one.classList.contains("chance_word"));
  return said.length ? said : lit;
}

/** Whether an element is in the window, and not too small. */
function isSeen(element) {
  const [box, stage] = [element, byId("stage")].map((one) => one.getBoundingClientRect());
  return (
    box.height >= SEEN &&
    box.left >= stage.left &&
    box.right <= stage.right &&
    box.top >= stage.top &&
    box.bottom <= stage.bottom
  );
}
