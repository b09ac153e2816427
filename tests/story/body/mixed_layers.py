"""Layers of several kinds, and streams that look at each other. The code is that of transformers 5.23."""

from dataclasses import replace

from story.body.truth import (
    Silent,
    attention,
    corners,
    decoder_only,
    entrance,
    experts,
    family,
    gated,
    group,
    looks_both_ways,
    memory,
    network,
    plain,
    post,
    pre,
    tower,
    words,
)

from xray.story.anatomy.branches import Convolution, Recurrence
from xray.story.anatomy.tree import Head, Link

TWO = {"num_hidden_layers": 2}
EVERY_SECOND = ["full_attention", "conv"] * 3


@family("Lfm2MoeForCausalLM", "lfm2_moe:427, 486, 571", named=True, num_hidden_layers=6, layer_types=EVERY_SECOND)
def lfm2_moe(c):
    # every second layer is a convolution between two gates (line 486); the first two think without experts
    attend = pre("rms", attention(c, qk_norm=True))
    mix = pre("rms", Convolution((c.conv_L_cache,), c.hidden_size, causal=True))
    think = pre("rms", gated(c, activation="silu"))
    chosen = pre("rms", experts(c, c.num_experts, d_ff=c.moe_intermediate_size, activation="silu"))
    groups = (
        group((0,), c.hidden_size, attend, think),
        group((1,), c.hidden_size, mix, think),
        group((2, 4), c.hidden_size, attend, chosen),
        group((3, 5), c.hidden_size, mix, chosen),
    )
    return decoder_only(c, groups=groups, final="rms")


@family("NemotronHForCausalLM", "nemotron_h:856, 886", named=True)
def nemotron_h(c):
    # a layer is one mixer with its norm, of one class whatever it holds (line 856)
    known = {"by_pieces": True, "kernel": (c.conv_kernel,), "filled": (1, c.chunk_size)}
    state = Recurrence("state space", Silent(None), **known)  # type: ignore[arg-type]
    think = plain(c, activation="relu squared")
    attend = attention(c, positions="none")
    chosen = experts(
        c, c.n_routed_experts, d_ff=c.moe_intermediate_size, shared=1, gated=False, activation="relu squared"
    )
    chosen = replace(chosen, shared_d_ff=c.moe_shared_expert_intermediate_size)
    groups = [
        group((number,), c.hidden_size, pre("rms", one)) for number, one in enumerate((state, chosen, attend, think))
    ]
    return decoder_only(c, groups=groups, final="rms")


@family("LxmertModel", "lxmert:362, 377, 498", named=True, l_layers=3, x_layers=2, r_layers=2)
def lxmert(c):
    # in the last layers words look at the image and the image at words, by one set of weights, then each at itself
    attend, think = looks_both_ways(c, kernel="plain"), plain(c)

    def stream(count, name, other):
        own = group(count, c.hidden_size, post("layer", attend), post("layer", think))
        across = post("layer", looks_both_ways(c, kernel="plain", source=other))
        crossing = range(count, count + c.x_layers)
        both = group(crossing, c.hidden_size, across, post("layer", attend), post("layer", think))
        is_text = name == "text"
        parts = (
            words(c, f"positions {c.max_position_embeddings}", f"table {c.type_vocab_size}", "norm")
            if is_text
            else entrance(
                f"projection {c.hidden_size}", "norm", f"projection {c.hidden_size}", "norm", "scale"
            )  # of what is seen, and of where it is: their mean (line 475)
        )
        found = tower(c, name, "ids" if is_text else "vectors", False, parts, (own, both), None)
        return found if is_text else replace(found, some_weights_of="text")

    return network(
        stream(c.l_layers, "text", "stack"),
        stream(c.r_layers, "stack", "text"),
        links=tuple(
            memory(name, other, *range(count - 1, count + c.x_layers - 1))  # what went into each of the last layers
            for name, other, count in (("stack", "text", c.r_layers), ("text", "stack", c.l_layers))
        ),
        head=Head("none"),
    )


@family("LiltModel", "lilt:219, 252, 381", named=True, **TWO)
def lilt(c):
    # scores of the words are added to those of the boxes, and the other way round (line 252): no places
    narrow = c.hidden_size // c.channel_shrink_ratio
    attend = looks_both_ways(c, kernel="plain", positions=Silent(None))
    boxes = looks_both_ways(c, kernel="plain", positions=Silent(None), d_k=narrow // c.num_attention_heads)
    text = tower(
        c,
        "text",
        "ids",
        False,
        words(c, f"table {c.type_vocab_size}", f"positions {c.max_position_embeddings}", "norm"),
        (group(2, c.hidden_size, post("layer", attend), post("layer", plain(c))),),
        None,
    )
    parts = [*corners(c), f"projection {narrow}", f"positions {c.max_position_embeddings}", "norm"]
    thinks = post("layer", plain(c, d_ff=c.intermediate_size // c.channel_shrink_ratio))
    layout = tower(c, "layout", None, False, entrance(*parts), (group(2, narrow, post("layer", boxes), thinks),), None)
    both = (Link("scored", "layout", "text"), Link("scored", "text", "layout"))
    return network(text, layout, links=both, head=Head("none"))


@family("NanoChatForCausalLM", "nanochat:52, 206, 278, 360", named=True, **TWO)
def nanochat(c):
    # words are normalised, and the first layer normalises them once more; its norms have no weights
    attend = attention(c, qk_norm=True, d_k=c.hidden_size // c.num_attention_heads)
    return decoder_only(c, pre("rms", attend), pre("rms", plain(c)), final="rms", parts=("norm",))
