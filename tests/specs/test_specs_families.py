"""The vocabulary says what the other versions need; only their emitters are not written yet.

Each fragment is a few real facts of one version: enough to show every construct it depends on.
"""

import pytest

from specs.codegen.emit_codes import emit_codes
from specs.codegen.emit_packed import emit_packed
from specs.codegen.emit_tables import emit_geometry
from specs.codegen.ir import NoEmitter, SpecError
from specs.codegen.layouts import gather
from specs.codegen.load import parse

COMMAND_FRAMES = """
<protocol name="0.8a2" family="command-frames" header="8001">
  <framing size-counts="rest" end="206">
    <head>
      <part name="size" width="2" escape="0xffff" escape-width="4"/><part name="type" width="1"/>
    </head>
  </framing>
  <types>
    <type name="bit" kind="bit"/><type name="octet" kind="unsigned" width="1"/>
    <type name="short" kind="unsigned" width="2"/><type name="long" kind="unsigned" width="4"/>
    <type name="shortstr" kind="text" length="1"/><type name="table" kind="table" length="2"/>
  </types>
  <class name="connection">
    <command name="ping" number="14"><field name="respond" type="bit"/></command>
  </class>
  <class name="handle">
    <properties presence="none">
      <field name="body-size" type="long"/><field name="persistent" type="bit"/>
      <field name="headers" type="table"/>
    </properties>
    <command name="send" number="33" from="client" content="yes">
      <field name="handle-id" type="short"/><field name="fragment-size" type="long"/>
    </command>
  </class>
</protocol>
"""

FIRST_DRAFT = """
<protocol name="0.9a0" family="methods" header="414d515001010009" major="0" minor="9">
  <framing size-counts="body">
    <head>
      <part name="type" width="1"/><part name="channel" width="1"/><part name="size" width="2"/>
    </head>
    <identity>
      <part name="class" width="1"/><part name="method" width="1"/>
      <part name="reserved" width="1" value="0"/><part name="flags" width="1"/>
      <part name="synchtag" width="4"/>
    </identity>
    <content-header>
      <part name="class" width="1"/><part name="weight" width="1"/>
      <part name="body-size" width="8"/><part name="property-flags" width="2"/>
    </content-header>
    <carrier name="meta" frame-type="9" nested="yes">
      <part name="type" width="1"/><part name="flags" width="1"/>
      <part name="channel" width="2"/><part name="size" width="8"/>
    </carrier>
  </framing>
  <types>
    <type name="short" kind="unsigned" width="2"/><type name="shortstr" kind="text" length="1"/>
    <type name="longstr" kind="octets" length="2"/>
  </types>
  <constants><constant name="frame-heartbeat" kind="frame-type" value="8"/></constants>
  <class name="connection" number="1">
    <method name="secure" number="3" from="server" replies="secure-ok">
      <field name="challenge" type="longstr"/>
    </method>
    <method name="secure-ok" number="4" from="client">
      <field name="response" type="longstr"/>
    </method>
  </class>
</protocol>
"""

SECOND_DRAFT = FIRST_DRAFT.replace('name="0.9a0"', 'name="0.9a6"').replace(
    '<framing size-counts="body">', '<framing size-counts="body-and-end" end="206">'
).replace(
    '<part name="type" width="1"/><part name="channel" width="1"/><part name="size" width="2"/>',
    '<part name="type" width="1"/><part name="unused" width="1" value="0"/>'
    '<part name="channel" width="2"/><part name="size" width="4"/>',
    1,
).replace('length="2"', 'length="4"')  # fmt: skip

TRANSITIONAL = """
<protocol name="0-10-transitional" family="methods" header="414d51500101000a" minor="10">
  <framing size-counts="body" end="206">
    <head>
      <part name="type" width="1"/><part name="channel" width="2"/><part name="size" width="4"/>
    </head>
    <identity><part name="class" width="2"/><part name="method" width="2"/></identity>
    <carrier name="request" frame-type="9">
      <part name="request-id" width="8"/><part name="response-mark" width="8"/>
      <part name="reserved" width="4" value="0"/>
    </carrier>
    <carrier name="response" frame-type="10">
      <part name="response-id" width="8"/><part name="request-id" width="8"/>
      <part name="batch-offset" width="4"/>
    </carrier>
  </framing>
  <types>
    <type name="rfc1982-long" kind="unsigned" width="4"/>
    <type name="rfc1982-long-set" kind="set" length="2"/><type name="bit" kind="bit"/>
  </types>
  <class name="message" number="120">
    <method name="cancel" number="30" from="client" replies="execution.complete"/>
  </class>
  <class name="execution" number="140">
    <method name="complete" number="20" from="client server">
      <field name="cumulative-execution-mark" type="rfc1982-long"/>
      <field name="ranged-execution-set" type="rfc1982-long-set"/>
    </method>
  </class>
</protocol>
"""

