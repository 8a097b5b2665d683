"""Stand-ins for the engine and for the native library, and short ways to ask a model."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

from tenuto.messages.turns import AssistantTurn, CallPart, Prompt, ResultPart, Text, ToolTurn, UserTurn
from tenuto.models.local.model import LocalModel
from tenuto.models.local.profiles import PROFILES, Profile
from tenuto.models.ports import ModelRequest, ToolSpec

SMOLLM2 = PROFILES["smollm2"]
CAPABLE = Profile()

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = ToolSpec("get_weather", "The weather of a city", PARAMETERS)
ADD = ToolSpec("add", "Add two numbers", {"type": "object", "properties": {"a": {"type": "number"}}})


def token(text):
    return {"id": "cmpl-1", "created": 1_700_000_000, "choices": [{"text": text, "finish_reason": None}]}


def last(reason="stop", *, prompt=20, output=3, cached=5):
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    return {
        "id": "cmpl-1",
        "created": 1_700_000_000,
        "choices": [{"text": "", "finish_reason": reason}],
        "usage": usage,
    }


def said(*texts, reason="stop"):
    """An engine's whole answer."""
    return [*map(token, texts), last(reason)]


class FakeEngine:
    """Answers with what the test wrote, one list of chunks per generation; an exception in it ends the generation."""

    path = Path("fake.gguf")

    def __init__(self, *answers):
        self.answers = list(answers)
        self.completions = []
        self.sinks = []
        self.asked = asyncio.Event()

    def submit(self, completion, sink):
        self.asked.set()
        self.completions.append(completion)
        self.sinks.append(sink)
        error = None
        for chunk in self.answers.pop(0) if self.answers else ():
            if isinstance(chunk, BaseException):
                error = chunk
            else:
                sink.put(chunk)
        if self.answers is not HELD:
            sink.end(error)


HELD = ()
"""As `answers` of an engine: the test itself fills and ends the sink."""


def held():
    engine = FakeEngine()
    engine.answers = HELD
    return engine


def model_on(engine, profile=SMOLLM2, **options):
    ids = iter(range(1, 100))
    return LocalModel(
        "smollm2",
        lambda: Path("fake.gguf"),
        profile,
        engines=lambda *_: engine,
        new_id=lambda: f"c{next(ids)}",
        **options,
    )


def asked(text="Hi", *turns, **options):
    return ModelRequest(prompt=Prompt((), [UserTurn((Text(text),)), *turns]), **options)


def round_of(result="18 degrees", call_id="x1"):
    """The turns of a call of `get_weather` and its result."""
    call = CallPart(call_id, "get_weather", {"city": "Paris"})
    return AssistantTurn((call,)), ToolTurn((ResultPart(call_id, "get_weather", result),))


async def parts_of(model, request):
    return [part async for batch in model.stream(request) for part in batch]


class FakeServer:
    """The native server: calls back for each token until it is told to stop."""

    listening_address = "http://127.0.0.1:1"

    def __init__(self, params, answer=None):
        self.params = params
        self.answer = answer or (lambda body: said("Hi"))
        self.bodies = []
        self.stopped_after = None

    def handle_completions(self, body, on_chunk):
        self.bodies.append(body)
        for count, chunk in enumerate(self.answer(body), 1):
            if on_chunk(chunk):
                self.stopped_after = count
                return


class FakeBackend:
    """The native library, on `FakeServer`."""

    def __init__(self, answer=None, error=None):
        self.servers = []
        self.answer = answer
        self.error = error

    def CommonParams(self):
        part = SimpleNamespace
        return part(model=part(path=""), cpuparams=part(n_threads=0), cpuparams_batch=part(n_threads=0))

    def Server(self, params):
        if self.error:
            raise self.error
        self.servers.append(FakeServer(params, self.answer))
        return self.servers[-1]

    def json_schema_to_grammar(self, schema):
        return f"grammar of {schema}"
