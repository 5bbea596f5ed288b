// Draws each chart when it comes near the screen, in the colours of the page. The library, most of the page's
// size, is read when the first one does, so that the page does not wait for it.
"use strict";

(() => {
  const items = JSON.parse(document.getElementById("chart-data").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const drawn = [];

  // As many names of the legend in a row as there is room for; bokeh itself does not break the row.
  function columns(legend, width) {
    const longest = Math.max(...legend.items.map((item) => String(item.label.value ?? "").length));
    return Math.max(1, Math.floor((width - 50) / (36 + 6.5 * longest)));
  }

  function dress({ view, place }) {
    const style = getComputedStyle(document.documentElement);
    const [ink, quiet, line] = ["--ink", "--quiet", "--line"].map((name) => style.getPropertyValue(name).trim());
    for (const model of view.model.references()) {
      if (model.type.endsWith("Axis")) {
        model.setv({
          axis_label_text_color: quiet, major_label_text_color: quiet, axis_line_color: line,
          major_tick_line_color: line, minor_tick_line_color: null, axis_label_text_font_style: "normal",
        });
      } else if (model.type === "Grid") model.setv({ grid_line_color: line, grid_line_alpha: 0.6 });
      else if (model.type === "Legend") {
        model.setv({ label_text_color: ink, inactive_fill_alpha: 0, ncols: columns(model, place.clientWidth) });
      }
      else if (model.type === "Span") model.setv({ line_color: quiet });
    }
  }

  function load() {
    const script = document.createElement("script");
    script.textContent = document.getElementById("library").textContent;
    document.head.append(script);
  }

  async function draw(place) {
    if (!window.Bokeh) load();
    const views = await Bokeh.embed.embed_item(items[Number(place.dataset.chart)], place);
    for (const view of views) {
      drawn.push({ view, place });
      dress({ view, place });
    }
    place.dataset.drawn = "yes";
  }

  const watcher = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      watcher.unobserve(target);
      draw(target);
    }
  }, { rootMargin: "400px" });
  document.querySelectorAll(".chart").forEach((place) => watcher.observe(place));
  dark.addEventListener("change", () => drawn.forEach(dress));
  let waiting;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => drawn.forEach(dress), 200);
  });
})();
