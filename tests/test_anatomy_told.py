"""The reference tells of every fact that an anatomy has: each class is on its page, each field in a docstring."""

import ast
import re

import pytest
from documents import ROOT

PAGE = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
CLASSES = {
    found.name: found
    for name in ("tree", "attentions", "branches")
    for found in ast.parse((ROOT / "xray" / "story" / "anatomy" / f"{name}.py").read_text("utf-8")).body
    if isinstance(found, ast.ClassDef)
}


def list_fields(found):
    """The fields of a class that have a default, each with whether a text of its own stands behind it."""
    for field, behind in zip(found.body, [*found.body[1:], None], strict=True):
        is_named = isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if is_named and field.value is not None and field.target.id != "part":
            yield field.target.id, isinstance(behind, ast.Expr)


@pytest.mark.parametrize("name", CLASSES)
def test_every_kind_of_fact_is_on_the_page(name):
    assert re.search(rf"\b{name}\b", PAGE)


@pytest.mark.parametrize("name", CLASSES)
def test_every_fact_is_told(name):
    told = ast.get_docstring(CLASSES[name])

    assert [field for field, has_text in list_fields(CLASSES[name]) if not has_text and f"`{field}`" not in told] == []
