"""What the loader refuses, each as one change to a small file that it accepts."""

import pytest

from specs.codegen.ir import NoEmitter, SpecError
from specs.codegen.layouts import gather
from specs.codegen.load import parse

GOOD = """
<protocol name="x" family="methods" header="414d5150" major="0" minor="9">
  <framing size-counts="body" end="206">
    <head><part name="type" width="1"/></head>
    <identity><part name="class" width="2"/><part name="method" width="2"/></identity>
  </framing>
  <types>
    <type name="bit" kind="bit"/>
    <type name="short" kind="unsigned" width="2"/>
    <type name="shortstr" kind="text" length="1"/>
  </types>
  <domains><domain name="queue-name" type="shortstr"/></domains>
  <constants>
    <constant name="reply-success" kind="reply" value="200"/>
    <constant name="not-found" kind="reply" value="404" scope="channel"/>
  </constants>
  <conditions><condition name="not-found" constant="not-found"/></conditions>
  <class name="queue" number="50">
    <method name="purge" number="30" from="client" replies="purge-ok">
      <field name="queue" type="queue-name"/>
      <field name="nowait" as="no-wait" type="bit"/>
    </method>
    <method name="purge-ok" number="31" from="server"/>
  </class>
</protocol>
"""


def test_the_small_file_is_accepted() -> None:
    protocol = parse(GOOD)
    (queue,) = protocol.classes
    assert [(field.name, field.spelled) for field in queue.operations[0].fields] == [
        ("queue", "queue"),
        ("no-wait", "nowait"),
    ]
    assert protocol.wire_type("queue-name").name == "shortstr"


REFUSED = {
    "unknown domain": ('type="queue-name"', 'type="word"', "unknown domain or type 'word'"),
    "domain of unknown type": ('type="shortstr"', 'type="word"', "unknown domain or type 'word'"),
    "unknown attribute": ('from="server"', 'from="server" x="1"', "unknown attribute 'x'"),
    "missing attribute": (' number="31"', "", "attribute 'number' is missing"),
    "missing sender": (' from="server"', "", "attribute 'from' is missing"),
    "unknown sender": ('from="server"', 'from="broker"', "neither client nor server"),
    "unknown element": ("<domains>", "<domains><word/>", "unknown element <word>"),
    "element out of place": ("<domains>", "<domains><field/>", "unknown element <field>"),
    "text": ("<domains>", "<domains>words", "holds text"),
    "duplicate number": ('number="31"', 'number="30"', "duplicate number '30'"),
    "duplicate number in hexadecimal": ('number="31"', 'number="0x1e"', "duplicate number '0x1e'"),
    "duplicate name": ('"purge-ok" number', '"purge" number', "duplicate name 'purge'"),
    "duplicate field": ('name="nowait"', 'name="queue"', "duplicate name 'queue'"),
    "duplicate type": ('"short" kind', '"bit" kind', "duplicate name 'bit'"),
    "domain called as a type": ('domain name="queue-name"', 'domain name="bit"', "duplicate name"),
    "duplicate constant": ('value="404"', 'value="200"', "duplicate reply 200"),
    "not a number": ('number="31"', 'number="one"', "number='one' is not a number"),
    "missing reply": ('replies="purge-ok"', 'replies="done"', "reply 'done' is missing"),
    "reply from the wrong side": ('from="server"', 'from="client"', "sent by the wrong side"),
    "condition without constant": ('constant="not-found"', 'constant="lost"', "no constant 'lost'"),
    "condition that is no error": (
        'constant="not-found"',
        'constant="reply-success"',
        "'reply-success' is not an error code",
    ),
    "scope of something else": ('kind="reply" value="404"', 'kind="limit" value="404"', "scope"),
    "unknown family": ('family="methods"', 'family="words"', "family='words' is not one of"),
    "unknown kind": ('kind="bit"', 'kind="word"', "kind='word' is not one of"),
    "unknown count": ('size-counts="body"', 'size-counts="all"', "size-counts='all'"),
    "odd header": ('header="414d5150"', 'header="AMQP"', "header is not hexadecimal"),
    "no identity": (
        '<identity><part name="class" width="2"/><part name="method" width="2"/></identity>',
        "",
        "<identity> with class and method is missing",
    ),
    "content without properties": (
        '"purge-ok" number="31"',
        '"purge-ok" content="yes" number="31"',
        "its class has no <properties>",
    ),
    "unknown content header": (
        '"purge-ok" number="31"',
        '"purge-ok" header="word" number="31"',
        "unknown struct 'word'",
    ),
    "not XML": ("</protocol>", "", "not well-formed"),
    "another root": ("protocol", "amqp", "expected <protocol>"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    old, new, message = REFUSED[case]
    assert old in GOOD
    with pytest.raises(SpecError) as caught:
        parse(GOOD.replace(old, new), "x.xml")
    assert message in str(caught.value)
    assert str(caught.value).startswith("x.xml: ")


def test_domains_in_a_circle() -> None:
    text = GOOD.replace(
        "<domains>", '<domains><domain name="a" type="b"/><domain name="b" type="a"/>'
    )
    with pytest.raises(SpecError, match="refers to itself"):
        parse(text)


def test_a_field_keeps_its_kind_in_every_version() -> None:
    later = GOOD.replace('name="x"', 'name="y"').replace(
        'as="no-wait" type="bit"', 'as="no-wait" type="short"'
    )
    with pytest.raises(SpecError, match="another kind in an older version"):
        gather([parse(GOOD), parse(later)])


def test_a_type_without_a_reader_is_refused_by_the_emitter() -> None:
    text = GOOD.replace('name="short" kind="unsigned"', 'name="short" kind="uuid"')
    with pytest.raises(NoEmitter, match="no layout for fields of kind 'uuid'"):
        gather([parse(text.replace('type="bit"/>', 'type="short"/>'))])
