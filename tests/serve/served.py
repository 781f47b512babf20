"""A `heed serve` of its own: a copy of a model, trainings of a second (two of letters, an encoder, and a classifier that
begins with it), and a random model of several languages."""
import json
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


LONG = "The quick brown fox jumps over the lazy dog, and nobody has asked it why.\n" * 10
RECIPE = """
task = "language_model"
train_source = "text.txt"
valid_fraction = 0.1
tokenizer = "characters"
context = 128
batch_sentences = 2
max_updates = 9
validate_every = 3
keep_last = 3
log_every = 1
[model]
decoder_layers = 2
width = 32
heads = 4
feed_forward = 64
positions = "sinusoidal"
max_length = 2048
"""


ENCODER = """
task = "masked_language_model"
train_source = "text.txt"
valid_fraction = 0.1
vocabulary = 60
context = 32
batch_tokens = 256
max_updates = 3
[model]
encoder_layers = 2
width = 32
heads = 4
feed_forward = 64
max_length = 600
"""

CLASSES = """
task = "sequence_classification"
train_source = "classes.tsv"
valid_fraction = 0.1
batch_sentences = 8
max_updates = 3
"""

LANGUAGES = ["eng_Latn", "fra_Latn", "zho_Hans"]  # ids 57 to 59


def write_languages(folder):
    """The small NLLB of the tests, with a tokenizer of words: a text is English unless another language is named."""
    family = pathlib.Path(__file__).resolve().parent.parent / "data" / "families" / "nllb"
    shutil.copytree(family, folder)
    special = {0: "<s>", 1: "<pad>", 2: "</s>", 3: "<unk>", **dict(enumerate(LANGUAGES, 57))}
    words = "Where is the station train arrived on time I have known him for ten years She gave book to her brother".split()
    names = [special.get(k, words[k - 4] if k - 4 < len(words) else f"w{k}") for k in range(61)]
    single = [{"SpecialToken": {"id": "eng_Latn", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}]
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "decoder": None,
        "added_tokens": [{"id": k, "content": name, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} for k, name in special.items()],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "Removed"}]},
        "post_processor": {"type": "TemplateProcessing", "single": single, "pair": single,
                           "special_tokens": {name: {"id": name, "ids": [k], "tokens": [name]} for k, name in special.items()}},
        "model": {"type": "WordLevel", "vocab": {name: k for k, name in enumerate(names)}, "unk_token": "<unk>"}}))


class Server:
    def __init__(self, heed, model):
        self.heed, self.port = heed, free_port()
        self.folder = tempfile.mkdtemp(prefix="heed-serve-")
        self.model = pathlib.Path(self.folder) / "en-zh"
        shutil.copytree(model, self.model)
        (pathlib.Path(self.folder) / "text.txt").write_text(LONG * 20)
        self.trained = [self.train("letters", "seed = 1\n" + RECIPE), self.train("letters-2", "seed = 2\n" + RECIPE),
                        self.train("encoder", ENCODER)]
        (pathlib.Path(self.folder) / "classes.tsv").write_text("the quick brown fox\tfox\nthe lazy dog\tdog\n" * 20)
        self.trained.append(self.train("classes", CLASSES, "--from", self.trained[-1]))
        write_languages(pathlib.Path(self.folder) / "several")
        self.trained.append(str(pathlib.Path(self.folder) / "several"))
        self.address = f"http://127.0.0.1:{self.port}/"
        self.process = None
        self.start()

    def train(self, name, recipe, *options):
        folder = pathlib.Path(self.folder)
        (folder / f"{name}.toml").write_text(recipe)
        done = subprocess.run([self.heed, "train", "--config", str(folder / f"{name}.toml"), "--output", str(folder / name), *options],
                              capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"the training {name} failed: {done.stderr}")
        return str(folder / name)

    def start(self, *options):
        self.log = open(pathlib.Path(self.folder) / "log", "wb")
        self.process = subprocess.Popen([self.heed, "serve", str(self.model), *self.trained, "--port", str(self.port), *options],
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        end = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(self.address + "api/v1/models", timeout=5).read()
                return
            except urllib.error.HTTPError:
                return  # it wants a token
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise SystemExit("the server did not start: " +
                                     (pathlib.Path(self.folder) / "log").read_text()) from None
                time.sleep(0.1)

    def folder_for_files(self):
        return pathlib.Path(self.folder)

    def token(self):
        return (pathlib.Path(self.folder) / "log").read_text().split("#token=")[1].split()[0]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def close(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
