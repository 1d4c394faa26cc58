"""Selector text -> tree (JMS 2.0 §3.8.1.1), by precedence.

Errors that do not depend on a message are reported here: a condition in place of a number, an
ordering of strings, a pattern that ends with its escape character.
"""

from typing import NamedTuple

from gateway.selector.errors import DEEPEST, MOST_TERMS, SelectorError
from gateway.selector.lexer import LARGEST, Token, Word, tokens
from gateway.selector.like import pieces
from gateway.selector.tree import (
    And,
    Between,
    Chain,
    Comparison,
    In,
    IsNull,
    Kind,
    Like,
    Literal,
    Name,
    Negative,
    Node,
    Not,
    Or,
)

OR, AND, NOT, PREDICATE, SUM, PRODUCT, OPERAND = range(1, 8)
"""Precedence, loosest first."""

LEVELS: dict[str | int | float, int] = {
    "OR": OR,
    "AND": AND,
    **dict.fromkeys(["=", "<>", "<", "<=", ">", ">="], PREDICATE),
    **dict.fromkeys(["NOT", "BETWEEN", "IN", "LIKE", "IS"], PREDICATE),
    "+": SUM,
    "-": SUM,
    "*": PRODUCT,
    "/": PRODUCT,
}

FITTING = {
    Kind.TRUTH: (Kind.TRUTH, Kind.ANY),
    Kind.NUMBER: (Kind.NUMBER, Kind.EXACT, Kind.ANY),
    Kind.TEXT: (Kind.TEXT, Kind.ANY),
}


class Part(NamedTuple):
    """A tree, its kind of value, its depth and its position in the text."""

    node: Node
    kind: Kind
    depth: int
    position: int


def parse(text: str) -> Node:
    """The tree of a condition. Raises only ``SelectorError``, for any text."""
    parser = Parser(text)
    part = parser.needed(parser.expression(OR), Kind.TRUTH)
    if parser.token.word is not Word.END:
        raise parser.unexpected("the end")
    return part.node


