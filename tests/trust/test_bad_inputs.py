"""Every bad file a user may have, given to every command that reads one: done, or one line that says what is wrong."""

import pytest
from small_runs import write_pairs
from trust.commands import QUICK
from trust.hostile import CORPUS, IN_TIERS, file_name, shown
from trust.outcomes import assert_explained, assert_plain, assert_refused, call, files_in

pytestmark = pytest.mark.sampled(10)

FILES = {
    "empty": b"",
    "blank": b"\n\n  \n",
    "binary": bytes(range(256)) * 20,
    "nul": b"\x00" * 5000,
    "utf16": "question,answer\nhi,hello\n".encode("utf-16"),
    "latin1": "question,answer\ncafé,crème\n".encode("latin-1"),
    "bom": b"\xef\xbb\xbf{}",
    "text": b"hello, world\n",
    "wrong json": b'{"schema": 1, "title": 5}',
    "json list": b"[1, 2, 3]",
    "newer": b'{"schema": 99}',
    "deep": b"[" * 200_000,
    "numbers": b"9" * 6_000,
    "pdf": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n",
    "pickle": b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94\x8c\x06system\x94\x93\x94.",
    "escape": b"\x1b[2J\x1b[31m\n",
}
READERS = {
    "draw": ["draw", "{file}", "-q", "-o", "out.svg"],
    "page": ["page", "{file}", "-o", "out.html"],
    "walk": ["walk", "{file}"],
    "walk quiz": ["walk", "{file}", "--quiz"],
    "attention": ["attention", "{file}"],
    "worksheet": ["worksheet", "{file}", "-o", "out.pdf"],
    "diff before": ["diff", "{file}", "{trace}"],
    "diff after": ["diff", "{trace}", "{file}"],
    "theme": ["theme", "./{file}"],
    "theme check": ["theme", "./{file}", "--check"],
    "theme used": ["draw", "{trace}", "-o", "out.svg", "--theme", "./{file}"],
    "train csv": ["train", "{file}", *QUICK],
    "run": ["trace", "--run", "{file}", "-o", "out.svg"],
    "chat": ["chat", "--run", "{file}"],
    "answer run": ["answer", "{trace}", "--run", "{file}"],
    "demo out": ["demo", "--out", "{file}"],
    "model": ["trace", "{file}:build", "-o", "out.svg"],
}
SUFFIXES = {"train csv": ".csv", "model": ".py"}


def filled(command, file, trace):
    return [part.format(file=file, trace=trace) for part in command]


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("reader", READERS)
def test_a_bad_file_is_refused_in_one_line_and_nothing_is_written(place, trace_file, reader, kind):
    file = f"bad{SUFFIXES.get(reader, '.json')}"
    (place / file).write_bytes(FILES[kind])
    before = files_in(place)
    outcome = call(*filled(READERS[reader], file, trace_file))
    assert_refused(outcome, outcome.code)
    assert outcome.code in (1, 2)
    assert files_in(place) == before


NO_FILES = ("missing", "folder", "loop", "long", "half", "below a file", "endless")
TAKEN = {
    "demo out": ("missing", "folder", "half", "endless"),  # where its results would go; no folder has no end
    "train csv": ("endless",),  # a corpus may be a pipe without end
}


@pytest.mark.parametrize(
    ("reader", "kind"), [(reader, kind) for reader in READERS for kind in NO_FILES if kind not in TAKEN.get(reader, ())]
)
def test_what_is_no_file_is_refused_in_one_line_and_nothing_is_written(place, trace_file, reader, kind):
    suffix = SUFFIXES.get(reader, ".json")
    name = {"long": "x" * 300 + suffix, "half": f"caf\udce9{suffix}", "below a file": f"there/x{suffix}"}.get(kind)
    name = name or f"bad{suffix}"
    (place / "there").write_text("")
    if kind == "folder":
        (place / name).mkdir()
    elif kind == "loop":
        (place / name).symlink_to(name)
    elif kind == "endless":
        (place / name).symlink_to("/dev/zero")
    before = files_in(place)
    outcome = call(*filled(READERS[reader], name, trace_file))
    assert_refused(outcome, outcome.code)
    assert outcome.code in (1, 2)
    assert files_in(place) == before


