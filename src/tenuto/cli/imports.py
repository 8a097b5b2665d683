"""Finding the object a command line names: `module:name`, or `path/to/file.py:name`."""

from __future__ import annotations

import importlib
import sys
import traceback
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from tenuto.core.errors import ConfigurationError, TenutoError

T = TypeVar("T")


def load(name: str, kind: type[T], noun: str) -> T:
    """Import the `kind` that `name` says, from the current folder too.

    Args:
        name: `module:name` or `path/to/file.py:name`.
        kind: What it has to be.
        noun: What to call it in an error: `agent`, `app`.

    Raises:
        ConfigurationError: There is no such module or object, or importing the module failed.
    """
    module_name, _, attribute = name.rpartition(":")
    if not module_name or not attribute:
        raise _unusable(f"{name!r} names no {noun}; write module:{noun}, such as my_module:{noun}", noun)
    module = _import(module_name, noun)
    found: object = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if isinstance(found, kind):
        return found
    others = [key for key, value in vars(module).items() if isinstance(value, kind)]
    hint = f"it has: {', '.join(others)}" if others else f"it defines no {kind.__name__} at its top level"
    raise _unusable(f"{module_name} has no {noun} {attribute!r}; {hint}", noun)


def _import(name: str, noun: str) -> ModuleType:
    if (folder := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, folder)
    try:
        return _from_file(Path(name), noun) if name.endswith(".py") else importlib.import_module(name)
    except TenutoError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise _unusable(f"There is no module {name!r} here or among the installed packages", noun) from error
        raise _unusable(f"Importing {name} failed{_place(error)}: {error}", noun) from error
    except Exception as error:
        raise _unusable(f"Importing {name} failed{_place(error)}: {type(error).__name__}: {error}", noun) from error


def _from_file(path: Path, noun: str) -> ModuleType:
    if not path.is_file():
        raise _unusable(f"There is no file {path}", noun)
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise _unusable(f"{path} is not a Python file", noun)
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.resolve().parent))
    spec.loader.exec_module(module)
    return module


def _place(error: BaseException) -> str:
    """Where in the user's code it happened: what a traceback is read for."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    own = [frame for frame in frames if not frame.filename.startswith(str(Path(__file__).parent))]
    return f" at {own[-1].filename}:{own[-1].lineno}" if own else ""


def _unusable(message: str, noun: str) -> ConfigurationError:
    return ConfigurationError(f"{message}.", id=f"CLI_{noun.upper()}_NOT_FOUND")
