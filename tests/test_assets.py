import pytest

from xray.assets import read_template, template_names, templates_folder
from xray.errors import OutputError


def test_templates_are_found_in_a_checkout():
    assert (templates_folder() / "themes" / "dark.toml").is_file()


def test_both_themes_are_listed():
    assert template_names("themes", ".toml") == ("dark", "light")


def test_a_missing_template_says_so():
    with pytest.raises(OutputError, match=r"cannot read .*nothing\.toml"):
        read_template("themes/nothing.toml")
