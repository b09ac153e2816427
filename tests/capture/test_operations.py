"""Operations that are no module: seen as the user wrote them, with complete data flow, and nothing changed."""

import numpy as np
import pytest
import torch
from capture.operation_flow import Model, flow, record_and_compare
from torch import nn
from torch.nn import functional

from xray.capture.recorder import record, trace


def test_operators_and_methods_have_the_same_plain_names():
    recorded = record_and_compare(Model(lambda x: (1 - (x @ x.T) / 2).view(-1)[0]), torch.randn(3, 3))

    assert flow(recorded) == [
        ("transpose", [None]),
        ("matmul", [None, "Model.transpose#0"]),
        ("div", ["Model.matmul#0"]),
        ("rsub", ["Model.div#0"]),
        ("view", ["Model.rsub#0"]),
        ("index", ["Model.view#0"]),
    ]


def test_operations_called_as_exported_programs_do_have_plain_names():
    aten = torch.ops.aten

    def call(x):
        return aten.add_.Tensor(aten.linear.default(x, x), 1)

    assert [name for name, _ in flow(record_and_compare(Model(call), torch.randn(3, 3)))] == ["linear", "add_"]


def test_a_change_in_place_is_the_source_for_every_view():
    def change(x):
        y = x * 2
        view = y.view(-1)
        y.add_(1)
        after = view + 1
        y[0] = 7
        return after, view * 3

    sources = dict(flow(record_and_compare(Model(change), torch.randn(2, 3))))

    assert sources["view"] == ["Model.mul#0"]
    assert sources["add_"] == ["Model.mul#0"]
    assert sources["add"] == ["Model.add_#0"]
    assert sources["index_put_"] == ["Model.add_#0"]
    assert sources["mul"] == ["Model.index_put_#0"]


def test_an_in_place_layer_is_the_source_of_what_it_changed():
    recorded = record_and_compare(
        nn.Sequential(nn.Linear(5, 7), nn.ReLU(inplace=True), nn.Linear(7, 3)), torch.ones(2, 5)
    )

    assert [step.inputs[0].source for step in recorded.steps][1:] == [None, "0#0", "1#0"]


class BendsInPlace(nn.Module):
    """A sum in place, and a bend in place behind it, as at the end of a block of ResNet."""

    def __init__(self, bend):
        super().__init__()
        self.wide, self.after, self.bend = nn.Linear(5, 5), nn.Linear(5, 3), bend

    def forward(self, x):
        y = self.wide(x)
        y += x
        return self.after(self.bend(y))


@pytest.mark.parametrize(
    ("bend", "maker"),
    [
        (nn.ReLU(inplace=True), "bend#0"),
        (lambda y: functional.relu(y, inplace=True), "BendsInPlace.relu#0"),
        (torch.relu_, "BendsInPlace.relu_#0"),
        (lambda y: y, "BendsInPlace.add_#0"),
    ],
)
def test_a_bend_in_place_behind_a_sum_in_place_is_the_source_of_what_it_bent(bend, maker):
    steps = {step.id: step for step in trace(BendsInPlace(bend), torch.ones(2, 5)).steps}

    assert steps["after#0"].inputs[0].source == maker


def test_out_arguments_are_outputs():
    recorded = record_and_compare(Model(lambda x: torch.mul(x, 2, out=torch.empty(3)) + 1), torch.ones(3))

    assert flow(recorded)[-1] == ("add", ["Model.mul#0"])


def test_operations_inside_plain_layers_are_no_steps():
    assert [step.op for step in trace(nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5)), torch.ones(2, 3)).steps] == [
        "sequential",
        "linear",
        "layer_norm",
    ]


def test_questions_about_a_tensor_are_no_steps():
    recorded = trace(Model(lambda x: x * x.size(0) * len(x) * x.shape[0] * x.dim()), torch.ones(2, 3))

    assert [step.op for step in recorded.steps] == ["model", "mul", "mul", "mul", "mul"]


def test_an_operation_that_fails_shows_its_operands():
    model = Model(lambda x: x @ x)
    with pytest.raises(RuntimeError, match="mat1 and mat2"), record(model) as recorder:
        model(torch.ones(2, 3))

    failed = list(recorder.trace.steps)[-1]

    assert (failed.op, [record.shape for record in failed.inputs]) == ("matmul", [(2, 3), (2, 3)])
    assert "mat1 and mat2 shapes" in failed.error


def test_the_location_of_an_operation_is_the_users_line():
    step = list(trace(Model(lambda x: functional.softmax(x, dim=-1)), torch.ones(2, 3)).steps)[-1]

    assert step.location.split(":")[0].endswith("test_operations.py")
    assert step.settings["dim"] == -1


