#include <fmt/format.h>

#include <array>

#include "report/page.h"

namespace wattle::report {
namespace {

// Okabe and Ito's colour-blind-safe set, a neutral first for the baseline; darkened for white, lightened for
// black.
constexpr std::array<const char*, kColours> kLight = {"#5b6472", "#b85c00", "#0067a5", "#00805e",
                                                      "#a8487f", "#8a6d00", "#2b8cbe", "#7a3e9d"};
constexpr std::array<const char*, kColours> kDark = {"#aab4c3", "#f0914b", "#56b4e9", "#2fc79a",
                                                     "#e08bbd", "#e6c229", "#8fd3ff", "#c59be6"};

constexpr std::string_view kRules = R"css(
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","Noto Sans","DejaVu Sans",sans-serif}
main{max-width:1400px;margin:0 auto;padding:40px 28px 64px}
h1{font-size:30px;line-height:1.2;margin:2px 0 8px;letter-spacing:-.01em;overflow-wrap:anywhere}
h2{font-size:20px;margin:0 0 14px;letter-spacing:-.005em}
h3{font-size:15px;margin:32px 0 4px}
h4{font-size:13px;font-weight:600;margin:20px 0 2px;color:var(--soft)}
section{margin-top:44px}
.kicker{margin:0;color:var(--soft);font-size:13px}
.badge{display:inline-block;margin-left:6px;padding:0 8px;border:1px solid var(--rule);border-radius:9px;font-size:12px;color:var(--ink)}
.facts{margin:0;color:var(--soft)}
.facts span:not(:last-child)::after{content:"·";margin:0 8px;color:var(--rule)}
.findings{list-style:none;margin:22px 0 0;padding:0;display:grid;gap:8px;grid-template-columns:repeat(auto-fit,minmax(300px,1fr))}
.findings li{padding:10px 14px;background:var(--card);border-left:4px solid var(--c);border-radius:0 6px 6px 0}
.warning{padding:10px 14px;border:1px solid var(--more);border-radius:6px;margin:20px 0 0}
nav{position:sticky;top:0;z-index:2;display:flex;flex-wrap:wrap;gap:8px;align-items:center;padding:10px 0;margin-top:20px;background:var(--paper);border-bottom:1px solid var(--rule)}
.chip{display:inline-flex;align-items:center;gap:7px;padding:3px 11px 3px 9px;border:1px solid var(--rule);border-radius:14px;background:var(--card);color:var(--ink);font:inherit;font-size:13px;cursor:pointer}
.chip[aria-pressed=false]{opacity:.45;text-decoration:line-through}
.chip:focus-visible{outline:2px solid var(--c2);outline-offset:2px}
.chip em{font-style:normal;color:var(--soft);font-size:12px}
.hint{color:var(--soft);font-size:12px}
.swatch{display:inline-block;width:11px;height:11px;border-radius:3px;background:var(--s,var(--c));margin-right:8px;flex:none}
.chip .swatch{margin:0}
.scroll{overflow-x:auto;margin:0 0 14px}
details{margin:0 0 14px}
summary{cursor:pointer;margin:0 0 6px;font-weight:600}
table{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums}
th,td{padding:7px 8px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--rule)}
thead th{font-weight:600;font-size:12px;color:var(--soft);vertical-align:bottom;line-height:1.3;white-space:normal}
thead th small,figcaption small{font-weight:400;font-size:12px;color:var(--soft);margin-left:5px}
tbody th,thead th:first-child{text-align:left;font-weight:600}
td.text{text-align:left;white-space:normal;overflow-wrap:anywhere}
.values .unit{text-align:left}
.differ{width:auto;margin-top:10px}
.differ th,.differ td{text-align:left;white-space:normal;padding-right:24px}
.grouped thead th[colspan]{text-align:center;border-bottom:1px solid var(--rule)}
.grouped thead tr:last-child th{text-align:right;font-weight:400}
.baseline td{color:var(--soft)}
.dim{color:var(--soft)}
.less{color:var(--less);font-weight:600}
.more{color:var(--more);font-weight:600}
.meter{display:block;height:3px;margin-top:3px;background:var(--rule);border-radius:2px;overflow:hidden}
.meter span{display:block;height:3px;background:var(--less)}
.note{color:var(--soft);font-size:13px;margin:4px 0 10px;max-width:85ch}
.sites{display:flex;flex-wrap:wrap;gap:4px 22px;margin:6px 0}
.pair,.triple,.wide{display:grid;gap:18px 28px;margin-top:10px}
.pair{grid-template-columns:repeat(auto-fit,minmax(min(460px,100%),1fr))}
.triple{grid-template-columns:repeat(auto-fit,minmax(min(320px,100%),1fr));gap:6px 22px}
figure{margin:0;min-width:0}
.pair>figure:only-child{max-width:640px}
figcaption{font-weight:600;font-size:13.5px;margin-bottom:2px}
svg{display:block;width:100%;height:auto;overflow:visible}
svg text{font-size:11px;fill:var(--soft)}
.grid{stroke:var(--grid);stroke-width:1}
.base,.stub{stroke:var(--axis);stroke-width:1}
.line{fill:none;stroke:var(--c);stroke-width:1.8;stroke-dasharray:var(--d,none);stroke-linejoin:round;stroke-linecap:round}
line.slo{stroke:var(--ink);stroke-width:1.2;stroke-dasharray:4 3}
text.slo{fill:var(--ink);font-weight:600}
text.end{fill:var(--c);font-weight:600;font-size:11.5px}
text.bar-name{fill:var(--ink);font-weight:600;font-size:12.5px}
text.bar-total{fill:var(--ink);font-size:12.5px}
rect{fill:var(--c)}
rect.part1{opacity:.5}
rect.part2{opacity:.2}
rect.spawning{opacity:.18}
rect.warming{opacity:.45}
rect.draining{fill:var(--paper);stroke:var(--c);stroke-width:1.5;stroke-dasharray:3 2}
.keys{display:flex;flex-wrap:wrap;gap:4px 18px;font-size:12.5px;color:var(--soft);margin:4px 0}
.keys svg{display:inline-block;width:22px;height:12px;margin-right:6px;vertical-align:-1px}
text.in{fill:var(--ink)}
text.in.part0{fill:var(--paper)}
.dot{fill:var(--f,var(--c));stroke:var(--o,var(--paper));stroke-width:1.5;stroke-dasharray:var(--e,none)}
.cross{stroke:var(--axis);stroke-width:1;pointer-events:none}
.off{display:none}
code{font:12px ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace}
#tip{position:fixed;z-index:3;pointer-events:none;padding:6px 10px;background:var(--card);border:1px solid var(--rule);border-radius:6px;font-size:12.5px;font-variant-numeric:tabular-nums;box-shadow:0 2px 10px rgba(0,0,0,.14);white-space:nowrap}
#tip div{display:flex;align-items:center;justify-content:space-between;gap:14px}
.phone{display:none}
@media(max-width:600px){svg text.tick,svg text.slo{font-size:16px}svg text.end,svg text.axis{font-size:14px}svg text.bar-name,svg text.bar-total{font-size:18px}svg text.in{font-size:17px}
.triple svg text.tick{font-size:12px}.screen{display:none}.phone{display:grid}main{padding:24px 16px 48px}
.values{font-size:12.5px}.values th,.values td{padding:6px 4px}.values tbody th{white-space:normal;font-weight:400}}
@media print{nav{position:static}.hint{display:none}section{break-inside:avoid}}
)css";

