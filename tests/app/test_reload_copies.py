"""No part of a gateway goes on with an old value of a setting that a reload changes."""

import asyncio
import gc
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from gateway.app import Gateway
from gateway.config import Settings
from gateway.config.reload import each_setting
from gateway.config.section import Takes

FEW = {
    "http.max_sources_per_stream", "http.heartbeat_seconds", "http.confirm_seconds",
    "http.retry_after_seconds", "limits.memory_high", "limits.memory_page",
}  # fmt: skip
"""Numbers whose range is small, or that parts have as another number."""
UNITS = (1, 1000)
"""Parts may have seconds as milliseconds."""


def conspicuous(settings: Settings, start: int) -> dict[str, int]:
    """Numbers for all settings that are numbers and that a reload changes: each is unlike any
    other number in the process."""
    found: dict[str, int] = {}
    for number, one in enumerate(each_setting(settings)):
        if one.takes is not Takes.RELOAD or isinstance(one.value, bool | BaseModel):
            continue
        if not isinstance(one.value, int | float) or one.name in FEW:
            continue
        field = type(one.table).model_fields[one.key]
        kind: Any = Annotated[field.annotation, *field.metadata]
        allowed: TypeAdapter[Any] = TypeAdapter(kind)
        for candidate in (1_700_000_000 + start + number, 40_009 + start + number):
            try:
                allowed.validate_python(candidate)
            except ValidationError:
                continue
            found[one.name] = candidate
            break
        else:
            raise AssertionError(f"{one.name} has a small range: it belongs to FEW")
    return found


def nested(names: dict[str, int]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in names.items():
        *tables, key = name.split(".")
        table = made
        for one in tables:
            table = table.setdefault(one, {})
        table[key] = value
    return made


def reachable(root: object) -> Iterator[tuple[object, object]]:
    """All objects that ``root`` leads to, each with one that refers to it."""
    seen, ways = {id(root)}, [root]
    while ways:
        holder = ways.pop()
        if isinstance(holder, types.FunctionType):
            held = [holder.__closure__, holder.__defaults__, holder.__kwdefaults__]
        else:
            held = gc.get_referents(holder)
        for one in held:
            if isinstance(one, types.ModuleType | types.FrameType):
                continue
            if isinstance(one, int | float):
                yield one, holder
            elif id(one) not in seen:
                seen.add(id(one))
                ways.append(one)


def holders(root: object, numbers: dict[str, int]) -> dict[str, list[str]]:
    """The objects that have these numbers, by the names of the settings."""
    wanted = {value * unit: name for name, value in numbers.items() for unit in UNITS}
    found: dict[str, list[str]] = {}
    for value, holder in reachable(root):
        name = wanted.get(value)  # type: ignore[call-overload]
        if name is not None:
            found.setdefault(name, []).append(f"{type(holder).__qualname__}: {holder!r:.200}")
    return found


def test_no_part_keeps_an_old_value(tmp_path: Path) -> None:
    asyncio.run(reloaded(tmp_path))


async def reloaded(tmp_path: Path) -> None:
    fixed: Any = {"data_dir": tmp_path}
    plain = Settings(**fixed)
    first, second = conspicuous(plain, 0), conspicuous(plain, 1000)
    assert len(first) > 60

    def settings(numbers: dict[str, int]) -> Settings:
        made = nested(numbers)
        for table in ("amqp", "http"):
            made[table]["port"] = 0
        return Settings(**fixed, **made)

    async with Gateway(settings(first), lambda: settings(second)) as gateway:
        before = holders(gateway, first)
        assert first.keys() == before.keys()
        assert any(len(found) > 1 for found in before.values())  # copies are seen
        await gateway.reloading.run()
        assert gateway.reloading.last.error == ""
        assert {*gateway.reloading.last.changed} == second.keys()
        assert holders(gateway, first) == {}
        assert holders(gateway, second).keys() == second.keys()
