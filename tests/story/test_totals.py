from dataclasses import replace

from small_traces import small_inference_passes, small_trace, small_training_pass, step

from xray.ir.trace import Pass
from xray.story.totals import add_up, count_params


def test_a_module_seen_in_two_passes_counts_once():
    trace = small_trace(*small_inference_passes())

    assert count_params(trace) == 211 + 223 + 646


def test_training_and_inference_together_count_no_parameter_twice():
    assert count_params(small_trace()) == count_params(small_trace(small_training_pass()))


def test_a_whole_model_counts_instead_of_its_parts():
    whole = step("Transformer", "transformer", params=1009)
    inside = tuple(replace(each, parent=each.parent or whole.id) for each in small_training_pass().steps)

    trace = small_trace(Pass("training", 0, {}, (whole, *inside)), *small_inference_passes())

    assert count_params(trace) == 1009


def test_an_embedding_shared_with_the_head_counts_once():
    trace = small_trace(*small_inference_passes(), sharing="decoder")

    assert count_params(trace) == 211 + 223 + 646 - 19 * 33


def test_one_matrix_for_all_embeddings_counts_once():
    trace = small_trace(*small_inference_passes(), sharing="all")

    assert count_params(trace) == 211 + 223 + 646 - 2 * 19 * 33


def test_gradients_are_no_tensors_of_the_forward_pass():
    trace = small_trace(Pass("training", 0, {}, small_training_pass().steps[-1:]))

    assert add_up(trace).tensors == 0


def test_masks_are_counted_where_they_are_made():
    assert add_up(small_trace(small_training_pass())).masks == 4
