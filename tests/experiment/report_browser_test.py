"""The report in a real browser: every chart is drawn and has data, and nothing is complained about.

The page is opened by headless Chromium, with a probe added that counts what is drawn: coloured
pixels of canvases, shapes of SVGs with an extent. Mutants of the page, each with one fault planted,
must be found out by the same check.
"""
import html
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

from tiny import CONDITIONS, POLICIES, SPEC, WORKERS, ExperimentTestCase

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which(
    "google-chrome")
NO_BROWSER = 77  # SKIP_RETURN_CODE

PROBE_HEAD = """<script>
window.complaints = [];
window.addEventListener("error", e => complaints.push(String(e.message)));
window.addEventListener("unhandledrejection", e => complaints.push(String(e.reason)));
for (const level of ["error", "warn"]) console[level] = (...words) => complaints.push(words.join(" "));
</script>"""

PROBE_TAIL = """<script>
// Pixels that are neither transparent nor grey: what axes and grids are drawn with.
function coloured(canvas) {
  const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let i = 0; i < data.length; i += 4) {
    const [r, g, b, a] = data.slice(i, i + 4);
    if (a > 40 && Math.max(r, g, b) - Math.min(r, g, b) > 40) ++count;
  }
  return count;
}
function shapes(svg) {
  return [...svg.querySelectorAll("rect, circle")].filter(shape => {
    const box = shape.getBBox();
    return box.width > 0.2 && box.height > 0.2;
  }).length;
}
addEventListener("load", () => setTimeout(() => {
  const charts = [...document.querySelectorAll("figure.chart")].map(figure => ({
    kind: figure.dataset.chart, series: Number(figure.dataset.series || 0),
    points: Number(figure.dataset.points || 0), absent: figure.dataset.absent === "true",
    ink: [...figure.querySelectorAll("canvas")].reduce((sum, c) => sum + coloured(c), 0),
    shapes: [...figure.querySelectorAll("svg")].reduce((sum, s) => sum + shapes(s), 0),
    width: figure.getBoundingClientRect().width,
  }));
  const probe = document.createElement("pre");
  probe.id = "probe";
  probe.textContent = JSON.stringify({charts, complaints, title: document.title,
    ready: document.documentElement.dataset.ready === "true",
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    text: document.body.innerText.length});
  document.body.append(probe);
}, 300));
</script>"""

LINES = {"accuracy-time", "accuracy-bytes", "scaling"}
INK_MIN = 300     # pixels of a line chart
POINTS_MIN = {"accuracy-time": 100, "accuracy-bytes": 100, "scaling": 4}


def faults(probe, wanted):
    """What is wrong with a page, as sentences; `wanted` is the number of charts of each kind."""
    found = list(probe["complaints"])
    if not probe["ready"]:
        found.append("the page was not drawn to its end")
    if probe["overflow"] > 0:
        found.append(f"the page is {probe['overflow']} pixels too wide")
    counts = {}
    for chart in probe["charts"]:
        kind = chart["kind"]
        counts[kind] = counts.get(kind, 0) + 1
        lines = kind in LINES
        if chart["absent"] or chart["series"] < (POLICIES if kind != "lags" else 1):
            found.append(f"{kind}: {chart['series']} series")
        if chart["points"] < POINTS_MIN.get(kind, 1):
            found.append(f"{kind}: {chart['points']} points")
        if lines and chart["ink"] < INK_MIN:
            found.append(f"{kind}: {chart['ink']} coloured pixels")
        if not lines and chart["shapes"] < chart["points"] / 2:
            found.append(f"{kind}: {chart['shapes']} shapes for {chart['points']} points")
        if chart["width"] < 150:
            found.append(f"{kind}: {chart['width']} pixels wide")
    if counts != wanted:
        found.append(f"charts: {counts}, wanted {wanted}")
    return found


