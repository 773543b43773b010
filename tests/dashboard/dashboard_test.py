"""The dashboard in a real browser: of a live job it shows what /statusz.json says, complains about nothing and asks nobody
else; and what it makes of statuses that a job seldom has, from a server that says what the test wants. A fault that is
planted in the page is found by the same looks."""
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest
import urllib.request

from browser import BROWSER, Browser

sys.path.append(f"{os.environ['SOAPSTONE_SOURCE']}/tests/cluster")
from cluster import BIN, SOURCE, ClusterTestCase  # noqa: E402

PAGE = f"{SOURCE}/observe/status/page"
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
HOSTILE = "<img src=x onerror=alert(1)>"
CAUSES = ("compute", "injected", "policy", "shard", "network")
# Parts of the page that are empty, or lack what they are there for.
UNFILLED = """(() => {
  const wanted = {"#facts dd": 10, "#clocks g.lane": %d, "#lags td[data-worker]": %d, "#times g.bar": %d,
                  "#rate polyline": 1, "#loss polyline": 1, "#slow p, #slow li": 1, "#missing p, #missing li": 1,
                  "#security p": 1, "#news li": 1};
  return Object.entries(wanted).filter(([what, count]) => document.querySelectorAll(what).length !== count &&
      !(count === 1 && document.querySelectorAll(what).length > 1) && !(what === "#facts dd" &&
      document.querySelectorAll(what).length > 10)).map(([what]) => what);
})()"""
LANES = """[...document.querySelectorAll("#clocks g.lane")].map(
    lane => [lane.dataset.name, Number(lane.dataset.clock), lane.querySelector("text:last-of-type").textContent])"""
TEXT = '(document.querySelector("%s")?.innerText ?? "")'
TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def status(worker_count=3, shard_count=2, **changes):
    """Of a job that runs: worker w is at clock 100 + w % 3."""
    readers = [[w, 100 + w % 3, 1000, 500 * (w % 3), 2, 0] for w in range(worker_count)]
    found = {
        "role": "scheduler", "rank": -1, "version": "soapstone 0", "job": "a job", "policy": "ssp:s=2", "phase": "running",
        "ready": True, "waits": "", "up_s": 61.5, "security": "off: neither encrypted nor authenticated", "servers": 1,
        "servers_there": 1, "workers_wanted": worker_count, "missing": "", "decentralised": False,
        "progress": {"epoch": 1, "epochs": 3, "clock": 100, "clocks": 300, "samples": 9000, "samples_per_s": 1234.5,
                     "loss": 0.5, "lag_mean": 0.5, "lag_max": 2, "eta_s": 60, "workers": worker_count},
        "workers": [{"worker": w, "host": f"n{w}", "member": True, "clock": 100, "samples": 3000, "loss": 0.5,
                     "lag_mean": 0.5, "lag_max": 2, "times_s": {"compute": 6, "injected": 1, "policy": 2, "shard": 0.5,
                                                                "network": 0.5},
                     "step_s": 0.1, "slowdown": 1, "waits": ""} for w in range(worker_count)],
        "shards": [{"shard": s, "server": 0, "groups": False, "age_s": 0.2, "read_lag_max": 2, "clock_gap_max": 3,
                    "frontier": 100, "reader_count": worker_count, "parked_count": 0, "readers": readers}
                   for s in range(shard_count)],
        "history": [[t, t, 1000 + t, 1 / (1 + t), 0.5] for t in range(20)], "news": ["started"], "ended": None}
    found.update(changes)
    return json.loads(json.dumps(found))


