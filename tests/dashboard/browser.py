"""A headless Chromium that a test drives over a pipe, by its DevTools protocol: what a page shows, asks for and complains
about. Who has no Chromium is told so by `BROWSER`."""
import json
import os
import select
import shutil
import subprocess
import time

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage", "--hide-scrollbars",
         "--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe"]


class Browser:
    """One page after the other. `folder`: its profile's; it is made."""

    def __init__(self, folder, patience_s=60):
        self.patience_s = patience_s
        to_it, self.to_it = os.pipe()
        self.from_it, from_it = os.pipe()
        command = " ".join(f"'{word}'" for word in [BROWSER, *FLAGS, f"--user-data-dir={folder}", "about:blank"])
        self.log = open(f"{folder}.log", "w")
        self.process = subprocess.Popen(["sh", "-c", f"exec {command} 3<&{to_it} 4>&{from_it}"], pass_fds=(to_it, from_it),
                                        stdout=self.log, stderr=subprocess.STDOUT)
        os.close(to_it)
        os.close(from_it)
        self.text, self.number, self.session = b"", 0, None
        self.complaints, self.requests = [], []

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()
        for end in (self.to_it, self.from_it):
            os.close(end)

    def _next(self, deadline):
        """The next message of the browser."""
        while b"\0" not in self.text:
            ready, _, _ = select.select([self.from_it], [], [], max(0, deadline - time.monotonic()))
            part = os.read(self.from_it, 1 << 20) if ready else b""
            if not part:
                raise AssertionError("the browser says nothing: " + open(self.log.name).read()[-2000:])
            self.text += part
        message, _, self.text = self.text.partition(b"\0")
        return json.loads(message)

    def _note(self, event):
        """What a test wants to know of an event."""
        params = event.get("params", {})
        what = event.get("method")
        if what == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif what == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
        elif what == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif what == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.to_it, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + self.patience_s
        while True:
            answer = self._next(deadline)
            if answer.get("id") != self.number:
                self._note(answer)
                continue
            if "error" in answer:
                raise AssertionError(f"{method}: {answer['error']}")
            return answer["result"]

    def open(self, url, width=1300, height=1400, dark=False, phone=False):
        """Shows another page; what was noted of the last is forgotten."""
        if self.session is None:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network", "Performance"):
                self.call(f"{domain}.enable")
        self.look_as(width, height, dark, phone)
        self.call("Page.navigate", url="about:blank")
        self.call("Runtime.discardConsoleEntries")
        self.call("Log.clear")
        self.complaints, self.requests = [], []
        self.call("Page.navigate", url=url)

    def look_as(self, width, height, dark=False, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def ask(self, expression):
        """The value of an expression of JavaScript in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(f"{expression}: {answer['exceptionDetails']['exception'].get('description')}")
        return answer["result"].get("value")

    def wait_for(self, expression, done=bool, seconds=60):
        """Its value, once it is as wanted; the last one after that time."""
        deadline = time.monotonic() + seconds
        while True:
            value = self.ask(expression)
            if done(value) or time.monotonic() > deadline:
                return value
            time.sleep(0.05)

    def press(self, key, code):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code,
                      **({"text": "\r"} if key == "Enter" and kind == "keyDown" else {}))

    def heap(self):
        """{name: value} after all that can go has gone."""
        self.call("HeapProfiler.collectGarbage")
        return {m["name"]: m["value"] for m in self.call("Performance.getMetrics")["metrics"]}

    def picture(self):
        """The page as it is seen, as base64 of a PNG."""
        return self.call("Page.captureScreenshot", format="png")["data"]
