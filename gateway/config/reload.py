"""Changes of settings while the gateway runs.

All parts of the gateway share one ``Settings``. ``take_over`` puts new values into it, so that a
part that reads a setting when it needs it has nothing to do; parts that derived something from a
setting do that again afterwards.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gateway.config.section import Takes


class Setting(NamedTuple):
    """``name`` as in the documents (``amqp.tls.port``); ``table`` holds its value as ``key``."""

    name: str
    takes: Takes
    table: BaseModel
    key: str

    @property
    def value(self) -> Any:
        return getattr(self.table, self.key)


def taken_by(field: FieldInfo) -> Takes | None:
    """When a change of this setting counts; ``None`` for a table whose settings say that."""
    return next((one for one in field.metadata if isinstance(one, Takes)), None)


def each_setting(table: BaseModel, prefix: str = "") -> Iterator[Setting]:
    """All settings in a table and in its tables."""
    for key, declared in type(table).model_fields.items():
        takes = taken_by(declared)
        if takes is None:
            yield from each_setting(getattr(table, key), f"{prefix}{key}.")
        else:
            yield Setting(prefix + key, takes, table, key)


def take_over(running: BaseModel, given: BaseModel) -> tuple[list[str], list[str]]:
    """Put the values of ``given`` into ``running``, of the settings that can change while the
    gateway runs. Returns the names of those, and of settings whose new value needs a start."""
    changed: list[str] = []
    left: list[str] = []
    for old, new in zip(each_setting(running), each_setting(given), strict=True):
        if old.value == new.value:
            continue
        if old.takes is Takes.START:
            left.append(old.name)
        else:
            setattr(old.table, old.key, new.value)
            changed.append(old.name)
    return changed, left


@dataclass(slots=True)
class LastReload:
    """The last time that settings were read, and the result."""

    at: float = field(default_factory=time.time)
    """Seconds since 1970; of the start, before the first reload."""
    error: str = ""
    """Why the settings of before are kept; "" if the new ones are in use."""
    changed: list[str] = field(default_factory=list)
    """Settings that have a new value."""
    needs_restart: list[str] = field(default_factory=list)
    """Settings whose new value is used from the next start on."""