// Hides runs, and reads values off the plots under the pointer. The page is complete without it.
constexpr std::string_view kScript = R"js(
(function () {
  "use strict";
  var chips = Array.prototype.slice.call(document.querySelectorAll(".chip"));
  var names = chips.map(function (c) { return c.firstChild.nextSibling.textContent; });
  chips.forEach(function (chip) {
    chip.addEventListener("click", function () {
      var on = chip.getAttribute("aria-pressed") !== "true";
      chip.setAttribute("aria-pressed", String(on));
      document.querySelectorAll("[data-r='" + chip.dataset.r + "']").forEach(function (e) {
        if (e !== chip) e.classList.toggle("off", !on);
      });
    });
  });
  var tip = document.getElementById("tip");
  function axis(text) {
    var p = text.split(",");
    return { from: +p[0], to: +p[1], low: +p[2], high: +p[3], kind: p[4], unit: p[5] };
  }
  function value(a, px) {
    var v = a.low + (px - a.from) / (a.to - a.from) * (a.high - a.low);
    return a.kind === "log" ? Math.pow(10, v) : a.kind === "tail" ? 1 - Math.pow(10, -v) : v;
  }
  function short(v) { return v >= 1000 ? Math.round(v).toLocaleString("en") : String(+v.toPrecision(3)); }
  function show(a, v) {
    if (a.unit === "share") return (v * 100).toFixed(v > 0.99 ? 2 : 1) + " %";
    if (a.unit === "duration") return v < 1 ? short(v * 1e3) + " µs" : v < 1000 ? short(v) + " ms" : short(v / 1e3) + " s";
    if (a.unit === "s" && v >= 180) return (v / 60).toFixed(1) + " min";
    return short(v) + " " + a.unit;
  }
  function points(line) {
    if (!line.read) line.read = line.getAttribute("points").split(" ").map(function (p) { return p.split(",").map(Number); });
    return line.read;
  }
  function at(list, x) {
    if (x < list[0][0] - 0.5 || x > list[list.length - 1][0] + 0.5) return null;
    for (var i = 1; i < list.length; i++) {
      if (x > list[i][0]) continue;
      var a = list[i - 1], b = list[i];
      return b[0] === a[0] ? b[1] : a[1] + (x - a[0]) / (b[0] - a[0]) * (b[1] - a[1]);
    }
    return list[list.length - 1][1];
  }
  document.querySelectorAll("svg.chart").forEach(function (svg) {
    var ax = axis(svg.dataset.x), ay = axis(svg.dataset.y);
    var cross = null;
    svg.addEventListener("pointermove", function (event) {
      var box = svg.getBoundingClientRect();
      var x = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
      if (x < ax.from || x > ax.to) return leave();
      if (!cross) {
        cross = document.createElementNS(svg.namespaceURI, "line");
        cross.setAttribute("class", "cross");
        cross.setAttribute("y1", ay.to);
        cross.setAttribute("y2", ay.from);
        svg.appendChild(cross);
      }
      cross.setAttribute("x1", x);
      cross.setAttribute("x2", x);
      tip.textContent = "";
      var head = document.createElement("b");
      head.textContent = show(ax, value(ax, x));
      tip.appendChild(head);
      var seen = {};
      svg.querySelectorAll("polyline:not(.off)").forEach(function (line) {
        var y = at(points(line), x);
        if (y === null || seen[line.dataset.r]) return;
        seen[line.dataset.r] = true;
        var row = document.createElement("div");
        var name = document.createElement("span");
        var swatch = document.createElement("i");
        swatch.className = "swatch " + line.classList[1];
        name.appendChild(swatch);
        name.appendChild(document.createTextNode(names[+line.dataset.r] || ""));
        var number = document.createElement("b");
        number.textContent = show(ay, value(ay, y));
        row.appendChild(name);
        row.appendChild(number);
        tip.appendChild(row);
      });
      tip.hidden = false;
      var right = event.clientX + 16 + tip.offsetWidth > window.innerWidth;
      tip.style.left = (right ? event.clientX - 16 - tip.offsetWidth : event.clientX + 16) + "px";
      tip.style.top = Math.min(event.clientY + 12, window.innerHeight - tip.offsetHeight - 8) + "px";
    });
    function leave() {
      tip.hidden = true;
      if (cross) { cross.remove(); cross = null; }
    }
    svg.addEventListener("pointerleave", leave);
  });
})();
)js";