class Scripted:
    """A server of the page whose status is what `say` returns: a value, text that is none, or a code."""

    def __init__(self, say, **files):
        self.say, self.files, self.asked = say, files, 0
        scripted = self

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                code, kind, body = scripted.answer(self.path)
                self.send_response(code)
                for name, value in (("Content-Type", kind), ("Content-Security-Policy", "default-src 'self'"),
                                    ("X-Content-Type-Options", "nosniff"), ("Content-Length", str(len(body)))):
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, path):
        if path == "/statusz.json":
            self.asked += 1
            said = self.say()
            if isinstance(said, int):
                return said, "text/plain", b"no"
            return 200, "application/json", (said if isinstance(said, str) else json.dumps(said)).encode()
        name = path.strip("/") or "index.html"
        if "/" in name or not os.path.exists(f"{PAGE}/{name}"):
            return 404, "text/plain", b"no such page"
        with open(f"{PAGE}/{name}", encoding="utf-8") as file:
            text = file.read()
        for old, new in self.files.get(name.replace(".", "_"), []):
            assert old in text, f"{name} has no {old!r}"
            text = text.replace(old, new)
        return 200, TYPES[name.rsplit(".")[-1]], text.encode()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class DashboardTestCase(ClusterTestCase):

    def setUp(self):
        super().setUp()
        if BROWSER is None:
            self.skipTest("NOT TESTED: no chromium on this machine; `apt-get install chromium`")
        self.browser = Browser(f"{self.dir}/profile")
        self.addCleanup(self.browser.close)

    def assert_quiet(self, own):
        """Nothing was complained about, and nobody else asked."""
        self.assertEqual(self.browser.complaints, [])
        self.assertEqual([url for url in self.browser.requests if not url.startswith((own, "about:"))], [])

    planted = {}  # of all pages: {file: [(what, what instead)]}

    def script(self, say, **files):
        changes = {name: files.get(name, []) + self.planted.get(name, []) for name in {*files, *self.planted}}
        scripted = Scripted(say if callable(say) else lambda: say, **changes)
        self.addCleanup(scripted.close)
        return scripted


class LiveDashboardTest(DashboardTestCase):

    def start(self, *flags):
        """(scheduler, address of its pages, {worker: Running}) of a job whose worker 1 is on a host of a hostile name."""
        flags = (f"--config={self.config}", "--epochs=100000", "--heartbeat_timeout_s=60", "--base_ms=20", *flags)
        scheduler = self.run_program("soapstone-scheduler", "--scheduler=tcp://127.0.0.1:0", "--progress=json",
                                     "--http=127.0.0.1:0", *flags)
        endpoint = scheduler.wait_for('"endpoint":"([^"]+)"').group(1)
        address = scheduler.wait_for(r"pages at (http://[^/]+/)").group(1)
        for rank in range(2):
            self.run_program("soapstone-server", f"--scheduler={endpoint}", f"--rank={rank}", *flags)
        named = "import os, socket, sys; socket.sethostname(sys.argv[1]); os.execv(sys.argv[2], sys.argv[2:])"
        can_name = subprocess.run(["unshare", "--uts", "true"], capture_output=True, check=False).returncode == 0
        workers = {}
        for rank in range(3):
            command = [f"{BIN}/soapstone-worker", f"--scheduler={endpoint}", f"--rank={rank}", *flags]
            if rank == 1 and can_name:
                command = [shutil.which("unshare"), "--uts", sys.executable, "-c", named, HOSTILE, *command]
            workers[rank] = self.run_program(*command)
        return scheduler, address, workers, can_name

    def test_a_live_job_is_shown_as_it_is(self):
        scheduler, address, workers, named = self.start()
        browser = self.browser
        browser.open(address)
        self.assertEqual(browser.wait_for(UNFILLED % (3, 6, 3), lambda value: value == []), [])
        self.look_at_clocks(address, workers)
        if named:
            self.assertIn(HOSTILE, browser.ask('document.querySelector("#times svg").textContent'))
        self.assertEqual(browser.ask('document.querySelectorAll("img").length'), 0)
        self.look_at_saved(address)
        browser.open(address, width=360, height=800, phone=True)
        self.assertEqual(browser.wait_for(UNFILLED % (3, 6, 3), lambda value: value == []), [])
        self.assertEqual(browser.ask(TOO_WIDE), 0)
        scheduler.process.send_signal(signal.SIGTERM)
        said = browser.wait_for(TEXT % "#link", lambda text: "ended" in text)
        self.assertEqual(said, "The job has ended with 143: stopped by a signal.")
        self.assert_quiet(address)
        self.assertEqual(scheduler.wait(30), 143)

    def look_at_clocks(self, address, workers):
        """Where one worker stands still the others come to the bound: then lanes and status are of one moment."""
        os.kill(workers[2].pid, signal.SIGSTOP)
        deadline = time.monotonic() + 60
        while True:
            before = self.lanes_of(address)
            shown = self.browser.ask(LANES)
            if shown == before and before == self.lanes_of(address) and any("waits" in lane[2] for lane in shown):
                break
            self.assertLess(time.monotonic(), deadline, f"shown {shown}, said {before}")
            time.sleep(0.2)
        clocks = [lane[1] for lane in shown]
        band = self.browser.ask('Object.assign({}, document.querySelector("#clocks .bound").dataset)')
        self.assertEqual([int(band["from"]), int(band["to"])], [min(clocks), min(clocks) + 3])  # ssp:s=2
        self.assertLessEqual(max(clocks), int(band["to"]))
        self.assertEqual(self.browser.ask('document.querySelectorAll("#lags td.waits").length > 0'), True)
        os.kill(workers[2].pid, signal.SIGCONT)
        self.assert_quiet(address)

    @staticmethod
    def lanes_of(address):
        with urllib.request.urlopen(f"{address}statusz.json", timeout=20) as answer:
            readers = json.load(answer)["shards"][0]["readers"]
        return [[f"worker {r[0]}", r[1], f"{r[1]} waits" if r[5] > 0 else f"{r[1]}"] for r in readers]

    def look_at_saved(self, address):
        path = f"{self.dir}/page.html"
        saved = subprocess.run([f"{BIN}/soapstone", "top", address, f"--save={path}"], capture_output=True, text=True,
                               timeout=60, check=False)
        self.assertEqual((saved.returncode, saved.stderr), (0, ""))
        self.browser.open(f"file://{path}")
        self.assertEqual(self.browser.wait_for(UNFILLED % (3, 6, 3), lambda value: value == []), [])
        self.assertRegex(self.browser.ask(TEXT % "#link"), r"^Saved when the scheduler had run for ")
        self.assertEqual(self.browser.ask("document.getElementById('pause').checkVisibility()"), False)
        self.assert_quiet(f"file://{path}")


