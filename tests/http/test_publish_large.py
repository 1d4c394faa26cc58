"""Large documents are published without holding up the loop: nothing large is read at once, and
what comes out is what a small document would have made."""

import asyncio
import base64
import json
from typing import Any

import pytest

from gateway.bodies import Spool
from gateway.http import portions, typed_json
from gateway.http.problems import Problem
from gateway.http.publish import atomic, documents, full_publish, sending, streaming
from gateway.http.publish.addresses import read_address
from gateway.http.publish.items import Item, Maker, as_problem, read_document
from gateway.http.typed_json import BadForm

QUEUE = "/v1/%2F/queues/orders/messages"
MESSAGE = "application/vnd.amqp-gateway.message+json"
BATCH = "application/vnd.amqp-gateway.batch+json"
LINES = "application/vnd.amqp-gateway.messages+ndjson"
EVENT, EVENTS = "application/cloudevents+json", "application/cloudevents-batch+json"
TEXT = 'wörd \U0001f600 "quoted" \\ \n' * 40_000
OCTETS = bytes(range(256)) * 3000 + b"x"
VALUES = {"n": list(range(120_000)), "t": "é"}
ATTRIBUTES = {"id": "7", "source": "/s", "specversion": "1.0", "type": "t"}
LARGE = json.dumps(VALUES).encode()


def dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