/// Beyond the colours: lines dashed, dots hollow, swatches striped. Dashes have round ends, 1.8 px of the gaps.
struct Dashes {
  const char* line;
  const char* ring;
  int swatch_deg;
};
constexpr std::array<Dashes, kDashes - 1> kBeyond = {
    Dashes{"8 5", "none", 90}, {"1 5", "2 2", 0}, {"10 4 1 4", "6 2", 135}};

std::string dashed() {
  std::string out;
  for (std::size_t k = 0; k < kBeyond.size(); ++k) {
    for (std::size_t colour = 1; colour < kColours; ++colour) {
      out += fmt::format(
          ".r{}{{--c:var(--c{});--d:{};--f:var(--paper);--o:var(--c{});--e:{};--s:repeating-linear-gradient({}deg,"
          "var(--c) 0 3px,var(--paper) 3px 5px)}}",
          (k + 1) * (kColours - 1) + colour, colour, kBeyond[k].line, colour, kBeyond[k].ring, kBeyond[k].swatch_deg);
    }
  }
  return out;
}

std::string colours(const std::array<const char*, kColours>& set) {
  std::string out;
  for (std::size_t i = 0; i < set.size(); ++i) out += fmt::format("--c{}:{};", i, set[i]);
  return out;
}

}  // namespace

std::string style() {
  std::string out =
      ":root{color-scheme:light "
      "dark;--paper:#fcfcfa;--card:#f3f3ef;--ink:#1b1e23;--soft:#5c636d;--rule:#dcdcd5;--grid:#e8e8e2;"
      "--axis:#9aa0a8;--less:#0067a5;--more:#b85c00;" +
      colours(kLight) +
      "}@media "
      "(prefers-color-scheme:dark){:root{--paper:#14161a;--card:#1d2025;--ink:#e9ebee;--soft:#9ba3ae;--rule:#33383f;"
      "--grid:#262a30;--axis:#6a727d;--less:#56b4e9;--more:#f0914b;" +
      colours(kDark) + "}}";
  for (std::size_t i = 0; i < kColours; ++i) out += fmt::format(".r{}{{--c:var(--c{})}}", i, i);
  return out + dashed() + std::string(kRules);
}

std::string_view script() { return kScript; }

}  // namespace wattle::report
