"""The `openai` package with a hand-written tool loop; whole answers are asked for unstreamed, its cheaper way."""

from __future__ import annotations

import json

from openai import AsyncOpenAI
from scenarios import QUESTION, SYSTEM, OnText, OnTool, main

TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    },
}
FIRST = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]


class WithOpenAI:
    async def start(self, base_url: str) -> None:
        self._client = AsyncOpenAI(base_url=base_url, api_key="x", max_retries=0, timeout=120)

    async def stop(self) -> None:
        await self._client.close()

    async def answer(self, model: str) -> str:
        completion = await self._client.chat.completions.create(model=model, messages=FIRST)
        return completion.choices[0].message.content

    async def stream(self, model: str, on_text: OnText) -> None:
        chunks = await self._client.chat.completions.create(
            model=model, messages=FIRST, stream=True, stream_options={"include_usage": True}
        )
        async for chunk in chunks:
            if chunk.choices and (text := chunk.choices[0].delta.content):
                on_text(text)

    async def rounds(self, model: str, on_tool: OnTool) -> str:
        messages = list(FIRST)
        while True:
            completion = await self._client.chat.completions.create(model=model, messages=messages, tools=[TOOL])
            message = completion.choices[0].message
            if not message.tool_calls:
                return message.content
            messages.append(_as_sent(message))
            for call in message.tool_calls:
                given = json.loads(call.function.arguments)
                on_tool()
                answer = {"role": "tool", "tool_call_id": call.id, "content": str(given["a"] + given["b"])}
                messages.append(answer)


def _as_sent(message: object) -> dict[str, object]:
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.function.name, "arguments": call.function.arguments},
        }
        for call in message.tool_calls
    ]
    return {"role": "assistant", "content": message.content, "tool_calls": calls}


if __name__ == "__main__":
    main(WithOpenAI())
