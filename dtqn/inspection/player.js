// The episode player. It shows what the JSON in #player-data holds and computes nothing of its own.
//
// A run has episodes; an episode has S decisions that are shown, then its end. A map has for decision s a row
// of s + 1 numbers, in thousandths: how much the decision depends on each shown step up to it.
"use strict";

(() => {
  const data = JSON.parse(document.getElementById("player-data").textContent);
  if (!data.runs.length) return;

  const MAPS = {
    shown: ["what was shown", "change of the decision if a step had shown something else"],
    flips: ["another action", "share of these changes after which another action is the best"],
    actions: ["action before", "change of the decision if a step had named another previous action"],
    attention: ["attention", "rollout over layers: where the network looked, not what it used"],
  };
  const ONE_SCALE = ["shown", "actions"]; // of one unit, so that their colours can be compared
  const MOST_ACTIONS = 24;

  const $$ = (id) => document.getElementById(id);
  const player = $$("player");
  let run, episode;
  let at = 0; // the decision that is shown; S is the end
  let looked = null; // the past step whose picture is shown; null: the one that counts most
  let strips = {};

  const element = (tag, className = "", text = "") => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== "") made.textContent = text;
    return made;
  };
  const share = (mille) => `${(mille * 100 / data.unit).toFixed(1)}\u00a0%`;
  const digits = (value) => Number(value.toPrecision(4)).toString();
  const count = () => episode.steps.length;
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

  // --- choosing ---------------------------------------------------------------------------------------------

  function chooseRun(number) {
    run = data.runs[number];
    $$("run").value = number;
    const buttons = run.episodes.map((one, index) => {
      const kind = one.success === null ? "" : one.success ? " success" : " failure";
      const end = one.success === null ? `return ${digits(one.return)}` : one.success ? "success" : "failure";
      const button = element("button", `episode${kind}`, `${one.number}: ${end}`);
      button.title = `episode ${one.number}, ${one.length} steps, return ${digits(one.return)}`;
      button.addEventListener("click", () => chooseEpisode(index));
      return button;
    });
    $$("episode-choice").replaceChildren(...buttons);
    chooseEpisode(0);
  }

  function chooseEpisode(index) {
    episode = run.episodes[index];
    [...$$("episode-choice").children].forEach((button, n) => button.setAttribute("aria-pressed", n === index));
    $$("slider").max = count();
    makeStrips();
    go(0);
  }

  function chooseNext(by) {
    const index = run.episodes.indexOf(episode);
    chooseEpisode(clamp(index + by, 0, run.episodes.length - 1));
  }

  function go(step) {
    at = clamp(step, 0, count());
    looked = null;
    show();
  }

  // --- showing ----------------------------------------------------------------------------------------------

  function show() {
    const isEnd = at === count();
    $$("slider").value = at;
    $$("step").textContent = isEnd ? `end, after ${episode.length} steps` :
      `step ${episode.steps[at]} of ${episode.length}`;
    $$("back").disabled = $$("to-start").disabled = at === 0;
    $$("on").disabled = $$("to-end").disabled = isEnd;
    picture($$("world"), at, `the world at ${$$("step").textContent}`);
    $$("no-world").textContent = episode.picture ? "" : "This task has no pictures.";
    if (isEnd) showEnd();
    else {
      showView($$("view"), episode.view[at]);
      $$("reward").textContent = `Reward for the action taken here: ${digits(episode.reward[at])}`;
      showQ();
    }
    showStrips();
    showPast();
  }

  function picture(image, step, text) {
    image.hidden = !episode.picture;
    if (!episode.picture) return;
    image.src = data.pictures[episode.picture[step]];
    image.alt = text;
  }

  function showEnd() {
    const end = episode.success === null ? "over" : episode.success ? "a success" : "a failure";
    $$("view").replaceChildren(element("p", "", `The episode is ${end}: return ${digits(episode.return)}.`));
    $$("reward").textContent = "";
    $$("q").replaceChildren(element("p", "quiet", "No decision is left."));
  }

  function showView(place, number) {
    place.replaceChildren(...run.parts.map((part, index) => showPart(part, run.views[number][index])));
  }

  function showPart(part, value) {
    const box = element("div", "part");
    if (part.name) box.append(element("p", "", part.name));
    if (part.kind === "picture") {
      const image = element("img");
      image.src = data.pictures[value];
      image.alt = `observation ${part.name}`;
      box.append(image);
      return box;
    }
    const grid = element("div", part.kind === "cells" ? "grid code" : "grid");
    grid.style.gridTemplateColumns = `repeat(${part.columns}, auto)`;
    for (let i = 0; i < value.length; i += part.depth) {
      const numbers = value.slice(i, i + part.depth);
      const cell = element("span", numbers.every((x) => x === 0) ? "zero" : "", numbers.join("·"));
      // Neighbouring codes get hues that are far apart.
      cell.style.setProperty("--hue", numbers.reduce((hue, x) => (hue * 31 + x * 137.5) % 360, 40));
      grid.append(cell);
    }
    box.append(grid);
    if (value.length < part.numbers) box.append(element("p", "", `the first ${value.length} of ${part.numbers}`));
    return box;
  }

  function showQ() {
    const q = episode.q[at];
    const best = q.indexOf(Math.max(...q));
    const low = Math.min(run.q_range[0], 0), high = Math.max(run.q_range[1], 0);
    const place = (value) => (100 * (value - low)) / Math.max(high - low, 1e-9);
    const order = q.map((_, action) => action);
    const kept = new Set([...order].sort((a, b) => q[b] - q[a]).slice(0, MOST_ACTIONS));
    const rows = order.filter((action) => kept.has(action)).map((action) => {
      const row = element("div", action === best ? "greedy" : "");
      row.dataset.q = q[action];
      const bar = element("div", "bar-of"), fill = element("i"), zero = element("b");
      const [a, b] = [place(0), place(q[action])];
      fill.style.left = `${Math.min(a, b)}%`;
      fill.style.width = `${Math.abs(a - b)}%`;
      zero.style.left = `${a}%`;
      bar.append(fill, zero);
      const value = element("span", "value", q[action].toFixed(3));
      row.append(element("span", "name", run.actions[action]), bar, value);
      return row;
    });
    const list = element("div", "q");
    list.append(...rows);
    $$("q").replaceChildren(list);
    if (kept.size < q.length) $$("q").append(element("p", "quiet", `the ${kept.size} largest of ${q.length}`));
  }

  // --- the maps ---------------------------------------------------------------------------------------------

  function makeStrips() {
    strips = {};
    const highest = (name) => Math.max(1, ...episode.maps[name].flatMap((row) => row ?? []));
    const common = Math.max(...ONE_SCALE.map(highest));
    const parts = Object.keys(MAPS).filter((name) => episode.maps[name]).map((name) => {
      const full = name === "flips" ? data.unit : ONE_SCALE.includes(name) ? common : highest(name);
      const box = element("div"), label = element("p", "strip-name", "");
      label.append(element("b", "", MAPS[name][0]),
        element("span", "", `${MAPS[name][1]}; full colour: ${share(full)}`));
      const strip = element("div", "strip");
      strip.setAttribute("role", "group");
      strip.setAttribute("aria-label", MAPS[name][0]);
      const cells = episode.steps.map((_, k) => {
        const cell = element("button", "");
        cell.tabIndex = -1;
        cell.addEventListener("pointerenter", () => look(k));
        cell.addEventListener("focus", () => look(k));
        cell.addEventListener("dblclick", () => go(k));
        strip.append(cell);
        return cell;
      });
      strip.addEventListener("pointerleave", () => { if (!strip.contains(document.activeElement)) look(null); });
      strip.addEventListener("focusout", (event) => { if (!strip.contains(event.relatedTarget)) look(null); });
      strip.addEventListener("keydown", (event) => inStrip(event, cells));
      strips[name] = { box, cells, full };
      box.append(label, strip);
      return box;
    });
    $$("strips").replaceChildren(...parts);
  }

  function showStrips() {
    const end = at === count();
    for (const [name, strip] of Object.entries(strips)) {
      const row = end ? null : episode.maps[name][at];
      strip.cells.forEach((cell, k) => {
        const known = row !== null && k <= at;
        cell.className = known ? (k === at ? "now" : "") : "later";
        if (episode.cue?.includes(k)) cell.classList.add("cue");
        cell.disabled = !known;
        cell.tabIndex = known && k === at ? 0 : -1;
        cell.style.setProperty("--heat", known ? (100 * row[k]) / strip.full : 0);
        const text = `step ${episode.steps[k]}` + (known ? `: ${share(row[k])}` : "");
        cell.title = text;
        cell.setAttribute("aria-label", text);
      });
    }
    const cue = episode.cue?.length ? " Triangle: the step shows the cue." : "";
    $$("scale").textContent = end ? "" : "Changes are shares of the range that the episode's Q-values have. " +
      `Framed: this step.${cue}`;
    mark();
  }

  function inStrip(event, cells) {
    const here = cells.indexOf(document.activeElement);
    const by = { ArrowLeft: -1, ArrowRight: 1, Home: -count(), End: count() }[event.key];
    if (event.key === "Escape") player.focus();
    else if (by !== undefined) cells[clamp(here + by, 0, at)].focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  function look(k) {
    looked = k === null || k > at ? null : k;
    mark();
    showPast();
  }

  function mark() {
    for (const { cells } of Object.values(strips)) {
      cells.forEach((cell, k) => cell.classList.toggle("looked", k === looked));
    }
  }

  function showPast() {
    const end = at === count();
    $$("past").hidden = end;
    if (end) return;
    const row = episode.maps.shown[at];
    const k = looked ?? row.indexOf(Math.max(...row));
    const step = episode.steps[k];
    const what = looked === null ? ", which counts most" : k === at ? ", this one" : "";
    $$("past-title").textContent = `Step ${step}${what}`;
    picture($$("past-world"), k, `the world at step ${step}`);
    showView($$("past-view"), episode.view[k]);
    const values = Object.keys(MAPS).filter((name) => episode.maps[name]?.[at])
      .map((name) => `${MAPS[name][0]} ${share(episode.maps[name][at][k])}`);
    $$("past-values").textContent = values.join("; ");
    $$("go").hidden = k === at;
    $$("go").onclick = () => { go(k); player.focus({ preventScroll: true }); };
  }

  // --- keys -------------------------------------------------------------------------------------------------

  const KEYS = {
    ArrowLeft: () => go(at - 1),
    ArrowRight: () => go(at + 1),
    Home: () => go(0),
    End: () => go(count()),
    ArrowUp: () => chooseNext(-1),
    ArrowDown: () => chooseNext(1),
  };

  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || !KEYS[event.key]) return;
    const within = player.contains(document.activeElement);
    if (document.activeElement === $$("run")) return; // it has arrows of its own
    const box = player.getBoundingClientRect();
    const free = document.activeElement === document.body && box.top < innerHeight / 2 && box.bottom > innerHeight / 2;
    // Up, Down, Home and End scroll the page until the player is chosen.
    if (!within && !(free && event.key in { ArrowLeft: 1, ArrowRight: 1 })) return;
    KEYS[event.key]();
    if (within && document.activeElement === document.body) player.focus({ preventScroll: true }); // its cell has gone
    event.preventDefault();
  });

  $$("to-start").addEventListener("click", () => go(0));
  $$("back").addEventListener("click", () => go(at - 1));
  $$("on").addEventListener("click", () => go(at + 1));
  $$("to-end").addEventListener("click", () => go(count()));
  $$("slider").addEventListener("input", (event) => go(Number(event.target.value)));
  $$("run").append(...data.runs.map((one, number) => new Option(one.label, number)));
  $$("run-choice").hidden = data.runs.length === 1;
  $$("run").addEventListener("change", (event) => chooseRun(Number(event.target.value)));
  chooseRun(0);
})();