WRITERS = {
    "draw": (["draw", "{trace}", "-q", "-o"], ".svg"),
    "draw twice": (["draw", "{trace}", "-q", "-o", "good.json", "-o"], ".svg"),
    "page": (["page", "{trace}", "-o"], ".html"),
    "worksheet": (["worksheet", "{trace}", "-o"], ".pdf"),
    "worksheet answers": (["worksheet", "{trace}", "-o", "sheet.pdf", "--answers"], ".pdf"),
    "attention": (["attention", "{trace}", "-o"], ".svg"),
    "diff": (["diff", "{trace}", "{trace}", "-o"], ".svg"),
    "theme": (["theme", "dark", "-o"], ".toml"),
    "trace": (["trace", "--run", "{run}", "-o"], ".svg"),
    "answer": (["answer", "{trace}", "--run", "{run}", "-o"], ".txt"),
}


@pytest.mark.parametrize("kind", ["no folder", "below a file", "folder", "loop", "long", "dangling", "closed"])
@pytest.mark.parametrize("writer", WRITERS)
def test_a_place_that_cannot_be_written_is_refused_before_any_work(place, trace_file, kept_run, writer, kind):
    command, suffix = WRITERS[writer]
    (place / "there").write_text("")
    target = {
        "no folder": f"nowhere/out{suffix}",
        "below a file": f"there/out{suffix}",
        "folder": f"out{suffix}",
        "loop": f"out{suffix}",
        "long": "x" * 300 + suffix,
        "dangling": f"out{suffix}",
        "closed": f"/proc/out{suffix}",
    }[kind]
    if kind == "folder":
        (place / target).mkdir()
    elif kind == "loop":
        (place / target).symlink_to(target)
    elif kind == "dangling":
        (place / target).symlink_to("nowhere/out")
    before = files_in(place)
    outcome = call(*(part.format(trace=trace_file, run=kept_run) for part in command), target)
    code = 2 if writer == "diff" else 1
    assert outcome.code == code, outcome.err
    assert outcome.last.startswith("xray: cannot write ")
    assert "xray: unexpected" not in outcome.err
    if kind != "closed":
        assert_refused(outcome, code)
        assert files_in(place) == before
    assert [name for name in files_in(place) if name.endswith(".part")] == []


@pytest.mark.parametrize("name", CORPUS)
def test_a_file_with_a_hostile_name_is_named_as_it_is(place, name):
    file = file_name(CORPUS[name]) + ".json"
    outcome = call("draw", "./" + file)
    assert_refused(outcome, 1)
    assert shown(file)[:20].split()[0] in outcome.err


@pytest.mark.parametrize("name", IN_TIERS)
def test_a_file_with_a_hostile_name_is_written_and_read_back(place, trace_file, name):
    file = "./" + file_name(CORPUS[name]) + ".json"
    assert call("draw", trace_file, "-q", "-o", file).code == 0
    assert_explained(call("diff", trace_file, file))
    assert len(files_in(place)) == 1


@pytest.mark.parametrize("name", IN_TIERS)
def test_a_hostile_question_is_asked_and_shown(place, kept_run, name):
    outcome = call("trace", "--run", kept_run, "--phase", "inference", "--ask", CORPUS[name], "-o", "a.json")
    assert_explained(outcome)
    assert outcome.code in (0, 2)
    assert set(files_in(place)) == ({"a.json"} if outcome.code == 0 else set())


def test_hostile_questions_in_a_file_are_answered_line_for_line(place, kept_run):
    lines = [text.replace("\n", " ").replace("\r", " ") for text in CORPUS.values()]
    (place / "asked.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", errors="replace")
    outcome = call("answer", "asked.txt", "--run", kept_run)
    assert_explained(outcome)
    assert outcome.out.decode().count("\n") == len(lines)
    assert_plain(outcome.out.decode())


@pytest.mark.parametrize("name", IN_TIERS)
def test_hostile_columns_and_separators_are_refused_or_done(place, name):
    text = CORPUS[name]
    write_pairs(place / "pairs.csv")
    for option in ("--source", "--separator", "--encoding"):
        assert_explained(call("train", "pairs.csv", *QUICK, option, text))
        assert not (place / "new").exists()


