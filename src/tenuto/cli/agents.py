"""Finding the agent a command line names."""

from __future__ import annotations

import importlib
import sys
import traceback
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from tenuto.agent import Agent
from tenuto.core.errors import ConfigurationError, TenutoError
from tenuto.models.local import local_model, pull

AnyAgent = Agent[Any, Any]


def default_agent() -> AnyAgent:
    """An agent on the small local model, whose weights are fetched now if need be.

    Raises:
        TenutoError: The engine is missing, or the weights cannot be had.
    """
    model = local_model("smollm2")
    pull("smollm2")  # here, in the main thread, so that Ctrl-C stops it
    return Agent(id="chat", name="SmolLM2", instructions="You are a helpful assistant. Be brief.", model=model)


def load_agent(name: str) -> AnyAgent:
    """Import `module:agent` or `path/to/file.py:agent`, from the current folder too.

    Raises:
        ConfigurationError: There is no such module or agent, or importing the module failed.
    """
    module_name, _, attribute = name.rpartition(":")
    if not module_name or not attribute:
        raise _unusable(f"{name!r} does not name an agent; write module:agent, such as my_module:agent")
    module = _import(module_name)
    found: object = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if isinstance(found, Agent):
        return cast("AnyAgent", found)
    agents = [key for key, value in vars(module).items() if isinstance(value, Agent)]
    hint = f"it has: {', '.join(agents)}" if agents else "it defines no Agent at its top level"
    raise _unusable(f"{module_name} has no agent {attribute!r}; {hint}")


def _import(name: str) -> ModuleType:
    if (folder := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, folder)
    try:
        return _from_file(Path(name)) if name.endswith(".py") else importlib.import_module(name)
    except TenutoError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise _unusable(f"There is no module {name!r} here or among the installed packages") from error
        raise _unusable(f"Importing {name} failed{_place(error)}: {error}") from error
    except Exception as error:
        raise _unusable(f"Importing {name} failed{_place(error)}: {type(error).__name__}: {error}") from error


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise _unusable(f"There is no file {path}")
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise _unusable(f"{path} is not a Python file")
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


def _unusable(message: str) -> ConfigurationError:
    return ConfigurationError(f"{message}.", id="CLI_AGENT_NOT_FOUND")
