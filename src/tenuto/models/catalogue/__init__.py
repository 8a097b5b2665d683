"""The providers and models that `provider/model` strings name: where they are, what they can do, what they cost.

Invariant: two layers and one way in. A generated snapshot holds what the vendors publish; a table written by hand
holds what we know better and the servers of one's own computer; `find_provider` and `find_model` answer from both.
Nothing of the snapshot is read before somebody asks for a provider.
"""

from tenuto.models.catalogue.cost import priced
from tenuto.models.catalogue.facts import Dialect, ModelInfo, Price, Provider, Quirks, Rates, Tier
from tenuto.models.catalogue.lookup import find_model, find_provider, info_of, models_of, names
from tenuto.models.catalogue.support import heed

__all__ = [
    "Dialect",
    "ModelInfo",
    "Price",
    "Provider",
    "Quirks",
    "Rates",
    "Tier",
    "find_model",
    "find_provider",
    "heed",
    "info_of",
    "models_of",
    "names",
    "priced",
]