FINAL = """
<protocol name="0-10" family="segments" header="414d51500101000a" minor="10" port="5672">
  <framing size-counts="frame" pack="2" command-header="session.header">
    <head>
      <part name="flags" width="1"/><part name="segment-type" width="1"/>
      <part name="size" width="2"/><part name="reserved-1" width="1" value="0"/>
      <part name="track" width="1"/><part name="channel" width="2"/>
      <part name="reserved-2" width="4" value="0"/>
    </head>
    <identity><part name="class" width="1"/><part name="code" width="1"/></identity>
  </framing>
  <types>
    <type name="bit" kind="bit"/><type name="uint8" kind="unsigned" width="1" code="0x02"/>
    <type name="uint16" kind="unsigned" width="2" code="0x12"/>
    <type name="uint64" kind="unsigned" width="8" code="0x32"/>
    <type name="str8" kind="text" length="1" code="0x85"/>
    <type name="vbin16" kind="octets" length="2" code="0x90"/>
    <type name="map" kind="map" length="4" count="4" code="0xa8"/>
    <type name="array" kind="array" length="4" count="4" code="0xaa"/>
    <type name="sequence-set" kind="set" length="2"/>
  </types>
  <class name="session" number="2">
    <struct name="header" size="1" pack="1"><field name="sync" type="bit"/></struct>
    <control name="completed" number="10" from="client server">
      <field name="commands" type="sequence-set"/><field name="timely-reply" type="bit"/>
    </control>
  </class>
  <class name="message" number="4">
    <domain name="accept-mode" type="uint8">
      <value name="explicit" value="0"/><value name="none" value="1"/>
    </domain>
    <struct name="delivery-properties" size="4" code="1" pack="2">
      <field name="discard-unroutable" type="bit"/><field name="ttl" type="uint64"/>
    </struct>
    <struct name="resume-result" size="4" code="5" pack="2">
      <field name="offset" type="uint64"/>
    </struct>
    <command name="transfer" number="1" from="client server" content="yes"
             header="delivery-properties">
      <field name="destination" type="str8"/>
      <field name="accept-mode" type="accept-mode" required="yes" default="none"/>
    </command>
    <command name="resume" number="7" from="client" result="resume-result"/>
  </class>
</protocol>
"""

PERFORMATIVES = """
<protocol name="1.0" family="performatives" header="414d515000010000" major="1" port="5672">
  <header name="sasl" octets="414d515003010000"/>
  <framing size-counts="frame">
    <head>
      <part name="size" width="4"/><part name="data-offset" width="1" unit="4"/>
      <part name="type" width="1"/><part name="channel" width="2"/>
    </head>
  </framing>
  <types>
    <type name="uint" kind="unsigned">
      <encoding name="uint" code="0x70" category="fixed" width="4"/>
      <encoding name="smalluint" code="0x52" category="fixed" width="1"/>
      <encoding name="uint0" code="0x43" category="fixed" width="0"/>
    </type>
    <type name="ubyte" kind="unsigned"/>
    <type name="list" kind="list">
      <encoding name="list8" code="0xc0" category="compound" width="1"/>
    </type>
    <type name="string" kind="text">
      <encoding name="str8-utf8" code="0xa1" category="variable" width="1"/>
    </type>
    <type name="symbol" kind="octets"/>
  </types>
  <restricted name="sender-settle-mode" source="ubyte">
    <value name="unsettled" value="0"/><value name="settled" value="1"/>
  </restricted>
  <restricted name="milliseconds" source="uint"/>
  <described name="open" source="list" code="0x0000000000000010" symbol="amqp:open:list"
             provides="frame" section="2.7.1">
    <field name="container-id" type="string" required="yes"/>
    <field name="idle-time-out" type="milliseconds"/>
    <field name="offered-capabilities" type="symbol" multiple="yes"/>
  </described>
  <described name="attach" source="list" code="0x12" symbol="amqp:attach:list" provides="frame">
    <field name="snd-settle-mode" type="sender-settle-mode" default="mixed"/>
    <field name="source" type="*" requires="source"/>
  </described>
</protocol>
"""

FRAGMENTS = {
    "0.8a2": COMMAND_FRAMES,
    "0-10-transitional": TRANSITIONAL,
    "0-10": FINAL,
    "1.0": PERFORMATIVES,
}


