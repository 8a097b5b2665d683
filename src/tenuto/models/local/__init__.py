"""A small model on this computer, without a key, a server or a compiler.

Invariant: nothing is fetched, loaded or imported before a model is first used.
"""

from tenuto.models.local.embedder import local_embedder
from tenuto.models.local.known import KNOWN, Weights
from tenuto.models.local.model import local_model
from tenuto.models.local.weights import find, pull

__all__ = ["KNOWN", "Weights", "find", "local_embedder", "local_model", "pull"]
