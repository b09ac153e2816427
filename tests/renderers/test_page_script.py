"""The page's scripts joined into one."""

import re

import pytest

from xray.assets import templates_folder
from xray.renderers.page.script import MODULES, bind_imports, wrap_module, write_script


def test_every_module_of_the_page_is_in_the_script():
    assert sorted(MODULES) == sorted(path.stem for path in (templates_folder() / "page").glob("*.js"))


def test_a_module_comes_after_those_that_it_imports():
    for place, name in enumerate(MODULES):
        text = (templates_folder() / "page" / f"{name}.js").read_text(encoding="utf-8")
        assert set(re.findall(r'from "\./(\w+)\.js"', text)) <= set(MODULES[:place])


def test_the_script_imports_and_exports_nothing():
    assert re.findall(r"^(?:import|export)\b", write_script(), re.MULTILINE) == []


def test_the_script_cannot_end_its_element():
    assert "</script" not in write_script()


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ('import { a } from "./facts.js";\n', "const { a } = in_facts;\n"),
        ('import { a as b, c } from "./dom.js";\n', "const { a: b, c } = in_dom;\n"),
        ('import {\n  a,\n  b,\n} from "./dom.js";\n', "const {\n  a,\n  b,\n} = in_dom;\n"),
    ],
)
def test_imports_become_bindings(text, bound):
    assert bind_imports(text) == bound


def test_exports_are_handed_out():
    wrapped = wrap_module("facts", "export const a = 1;\nexport async function b() {}\nfunction c() {}")

    assert wrapped.endswith("return { a, b };\n})();")
    assert "export" not in wrapped
