"use strict";
(() => {
  const tip = document.getElementById("tip");
  const said = document.getElementById("said");
  const NS = "http://www.w3.org/2000/svg";

  // Light and dark: what the system says until the button is pressed.
  const root = document.documentElement;
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  // Values: the pointer or the arrow keys move a cursor through the places a chart knows.
  const shape = (name, attributes) => {
    const node = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };

  const words = (place) =>
    [place[1], ...place[2].map(([label, value]) => (label ? `${label}: ${value}` : value))].filter(Boolean).join("\n");

  const nearest = (chart, x, y) => {
    let best = 0;
    let least = Infinity;
    chart.places.forEach((place, i) => {
      const far = chart.by === "x" ? Math.abs(place[0] - x) : (place[0] - x) ** 2 + (place[2][0][2] - y) ** 2;
      if (far < least) [best, least] = [i, far];
    });
    return best;
  };

  // On its own scale a small curve is stretched about zero; the cursor follows.
  const stretched = (svg, chart, py) => {
    const line = svg.querySelector("[data-own]");
    const on = line && svg.closest('[data-bank][data-scale="on"]');
    return on ? chart.zero + (py - chart.zero) * Number(line.dataset.own) : py;
  };

  const show = (svg, chart, index) => {
    const place = chart.places[index];
    const cursor = svg.querySelector(".cursor");
    cursor.replaceChildren();
    if (chart.by === "x") {
      cursor.append(shape("line", { x1: place[0], x2: place[0], y1: chart.top, y2: chart.bottom }));
    }
    for (const [, , py] of place[2]) {
      cursor.append(shape("circle", { cx: place[0], cy: stretched(svg, chart, py), r: 4.5 }));
    }
    tip.textContent = words(place);
    tip.hidden = false;
    const box = svg.getBoundingClientRect();
    const scale = box.width / svg.viewBox.baseVal.width;
    const left = box.left + place[0] * scale;
    const top = box.top + stretched(svg, chart, place[2][0][2]) * scale;
    const right = left + 14 + tip.offsetWidth > innerWidth - 8;
    tip.style.left = `${Math.max(8, right ? left - 14 - tip.offsetWidth : left + 14)}px`;
    tip.style.top = `${Math.min(Math.max(8, top - tip.offsetHeight - 8), innerHeight - tip.offsetHeight - 8)}px`;
  };

  const hide = (svg) => {
    svg.querySelector(".cursor").replaceChildren();
    tip.hidden = true;
  };

  for (const svg of document.querySelectorAll("svg[data-hover]")) {
    const chart = JSON.parse(svg.dataset.hover);
    if (!chart.places.length) continue;
    let at = -1;
    const move = (event) => {
      const box = svg.getBoundingClientRect();
      const scale = svg.viewBox.baseVal.width / box.width;
      at = nearest(chart, (event.clientX - box.left) * scale, (event.clientY - box.top) * scale);
      show(svg, chart, at);
    };
    svg.addEventListener("pointermove", move);
    svg.addEventListener("pointerdown", move);
    svg.addEventListener("pointerleave", () => hide(svg));
    svg.addEventListener("blur", () => hide(svg));
    svg.addEventListener("keydown", (event) => {
      const last = chart.places.length - 1;
      const steps = { ArrowRight: at + 1, ArrowLeft: at < 0 ? last : at - 1, Home: 0, End: last };
      if (event.key === "Escape") hide(svg);
      if (!(event.key in steps)) return;
      event.preventDefault();
      at = Math.min(Math.max(steps[event.key], 0), last);
      show(svg, chart, at);
      said.textContent = words(chart.places[at]).replaceAll("\n", ", ");
    });
  }
  addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

  // Switches of the activations.
  for (const bank of document.querySelectorAll("[data-bank]")) {
    const zero = (line) => JSON.parse(line.closest("svg").dataset.hover).zero;
    for (const button of bank.querySelectorAll("[data-toggle]")) {
      button.addEventListener("click", () => {
        const on = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(on));
        bank.dataset[button.dataset.toggle] = on ? "on" : "off";
        if (button.dataset.toggle !== "scale") return;
        for (const line of bank.querySelectorAll("[data-own]")) {
          line.style.transformOrigin = `0 ${zero(line)}px`;
          line.style.transform = on ? `scaleY(${line.dataset.own})` : "none";
        }
      });
    }
  }

  // The section in view is marked in the list of sections.
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.getAttribute("href").slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links.values()) link.removeAttribute("aria-current");
      links.get(entry.target.id)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-20% 0px -70% 0px" });
  for (const id of links.keys()) seen.observe(document.getElementById(id));
})();
