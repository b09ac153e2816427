"""Beam search: the likeliest answer as a whole."""

from itertools import product

import pytest
import torch

from xray.config import EOS, PAD, SOS, ModelConfig
from xray.errors import UsageError
from xray.learn.answers.beam import length_factor
from xray.learn.answers.decode import Way, answer_all, decode_greedily, decode_with_beams
from xray.learn.runs.build import build_model
from xray.learn.threads import fitting_threads

CONFIG = ModelConfig(
    src_vocab=13, tgt_vocab=7, d_model=22, heads=2, encoder_layers=1, decoder_layers=2, d_ff=17, max_len=11
)
SRC = torch.tensor([[4, 5, 6, 7, 8], [9, 10, PAD, PAD, PAD], [11, 12, 4, PAD, PAD]])
WORDS = [number for number in range(CONFIG.tgt_vocab) if number not in (PAD, SOS, EOS)]


@pytest.fixture(scope="module", params=[1, 5, 8])
def model(request):
    """A model with opinions: random weights, but large."""
    model = build_model(CONFIG, request.param).eval()
    with torch.no_grad():
        model.head.weight.mul_(3)
    return model


@pytest.fixture(autouse=True)
def one_thread():
    """Thousands of tiny passes are quicker on one core than on two."""
    with fitting_threads(CONFIG):
        yield


def score(model, src, ids, penalty):
    """The length-weighed log probability of an answer that ends."""
    answer = torch.tensor([[SOS, *ids]])
    with torch.no_grad():
        chances = torch.log_softmax(model(src, answer)[0], dim=-1)
    targets = torch.tensor([*ids, EOS])
    return float(chances.gather(1, targets[:, None]).sum()) / length_factor(len(targets), penalty)


def best_of_all(model, src, longest, penalty):
    """The best of all answers there are, up to a length."""
    answers = [ids for words in range(longest + 1) for ids in product(WORDS, repeat=words)]
    return max(answers, key=lambda ids: score(model, src, ids, penalty))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0])
def test_with_beams_for_everything_the_best_of_all_answers_is_found(model, penalty):
    src = SRC[:1]
    assert decode_with_beams(model, src, 64, penalty, 3)[0] == best_of_all(model, src, 3, penalty)


def test_more_beams_find_no_worse_an_answer(model):
    for src in (SRC[:1], SRC[1:2, :2], SRC[2:, :3]):
        few, many = (decode_with_beams(model, src, beam, 0.6, 6)[0] for beam in (2, 64))
        assert score(model, src, many, 0.6) >= score(model, src, few, 0.6) - 1e-5


def test_beams_in_a_batch_are_those_one_by_one(model):
    alone = [decode_with_beams(model, src, 4, 0.6, 6)[0] for src in (SRC[:1], SRC[1:2, :2], SRC[2:, :3])]
    assert decode_with_beams(model, SRC, 4, 0.6, 6) == alone


def test_one_beam_is_greedy(model):
    assert Way(1).decode(model, SRC, 6) == decode_greedily(model, SRC, 6)


def test_beams_say_no_padding_and_no_beginning(model):
    assert not {PAD, SOS, EOS} & {number for ids in decode_with_beams(model, SRC, 4, 0.6) for number in ids}


def test_answers_are_no_longer_than_asked_for(model):
    assert max(map(len, decode_with_beams(model, SRC, 4, 1.0, 2))) <= 2


def test_a_model_that_never_ends_is_cut(model):
    deaf = build_model(CONFIG, 1).eval()
    with torch.no_grad():
        deaf.head.bias[EOS] = float("-inf")
    assert [len(ids) for ids in decode_with_beams(deaf, SRC, 3, 0.6, 5)] == [5, 5, 5]


def test_without_a_penalty_answers_are_no_longer(model):
    short, long = (decode_with_beams(model, SRC, 32, penalty, 6) for penalty in (0.0, 3.0))
    assert sum(map(len, short)) <= sum(map(len, long))


def test_many_questions_come_back_in_their_order(model):
    questions = [row[row != PAD] for row in SRC] * 3
    one_by_one = [Way(3).decode(model, question[None])[0] for question in questions]
    assert answer_all(model, questions, torch.device("cpu"), batch=4, way=Way(3)) == one_by_one


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ({"beam": 0}, r"^beam=0 is too small\. It must be 1 or more; 1 is greedy\.$"),
        ({"length_penalty": -1.0}, r"^length_penalty=-1\.0 is out of range\."),
    ],
)
def test_a_way_that_cannot_be_is_refused(way, message):
    with pytest.raises(UsageError, match=message):
        Way(**way)
