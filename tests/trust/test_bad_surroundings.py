"""Every bad place that a command may be started in, and streams that end: done, or one line that says what is wrong."""

import os
import signal
import subprocess
import sys

import pytest
from conftest import plain_environment
from small_runs import write_pairs
from trust.commands import QUICK
from trust.outcomes import files_in

pytestmark = pytest.mark.sampled(10)


def in_tiers(names, *quick):
    """Of names some for the fast tier, the others for the slow one."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


def in_process_of_its_own(*arguments, code=None, **options):
    command = [sys.executable, "-m", "xray", *map(str, arguments)] if code is None else [sys.executable, "-c", code]
    environment = {**plain_environment(), "OMP_NUM_THREADS": "1", **options.pop("env", {})}
    return subprocess.run(command, capture_output=True, check=False, env=environment, timeout=120, **options)


SURROUNDINGS = {
    "no home": {"HOME": ""},
    "missing home": {"HOME": "/nonexistent/home", "XDG_CACHE_HOME": "/nonexistent/cache"},
    "closed home": {"HOME": "/proc/1", "XDG_CACHE_HOME": "/proc/1"},
    "no locale": {"LC_ALL": "C", "LANG": "", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "narrow": {"COLUMNS": "20"},
    "no width": {"COLUMNS": "0"},
    "wide": {"COLUMNS": "9" * 30},
    "dumb": {"TERM": "dumb", "NO_COLOR": "1"},
    "no term": {"TERM": ""},
}


@pytest.mark.parametrize("kind", in_tiers(SURROUNDINGS, "missing home", "ascii"))
@pytest.mark.slow
def test_drawing_works_wherever_it_is_started(place, trace_file, kind):
    done = in_process_of_its_own("draw", trace_file, "-o", "a.svg", env=SURROUNDINGS[kind])
    assert done.returncode == 0, done.stderr
    assert set(files_in(place)) == {"a.svg"}
    assert b"\x1b" not in done.stderr


@pytest.mark.parametrize("kind", ["missing home", "closed home", "no locale"])
@pytest.mark.slow
def test_training_works_wherever_it_is_started(place, kind):
    write_pairs(place / "pairs.csv")
    done = in_process_of_its_own("train", "pairs.csv", *QUICK, env=SURROUNDINGS[kind])
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_no_place_for_temporary_files_is_said(place):
    write_pairs(place / "pairs.csv")
    code = (
        "import tempfile, sys; tempfile._candidate_tempdir_list = lambda: ['/proc/nowhere']\n"
        f"from xray.cli.app import run; sys.exit(run(['train', 'pairs.csv', *{QUICK!r}]))"
    )
    done = in_process_of_its_own(code=code)
    assert done.returncode == 1
    assert done.stderr.decode().startswith("xray: cannot ")
    assert done.stderr.count(b"\n") == 1


def test_a_folder_that_is_gone_is_said(place, trace_file):
    gone = place / "gone"
    gone.mkdir()
    code = (
        f"import os, sys; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r})\n"
        f"from xray.cli.app import run; sys.exit(run(['draw', {str(trace_file)!r}, '-q', '-o', 'a.svg']))"
    )
    done = in_process_of_its_own(code=code, cwd=place)
    assert done.returncode == 1
    assert done.stderr.decode().startswith("xray: cannot ")


LIMITED = (
    "import resource, signal, sys\n"
    "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    "resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))\n"
    "from xray.cli.app import run\nsys.exit(run({arguments!r}))"
)


FILLERS = {
    "draw svg": ["draw", "{trace}", "-q", "-o", "a.svg"],
    "draw png": ["draw", "{trace}", "-q", "-o", "a.png"],
    "page": ["page", "{trace}", "-o", "a.html"],
    "worksheet": ["worksheet", "{trace}", "-o", "a.pdf"],
    "theme": ["theme", "dark", "-o", "a.toml"],
    "train": ["train", "pairs.csv", *QUICK],
}


@pytest.mark.slow
@pytest.mark.parametrize("filler", in_tiers(FILLERS, "draw svg", "theme"))
def test_a_disk_that_is_full_is_said_and_nothing_half_is_left(place, trace_file, filler):
    write_pairs(place / "pairs.csv")
    before = files_in(place)
    filled_in = [part.format(trace=trace_file) for part in FILLERS[filler]]
    done = in_process_of_its_own(code=LIMITED.format(size=700, arguments=filled_in))
    assert done.returncode == 1, done.stderr
    assert done.stderr.decode().splitlines()[-1].startswith("xray: ")
    assert "unexpected" not in done.stderr.decode()
    assert {name: data for name, data in files_in(place).items() if ".lock" not in name} == before


PRINTERS = {
    "draw": ["draw", "{trace}"],
    "theme": ["theme", "dark"],
    "walk": ["walk", "{trace}"],
    "page": ["page", "{trace}"],
}


@pytest.mark.parametrize("printer", in_tiers(PRINTERS, "draw"))
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")  # noqa: PTH110
def test_a_full_stdout_is_said(trace_file, printer):
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        done = subprocess.run(
            [sys.executable, "-m", "xray", *(part.format(trace=trace_file) for part in PRINTERS[printer])],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            env=plain_environment(),
        )
    assert done.returncode == 1
    assert done.stderr.decode().splitlines()[-1].startswith("xray: cannot write to stdout: no space left on device")


TALKERS = {
    "chat": ["chat", "--run", "{run}"],
    "answer": ["answer", "-", "--run", "{run}"],
    "walk": ["walk", "{trace}"],
}


@pytest.mark.parametrize("talker", in_tiers(TALKERS, "walk"))
@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_closed_stream_is_no_catastrophe(trace_file, kept_run, talker, closed):
    filled_in = [part.format(trace=trace_file, run=kept_run) for part in TALKERS[talker]]
    code = (
        f"import os, sys; os.close({closed}); os.execv(sys.executable, [sys.executable, '-m', 'xray', *{filled_in!r}])"
    )
    done = in_process_of_its_own(code=code, input=b"hi\n")
    assert done.returncode in (0, 1, 141), done.stderr
    assert b"Traceback" not in done.stderr
    assert b"unexpected" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("printer", in_tiers(PRINTERS, "walk"))
def test_a_reader_that_goes_away_ends_it_quietly(trace_file, printer):
    command = [sys.executable, "-m", "xray", *(part.format(trace=trace_file) for part in PRINTERS[printer])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=plain_environment()) as started:
        started.stdout.close()
        told = started.stderr.read()
    assert started.returncode in (0, 141)
    assert b"Traceback" not in told
    assert b"Broken" not in told


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_command_that_is_interrupted_ends_with_its_code(place, trace_file, number, code):
    program = (
        "import os, signal, sys, threading\nfrom xray.cli.app import run\n"
        f"threading.Timer(0.4, lambda: os.kill(os.getpid(), {int(number)})).start()\n"
        f"sys.exit(run(['draw', {str(trace_file)!r}, '-o', 'a.pdf', '-o', 'b.png', '-o', 'c.html']))"
    )
    done = in_process_of_its_own(code=program)
    assert done.returncode in (code, 0)
    assert b"Traceback" not in done.stderr
    assert [name for name in files_in(place) if name.endswith(".part")] == []
