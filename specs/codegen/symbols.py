"""Conditions of the performative family: 1.0 has symbols where older versions have numbers."""

from collections.abc import Iterable, Mapping

from specs.codegen import ir
from specs.codegen.ir import SpecError

ARCHETYPE = "error-condition"


def error_symbols(restricted: Iterable[ir.Domain]) -> dict[str, str]:
    """Every error condition and its scope ("" if it may lose anything)."""
    return {
        value.value: domain.scope
        for domain in restricted
        if ARCHETYPE in domain.provides.split()
        for value in domain.values
    }


def symbolic_row(
    given: Mapping[str, str], restricted: Iterable[ir.Domain], where: str
) -> ir.ConditionRow:
    """A <condition> of 1.0, whose symbol must be declared as an error condition."""
    symbol = given.get("symbol", "")
    if symbol not in error_symbols(restricted):
        raise SpecError(
            f"{where}: <condition name={given['name']!r}>: {symbol!r} is no error condition"
        )
    return ir.ConditionRow(
        given["name"], nearest="nearest" in given, symbol=symbol, scope=given.get("scope", "")
    )
