"""Each specimen as it was recorded once in inference, in training, and while it writes."""

from recorded import recorded


def recorded_inference(name):
    """A forward pass in evaluation, without gradients."""
    return recorded(f"{name}, inference")


def recorded_training(name):
    """A forward pass as in training."""
    return recorded(f"{name}, training")


def recorded_writing(name, way=""):
    """Four words written: the plain way, " without a cache" or " with beams"."""
    return recorded(f"{name} writes{way}")


RECORDINGS = {"inference": recorded_inference, "training": recorded_training}