class ScriptedDashboardTestCase(DashboardTestCase):
    """Looks at the page of a status, each at one that a job seldom has."""

    def show(self, say, wanted=None, width=1300, phone=False, **files):
        """The browser with the page of that status, drawn."""
        scripted = self.script(say, **files)
        self.browser.open(scripted.url, width=width, phone=phone)
        self.browser.wait_for(wanted or 'document.querySelectorAll("#news li, #news p").length > 0')
        return scripted

    def text(self, part):
        return self.browser.ask(TEXT % part)

    def look_at_a_job_that_registers(self):
        self.show(status(0, 0, phase="registering", waits="waiting for server 0, worker 0", missing="server 0, worker 0",
                         workers=[], shards=[], history=[], news=[]), width=360, phone=True)
        self.assertIn("waiting for server 0, worker 0", self.text("#missing"))
        for part in ("#clocks", "#lags", "#times", "#rate", "#loss", "#news"):
            self.assertRegex(self.text(part), r"(?i)\b(no|none)\b")

    def look_at_workers_that_are_folded(self):
        shard = status(7)["shards"][0] | {"reader_count": 1000, "parked_count": 3}
        self.show(status(1000, shards=[shard]), width=360, phone=True)
        self.assertIn("7 of 1,000 are shown", self.text("#clocks"))
        self.assertIn("most behind", self.text("#lags"))
        self.assertEqual(self.browser.ask('document.querySelectorAll("#times g.bar").length'), 64)
        self.assertIn("3 at shard 0", self.text("#missing"))

    def look_at_the_lags_of_one_that_has_left(self):
        """Its last lag is none of the last ten seconds."""
        there = status(3)["shards"][0]
        left = there | {"readers": [[w, -1 if w == 1 else clock, *rest] for w, clock, *rest in there["readers"]]}
        said = status(3, shards=[there])
        self.show(lambda: said, board_js=[("LOOK_MS = 1000", "LOOK_MS = 20")], width=360, phone=True)
        lags = "[...document.querySelectorAll('#lags td')].map(cell => cell.innerText)"
        self.assertEqual(self.browser.ask(lags), ["0", "0.5", "1"])
        said = status(3, shards=[left])
        self.browser.wait_for(lags, lambda texts: texts == ["0", "–", "1"])
        self.assertIn("since the start where there was no read", self.text("#lags"))

    def look_at_a_tree_of_servers(self):
        flat = status(4)["shards"][0]
        root = flat | {"groups": True, "readers": [[0, 9, 5, 1, 1, 0], [1, 10, 5, 2, 1, 0]], "reader_count": 2}
        branch = flat | {"shard": 1, "readers": flat["readers"][:2], "reader_count": 2, "clock_gap_max": 1}
        other = flat | {"shard": 2, "readers": flat["readers"][2:], "reader_count": 2, "clock_gap_max": 1}
        self.show(status(4, shards=[root, branch, other]), width=360, phone=True)
        self.assertEqual(self.browser.ask(LANES + ".map(lane => lane[0])"),
                         ["group 0", "group 1", "worker 0", "worker 1", "worker 2", "worker 3"])
        self.assertEqual(self.browser.ask('document.querySelectorAll("#lags table").length'), 2)

    def look_at_workers_that_keep_the_parameters(self):
        self.show(status(3, decentralised=True), width=360, phone=True)
        self.assertEqual(self.browser.ask(LANES + ".map(lane => lane[1])"), [100, 100, 100])
        self.assertEqual(self.browser.ask('document.querySelectorAll("#clocks .bound").length'), 0)
        self.assertIn("no bound is drawn", self.text("#clocks"))
        self.assertIn("read from one another", self.text("#lags"))

    def look_at_a_policy_without_bound(self):
        shard = status()["shards"][0] | {"read_lag_max": None, "clock_gap_max": None}
        shard["readers"][0][1] = 900
        self.show(status(shards=[shard]), width=360, phone=True)
        self.assertIn("the policy sets no bound", self.text("#clocks"))

    def look_at_a_loss_that_is_no_number(self):
        history = [[t, t, 1000, None if t > 5 else 0.5, 0] for t in range(10)]
        progress = status()["progress"] | {"loss": None}
        self.show(status(history=history, progress=progress), width=360, phone=True)
        self.assertIn("not finite", self.text("#facts"))
        self.assertIn("4 were not finite", self.text("#loss"))

    def look_at_a_worker_that_is_slow_and_one_that_is_lost(self):
        workers = status(3)["workers"]
        workers[1] |= {"slowdown": 2.4, "step_s": 0.24}
        workers[2] |= {"member": False, "host": ""}
        self.show(status(3, workers=workers, missing="worker 2"), width=360, phone=True)
        self.assertIn("worker 1 on n1: 240 ms a step of its own, 2.4 times the median", self.text("#slow"))
        self.assertIn("missing: worker 2", self.text("#missing"))
        self.assertIn("worker 2 is no member any more", self.text("#missing"))
        self.assertEqual(self.browser.ask('document.querySelectorAll("#times g.bar").length'), 2)

    def look_at_words_that_are_markup(self):
        found = status(2, job=HOSTILE, policy=HOSTILE, security=HOSTILE, waits=HOSTILE, missing=HOSTILE, phase=HOSTILE,
                       version=HOSTILE, news=[HOSTILE])
        for worker in found["workers"]:
            worker |= {"host": HOSTILE, "waits": HOSTILE, "slowdown": 3}
        self.show(found, width=360, phone=True)
        self.assertEqual(self.browser.ask('document.querySelectorAll("img, script:not([src])").length'), 0)
        for part in ("#job", "#facts", "#slow", "#missing", "#security", "#news"):
            self.assertIn(HOSTILE, self.text(part))

    def look_at_a_job_that_has_ended(self):
        scripted = self.show(status(phase="closing", ended={"code": 79, "reason": "the loss is NaN"}),
                             board_js=[("LOOK_MS = 1000", "LOOK_MS = 20")])
        self.assertEqual(self.text("#link"), "The job has ended with 79: the loss is NaN.")
        self.browser.ask("new Promise(done => setTimeout(done, 200))")
        asked = scripted.asked
        self.assertEqual(asked, 1)  # there is nothing more to hear
        self.browser.ask("document.getElementById('pause').focus()")
        self.browser.press("Enter", 13)  # looks again, by a key
        self.browser.wait_for("1", lambda _: scripted.asked > asked)
        self.assertEqual(scripted.asked, asked + 1)

    def look_at_it_by_keys_alone(self):
        scripted = self.show(status(40))
        focused = []
        for _ in range(6):
            self.browser.press("Tab", 9)
            focused.append(self.browser.ask("document.activeElement.id || document.activeElement.className || "
                                            "document.activeElement.tagName"))
        self.assertEqual(focused[:2], ["skip", "pause"])
        self.assertIn("scroll", focused)  # what scrolls by itself
        self.browser.ask("document.getElementById('pause').focus()")
        self.browser.press("Enter", 13)
        self.assertIn("Paused", self.text("#link"))
        asked = scripted.asked
        self.browser.press("Enter", 13)
        self.browser.wait_for("1", lambda _: scripted.asked > asked)
        self.assertGreater(scripted.asked, asked)
        self.assertEqual(self.text("#link"), "Live, once a second.")


