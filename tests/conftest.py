"""What many tests need: one untrained chatbot with the default sizes, and traces of it that are kept as files."""

import gc
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from filelock import FileLock
from recorded import recorded

ROOT = Path(__file__).parent.parent
GOLDEN = ROOT / "tests" / "golden"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files; read the diff afterwards")
    parser.addoption("--update-recordings", action="store_true", help="record those kept traces anew that have changed")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """One worker more than processors, for while tests wait for a browser or for another process; none for files named.

    A few of these are done sooner than workers begin.
    """
    return (os.cpu_count() or 1) + 1 if config.args_source is config.ArgsSource.TESTPATHS else 0


def pytest_configure(config):
    """Try less in the fast tier; leave a worker as many threads as it has processors for itself.

    What Python has compiled is kept, whoever asked for the opposite: else each of the hundreds of processes that tests
    start would compile X-Ray anew, and each run the tests.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    os.environ["XRAY_FUZZ_SHARE"] = "0.1" if "not slow" in config.option.markexpr else "1"
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers > 1:
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // workers)))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of a test that is done for many things the fast tier does every so manyth, as its mark `sampled` says."""
    seen = Counter()
    for item in items:
        mark = item.get_closest_marker("sampled")
        if mark is not None and item.get_closest_marker("slow") is None:
            name = (item.path, item.originalname)
            if seen[name] % mark.args[0]:
                item.add_marker(pytest.mark.slow)
            seen[name] += 1


def pytest_collection_finish():
    """Spare the garbage collector the hundreds of thousands of objects that importing the tests made."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    """What a test writes need not outlive a power cut; a disk takes 10 ms each time that it is asked for that."""
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)


@pytest.fixture
def update_golden(request):
    return request.config.getoption("--update-golden")


@pytest.fixture
def update_recordings(request):
    return request.config.getoption("--update-recordings")


@pytest.fixture
def golden(update_golden):
    """The text of a golden file, first rewritten with the text at hand if pytest was told to."""

    def expected(name, text):
        path = GOLDEN / name
        if update_golden:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return path.read_text(encoding="utf-8")

    return expected


@pytest.fixture(scope="session")
def untrained_run():
    from xray.capture.targets.run import make_untrained

    return make_untrained(device="cpu")


@pytest.fixture(scope="session")
def both_trace():
    return recorded("untrained, both")


@pytest.fixture(scope="session")
def training_trace():
    return recorded("untrained, training")


@pytest.fixture(scope="session")
def inference_trace():
    return recorded("untrained, inference")


@pytest.fixture(scope="session")
def cached_trace():
    """Three turns with a cache of keys and values."""
    return recorded("untrained, cached")


@pytest.fixture(scope="session")
def taught_folder(tmp_path_factory):
    """A folder in which `xray demo` has run: chatbot, poster, tables, trace; nobody writes. Takes two minutes."""
    return make_once(tmp_path_factory, "taught", run_demo)


def make_once(tmp_path_factory, name, fill):
    """A folder that the first worker to need it fills, and that all of them read."""
    place = tmp_path_factory.getbasetemp()
    place = place.parent if "PYTEST_XDIST_WORKER" in os.environ else place
    with FileLock(place / f"{name}.lock"):
        if not (place / name).exists():
            folder = tmp_path_factory.mktemp(f"{name}-being-made")
            fill(folder)
            folder.rename(place / name)
    return place / name


def run_demo(folder):
    """`xray demo` in a process of its own; what it says stands in demo.log."""
    command = [sys.executable, "-m", "xray", "demo", "--device", "cpu"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=plain_environment())
    assert done.returncode == 0, done.stderr
    (folder / "demo.log").write_text(done.stderr)


@pytest.fixture
def workplace(taught_folder, tmp_path, monkeypatch):
    """A folder of its own in which the demo seems to have run, with the examples; the working directory."""
    shutil.copytree(taught_folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        known = vars(sys.modules[name])
        if str(tmp_path) in f"{known.get('__file__')} {known.get('__path__')}":
            del sys.modules[name]


@pytest.fixture(scope="session")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    path = os.environ.get("XRAY_BROWSER") or next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("there is no browser here: install Chromium, or name one in XRAY_BROWSER")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield running
        running.close()


def plain_environment(**more):
    """The environment with the `xray` of this checkout first, and nothing that changes how it prints."""
    scripts = os.path.dirname(sys.executable)  # noqa: PTH120
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "XRAY_DEBUG")}
    return kept | {"PATH": scripts + os.pathsep + os.environ.get("PATH", ""), "PYTHONPATH": str(ROOT)} | more
