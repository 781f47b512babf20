"""A small client of Chromium's debugging protocol, over the pipes of --remote-debugging-pipe."""
import base64
import collections
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time


def find():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    return None


class Failed(Exception):
    pass


class Page:
    """One page of a browser of its own. Everything that the page said on its console, and every request, is kept."""

    def __init__(self, browser, size=(1280, 900)):
        self.folder = tempfile.mkdtemp(prefix="heed-browser-")
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()

        def pipes():  # the browser reads from 3 and writes to 4
            a, b = os.dup(to_browser), os.dup(from_browser)
            os.dup2(a, 3)
            os.dup2(b, 4)
            os.set_inheritable(3, True)
            os.set_inheritable(4, True)

        self.process = subprocess.Popen(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage",
             "--remote-debugging-pipe", "--no-first-run", "--disable-extensions", "--disable-background-networking",
             f"--user-data-dir={self.folder}", "about:blank"],
            preexec_fn=pipes, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.number, self.answers = b"", 0, {}
        self.console, self.requests, self.events = [], [], collections.deque(maxlen=2000)
        self.session = None
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
            self.call(f"{domain}.enable")
        self.size(*size)

    def close(self):
        try:
            self.session = None
            self.call("Browser.close", limit=5)
            self.process.wait(10)
        except Exception:  # it may be gone already
            self.process.kill()
            self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, method, limit=60, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.write_end, data):]
        end = time.monotonic() + limit
        while self.number not in self.answers:
            self.pump(max(0.01, end - time.monotonic()))
            if time.monotonic() > end:
                raise Failed(f"{method} took more than {limit} s")
        answer = self.answers.pop(self.number)
        if "error" in answer:
            raise Failed(f"{method}: {answer['error']}")
        return answer["result"]

    def pump(self, seconds):
        """Takes in what the browser has said, for at most so long."""
        if not select.select([self.read_end], [], [], seconds)[0]:
            return
        block = os.read(self.read_end, 1 << 20)
        if not block:
            raise Failed("the browser has ended")
        *whole, self.buffer = (self.buffer + block).split(b"\0")
        for one in whole:
            message = json.loads(one)
            if "id" in message:
                self.answers[message["id"]] = message
                continue
            method, params = message["method"], message.get("params", {})
            if method == "Runtime.consoleAPICalled":
                self.console.append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
            elif method == "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.console.append(details.get("exception", {}).get("description", details["text"]))
            elif method == "Log.entryAdded":
                self.console.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
            elif method == "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            self.events.append(method)

    # What people do.

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)

    def media(self, **features):
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": name.replace("_", "-"), "value": value} for name, value in features.items()])

    def go(self, url):
        self.call("Page.navigate", url=url)

    def run(self, script):
        """The value of an expression, awaited."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise Failed(f"{script[:200]}: {details.get('exception', {}).get('description', details['text'])}")
        return answer["result"].get("value")

    def wait(self, script, limit=30, what=None):
        end = time.monotonic() + limit
        while True:
            try:
                if value := self.run(script):
                    return value
            except Failed as error:  # a page that is being replaced
                if "has ended" in str(error):
                    raise
            if time.monotonic() > end:
                raise Failed(f"waited {limit} s for {what or script}")
            self.pump(0.03)

    def settle(self, seconds=0.3):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.pump(end - time.monotonic())

    def type(self, text):
        for c in text:
            self.call("Input.dispatchKeyEvent", type="keyDown", text=c, unmodifiedText=c, key=c)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=c)

    KEYS = {"Enter": (13, "\r"), "Tab": (9, None), "Escape": (27, None), "ArrowLeft": (37, None), "ArrowUp": (38, None),
            "ArrowRight": (39, None), "ArrowDown": (40, None), "Backspace": (8, None), "Home": (36, None), "End": (35, None)}

    def press(self, key, shift=False):
        code, text = self.KEYS.get(key, (ord(key[0].upper()), key))
        more = {"text": text} if text else {}
        for kind in ("keyDown" if text else "rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code,
                      modifiers=8 if shift else 0, **(more if kind == "keyDown" else {}))

    def click(self, x, y, modifiers=0):
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="none" if kind == "mouseMoved" else "left",
                      clickCount=1, modifiers=modifiers)

    def click_on(self, selector, modifiers=0):
        x, y = self.run(f"""(() => {{ const e = document.querySelector({json.dumps(selector)});
            e.scrollIntoView({{block: 'center'}}); const r = e.getBoundingClientRect();
            return [r.left + r.width / 2, r.top + r.height / 2]; }})()""")
        self.click(x, y, modifiers)

    def wheel(self, x, y, delta):
        self.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=delta)

    def drag(self, begin, end, steps=5):
        move = [(begin[0] + (end[0] - begin[0]) * k / steps, begin[1] + (end[1] - begin[1]) * k / steps) for k in range(steps + 1)]
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=begin[0], y=begin[1])
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=begin[0], y=begin[1], button="left", clickCount=1)
        for x, y in move[1:]:
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, button="left", buttons=1)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=end[0], y=end[1], button="left", clickCount=1)

    def choose_file(self, selector, path):
        found = self.call("Runtime.evaluate", expression=f"document.querySelector({json.dumps(selector)})")["result"]
        self.call("DOM.setFileInputFiles", files=[str(path)], objectId=found["objectId"])

    def paper(self, on=True):
        """Shows the page as it is printed, or as it is on a screen."""
        self.call("Emulation.setEmulatedMedia", media="print" if on else "", features=[])

    def pdf(self):
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def picture(self, path, full=False):
        more = {"captureBeyondViewport": True} if full else {}
        data = self.call("Page.captureScreenshot", format="png", **more)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))
