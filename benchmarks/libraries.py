"""The libraries whose families are measured: what is in each, and how X-Ray is given one of it."""

import inspect
import json
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lacking import DIFFUSERS_LACKING, DIFFUSERS_REASONS, LACKING, REASONS

FILLED = """Where
defaults are lacking, or those of two parts do not fit together, the script fills them in and says which."""
NO_MODELS = ("Multi", "ModelMixin", "AutoModel")


class Library(ABC):
    """A library of models."""

    name: str
    title: str
    many: str
    what: str
    """How the page of its table is called, how what is in it is called, and what the page says that it is."""
    reasons: Mapping[str, str] = {}
    """Why families of it are drawn by blocks, as they compute."""

    @abstractmethod
    def families(self) -> Sequence[str]:
        """What there is, in the library's own names."""

    @abstractmethod
    def source(self, family: str, folder: Path) -> str:
        """How X-Ray is asked for a family; settings are written into a folder."""

    @abstractmethod
    def settings(self, family: str) -> Mapping[str, Any]:
        """The settings that a family is built of, the defaults among them."""

    def group(self, family: str) -> str:
        """The part of the library in which a family stands; empty where each has a line of the table of its own."""
        return ""


class Transformers(Library):
    """Every family of transformers, as the library maps it to a model."""

    name, title, many = "transformers", "Families of transformers", "families"
    what = (
        "Every family of models in the [transformers]({address}) library (version {version}), built from its own\n"
        f"default settings, without weights, as `xray trace hf:FAMILY` does it: recorded, and drawn. {FILLED}"
    )
    reasons = REASONS

    def families(self) -> Sequence[str]:
        """The families that have a model of their own."""
        from transformers.models.auto import modeling_auto

        return list(modeling_auto.MODEL_MAPPING_NAMES)

    def source(self, family: str, folder: Path) -> str:
        """By its name; where it lacks settings, by a folder with these."""
        if family not in LACKING:
            return f"hf:{family}"
        import transformers

        from xray.sources.library import choose_default, list_kinds

        config = transformers.CONFIG_MAPPING[family](**LACKING[family])
        config.architectures = [choose_default(list_kinds(transformers, config)).__name__]
        config.save_pretrained(folder)
        return str(folder)

    def settings(self, family: str) -> Mapping[str, Any]:
        """The library's own."""
        from transformers import CONFIG_MAPPING

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found: Mapping[str, Any] = CONFIG_MAPPING[family](**LACKING.get(family, {})).to_dict()
        return found


class Diffusers(Library):
    """Every model of diffusers, by its class."""

    name, title, many = "diffusers", "Models of diffusers", "model classes"
    what = (
        "Every model class of the [diffusers]({address}) library (version {version}), built from its own default\n"
        f"settings, without weights, as `xray trace diffusers:CLASS` does it: recorded, and drawn. {FILLED}"
    )
    reasons = DIFFUSERS_REASONS

    def families(self) -> Sequence[str]:
        """The classes that are built of settings."""
        import diffusers
        from torch import nn

        found = {name: getattr(diffusers, name, None) for name in dir(diffusers) if not name.startswith("Flax")}
        return [
            name
            for name, one in found.items()
            if isinstance(one, type) and issubclass(one, nn.Module) and hasattr(one, "from_config")
            if not any(word in name for word in NO_MODELS)
        ]

    def source(self, family: str, folder: Path) -> str:
        """By its class; where that lacks settings, by a folder with these."""
        if family not in DIFFUSERS_LACKING:
            return f"diffusers:{family}"
        (folder / "config.json").write_text(json.dumps({"_class_name": family, **DIFFUSERS_LACKING[family]}))
        return f"diffusers:{folder}"

    def settings(self, family: str) -> Mapping[str, Any]:
        """The defaults of the class, and what is lacking there."""
        import diffusers

        parameters = inspect.signature(getattr(diffusers, family).__init__).parameters.values()
        defaults = {one.name: one.default for one in parameters if one.default is not inspect.Parameter.empty}
        return defaults | dict(DIFFUSERS_LACKING.get(family, {}))


class Timm(Library):
    """Models of timm by their names, up to three of each module."""

    name, title, many = "timm", "Models of timm", "models"
    what = (
        "Models of the [timm]({address}) library (version {version}), built without weights, as `xray trace\n"
        "timm:NAME` does it: recorded, and drawn. Of each of its modules the first, the middle and the last one by\n"
        "the alphabet were taken. A line of the table is a module: how many were taken, how many become\n"
        "posters, and one's figures."
    )

    def families(self) -> Sequence[str]:
        """The first, the middle and the last name of each module."""
        import timm

        found = [timm.list_models(module=module) for module in timm.list_modules()]
        return [
            name for names in found if names for name in dict.fromkeys((names[0], names[len(names) // 2], names[-1]))
        ]

    def source(self, family: str, folder: Path) -> str:
        """By its name."""
        return f"timm:{family}"

    def settings(self, family: str) -> Mapping[str, Any]:
        """None are kept: a model is a function."""
        return {}

    def group(self, family: str) -> str:
        """The module of the function that builds it."""
        import timm

        return str(timm.model_entrypoint(family).__module__.rpartition(".")[2])


LIBRARIES: Mapping[str, Library] = {one.name: one for one in (Transformers(), Diffusers(), Timm())}
