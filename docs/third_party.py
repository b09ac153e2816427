"""What X-Ray stands on: every package that is installed with it, its version and its licence.

    python docs/third_party.py > THIRD_PARTY.md
    python docs/third_party.py --sbom > sbom.json

Both are read off the installed packages; the second is a bill of materials in CycloneDX's JSON form.
"""

import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
NAME = "transformer-xray"
OF_CUDA = ("nvidia-", "cuda-", "triton")
"""How packages begin that only a CUDA build of torch brings along, under NVIDIA's and Triton's own terms."""

HEAD = """\
# Licences of others

X-Ray is under the MIT licence. It ships none of the packages below; `pip` fetches them when X-Ray is installed. These
are all of them, as tested on Linux with the CPU build of torch. A CUDA build brings NVIDIA's libraries and Triton too,
under their own terms. Drawing a recorded trace uses graphviz, pygraphviz, rich, typer, msgspec, uharfbuzz, Jinja2,
pypdf and the fonts, and never loads torch. The pictures that X-Ray draws carry the letters they need of Source Sans, by
Adobe, under the SIL Open Font License.

The table is made by `python docs/third_party.py`, and a test holds it to what is installed. With `--sbom` the same
becomes a bill of materials in CycloneDX's JSON form.

| package | version | licence |
|---|---|---|
"""


def main(arguments: list[str]) -> None:
    """Print the table, or the bill of materials."""
    packages = sorted(runtime_packages(), key=lambda one: canonicalize_name(one.name))
    print(write_sbom(packages) if arguments == ["--sbom"] else write_table(packages), end="")


def runtime_packages() -> list[Distribution]:
    """Everything that X-Ray without extras needs, and what that needs."""
    return list(find_closure(read_project()["dependencies"]).values())


def read_project() -> dict:
    """The table `project` of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def find_closure(requirements: Iterable[str], project: dict | None = None) -> dict[str, Distribution]:
    """The installed packages behind some requirements, by canonical name; those of CUDA are left out.

    Raises:
        PackageNotFoundError: one is not installed; the message names it.
    """
    found: dict[str, Distribution] = {}
    done: set[tuple[str, str]] = set()
    waiting = [(Requirement(text), "") for text in requirements]
    while waiting:
        wanted, extra = waiting.pop()
        name = canonicalize_name(wanted.name)
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": extra}):
            continue
        if name.startswith(OF_CUDA):
            continue
        if name == NAME and project is not None:
            texts = [text for one in wanted.extras for text in project["optional-dependencies"][one]]
            waiting += [(Requirement(text), "") for text in texts]
            continue
        for one in ("", *wanted.extras):
            if (name, one) not in done:
                done.add((name, one))
                found[name] = distribution(name)
                waiting += [(Requirement(text), one) for text in found[name].requires or ()]
    return found


def write_table(packages: Iterable[Distribution]) -> str:
    """A row for each package."""
    rows = [f"| {one.name} | {public_version(one)} | {licence_of(one)} |\n" for one in packages]
    return HEAD + "".join(rows)


def write_sbom(packages: Iterable[Distribution]) -> str:
    """A bill of materials in CycloneDX's JSON form, version 1.6."""
    project = read_project()
    components = [
        {
            "type": "library",
            "bom-ref": f"pkg:pypi/{canonicalize_name(one.name)}@{public_version(one)}",
            "name": one.name,
            "version": public_version(one),
            "purl": f"pkg:pypi/{canonicalize_name(one.name)}@{public_version(one)}",
            "licenses": [{"license": {"name": licence_of(one)}}],
        }
        for one in packages
    ]
    subject = {"type": "application", "bom-ref": NAME, "name": NAME, "version": project["version"]}
    form = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1}
    return json.dumps(form | {"metadata": {"component": subject}, "components": components}, indent=1) + "\n"


def public_version(package: Distribution) -> str:
    """The version without what a build adds to it: "2.13.0" for "2.13.0+cpu"."""
    return package.version.split("+")[0]


def licence_of(package: Distribution) -> str:
    """What the package's own metadata say, in a few words."""
    said = package.metadata
    names = [said["License-Expression"] or "", *trove_names(said.get_all("Classifier") or ()), said["License"] or ""]
    first = next((name for name in names if name.strip()), "not stated")
    return re.sub(r"\s+", " ", first.strip().splitlines()[0])[:200].replace("|", "/")


def trove_names(classifiers: Iterable[str]) -> Iterator[str]:
    """The licences among classifiers, by their names; nothing for one that says only that there is a licence."""
    for text in classifiers:
        parts = text.split(" :: ")
        if parts[0] == "License" and parts[-1] != "OSI Approved":
            yield parts[-1]


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except PackageNotFoundError as missing:
        sys.exit(f"{missing.name} is not installed. First: pip install -c constraints.txt .")