class ScriptedDashboardTest(ScriptedDashboardTestCase):

    def test_what_it_makes_of_odd_statuses(self):
        """One after the other, each with nothing complained about, and no wider than a phone."""
        for name in [name for name in dir(self) if name.startswith("look_at_")]:
            with self.subTest(name):
                getattr(self, name)()
                self.assertEqual(self.browser.complaints, [], name)
                self.assertEqual(self.browser.ask(TOO_WIDE), 0, name)

    def test_silence_and_rubbish_are_said_and_end_by_themselves(self):
        said = status()
        scripted = self.script(lambda: said, board_js=[("LOOK_MS = 1000", "LOOK_MS = 50")])
        self.browser.open(scripted.url)
        link = TEXT % "#link"
        self.assertEqual(self.browser.wait_for(link, lambda text: "Live" in text), "Live, once a second.")
        said = 503
        self.assertIn("answers 503", self.browser.wait_for(link, lambda text: "503" in text))
        for rubbish in ("{", "[]", '{"role": "worker"}', '{"role": "scheduler", "workers": 3}', "null"):
            said = status()
            self.browser.wait_for(link, lambda text: "Live" in text)
            said = rubbish
            self.assertIn("no scheduler", self.browser.wait_for(link, lambda text: "no scheduler" in text), rubbish)
        said = status(job="another")
        self.browser.wait_for(link, lambda text: "Live" in text)
        self.assertEqual(self.text("#job"), "another")
        scripted.close()
        self.assertIn("has not answered since", self.browser.wait_for(link, lambda text: "answered since" in text))


