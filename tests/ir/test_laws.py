"""Laws of batch and length: exact where they hold, none where they do not, and silent beyond their tests."""

from fractions import Fraction

from xray.ir.laws import find_law


def count(formula, sizes):
    return {size: formula(*size) for size in sizes}


LENGTHS = [(1, length) for length in (3, 5, 7, 11)]
BOTH = [*LENGTHS, *((2, length) for length in (3, 5, 7)), (13, 11)]


def test_a_law_is_exact():
    law = find_law(count(lambda b, n: (3 * n * n + n) // 2 + 4, LENGTHS))

    assert law.terms == {(0, 0): 4, (0, 1): Fraction(1, 2), (0, 2): Fraction(3, 2)}
    assert law.write() == "4 + 1/2·n + 3/2·n²"


def test_a_law_of_both_tells_what_grows_with_the_batch():
    law = find_law(count(lambda b, n: 1000 + 7 * n + b * (5 * n - n * n), BOTH))

    assert law.write() == "1,000 + 7·n + 5·b·n - 1·b·n²"
    assert law.at((8, 9)) == 1000 + 63 + 8 * (45 - 81)


def test_a_law_that_misses_a_test_is_none():
    assert find_law(count(lambda b, n: n**3, LENGTHS)) is None
    assert find_law(count(lambda b, n: b * b * n, BOTH)) is None


def test_too_few_sizes_make_no_law():
    assert find_law(count(lambda b, n: n, LENGTHS[:3])) is None
    assert find_law({}) is None


def test_a_law_ends_where_a_shorter_length_contradicts_it():
    law = find_law(count(lambda b, n: min(n, 40), [(1, length) for length in (2, 30, 50, 60, 70, 80)]))

    assert law.at((1, 75)) == 40
    assert not law.covers((1, 45))


def test_a_law_is_silent_beyond_its_tests():
    law = find_law(count(lambda b, n: b * n, BOTH))

    assert law.covers((13, 11))
    assert not law.covers((14, 11))
    assert not law.covers((13, 12))


def test_what_a_law_is_made_from_does_not_test_it():
    law = find_law(count(lambda b, n: b * n, BOTH))

    assert set(law.tested_at) == {(1, 11), (13, 11)}
