"""Wake-ups between drivers and viewers: never the truth, only a reason to look."""

from tenuto.bus.inprocess import InProcessPubSub
from tenuto.bus.ports import PubSub

__all__ = ["InProcessPubSub", "PubSub"]
