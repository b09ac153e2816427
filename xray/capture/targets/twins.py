"""Which twins there are of a model: those of the chatbot, refused where nothing would be changed."""

from xray.config import ModelConfig
from xray.errors import UsageError
from xray.ir.twins import TWINS


def check_twin(twin: object, config: ModelConfig, phase: str, *, kv_cache: bool) -> None:
    """Make sure that there is something to change for a twin of the chatbot.

    Raises:
        UsageError: its name is unknown, or it would be the same.
    """
    check_name(twin)
    if twin in ("kv-cache", "no-kv-cache") and phase == "training":
        raise UsageError(f"{twin}: a training step keeps no keys and values. Choose the phase inference, or both.")
    same = {
        "kv-cache": kv_cache and "the answer is decoded with a cache already. Choose the twin no-kv-cache",
        "no-kv-cache": not kv_cache and "the answer is decoded without a cache anyway. Choose the twin kv-cache",
        "no-cross-mask": config.cross_mask == "none" and "the chatbot has no mask of cross-attention to leave out",
        "no-embedding-scale": not config.scale_embeddings and "the chatbot does not scale its embeddings",
    }
    reason = same.get(str(twin))
    if reason:
        raise UsageError(f"{twin}: {reason}.")


def check_name(twin: object) -> None:
    """Make sure that a twin is known.

    Raises:
        UsageError: it is not.
    """
    if not isinstance(twin, str) or twin not in TWINS:
        raise UsageError(f"the twin {twin!r} is unknown. Choose {', '.join(TWINS)}, or the trace of another run.")