@pytest.mark.parametrize("name", FRAGMENTS)
def test_the_emitter_declines_unknown_layouts(name: str) -> None:
    protocol = parse(FRAGMENTS[name])
    assert protocol.name == name
    with pytest.raises(NoEmitter) as caught:
        gather([protocol])
    assert str(caught.value).startswith(f"{name}: no ")
    if protocol.family != "methods":
        assert str(caught.value) == f"{name}: no emitter for the family '{protocol.family}' yet"


def test_command_frames() -> None:
    protocol = parse(COMMAND_FRAMES)
    size = protocol.framing.head[0]
    assert (size.width, size.escape, size.escape_width) == (2, 0xFFFF, 4)
    assert protocol.framing.size_counts == "rest" and protocol.framing.end == 206
    handle = protocol.classes[1]
    assert handle.presence == "none" and handle.properties is not None
    assert handle.operations[0].content
    with pytest.raises(SpecError, match="duplicate number"):
        parse(COMMAND_FRAMES.replace('number="33"', 'number="14"'))


def test_drafts_have_a_geometry_of_their_own() -> None:
    protocols = {"0.9a0": parse(FIRST_DRAFT), "0.9a6": parse(SECOND_DRAFT)}
    first = "".join(emit_geometry(protocols["0.9a0"])).split()
    assert 'head=Struct(">BBH"),' in first
    assert 'method=Struct(">BBBBI"),' in first and 'content=Struct(">BBQ"),' in first
    assert 'tail=b"",' in first and "longstr=2," in first and "meta=True," in first
    assert 'heartbeat=b"\\x08\\x00\\x00\\x00",' in first
    second = "".join(emit_geometry(protocols["0.9a6"])).split()
    assert 'head=Struct(">BBHI"),' in second and "size_counts_tail=True," in second
    assert 'heartbeat=b"\\x08\\x00\\x00\\x00\\x00\\x00\\x00\\x01\\xce",' in second
    for protocol in protocols.values():
        family = gather([protocol])
        assert family.stems[protocol.name, "connection.secure"] == "connection_secure"


def test_transitional_carriers() -> None:
    request, response = parse(TRANSITIONAL).framing.carriers
    assert (request.name, request.frame_type, response.frame_type) == ("request", 9, 10)
    assert [part.width for part in response.parts] == [8, 8, 4]


def test_final_0_10() -> None:
    protocol = parse(FINAL)
    session, message = protocol.classes
    assert protocol.framing.pack == 2 and protocol.framing.command_header == "session.header"
    assert (session.structs[0].size, session.structs[0].pack) == (1, 1)
    assert [operation.kind for operation in session.operations] == ["control"]
    transfer, resume = message.operations
    assert transfer.header == ("message.delivery-properties",)
    assert resume.result == "message.resume-result"
    assert protocol.wire_type("message.accept-mode").code == 2
    assert [value.name for value in message.domains[0].values] == ["explicit", "none"]


def test_packed_fields() -> None:
    layouts = emit_packed(parse(FINAL), "")
    assert "class MessageTransfer(Record):" in layouts
    assert "def read_session_completed(buf: bytes, at: int)" in layouts
    tables = emit_codes(parse(FINAL), "")
    assert '        "message.transfer",\n        0x0401,\n        False,' in tables
    assert "class AcceptMode:" in tables and "0x0405" in tables


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('family="segments"', 'family="performatives"', "no emitter for the family"),
        ('kind="map"', 'kind="decimal"', "no layout for fields of kind 'decimal' yet"),
        ('<framing size-counts="frame" pack="2"', '<framing size-counts="frame" pack="3"', "3 oc"),
        ('name="resume-result"', 'name="message-transfer"', "two records are called"),
    ],
)
def test_what_the_emitter_of_packed_fields_declines(old: str, new: str, message: str) -> None:
    text = FINAL.replace(old, new).replace('result="resume-result"', "")
    text = text.replace('name="ttl" type="uint64"', 'name="ttl" type="map"')
    with pytest.raises(SpecError, match=message):
        emit_packed(parse(text), "")


def test_performatives() -> None:
    protocol = parse(PERFORMATIVES)
    opening, attach = protocol.structs
    assert protocol.other_headers == {"sasl": b"AMQP\x03\x01\x00\x00"}
    assert (opening.code, opening.symbol, opening.provides) == (16, "amqp:open:list", "frame")
    assert opening.fields[0].required and opening.fields[2].multiple
    assert attach.fields[1].requires == "source"
    assert [e.width for e in protocol.wire_type("milliseconds").encodings] == [4, 1, 0]
    with pytest.raises(SpecError, match="unknown domain or type 'word'"):
        parse(PERFORMATIVES.replace('type="milliseconds"', 'type="word"'))
