"""The models of messages in the description are what the code reads and writes."""

import json
from collections.abc import Iterable
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from gateway.http import message_models as models
from gateway.http.events.rendering import data_head, data_line
from gateway.http.octets import Octets, chunks_of
from gateway.http.publish import form_reader, shared_forms
from gateway.http.publish.form_reader import read_form
from gateway.http.publish.items import batch_head
from gateway.http.receive.views import message_json
from gateway.http.typed_json import MEMBERS, READERS, BadForm
from gateway.message import DIALECTS, Message, Properties
from tests.http.test_publish_forms import PROPERTIES

NEW: TypeAdapter[Any] = TypeAdapter(models.NewMessage | models.NewFullMessage)


def members(model: type[BaseModel]) -> set[str]:
    """Names as they stand in JSON."""
    return {field.alias or name for name, field in model.model_fields.items()}


# --- what is published ----------------------------------------------------------------------------


def test_models_have_the_members_that_are_read() -> None:
    added = {"ordering_key"}  # read before the form is
    assert members(models.NewMessage) - added == form_reader.SIMPLE.keys() | form_reader.TOLD
    assert members(models.NewFullMessage) - added == form_reader.FULL
    assert members(models.MessageGroup) == form_reader.GROUP.keys()
    assert members(models.MessageHeader) == form_reader.HEADER.keys()
    assert members(models.MessageProperties) == form_reader.PROPERTIES.keys()
    assert members(models.LegacyProperties) == form_reader.LEGACY.keys()
    assert members(models.MessageBody) == {"kind", "json", "text", "base64"}
    assert get_args(models.TypeName) and set(get_args(models.TypeName)) == READERS.keys()
    typed = {"$type", "value"}.union(*MEMBERS.values())
    assert members(models.TypedValue) == typed


VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 255, 256, 2**32 - 1, 2**32, 1.5, "", "a", "a" * 255),
    *("2026-08-21T10:00:00Z", [], ["a"], {}, {"a": 1}, {"$type": "string", "value": "a"}),
    *({"$type": "nonsense", "value": 1}, {"$type": "string", "value": "a", "more": 1}),
    *(
        {"json": 1},
        {"text": "a"},
        {"base64": "AA=="},
        {"kind": "none"},
        {"kind": "odd", "text": ""},
    ),
    *({"json": 1, "text": "a"}, {"text": 1}, {"text": None}, {"base64": 1}, {"json": None}),
)
"""Of each JSON type, with the bounds of numbers."""
LANGUAGES = {
    # Text that has to be something: its schema is that of text.
    *("time", "expires_at", "creation_time", "absolute_expiry_time", "base64"),
    # Any JSON, in which some objects are typed values.
    *("properties", "annotations", "application_properties", "delivery_annotations"),
    *("message_annotations", "footer"),
}


def read(form: dict[str, Any]) -> bool:
    try:
        read_form(form)
    except BadForm:
        return False
    return True


def modelled(form: dict[str, Any]) -> bool:
    try:
        NEW.validate_json(json.dumps(form))
    except ValidationError:
        return False
    return True


def forms() -> Iterable[tuple[str, Any, dict[str, Any]]]:
    """Messages with one member, in each section."""
    for name in [*form_reader.SIMPLE, "body", "exchange", "routing_key", "odd", "view"]:
        for value in VALUES:
            yield name, value, {name: value}
    for name in [*form_reader.GROUP, "odd"]:
        for value in VALUES:
            yield name, value, {"group": {name: value}}
    sections = {
        "header": form_reader.HEADER,
        "properties": form_reader.PROPERTIES,
        "legacy": form_reader.LEGACY,
    }
    for section, readers in sections.items():
        for name in [*readers, "odd"]:
            for value in VALUES:
                yield name, value, {"view": "full", section: {name: value}}
    for name in form_reader.FULL - sections.keys() - {"view"}:
        for value in VALUES:
            yield name, value, {"view": "full", name: value}


def test_models_take_what_is_read_and_nothing_else() -> None:
    wrong, both, neither = [], 0, 0
    for name, value, form in forms():
        taken, told = read(form), modelled(form)
        both += taken and told
        neither += not taken and not told
        if taken and not told:
            wrong.append(f"read, and not in the model: {form}")
        elif told and not taken:
            if name in LANGUAGES and isinstance(value, dict | str):
                continue
            wrong.append(f"in the model, and not read: {form}")
    assert not wrong, "\n".join(wrong)
    assert both > 250 and neither > 700, (both, neither)


