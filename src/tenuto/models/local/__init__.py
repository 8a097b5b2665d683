"""A small model on this computer, without a key, a server or a compiler.

Invariant: nothing is fetched, loaded or imported before a model is first used.
"""

from tenuto.models.local.model import local_model
from tenuto.models.local.weights import KNOWN, Weights, find, pull

__all__ = ["KNOWN", "Weights", "find", "local_model", "pull"]
