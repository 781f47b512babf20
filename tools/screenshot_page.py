#!/usr/bin/env python3
"""Makes docs/attention-page.png: the attention page of the shipped model, as headless Chromium draws it.

  tools/screenshot_page.py                     with build/release/bin/heed
  tools/screenshot_page.py --heed PROGRAM --output FILE --source TEXT --size 1280x850 --at '#cross/3/mean' --dark

Needs chromium and fonts-noto-cjk (tools/install_packages.sh).
"""
import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heed", default=ROOT / "build/release/bin/heed", metavar="PROGRAM")
    parser.add_argument("--model", default=ROOT / "demo/en-zh", metavar="DIR")
    parser.add_argument("--source", default="The train arrived on time.", metavar="TEXT")
    parser.add_argument("--output", default=ROOT / "docs/attention-page.png", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--size", default="1280x810", metavar="WIDTHxHEIGHT", help="of the window")
    parser.add_argument("--at", default="", metavar="#PART/LAYER/HEAD", help="what to show instead of what the page opens on")
    parser.add_argument("--dark", action="store_true", help="the dark theme")
    options = parser.parse_args()
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        sys.exit("screenshot_page.py: chromium was expected in PATH; tools/install_packages.sh installs it")
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "page.html"
        subprocess.run([options.heed, "--quiet", "inspect", options.model, "--source", options.source, "--output", page],
                       check=True, stdout=subprocess.DEVNULL)
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                   "--force-device-scale-factor=1", "--virtual-time-budget=4000", f"--user-data-dir={folder}/profile",
                   f"--window-size={options.size.replace('x', ',')}", f"--screenshot={options.output.resolve()}"]
        if options.dark:
            command.append("--blink-settings=preferredColorScheme=0")
        subprocess.run([*command, page.as_uri() + options.at], check=True, stderr=subprocess.DEVNULL)
    print(f"{options.output}: {options.output.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