CSVS = {
    "header": (b"question,answer\n", "has a header but no rows"),
    "twice": (b"question,answer,answer\na,b,c\n", 'has the column "answer" more than once'),
    "ragged": (b"question,answer\na\nb,c\nd,e,f\n", "2 rows have more or fewer cells"),
    "semicolon": (b"question;answer\na;b\n", 'Is ";" its separator?'),
    "missing": (b"q,a\nhi,hello\n", "has no column"),
    "quote": (b'question,answer\n"a,b\nc,d\n', "a quote that is not closed, opened in line 2"),
    "nul": (b"question,answer\na\x00,b\n", "NUL byte in line 2"),
    "latin-1": ("question,answer\ncafé,b\n".encode("latin-1"), "line 2, byte 4"),
    "utf-16": ("question,answer\na,b\n".encode("utf-16"), "is UTF-16, not UTF-8"),
    "utf-32": ("question,answer\na,b\n".encode("utf-32"), "is UTF-32, not UTF-8"),
    "blank": (b"question,answer\n,\n , \n", "has no pair to train on"),
    "marks": ("question,answer\n\u202e,\u200b\n".encode(), "has no pair to train on"),
    "huge cell": (
        b"question,answer\n" + b"x" * 10_000_000 + b",b\n",
        "a cell of more than 131,072 characters in line 2",
    ),
}


@pytest.mark.parametrize("kind", CSVS)
def test_a_bad_corpus_is_refused_with_its_line(place, kind):
    data, words = CSVS[kind]
    (place / "pairs.csv").write_bytes(data)
    assert_refused(call("train", "pairs.csv", *QUICK), 1, words)
    assert set(files_in(place)) == {"pairs.csv"}


GOOD_CSVS = {
    "one row": b"question,answer\nhi,hello\n",
    "bom": b"\xef\xbb\xbfquestion,answer\nhi,hello\nho,hello\n",
    "crlf": b"question,answer\r\nhi,hello\r\nho,hello\r\n",
    "emoji": "question,answer\n👩‍🚀?,🇪🇺!\n🏳️‍🌈,é\n".encode(),
    "right to left": "question,answer\nשלום?,مرحبا\n\u202eabc,def\n".encode(),
    "combining": "question,answer\nZ̷͎͝a̴l̵g̶o̷,e\u0301\n".encode(),
    "controls": b"question,answer\n\x1b[2Jhi,\x07hello\x7f\n",
    "no last line end": b"question,answer\nhi,hello",
    "old mac": b"question,answer\rhi,hello\rho,hey\r",
}


@pytest.mark.parametrize("kind", GOOD_CSVS)
def test_an_odd_corpus_is_learnt_and_shown_without_being_obeyed(place, kind):
    (place / "pairs.csv").write_bytes(GOOD_CSVS[kind])
    outcome = call("train", "pairs.csv", *QUICK)
    assert outcome.code == 0, outcome.err
    assert_plain(outcome.err)
    answered = call("chat", "--run", "new", stdin="hi\nשלום\n\x1b[2J\n".encode())
    assert answered.code == 0
    assert_plain(answered.out.decode())
    assert_plain(answered.err)


@pytest.mark.slow
def test_a_million_rows_are_refused_or_read_without_being_held(place):
    with (place / "pairs.csv").open("w") as file:
        file.write("question,answer\n")
        file.writelines(f"who is number {number % 997}?,it is {number % 89}.\n" for number in range(1_000_000))
        file.write("ragged\n")
    outcome = call("train", "pairs.csv", *QUICK)  # a slow machine says before that how far it is
    assert (outcome.code, outcome.out) == (1, b"")
    assert outcome.last.startswith("xray: pairs.csv: 1 row has more or fewer cells")
    assert "in line 1,000,002" in outcome.last


NUMBERS = ["0", "-1", "999999999999999999999999", "1e5", "", "nan", "inf", "-inf", "1" * 5000, "٣", "0x10"]
OPTIONS = (
    *("epochs", "batch", "batch-tokens", "accumulate", "seed", "src-vocab", "tgt-vocab", "min-frequency", "max-len"),
    *("heads", "d-model", "d-ff", "encoder-layers", "decoder-layers", "lr", "weight-decay", "beta2", "warmup", "clip"),
    *("label-smoothing", "valid-share", "dropout", "patience", "warmup-steps"),
)