def test_a_training_step_has_loss_gradients_and_update():
    model = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2))
    optimizer = torch.optim.AdamW(model.parameters())
    with record(model) as recorder:
        for _ in range(2):
            optimizer.zero_grad()
            functional.cross_entropy(model(torch.ones(7, 3)), torch.zeros(7, dtype=torch.long)).backward()
            optimizer.step()

    assert len(recorder.trace.passes) == 2
    last = list(recorder.trace.passes[1].steps)[-3:]
    assert [step.op for step in last] == ["cross_entropy", "backward", "adamw"]
    assert last[0].outputs[0].role == "loss"
    assert {record.name: record.shape for record in last[1].outputs}["0.weight.grad"] == (5, 3)
    assert [record.role for record in last[2].outputs] == ["parameter"] * 4


def test_gradients_are_the_same_bit_for_bit_through_operations():
    model = Model(lambda x: functional.gelu(x @ x.mT).cumsum(-1).relu_())
    x, other = torch.randn(3, 5, requires_grad=True), None
    model(x).sum().backward()
    expected = x.grad.clone()
    other = x.detach().clone().requires_grad_()

    with record(model):
        model(other).sum().backward()

    assert torch.equal(other.grad, expected)


def test_a_checkpointed_block_is_recorded_once():
    from torch.utils.checkpoint import checkpoint

    linear = nn.Linear(3, 3)
    model = Model(lambda x: checkpoint(linear, x, use_reentrant=False))
    model.linear = linear
    with record(model) as recorder:
        model(torch.ones(2, 3)).sum().backward()

    assert [step.op for step in recorder.trace.steps].count("linear") == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning:torch")
def test_a_scripted_module_is_one_step():
    recorded = record_and_compare(torch.jit.script(nn.Sequential(nn.Linear(3, 4), nn.ReLU())), torch.ones(2, 3))

    assert [(s.op, s.outputs[0].shape) for s in recorded.steps] == [("recursive_script_module", (2, 4))]


def soft_cap(x: torch.Tensor, cap: float):
    return (x / cap).tanh() * cap


def cap_twice(x: torch.Tensor):
    return soft_cap(soft_cap(x, 2.0), 3.0)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning:torch")
def test_a_scripted_function_is_run_as_it_was_written_and_is_scripted_again_behind_it():
    scripted, run = torch.jit.script(cap_twice), torch._C.ScriptFunction.__call__
    recorded = record_and_compare(Model(lambda x: scripted(x) + 1), torch.ones(2, 3))

    assert [step.op for step in recorded.steps] == ["model", *["div", "tanh", "mul"] * 2, "add"]
    assert recorded.steps[-1].inputs[0].source == recorded.steps[-2].id
    assert torch._C.ScriptFunction.__call__ is run


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning:torch", "ignore:Converting")
def test_a_traced_function_runs_as_it_was_traced():
    traced = torch.jit.trace(lambda x: x * 2 if x.shape[0] > 1 else x, torch.ones(2, 3))
    model = Model(lambda x: traced(x) + 1)
    with record(model):
        out = model(torch.ones(1, 3))

    assert torch.equal(out, torch.full((1, 3), 3.0))


def test_recorders_that_end_out_of_order_leave_scripted_functions_as_they_were():
    run = torch._C.ScriptFunction.__call__
    first, second = record(nn.Linear(3, 4)), record(nn.Linear(3, 4))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)

    assert torch._C.ScriptFunction.__call__ is run


@pytest.mark.filterwarnings("ignore:Guards may run slower:RuntimeWarning")
def test_a_compiled_module_is_run_eagerly_and_stays_compiled():
    model = torch.compile(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), backend="eager")
    model(torch.ones(2, 3))
    counter = torch._dynamo.utils.counters["stats"]["unique_graphs"]

    recorded = record_and_compare(model, torch.ones(2, 3))

    assert [step.op for step in recorded.steps][-2:] == ["linear", "relu"]
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == counter


def test_custom_autograd_functions_show_what_they_do():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    recorded = record_and_compare(Model(lambda x: Double.apply(x) + 1), torch.ones(3, requires_grad=True))

    assert flow(recorded) == [("mul", [None]), ("add", ["Model.mul#0"])]


def test_vmap_shows_logical_shapes():
    linear = nn.Linear(3, 4)
    model = Model(lambda x: torch.vmap(linear)(x))
    model.linear = linear

    step = next(s for s in record_and_compare(model, torch.randn(5, 2, 3)).steps if s.path == "linear")

    assert (step.inputs[0].shape, step.outputs[0].shape) == ((2, 3), (2, 4))


