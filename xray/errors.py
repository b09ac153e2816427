"""The errors that X-Ray raises, each a sentence that says what, value, rule and remedy."""


class XRayError(Exception):
    """Anything that X-Ray can explain to its user in one line."""

    exit_code = 1


class UsageError(XRayError):
    """The request itself is wrong: an empty question, an unknown suffix, an option out of range."""

    exit_code = 2


class ConfigError(XRayError):
    """A model or training configuration that cannot be."""


class DataError(XRayError):
    """A corpus that cannot be read or cannot be trained on."""


class RunError(XRayError):
    """A run folder that is missing, damaged, busy, or made by another configuration."""


class TraceError(XRayError):
    """A trace that cannot be recorded or read."""


class ThemeError(XRayError):
    """A theme file that misses a role or holds a value that is no colour."""


class DrawError(XRayError):
    """A drawing that cannot be made from this trace."""


class OutputError(XRayError):
    """A file or folder that cannot be written."""