class DashboardMutantCiTest(ScriptedDashboardTestCase):
    """Each of the looks above finds a fault that is planted for it."""

    MUTANTS = [  # (look, file, what, what instead)
        ("a_job_that_registers", "board_js", 'if (status.waits !== "") lines.push(status.waits);', ""),
        ("a_job_that_registers", "board_css", "minmax(min(100%, 26rem), 1fr)", "minmax(26rem, 1fr)"),
        ("workers_that_are_folded", "board_js", "const folded = shards.some", "const folded = false && shards.some"),
        ("workers_that_are_folded", "board_js", "ROWS_MAX = 64", "ROWS_MAX = 640"),
        ("a_tree_of_servers", "board_js", 'shard.groups ? "group" : "worker"', '"worker"'),
        ("workers_that_keep_the_parameters", "board_js", "status.decentralised ? [] : status.shards", "status.shards"),
        ("a_policy_without_bound", "board_js", "known(block.gap) ?", "true ?"),
        ("a_loss_that_is_no_number", "board_js", 'p.loss === null ? "not finite" : short(p.loss)', "short(p.loss)"),
        ("a_loss_that_is_no_number", "draw_js", 'typeof x === "number" && Number.isFinite(x)', "true"),
        ("a_worker_that_is_slow_and_one_that_is_lost", "board_js", "const SLOW = 1.5", "const SLOW = 15"),
        ("a_worker_that_is_slow_and_one_that_is_lost", "board_js", "if (!w.member) lines", "if (false) lines"),
        ("words_that_are_markup", "draw_js", "node.append(...children.map(child => child instanceof Node ? child : "
         "String(child)));", "for (const child of children) child instanceof Node ? node.append(child) : "
         "node.insertAdjacentHTML('beforeend', child);"),
        ("words_that_are_markup", "board_js", 'byId("job").textContent = status.job',
         'byId("job").innerHTML = status.job'),
        ("it_by_keys_alone", "board_js", "if (rows <= ROWS_SEEN) return content;", "return content;"),
        ("it_by_keys_alone", "board_js", "state.paused = !state.paused;", ""),
        ("a_job_that_has_ended", "board_js", "if (!state.paused && !state.ended) state.timer",
         "if (!state.paused) state.timer"),
        ("a_job_that_has_ended", "board_js", "end !== null && end !== undefined", "false"),
    ]

    def test_planted_faults_are_found(self):
        self.browser.patience_s = 20
        missed = []
        for look, file, old, new in self.MUTANTS:
            self.planted = {file: [(old, new)]}
            try:
                getattr(self, f"look_at_{look}")()
                if self.browser.complaints == [] and self.browser.ask(TOO_WIDE) == 0:
                    missed.append((look, old))
            except AssertionError:
                pass
        self.assertEqual(missed, [])