class ReportBrowserTest(ExperimentTestCase):
    page = None  # of the experiment, made once

    def setUp(self):
        super().setUp()
        if ReportBrowserTest.page is None:
            self.run_experiment()
            ReportBrowserTest.page = self.read("report.html")

    WANTED = {"accuracy-time": CONDITIONS * WORKERS, "accuracy-bytes": CONDITIONS * WORKERS,
              "waits": CONDITIONS * WORKERS, "pareto": CONDITIONS * WORKERS,
              "lags": CONDITIONS * WORKERS * POLICIES, "scaling": CONDITIONS}

    def probe(self, page, *flags, size="1300,2000"):
        """Opens the page with the probe in it; what the probe saw."""
        probed = page.replace("<head>", "<head>" + PROBE_HEAD).replace(
            "</body>", PROBE_TAIL + "</body>")
        path = self.write("probed.html", probed)
        command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
                   f"--user-data-dir={self.dir}/profile", "--disable-dev-shm-usage",
                   "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr",
                   f"--window-size={size}", "--virtual-time-budget=10000", *flags, "--dump-dom",
                   f"file://{path}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        found = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.S)
        self.assertIsNotNone(found, done.stderr[-2000:])
        probe = json.loads(html.unescape(found.group(1)))
        probe["complaints"] += re.findall(r":CONSOLE[:(].*", done.stderr)
        return probe

    def mutant(self, pattern, replacement, count=1):
        """The page with one fault planted."""
        mutant, replaced = re.subn(pattern, replacement, self.page, count=count, flags=re.S)
        self.assertGreater(replaced, 0, "the mutant is no mutant")
        return mutant

    def mutant_of_data(self, change):
        """The page with other data."""
        begin = self.page.index('type="application/json">') + len('type="application/json">')
        end = self.page.index("</script>", begin)
        data = json.loads(self.page[begin:end])
        change(data)
        return self.page[:begin] + json.dumps(data).replace("<", "\\u003c") + self.page[end:]

    # Wide, on a phone and on a dark ground.
    def test_every_chart_has_data_and_nothing_complains(self):
        self.assertEqual(faults(self.probe(self.page), self.WANTED), [])
        self.assertEqual(faults(self.probe(self.page, size="420,900"), self.WANTED), [])
        self.assertEqual(
            faults(self.probe(self.page, "--blink-settings=preferredColorScheme=0"), self.WANTED),
            [])

    def test_an_unfinished_experiment_has_a_page_too(self):
        spec = self.write("one.textproto", SPEC.replace("seeds: [1, 2, 3, 4, 5]", "seeds: 1"))
        self.out += "-one"
        self.run_experiment(spec=spec)
        probe = self.probe(self.read("report.html"))
        self.assertEqual(probe["complaints"], [])
        self.assertTrue(probe["ready"])

    # One test, as each test makes the experiment anew.
    def test_mutants_are_found(self):
        for name in dir(self):
            if name.startswith("mutant_with_"):
                with self.subTest(name):
                    getattr(self, name)()

    def mutant_with_a_chart_without_data(self):
        def empty(data):
            data["tables"][1]["conditions"][1]["curves"]["bytes"]["series"] = []
        found = faults(self.probe(self.mutant_of_data(empty)), self.WANTED)
        self.assertTrue(any("accuracy-bytes: 0 series" in f for f in found), found)

    def mutant_with_a_series_without_numbers(self):
        def blank(data):
            series = data["tables"][0]["conditions"][0]["curves"]["time"]["series"][2]
            series["median"] = [None for _ in series["median"]]
        found = faults(self.probe(self.mutant_of_data(blank)), self.WANTED)
        self.assertIn("accuracy-time: 3 series", found)

    def mutant_with_lines_that_cannot_be_seen(self):
        page = self.mutant(r"const colourOf = [^\n]*", 'const colourOf = policy => "#00000000";')
        found = faults(self.probe(page), self.WANTED)
        self.assertTrue(any("coloured pixels" in f for f in found), found)

    def mutant_with_bars_without_height(self):
        page = self.mutant(r"const tall = [^\n]*", "const tall = 0;")
        found = faults(self.probe(page), self.WANTED)
        self.assertTrue(any("lags: 0 shapes" in f for f in found), found)

    def mutant_with_an_error_in_the_page(self):
        page = self.mutant(r"later\.forEach\(mount => mount\(\)\);", "noSuchFunction();")
        found = faults(self.probe(page), self.WANTED)
        self.assertTrue(any("noSuchFunction" in f for f in found), found)
        self.assertIn("the page was not drawn to its end", found)

    def mutant_with_a_missing_chart(self):
        page = self.mutant(r"waitChart\(condition\), ", "")
        found = faults(self.probe(page), self.WANTED)
        self.assertTrue(any(f.startswith("charts: ") for f in found), found)


if __name__ == "__main__":
    if BROWSER is None:
        print("skipped: no chromium on this machine; `apt-get install chromium`", file=sys.stderr)
        sys.exit(NO_BROWSER)
    unittest.main()