@pytest.mark.parametrize(
    "found",
    [
        {"messages": [{}]},
        {"messages": [{}], "atomic": True, "on_error": "stop"},
        {"messages": []},
        {"messages": {}},
        {},
        {"messages": [{}], "atomic": None},
        {"messages": [{}], "on_error": "later"},
        {"messages": [{}], "odd": 1},
    ],
)
def test_a_batch_is_read_as_its_model_has_it(found: Any) -> None:
    try:
        batch_head(found)
        taken = True
    except BadForm:
        taken = False
    try:
        models.MessageBatch.model_validate_json(json.dumps(found))
        told = True
    except ValidationError:
        told = False
    assert taken is told


def test_ordinary_lines_are_messages() -> None:
    """The short way of lines takes no member that the model lacks."""
    assert set(shared_forms.SHARED) <= members(models.NewMessage)


# --- what is received -----------------------------------------------------------------------------

TEXTS = st.sampled_from(["text/plain", "application/json", "application/xml", None])
BODIES = st.one_of(st.binary(max_size=12), st.sampled_from([b'{"a":[1]}', b"17", b"text", b""]))
CLOSED = ConfigDict(extra="forbid")


def closed(model: type[BaseModel]) -> TypeAdapter[Any]:
    """A model that takes no other members, though clients must ignore them."""
    made = type(model.__name__, (model,), {"model_config": CLOSED, "__module__": __name__})
    return TypeAdapter(made)


RECEIVED = closed(models.ReceivedMessage)
RECEIVED_FULL = closed(models.ReceivedFullMessage)
EVENT = closed(models.EventMessage)


def octets(shown: Octets) -> bytes:
    return b"".join(bytes(chunk) for chunk in chunks_of(shown))


def message(properties: Properties, body: bytes, exchange: str = "x", key: str = "k") -> Message:
    dialect = DIALECTS["1.0"]
    header = dialect.write(properties)
    return Message(dialect, header, body, exchange, key, dialect.essentials(header))


@given(PROPERTIES, BODIES, TEXTS, st.integers(1, 3))
def test_received_messages_are_as_modelled(
    properties: Properties, body: bytes, kind: str | None, deliveries: int
) -> None:
    properties.content_type = kind
    if properties.body_kind is not None:
        properties.body_kind = None
    given_ = message(properties, body)
    for payload in ("auto", "base64"):
        RECEIVED.validate_json(octets(message_json(given_, "simple", payload, deliveries)))
    RECEIVED_FULL.validate_json(octets(message_json(given_, "full", "auto", deliveries)))


@given(PROPERTIES, BODIES, TEXTS, st.booleans())
def test_events_are_as_modelled(
    properties: Properties, body: bytes, kind: str | None, again: bool
) -> None:
    properties.content_type = kind
    properties.body_kind = None
    line = octets(data_line(data_head("queue:q"), message(properties, body), again))
    EVENT.validate_json(line.removeprefix(b"data: "))


def test_deaths_are_as_modelled() -> None:
    death = {"queue": "q", "reason": "rejected", "count": 2, "exchange": "", "time": 17}
    death |= {"routing-keys": ["q"], "original-expiration": "100"}
    given_ = message(Properties(application={"x-death": [death]}), b"x")
    shown = octets(message_json(given_, "simple", "auto", 1))
    (found,) = RECEIVED.validate_json(shown).dead_letter
    assert (found.queue, found.count, found.original_expiration) == ("q", 2, "100")


def test_properties_that_cannot_be_read_are_as_modelled() -> None:
    dialect = DIALECTS["0-9-1"]
    good = dialect.write(Properties(subject="a", application={"a": 1}))
    broken = Message(dialect, good[:-3], b"x", "", "k", dialect.essentials(good))
    for view in ("simple", "full"):
        found = RECEIVED.validate_json(octets(message_json(broken, view, "auto", 1)))
        assert found.properties_unreadable is True and found.routing_key == "k"


def test_a_member_that_is_not_modelled_would_be_seen() -> None:
    with pytest.raises(ValidationError):
        RECEIVED.validate_python({"exchange": "", "routing_key": "", "body": {}, "odd": 1})