class Parser:
    """A parser with one token of lookahead. ``nested`` is the depth of recursion in
    ``expression``."""

    def __init__(self, text: str) -> None:
        self.tokens = tokens(text)
        self.token = next(self.tokens)
        self.nested = 0
        self.terms = 0

    # --- tokens ---------------------------------------------------------------------------------

    def step(self) -> Token:
        """Return the current token and advance."""
        token = self.token
        if token.word is not Word.END:
            self.token = next(self.tokens)
        return token

    def at(self, value: str) -> bool:
        """Whether the current token is this sign or keyword."""
        token = self.token
        return token.value == value and token.word in (Word.SIGN, Word.KEYWORD)

    def skip(self, value: str) -> bool:
        """Skip this sign or keyword if it is the current token."""
        found = self.at(value)
        if found:
            self.step()
        return found

    def expect(self, value: str) -> None:
        if not self.skip(value):
            raise self.unexpected(value)

    def unexpected(self, wanted: str) -> SelectorError:
        token = self.token
        found = "the end" if token.word is Word.END else repr(token.value)
        return SelectorError(f"expected {wanted}, found {found}", token.position)

    def needed(self, part: Part, kind: Kind) -> Part:
        """The part, if it can be of this kind. Raises ``SelectorError`` if not."""
        if part.kind not in FITTING[kind]:
            raise SelectorError(f"expected {kind.value}, found {part.kind.value}", part.position)
        return part

    def part(self, node: Node, kind: Kind, position: int, *within: Part) -> Part:
        """A new part composed of others."""
        depth = 1 + max((part.depth for part in within), default=0)
        if depth > DEEPEST:
            raise self.too_deep(position)
        return Part(node, kind, depth, position)

    def too_deep(self, position: int) -> SelectorError:
        return SelectorError(f"nested deeper than {DEEPEST} levels", position)

    # --- operators ------------------------------------------------------------------------------

    def expression(self, least: int) -> Part:
        """An expression of operators of at least this precedence."""
        self.nested += 1
        if self.nested > 2 * DEEPEST:
            raise self.too_deep(self.token.position)
        left = self.prefix(least)
        ceiling = OPERAND
        while self.token.word in (Word.SIGN, Word.KEYWORD):
            level = LEVELS.get(self.token.value, 0)
            if level < least or level > ceiling:
                break
            # Comparisons do not associate: a = b = c is an error.
            ceiling = level - 1 if level == PREDICATE else level
            left = self.predicate(left) if level == PREDICATE else self.chain(left, level)
        self.nested -= 1
        return left

    def chain(self, first: Part, level: int) -> Part:
        """Operators of one precedence, from left to right."""
        kind = Kind.TRUTH if level <= AND else Kind.NUMBER
        parts = [self.needed(first, kind)]
        signs: list[str] = []
        while self.token.word in (Word.SIGN, Word.KEYWORD) and (
            LEVELS.get(self.token.value) == level
        ):
            signs.append(str(self.step().value))
            parts.append(self.needed(self.expression(level + 1), kind))
        nodes = tuple(part.node for part in parts)
        node: Node
        if level == OR:
            node = Or(nodes)
        elif level == AND:
            node = And(nodes)
        else:
            node = Chain(nodes[0], tuple(zip(signs, nodes[1:], strict=True)))
        return self.part(node, kind, first.position, *parts)

    def predicate(self, left: Part) -> Part:
        """A comparison, or one of BETWEEN, IN, LIKE, IS."""
        token = self.step()
        if token.word is Word.SIGN:
            return self.comparison(left, str(token.value))
        if token.value == "IS":
            negated = self.skip("NOT")
            self.expect("NULL")
            return self.part(IsNull(left.node, negated), Kind.TRUTH, left.position, left)
        negated = token.value == "NOT"
        if negated:
            if not (self.at("BETWEEN") or self.at("IN") or self.at("LIKE")):
                raise self.unexpected("BETWEEN, IN or LIKE")
            token = self.step()
        if token.value == "BETWEEN":
            return self.between(left, negated)
        if token.value == "IN":
            return self.among(left, negated)
        return self.like(left, negated)

    def comparison(self, left: Part, sign: str) -> Part:
        right = self.expression(SUM)
        if sign not in ("=", "<>"):
            self.needed(left, Kind.NUMBER)
            self.needed(right, Kind.NUMBER)
        node = Comparison(sign, left.node, right.node)
        return self.part(node, Kind.TRUTH, left.position, left, right)

    def between(self, left: Part, negated: bool) -> Part:
        self.needed(left, Kind.NUMBER)
        low = self.needed(self.expression(SUM), Kind.NUMBER)
        self.expect("AND")
        high = self.needed(self.expression(SUM), Kind.NUMBER)
        node = Between(left.node, low.node, high.node, negated)
        return self.part(node, Kind.TRUTH, left.position, left, low, high)

    def among(self, left: Part, negated: bool) -> Part:
        self.expect("(")
        choices = [self.choice()]
        while self.skip(","):
            choices.append(self.choice())
        self.expect(")")
        node = In(left.node, tuple(choices), negated)
        return self.part(node, Kind.TRUTH, left.position, left)

    def choice(self) -> Literal:
        part = self.prefix(OPERAND)
        if not isinstance(part.node, Literal):
            raise SelectorError("expected a literal", part.position)
        return part.node

    def like(self, left: Part, negated: bool) -> Part:
        self.needed(left, Kind.TEXT)
        position = self.token.position
        pattern, escape = self.text("a pattern"), None
        if self.at("ESCAPE"):
            self.step()
            escape_at = self.token.position
            escape = self.text("an escape character")
            if len(escape) != 1:
                raise SelectorError("expected one escape character", escape_at)
        if pieces(pattern, escape) is None:
            raise SelectorError("a pattern cannot end with its escape character", position)
        node = Like(left.node, pattern, escape, negated)
        return self.part(node, Kind.TRUTH, left.position, left)

    def text(self, wanted: str) -> str:
        if self.token.word is not Word.TEXT:
            raise self.unexpected(wanted)
        return str(self.step().value)

    # --- operands -------------------------------------------------------------------------------

    def prefix(self, least: int) -> Part:
        """An operand with its prefix operators."""
        token = self.token
        if least <= NOT and self.skip("NOT"):
            inner = self.needed(self.expression(NOT), Kind.TRUTH)
            return self.part(Not(inner.node), Kind.TRUTH, token.position, inner)
        if self.skip("("):
            inner = self.expression(OR)
            self.expect(")")
            return inner
        if self.at("+") or self.at("-"):
            return self.signed()
        return self.literal_or_name(LARGEST - 1)

    def signed(self) -> Part:
        """A number with a sign. A sign before a literal belongs to the literal."""
        sign = self.step()
        negative = sign.value == "-"
        if self.token.word in (Word.EXACT, Word.APPROXIMATE):
            part = self.literal_or_name(LARGEST if negative else LARGEST - 1)
        else:
            part = self.needed(self.expression(OPERAND), Kind.NUMBER)
        if not negative:
            return part
        if isinstance(part.node, Literal) and not isinstance(part.node.value, str):
            value = -part.node.value
            if value < LARGEST:
                literal = Literal(part.node.kind, value)
                return self.part(literal, part.kind, sign.position)
        return self.part(Negative(part.node), Kind.NUMBER, sign.position, part)

    def literal_or_name(self, largest: int) -> Part:
        token = self.token
        node: Node
        match token.word, token.value:
            case Word.NAME, str(value):
                node, kind = Name(value), Kind.ANY
            case Word.TEXT, str(value):
                node, kind = Literal(Kind.TEXT, value), Kind.TEXT
            case Word.EXACT, int(value):
                if value > largest:
                    raise SelectorError("number is too large", token.position)
                node, kind = Literal(Kind.EXACT, value), Kind.EXACT
            case Word.APPROXIMATE, float(value):
                node, kind = Literal(Kind.NUMBER, value), Kind.NUMBER
            case Word.KEYWORD, ("TRUE" | "FALSE") as value:
                node, kind = Literal(Kind.TRUTH, value == "TRUE"), Kind.TRUTH
            case _:
                raise self.unexpected("a value")
        self.terms += 1
        if self.terms > MOST_TERMS:
            raise SelectorError(f"more than {MOST_TERMS} names and literals", token.position)
        self.step()
        return self.part(node, kind, token.position)
