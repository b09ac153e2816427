"""Models of families, built, and what goes in."""

from families.specimens import BY_NAME, make_ids


def build(name):
    return BY_NAME[name].build().eval()


def ids():
    return make_ids(11, 1)