@pytest.mark.parametrize("option", OPTIONS)
def test_no_number_takes_training_by_surprise(place, option):
    write_pairs(place / "pairs.csv")
    for number in NUMBERS:
        outcome = call("train", "pairs.csv", *QUICK, "--overwrite", f"--{option}", number)
        assert_explained(outcome)


@pytest.mark.parametrize(
    "command",
    [
        ["attention", "{trace}", "--layer"],
        ["attention", "{trace}", "--head"],
        ["attention", "{trace}", "--turn"],
        ["walk", "{trace}", "--turn"],
        ["walk", "{trace}", "--station"],
        ["draw", "{trace}", "-q", "-o", "out.png", "--dpi"],
        ["worksheet", "{trace}", "--share"],
        ["worksheet", "{trace}", "--seed"],
        ["worksheet", "{trace}", "--stations"],
        ["diff", "{trace}", "{trace}", "--limit"],
        ["trace", "--run", "{run}", "-q", "-o", "out.json", "--max-turns"],
        ["answer", "{trace}", "--run", "{run}", "--beam"],
        ["answer", "{trace}", "--run", "{run}", "--batch"],
        ["answer", "{trace}", "--run", "{run}", "--length-penalty"],
    ],
    ids=lambda command: " ".join(command[:1] + command[-1:]),
)
@pytest.mark.slow
def test_no_number_takes_a_command_by_surprise(place, trace_file, kept_run, command):
    (place / "few.txt").write_text("hi\n")
    known = {"trace": place / "few.txt" if command[0] == "answer" else trace_file, "run": kept_run}
    for number in ["0", "-1", "99", "999999999999999999999999", "", "nan", "1" * 5000, "٣"]:
        outcome = call(*(part.format(**known) for part in command), number)
        assert_explained(outcome)


@pytest.mark.parametrize("question", ["", "   ", "\t\n", "\x00", "\u202e"])
@pytest.mark.parametrize("command", ["trace", "page", "walk", "attention", "worksheet"])
def test_an_empty_question_is_wrong_usage(place, kept_run, command, question):
    asked = [question] if command == "attention" else ["--ask", question]
    output = {"page": "a.html", "worksheet": "a.pdf", "walk": None}.get(command, "a.svg")
    outcome = call(command, *asked, "--run", kept_run, *([] if output is None else ["-o", output]))
    assert_refused(outcome, 2, "the question is empty")
    assert files_in(place) == {}


@pytest.mark.parametrize("question", ["zorblax quux", "who " * 500, "x" * 100_000])
def test_a_question_that_cannot_be_read_whole_is_asked_and_said(place, kept_run, question):
    outcome = call("trace", "--run", kept_run, "--ask", question, "-q", "-o", "a.svg")
    assert outcome.code == 0, outcome.err
    assert "xray: " in outcome.err


MODELS = {
    "syntax": "def build(:\n",
    "raises": "raise ZeroDivisionError('two\\nlines \\x1b[31m')\n",
    "leaves": "import sys\nsys.exit(7)\n",
    "import": "import nothing_of_that_name\n",
    "nothing": "",
    "number": "build = 5\n",
    "arguments": "def build(a, b): pass\n",
    "build raises": "def build(): raise KeyError('x')\n",
    "none": "def build(): return None\n",
    "class": "class build: pass\n",
    "forward raises": "import torch\nclass M(torch.nn.Module):\n    def forward(self): raise ValueError('\\x1b[2J')\n"
    "def build(): return M()\n",
}


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_that_is_none_is_refused_in_one_line(place, kind):
    (place / "theirs.py").write_text(MODELS[kind])
    outcome = call("trace", "theirs.py:build", "-q", "-o", "a.json")
    assert_explained(outcome)
    assert outcome.code == 1
    if kind != "forward raises":
        assert_refused(outcome, 1, "theirs.py")


def test_answers_that_are_no_text_end_the_quiz(trace_file):
    outcome = call("walk", trace_file, "--quiz", stdin=b"\xff\xfe\n")
    assert_explained(outcome)


@pytest.mark.parametrize("answer", ["9" * 5000, "9" * 50_000, "\x1b[2J", "²", "1x" * 3000, "q"])
def test_any_answer_is_taken_in_the_quiz(trace_file, answer):
    assert_explained(call("walk", trace_file, "--quiz", stdin=f"{answer}\nq\n".encode()))