EVENT_OCTETS = json.dumps({**ATTRIBUTES, "data": VALUES, "subject": "s"}).encode()
SMALL = {"body": "small", "id": "s"}
PLAIN = TEXT.encode()
ENCODED = {"base64": base64.b64encode(OCTETS).decode()}
MANY = {"messages": [SMALL, {"body": {"text": TEXT}}, SMALL]}
TWO = b" [ " + EVENT_OCTETS + b" , " + dumped(ATTRIBUTES) + b"]"
CASES: list[tuple[str, bytes, list[bytes]]] = [
    (MESSAGE, dumped({"id": "a", "body": {"text": TEXT}}), [PLAIN]),
    (MESSAGE, json.dumps({"body": TEXT}, ensure_ascii=False).encode(), [PLAIN]),
    (MESSAGE, dumped({"body": {"json": VALUES}}), [LARGE]),
    (MESSAGE, dumped({"body": ENCODED}), [OCTETS]),
    (MESSAGE, dumped({"view": "full", "body": {"kind": "data", **ENCODED}}), [OCTETS]),
    (EVENT, EVENT_OCTETS, [EVENT_OCTETS]),
    (BATCH, dumped(MANY), [b"small", PLAIN, b"small"]),
    (EVENTS, TWO, [EVENT_OCTETS, dumped(ATTRIBUTES)]),
    (LINES, dumped(SMALL) + b"\n" + dumped(MANY["messages"][1]) + b"\n", [b"small", PLAIN]),
]


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Each step is a slice of time, and nothing large is read as JSON at once."""
    found: list[float] = []

    class Counting:
        @staticmethod
        async def sleep(seconds: float) -> None:
            found.append(seconds)
            await asyncio.sleep(seconds)

    now = iter(range(10**9))
    monkeypatch.setattr(portions, "clock", lambda: next(now))
    monkeypatch.setattr(portions, "asyncio", Counting)
    loads, read = json.loads, typed_json.loads

    def little(text: Any, **how: Any) -> Any:
        assert len(text) <= documents.WHOLE + 64, "a large document at once"
        return loads(text, **how)

    def small(text: Any) -> Any:
        assert len(text) <= documents.WHOLE + 64, "a large document at once"
        return read(text)

    monkeypatch.setattr(json, "loads", little)
    monkeypatch.setattr(typed_json, "loads", small)
    return found


@pytest.mark.parametrize("case", range(len(CASES)))
async def test_documents(make_rig: Any, pauses: list[float], case: int) -> None:
    kind, document, bodies = CASES[case]
    assert len(document) > 2 * documents.WHOLE
    rig = make_rig()
    rig.queue("orders")
    async with rig.http() as http:
        answer = await http.post(QUEUE, content=document, headers={"content-type": kind})
        assert answer.status_code in (201, 207), answer.text
    assert len(pauses) > len(document) // documents.WHOLE
    got = [rig.fetch("orders") for _ in bodies]
    assert rig.fetch("orders") is None
    for one, body in zip(got, bodies, strict=True):
        assert one is not None
        assert one.body[:] == body
    if kind in (EVENT, EVENTS):
        assert got[0].properties.content_type == "application/cloudevents+json; charset=utf-8"


FORMS = [
    b'{"body":{"text":"\\ud83d\\ude00 \\u00e9 \xc3\xa9 \\" \\\\ \\n abc def ghi jkl mno pqr stu"}}',
    b'{"body":{"text":"lone \\ud83d abc def ghi jkl mno pqr stu vwx yz"}}',
    b'{"body":{"text":7,"kind":"data","x":"abcabcabcabcabcabcabcabcabcabcabcabcabc"}}',
    b'{"body":{"base64":"AAAABBBBCCCCDDDDEEEEFFFFGGGGHHHHIIIIJJJJKKKKLLLLMMM="}}',
    b'{"body":{"base64":"AAAABBBB=CCCDDDDEEEEFFFFGGGGHHHHIIIIJJJJKKKKLLLLMMM="}}',
    b'{"body":{"base64":"AAAABBBBC CCDDDDEEEEFFFFGGGGHHHHIIIIJJJJKKKKLLLLMMM="}}',
    b'{"body":{"base64":"AAAABBBBCCCCDDDDEEEEFFFFGGGGHHHHIIIIJJJJKKKKLLLLMM"}}',
    b'{"body":{"base64":["AAAABBBBCCCCDDDDEEEEFFFFGGGGHHHHIIIIJJJJKKKKLLLLMM"]}}',
    b'{"body":{"json":{"a":[1,2,3],"b":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}},"id":"i"}',
    b'{"body":["AAAABBBBCCCCDDDDEEEEFFFFGGGGHHHHIIIIJJJJKKKKLLLLMM"]}',
    b'{"body":{"text":"AAAABBBBCCCCDDDDEEEEFFFFGGGGHHHHIIIIJJJJKKKK"},"body":"x"}',
    b'{"body":{"text":"AAAABBBBCCCCDDDDEEEEFFFFGGGGHHHHIIIIJJJJKKKK"},"odd":1}',
    b'{"body":{"text":"AAAABBBBCCCCDDDDEEEEFFFFGGGGHHHHIIIIJJJJKKKK"}',
    b'[{"body":{"text":"AAAABBBBCCCCDDDDEEEEFFFFGGGGHHHHIIIIJJJJKKKK"}}]',
    b'{"body":{"text":"AAAABBBBCCCCDDDDEEEEFFFFGGGGHHHHIIIIJJJJKKKK\xff"}}',
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("window", [12, 13, 17])
async def test_as_a_small_one(monkeypatch: pytest.MonkeyPatch, form: bytes, window: int) -> None:
    """Whatever a window ends in: the same message, or the same problem."""
    monkeypatch.setattr(documents, "WHOLE", 30)
    monkeypatch.setattr(documents, "WINDOW", window)
    maker = Maker(read_address("queue:orders"), 0, keyed=True)

    async def made(work: Any) -> Item | Problem:
        try:
            item: Item = await work()
            return item
        except BadForm as error:
            return as_problem(error)
        except Problem as problem:
            return problem

    async def small() -> Item:
        return maker.from_form(read_document(form))

    async def large() -> Item:
        document = await documents.open_document(form, Spool())
        return await document.form(maker, document.all)

    one, other = await made(small), await made(large)
    if isinstance(one, Problem):
        assert isinstance(other, Problem), other
        assert (other.row.status, other.row.kind) == (one.row.status, one.row.kind)
    else:
        assert isinstance(other, Item), other
        assert (other.body[:], other.prepared.header[:9]) == (one.body, one.prepared.header[:9])
        assert other.fingerprint and other.target == one.target


async def test_fields_beside_a_body_are_bounded(make_rig: Any) -> None:
    rig = make_rig()
    rig.queue("orders")
    document = dumped({"properties": {str(n): n for n in range(40_000)}, "body": "x"})
    async with rig.http() as http:
        for kind in (MESSAGE, LINES):
            answer = await http.post(QUEUE, content=document, headers={"content-type": kind})
            told = answer.json()
            problem = told if kind == MESSAGE else told["problem"]
            assert problem["status"] == 413 and "beside its body" in problem["detail"], told
            assert problem["limit_octets"] == documents.WHOLE
    assert rig.fetch("orders") is None


async def test_an_atomic_batch_has_a_limit_of_its_own(make_rig: Any) -> None:
    rig = make_rig(max_batch_items=5000)
    rig.queue("orders")
    async with rig.http() as http:
        for count, status in ((atomic.MOST_ATOMIC + 1, 413), (atomic.MOST_ATOMIC, 201)):
            asked = {"atomic": True, "messages": [{"body": "x"}] * count}
            answer = await http.post(QUEUE, json=asked, headers={"content-type": BATCH})
            assert answer.status_code == status, answer.text
            if status == 413:
                assert answer.json()["limit_messages"] == atomic.MOST_ATOMIC
                assert rig.depth("orders") == (0, 0)
        assert rig.depth("orders")[0] == atomic.MOST_ATOMIC


@pytest.mark.parametrize("kind", [BATCH, LINES])
async def test_many_are_sent_in_several_turns(
    make_rig: Any, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Each look at the clock is a slice."""
    now = iter(range(10**9))
    for where in (sending, streaming):
        monkeypatch.setattr(where, "clock", lambda: next(now))
    rig = make_rig()
    rig.queue("orders")
    messages = [{"body": str(n)} for n in range(200)]
    document = dumped({"messages": messages})
    if kind == LINES:
        document = b"\n".join(map(dumped, messages))
    before = rig.turns
    async with rig.http() as http:
        answer = await http.post(QUEUE, content=document, headers={"content-type": kind})
        assert answer.status_code in (201, 207), answer.text
    assert rig.turns - before >= 200
    assert [rig.fetch("orders").body for _ in messages] == [str(n).encode() for n in range(200)]
    assert vars(full_publish)["WHOLE"] == documents.WHOLE
