"""What the browser tests of the live page share."""
import json

TESTS = []


def test(function):
    TESTS.append(function)
    return function


def check(condition, what):
    if not condition:
        raise AssertionError(what)


READY = "typeof live === 'object' && !!live.record && !$('views').hidden"
SETTLED = "$('progress').textContent === '' && !$('banner').textContent"


def fresh(page, server, hash=""):
    page.media(prefers_color_scheme="light")
    page.size(1440, 900)
    page.go("about:blank")
    page.go(server.address + hash)
    page.wait(READY)
    page.wait("!!document.querySelector('#panel-body > *')")


def choose_model(page, index, text):
    """Chooses one of the server's models and a text, and waits for what the model makes of it."""
    page.run(f"(chooseModel(live.models[{index}].name), void setText({json.dumps(text)}))")
    page.wait(f"live.record && live.record.title === live.models[{index}].name")


def choose_text(page, text):
    page.run(f"void setText({json.dumps(text)})")
    page.wait(f"live.record && live.record.source === {json.dumps(text)}")
