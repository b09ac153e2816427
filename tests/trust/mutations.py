"""Whole things made wrong: a JSON tree changed somewhere, bytes flipped, cut out and put in."""

import json

from hypothesis import strategies as st

NUMBERS = (0, 1, -1, 7, 2**31, 2**63, 2**64, 10**40, -(10**40), 1.5, -0.0, 1e308)
WORDS = (
    "",
    "x",
    "\x00",
    "\x1b[31m",
    "<script>",
    "\ud800",
    "nan",
    "batch",
    "1",
    "training",
    "softmax",
    "ids",
    "tgt_len",
)
LEAVES = (None, True, False, *NUMBERS, *WORDS, [], {}, [[[]]], {"a": 1})

HARD_TEXT = st.one_of(
    st.text(max_size=40),
    st.text(alphabet=st.characters(categories=["Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Mn"]), max_size=12),
    st.text(alphabet='"\\<>&{}[]|;:,=-#%\n\r\t ', max_size=20),
)
"""Text of every kind of character, and often of the awkward ones."""


def change_tree(chance, tree, most=3):
    """A copy of a JSON tree in which a few places hold something else, are gone, or are there twice."""
    changed = json.loads(json.dumps(tree))
    for _ in range(chance.randint(1, most)):
        change_somewhere(chance, changed)
    return changed


def change_somewhere(chance, node):
    while isinstance(node, dict | list) and node:
        key = chance.choice(sorted(node)) if isinstance(node, dict) else chance.randrange(len(node))
        child = node[key]
        if not isinstance(child, dict | list) or not child or chance.random() < 0.12:
            change_here(chance, node, key)
            return
        node = child


def change_here(chance, node, key):
    kind = chance.choice(("other", "gone", "twice", "near"))
    if kind == "gone":
        del node[key]
    elif kind == "twice" and isinstance(node, list):
        node.insert(key, json.loads(json.dumps(node[key])))
    elif kind == "near" and type(node[key]) is int:
        node[key] += chance.choice((-1, 1, 1000))
    else:
        node[key] = chance.choice(LEAVES)


def change_bytes(chance, data, most=4):
    """A copy of some bytes with a few bits flipped, pieces cut out, bytes put in, or the end gone."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, most)):
        place = chance.randrange(max(1, len(changed)))
        kind = chance.choice(("flip", "flip", "cut", "put", "end"))
        if kind == "flip" and changed:
            changed[place] ^= 1 << chance.randrange(8)
        elif kind == "cut":
            del changed[place : place + chance.randint(1, 40)]
        elif kind == "put":
            changed[place:place] = chance.randbytes(chance.randint(1, 8))
        else:
            del changed[place:]
    return bytes(changed)
