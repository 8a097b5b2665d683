"""The sync twins of `Memory`: every coroutine method under its full name and `_sync`.

Invariant: a twin only waits, on the portal's event loop, for the method it is named after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from tenuto.core.portal import Portal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tenuto.core.payloads import Json
    from tenuto.memory.config import MemoryOptions
    from tenuto.memory.index import Progress
    from tenuto.memory.pages import Page
    from tenuto.memory.threads import Thread
    from tenuto.messages.input import Messages
    from tenuto.messages.stored import Message


class MemoryTwins:
    """The twins of `Memory`'s methods."""

    __slots__ = ()

    def create_thread_sync(
        self,
        *,
        resource_id: str,
        thread_id: str | None = None,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Thread:
        """`create_thread` for code without an event loop; also works inside Jupyter."""
        given: dict[str, Any] = {
            "resource_id": resource_id,
            "thread_id": thread_id,
            "title": title,
            "metadata": metadata,
        }
        return Portal.current().run(cast("Any", self).create_thread(**given))

    def save_thread_sync(
        self,
        thread: Thread,
    ) -> Thread:
        """`save_thread` for code without an event loop; also works inside Jupyter."""
        return Portal.current().run(cast("Any", self).save_thread(thread))

    def get_thread_by_id_sync(
        self,
        *,
        thread_id: str,
        resource_id: str,
    ) -> Thread | None:
        """`get_thread_by_id` for code without an event loop; also works inside Jupyter."""
        given: dict[str, Any] = {
            "thread_id": thread_id,
            "resource_id": resource_id,
        }
        return Portal.current().run(cast("Any", self).get_thread_by_id(**given))

    def update_thread_sync(
        self,
        *,
        thread_id: str,
        resource_id: str,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Thread:
        """`update_thread` for code without an event loop; also works inside Jupyter."""
        given: dict[str, Any] = {
            "thread_id": thread_id,
            "resource_id": resource_id,
            "title": title,
            "metadata": metadata,
        }
        return Portal.current().run(cast("Any", self).update_thread(**given))

    def delete_thread_sync(
        self,
        *,
        thread_id: str,
        resource_id: str,
    ) -> bool:
        """`delete_thread` for code without an event loop; also works inside Jupyter."""
        given: dict[str, Any] = {
            "thread_id": thread_id,
            "resource_id": resource_id,
        }
        return Portal.current().run(cast("Any", self).delete_thread(**given))

    def list_threads_sync(
        self,
        *,
        resource_id: str,
        metadata: Mapping[str, Any] | None = None,
        page: int = 0,
        per_page: int = 100,
        order_by: Literal["created_at", "updated_at"] = "created_at",
        direction: Literal["asc", "desc"] = "desc",
    ) -> Page[Thread]:
        """`list_threads` for code without an event loop; also works inside Jupyter."""
        given: dict[str, Any] = {
            "resource_id": resource_id,
            "metadata": metadata,
            "page": page,
            "per_page": per_page,
            "order_by": order_by,
            "direction": direction,
        }
        return Portal.current().run(cast("Any", self).list_threads(**given))

    def clone_thread_sync(
        self,
        *,
        thread_id: str,
        resource_id: str,
        new_thread_id: str | None = None,
        new_resource_id: str | None = None,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        last_messages: int | None = None,
    ) -> Thread:
        """`clone_thread` for code without an event loop; also works inside Jupyter."""
        given: dict[str, Any] = {
            "thread_id": thread_id,
            "resource_id": resource_id,
            "new_thread_id": new_thread_id,
            "new_resource_id": new_resource_id,
            "title": title,
            "metadata": metadata,
            "last_messages": last_messages,
        }
        return Portal.current().run(cast("Any", self).clone_thread(**given))

    def recall_sync(
        self,
        *,
        thread_id: str,
        resource_id: str,
        last: int | None = None,
        page: int = 0,
        per_page: int | Literal[False] | None = None,
        direction: Literal["asc", "desc"] = "desc",
        created_after: Any = None,
        created_before: Any = None,
        metadata: Mapping[str, Any] | None = None,
        hide_signals: bool = False,
        vector_search_string: str | None = None,
        options: MemoryOptions | None = None,
    ) -> Page[Message]:
        """`recall` for code without an event loop; also works inside Jupyter."""
        given: dict[str, Any] = {
            "thread_id": thread_id,
            "resource_id": resource_id,
            "last": last,
            "page": page,
            "per_page": per_page,
            "direction": direction,
            "created_after": created_after,
            "created_before": created_before,
            "metadata": metadata,
            "hide_signals": hide_signals,
            "vector_search_string": vector_search_string,
            "options": options,
        }
        return Portal.current().run(cast("Any", self).recall(**given))

    def index_messages_sync(
        self,
        *,
        resource_id: str,
        thread_id: str | None = None,
        on_progress: Progress | None = None,
    ) -> int:
        """`index_messages` for code without an event loop; also works inside Jupyter."""
        given: dict[str, Any] = {
            "resource_id": resource_id,
            "thread_id": thread_id,
            "on_progress": on_progress,
        }
        return Portal.current().run(cast("Any", self).index_messages(**given))

    def save_messages_sync(
        self,
        messages: Messages,
        *,
        thread_id: str,
        resource_id: str,
    ) -> tuple[Message, ...]:
        """`save_messages` for code without an event loop; also works inside Jupyter."""
        given: dict[str, Any] = {
            "thread_id": thread_id,
            "resource_id": resource_id,
        }
        return Portal.current().run(cast("Any", self).save_messages(messages, **given))

    def delete_messages_sync(
        self,
        ids: str | Sequence[str],
        *,
        thread_id: str,
        resource_id: str,
    ) -> int:
        """`delete_messages` for code without an event loop; also works inside Jupyter."""
        given: dict[str, Any] = {
            "thread_id": thread_id,
            "resource_id": resource_id,
        }
        return Portal.current().run(cast("Any", self).delete_messages(ids, **given))

    def prune_sync(
        self,
        *,
        thread_id: str,
        resource_id: str,
        keep: int,
    ) -> int:
        """`prune` for code without an event loop; also works inside Jupyter."""
        given: dict[str, Any] = {
            "thread_id": thread_id,
            "resource_id": resource_id,
            "keep": keep,
        }
        return Portal.current().run(cast("Any", self).prune(**given))

    def get_working_memory_sync(
        self,
        *,
        resource_id: str,
        thread_id: str | None = None,
        options: MemoryOptions | None = None,
    ) -> Json:
        """`get_working_memory` for code without an event loop; also works inside Jupyter."""
        given: dict[str, Any] = {
            "resource_id": resource_id,
            "thread_id": thread_id,
            "options": options,
        }
        return Portal.current().run(cast("Any", self).get_working_memory(**given))

    def update_working_memory_sync(
        self,
        working_memory: Json,
        *,
        resource_id: str,
        thread_id: str | None = None,
        options: MemoryOptions | None = None,
    ) -> Json:
        """`update_working_memory` for code without an event loop; also works inside Jupyter."""
        given: dict[str, Any] = {
            "resource_id": resource_id,
            "thread_id": thread_id,
            "options": options,
        }
        return Portal.current().run(cast("Any", self).update_working_memory(working_memory, **given))

    def settled_sync(
        self,
    ) -> None:
        """`settled` for code without an event loop; also works inside Jupyter."""
        return Portal.current().run(cast("Any", self).settled())
