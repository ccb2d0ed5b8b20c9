"""The model has values only: they do not change."""

import importlib
import inspect
import pkgutil

import msgspec

import skep.model
from skep.model.tally import Tally


def test_every_structure_of_the_model_but_the_counters_is_frozen() -> None:
    modules = [
        importlib.import_module(f"skep.model.{module.name}")
        for module in pkgutil.iter_modules(skep.model.__path__)
    ]
    structures = {
        value
        for module in modules
        for _, value in inspect.getmembers(module, inspect.isclass)
        if issubclass(value, msgspec.Struct) and value.__module__ == module.__name__
    }

    mutable = {value for value in structures if not value.__struct_config__.frozen}
    assert mutable == {Tally}
