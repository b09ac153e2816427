"""Strings that somebody may put where a name, a word or a path is expected, hoping that something obeys or breaks.

Each stands under a name that says what it tries. What is shown of one is `shown(text)`: controls spelt out.
"""

import pytest

from xray.text import show_controls

CORPUS = {
    "script": "<script>alert(1)</script>",
    "script end": "</script><script>alert(2)</script>",
    "image": "<img src=x onerror=alert(3)>",
    "svg": "<svg/onload=alert(4)>",
    "attribute double": '" onmouseover="alert(5)" x="',
    "attribute single": "' onfocus='alert(6)' autofocus='",
    "javascript link": "javascript:alert(7)",
    "style": "</style><style>@import 'http://evil.example/a.css';",
    "cdata end": "]]>",
    "comment": "--><!--",
    "doctype": '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>&e;',
    "entity": "&lt;&#60;&amp;amp;&nbsp;&bogus;",
    "dot end": '"]; evil [label="x',
    "dot port": "a:b:c",
    "dot html": "<<TABLE><TR><TD>x</TD></TR></TABLE>>",
    "dot html bare": "<b>bold</b>",
    "dot escapes": r"\N \G \L \l \r \n \\ \"",
    "dot trailing backslash": "end\\",
    "dot edge": "a -> b; }",
    "percent": "%s %n %(name)s %d%%",
    "braces": "{{ 7 * 7 }} {% raw %} {0} {name!r} ${x} #{y}",
    "rich": "[red]red[/red] [link=http://evil.example]x[/link] [/]",
    "markdown": "[x](javascript:alert(8)) ![y](http://evil.example/p.png) `code` | cell |",
    "pdf": r"(unbalanced \) ) Tj ET (",
    "toml": 'x" = 1\n[evil]\n',
    "json": '", "schema": 99, "x": "\\u0000',
    "shell": "$(touch evil); `touch evil` && rm -rf . | cat",
    "path up": "../../../../etc/passwd",
    "path absolute": "/etc/passwd",
    "path windows": "..\\..\\con.txt",
    "option": "--no-such-option",
    "formula": '=HYPERLINK("http://evil.example")',
    "ansi colour": "\x1b[31mred\x1b[0m",
    "ansi clear": "\x1b[2J\x1b[H",
    "osc title": "\x1b]0;title\x07",
    "osc link": "\x1b]8;;http://evil.example\x1b\\x\x1b]8;;\x1b\\",
    "c1": "\x9b31m",
    "return": "good\rbad",
    "line end": "two\nlines",
    "tab": "a\tb",
    "backspace": "abc\b\b\bxyz",
    "nul": "a\x00b",
    "bidi": "user\u202egnp.exe",
    "isolate": "a\u2066b\u2069c",
    "bom": "\ufeffword",
    "line separator": "a\u2028b\u2029c",
    "noncharacter": "a\ufffeb\uffffc\ufdd0",
    "far noncharacter": "a\U0010ffffb",
    "half": "a\ud800b\udfffc",
    "zero width": "a\u200bb\u200dc",
    "combining": "Z̷͎͝a̴l̵g̶o̷ e\u0301\u0301\u0301",
    "right to left": "שלום مرحبا abc",
    "emoji": "👩‍🚀🏳️‍🌈🇪🇺",
    "astral": "𝔘𝔫𝔦𝔠𝔬𝔡𝔢",
    "wide": "日本語テキスト",
    "long": "x" * 3_000,
    "long words": "word " * 500,
}
"""What is tried, and the string that tries it."""

SHORT = {name: text for name, text in CORPUS.items() if len(text) < 200}
IN_TIERS = [name if place % 6 == 0 else pytest.param(name, marks=pytest.mark.slow) for place, name in enumerate(CORPUS)]
"""Their names: every sixth for the fast tier, the others for the slow one."""
HALF = "half"
"""The name of the one that no encoding can write."""


def shown(text):
    """The text as every output shows it."""
    return show_controls(text)


def file_name(text):
    """The text as the name of a file, as far as a file system takes it."""
    return text.replace("/", "∕").replace("\x00", "␀").encode(errors="replace").decode()[:40]
