#!/usr/bin/env python3
"""Makes docs/serve-*.png: the views of the live page, as headless Chromium draws them.

  tools/serve_pictures.py                      with build/release/bin/heed: all but the picture of a training
  tools/serve_pictures.py --only layers,phone  some of them
  tools/serve_pictures.py --run FOLDER         that of a training, which heed train has written with checkpoints
  tools/serve_pictures.py --heed PROGRAM --output FOLDER

Needs chromium and fonts-noto-cjk (tools/install_packages.sh). `pngquant --ext .png --force` makes the files a third as large.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "serve"))
import chromium  # noqa: E402
from served import free_port  # noqa: E402

TRANSLATOR, WRITER = ROOT / "demo/en-zh", ROOT / "demo/shakespeare"
TEXT = "I lost my umbrella on the train yesterday."
LETTERS = 32_700


class Views:
    """One function a picture. Each begins with a new page."""

    def __init__(self, heed, run):
        self.heed, self.run = heed, run
        self.page = chromium.Page(chromium.find())
        self.server, self.address = None, ""

    def serve(self, *models):
        self.stop()
        port = free_port()
        self.server = subprocess.Popen([self.heed, "serve", *models, "--port", str(port)], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.address = f"http://127.0.0.1:{port}/"
        for _ in range(300):
            try:
                urllib.request.urlopen(self.address + "api/v1/models", timeout=5).read()
                return
            except OSError:
                time.sleep(0.1)
        sys.exit("serve_pictures.py: an answer of heed serve within 30 s; found none")

    def stop(self):
        if self.server is not None:
            self.server.terminate()
            self.server.wait()
            self.server = None

    def open(self, width, height, text, dark=False):
        page = self.page
        page.size(width, height)
        page.media(prefers_color_scheme="dark" if dark else "light", prefers_reduced_motion="reduce")
        page.go("about:blank")
        page.go(self.address)
        page.wait("typeof live === 'object' && !!live.record && !!document.querySelector('#panel-body > *')")
        page.run(f"void setText({json.dumps(text)})")
        page.wait(f"live.text === {json.dumps(text)} && !!live.record")
        page.settle(1)

    def translation(self, height=860):
        self.serve(TRANSLATOR)
        self.open(1360, height, TEXT)
        self.page.run("(openTab('cross'), lock(3, 3), 1)")
        self.page.settle(0.6)

    def panel(self, name, seconds=0.8):
        self.page.run(f"(openPanel('{name}'), 1)")
        self.page.settle(seconds)

    def why(self):
        self.translation(1080)
        self.panel("why")

    def experiment(self):
        self.translation(1080)
        self.page.run("void addChange({kind: 'head', part: 'cross', layer: state.layer, head: state.head})")
        self.page.wait("!!document.querySelector('.effect')")
        self.page.settle()

    def next(self):
        self.translation()
        self.panel("next")

    def search(self):
        self.translation()
        self.panel("beam", 1.5)

    def layers(self):
        self.translation()
        self.panel("layers")

    def tour(self):
        self.serve(TRANSLATOR, WRITER)
        self.open(1360, 860, TEXT)
        self.page.run("void openTour(4)")
        self.page.settle(2)

    def phone(self):
        self.serve(TRANSLATOR)
        self.open(390, 844, TEXT, dark=True)
        self.page.run("(openTab('cross'), 1)")
        self.page.settle()

    def compare(self):
        self.serve(TRANSLATOR)
        self.open(1280, 800, TEXT)
        self.page.run("(openTab('cross'), other.text = 'The train arrived on time.', openPanel('compare'), void loadOther())")
        self.page.wait("!document.getElementById('second').hidden")
        self.page.settle(0.8)

    def long(self):
        self.serve(WRITER)
        text = (WRITER.parent / "sentences.txt").read_text(encoding="utf-8")
        letters = "".join(c for c in text if c.isascii())
        self.open(1280, 800, "O")
        self.page.run(f"void setText({json.dumps((letters * (LETTERS // len(letters) + 1))[:LETTERS])})")
        self.page.wait("live.long && live.long.picture", limit=120)
        drawn = "longThumbs().every((thumb) => !!thumb.firstChild.again)"
        self.page.wait(drawn, limit=300, what="the thumbnails of all heads")
        self.page.settle()

    def training(self):
        self.serve(self.run)
        self.open(1360, 860, "Once upon a time")
        self.panel("training", 3)


PICTURES = ["why", "experiment", "next", "search", "layers", "tour", "phone", "compare", "long"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heed", default=ROOT / "build/release/bin/heed", metavar="PROGRAM")
    parser.add_argument("--output", default=ROOT / "docs", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--only", default=",".join(PICTURES), metavar="NAMES", help=f"of {', '.join(PICTURES)}")
    parser.add_argument("--run", metavar="FOLDER", help="of a training: its picture alone")
    options = parser.parse_args()
    names = ["training"] if options.run else options.only.split(",")
    if unknown := [name for name in names if name not in PICTURES and not options.run]:
        parser.error(f"--only: some of {', '.join(PICTURES)}; found {unknown[0]}")
    if chromium.find() is None:
        sys.exit("serve_pictures.py: chromium was expected in PATH; tools/install_packages.sh installs it")
    views = Views(options.heed, options.run)
    try:
        for name in names:
            getattr(views, name)()
            file = options.output / f"serve-{name}.png"
            views.page.picture(file)
            print(f"{file}: {file.stat().st_size // 1000} kB")
    finally:
        views.stop()
        views.page.close()


if __name__ == "__main__":
    main()