@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        (lambda: torch.randn(2, 2, dtype=torch.complex64), "complex64"),
        (lambda: torch.empty(0, 3), "float32"),
        (lambda: torch.randn(2, 3).to_sparse(), "float32 sparse_coo"),
        (lambda: torch.ones(2, 3, dtype=torch.bfloat16), "bfloat16"),
        (lambda: torch.ones(2, 3, dtype=torch.int8), "int8"),
    ],
)
def test_unusual_tensors_are_described(make, dtype):
    x = make()

    step = list(trace(Model(lambda x: x + x), x).steps)[-1]

    assert (step.op, step.inputs[0].dtype, step.inputs[0].shape) == ("add", dtype, tuple(x.shape))


def test_modules_that_are_not_registered_are_labelled_by_where_they_ran():
    hidden = [nn.Linear(3, 3)]

    assert [step.path for step in trace(Model(lambda x: hidden[0](x)), torch.ones(2, 3)).steps] == [
        "Model",
        "Model.Linear",
    ]


def test_deep_nesting_is_no_problem():
    model: nn.Module = nn.Linear(2, 2)
    for _ in range(150):
        model = nn.Sequential(model)

    assert len(list(trace(model, torch.ones(1, 2)).steps)) == 151


def test_packed_sequences_are_opened():
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(5, 2, 3), [5, 3])

    assert trace(nn.LSTM(3, 4), packed).steps[0].inputs[0].name == "input.data"


def test_function_modes_and_settings_are_as_found():
    model = Model(lambda x: x + 1)
    with pytest.raises(KeyboardInterrupt), record(model):
        raise KeyboardInterrupt

    assert torch.overrides._get_current_function_mode_stack() == []
    assert torch.utils._python_dispatch._get_current_dispatch_mode_stack() == []


class BentInPlace(nn.Module):
    """Two layers with a curve between them that writes over what it reads."""

    def __init__(self):
        super().__init__()
        self.first, self.curve, self.second = nn.Conv2d(8, 8, 1), nn.ReLU(inplace=True), nn.Conv2d(8, 8, 1)

    def forward(self, x):
        y = self.second(self.curve(self.first(x)))
        y += x
        return y


def test_storage_that_is_taken_over_does_not_bring_its_writer():
    model = nn.Sequential(*(BentInPlace() for _ in range(8))).eval()

    with torch.no_grad():
        recorded = trace(model, torch.zeros(1, 8, 4, 4))

    read = {step.path: step.inputs[0].source for step in recorded.steps if step.path.endswith("second")}
    assert read == {f"{block}.second": f"{block}.curve#0" for block in range(8)}


def test_what_reads_one_of_several_tensors_says_which_of_them_it_is():
    def split(x):
        wide, narrow = x.split([3, 2], -1)
        _, (hidden, _) = lstm(wide)
        return narrow.sum() + hidden.sum() + wide.unsqueeze(0).sum()

    lstm = nn.LSTM(3, 7)
    recorded = record_and_compare(Model(split), torch.randn(4, 5))
    read = {(step.op, record.source): record.output for step in recorded.steps for record in step.inputs}

    assert read["lstm", "Model.split#0"] == 0
    assert read["sum", "Model.split#0"] == 1
    assert next(value for (op, source), value in read.items() if op == "sum" and "lstm" in (source or "").lower()) == 1
    assert read["unsqueeze", "Model.split#0"] == 0
    assert read["sum", "Model.unsqueeze#0"] is None


@pytest.mark.parametrize(
    ("work", "op"),
    [
        (lambda x: 3 / x, "div"),
        (lambda x: torch.div(3, x), "div"),
        (lambda x: 3 // x, "floor_divide"),
        (lambda x: 3 % x, "mod"),
        (lambda x: 3**x, "pow"),
    ],
)
def test_a_number_that_stands_before_a_tensor_is_what_the_operation_works_on(work, op):
    step = record_and_compare(Model(work), torch.rand(2, 3) + 1).steps[-1]

    assert (step.op, step.settings, [record.name for record in step.inputs]) == (op, {"input": 3}, ["other"])


def test_a_number_of_numpy_is_told_as_one_of_python():
    steps = record_and_compare(Model(lambda x: x / np.sqrt(7) * np.float32(0.5)), torch.rand(2, 3)).steps

    assert [step.settings for step in steps[1:]] == [{"other": 7**0.5}, {"other": 0.5}]
    assert {type(step.settings["other"]) for step in steps[1:]} == {float}