class DashboardCiTest(DashboardTestCase):

    def test_memory_is_flat(self):
        """Half an hour's looks in some minutes: what is kept is bounded."""
        began = time.monotonic()

        def say():
            t = time.monotonic() - began
            found = status(32, up_s=t, history=[[t + i, i, 1000 + t, 1 / (1 + t), 0.5] for i in range(240)],
                           news=[f"line {i} of {t}" for i in range(50)])
            for worker in found["workers"]:
                worker["times_s"]["compute"] += t
            return found

        scripted = self.script(say, board_js=[("LOOK_MS = 1000", "LOOK_MS = 20")])
        self.browser.open(scripted.url)

        def after(looks):
            """The least of some readings: what was drawn last may not have been let go in one."""
            self.browser.wait_for("1", lambda _: scripted.asked >= looks, 600)
            self.assertGreaterEqual(scripted.asked, looks)
            heaps = [self.browser.heap() for _ in range(10)]
            return [min(heap[name] for heap in heaps) for name in ("JSHeapUsedSize", "Nodes", "JSEventListeners")]

        early, late = after(200), after(1800)
        for before, now in zip(early, late):
            self.assertLessEqual(now, 1.15 * before, f"{early}, then {late}")
        self.assertEqual(self.browser.complaints, [])


class PageTest(unittest.TestCase):
    """What can be seen of the page's files without a browser."""

    def read(self, name):
        with open(f"{PAGE}/{name}", encoding="utf-8") as file:
            return file.read()

    def test_words_can_be_read_on_their_ground(self):
        """Contrast as WCAG has it: 4.5 for words, 3 for what is drawn, on a light and a dark ground."""
        def light(colour):
            if len(colour) == 4:
                colour = "#" + "".join(2 * c for c in colour[1:])
            parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
            linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
            return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

        def contrast(one, other):
            low, high = sorted((light(one), light(other)))
            return (high + 0.05) / (low + 0.05)

        grounds = [dict(re.findall(r"--(\w+): (#\w+)", block))
                   for block in re.findall(r":root \{(.*?)\}", self.read("board.css"), re.S)]
        self.assertEqual(len(grounds), 2)
        for colours in grounds:
            words = [(word, ground) for word in ("ink", "soft", "accent", "bad") for ground in ("ground", "panel")]
            words += [("ink", f"h{i}") for i in range(4)] + [("deep", f"h{i}") for i in (4, 5, 6)]
            drawn = [(kind, "panel") for kind in CAUSES] + [("accent", "band"), ("bad", "band"), ("soft", "band")]
            for least, pairs in ((4.5, words), (3, drawn)):
                for one, other in pairs:
                    self.assertGreaterEqual(contrast(colours[one], colours[other]), least, (one, other))

    def test_others_words_are_never_markup(self):
        for name in ("draw.js", "board.js"):
            self.assertEqual(re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function",
                                        self.read(name)), [])
        self.assertLess(sum(os.path.getsize(f"{PAGE}/{name}") for name in os.listdir(PAGE)), 60 << 10)


if __name__ == "__main__":
    unittest.main()
