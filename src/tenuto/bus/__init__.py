"""Wake-ups between drivers and viewers: never the truth, only a reason to look."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenuto.bus.inprocess import InProcessPubSub
    from tenuto.bus.ports import PubSub
else:
    from tenuto.core.later import later

    __getattr__ = later(globals(), {"InProcessPubSub": "tenuto.bus.inprocess", "PubSub": "tenuto.bus.ports"})

__all__ = ["InProcessPubSub", "PubSub"]
