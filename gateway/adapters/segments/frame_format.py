"""The header of a frame, and the first octets of frequent ones."""

from struct import Struct

HEAD = Struct(">HHHH4x")
"""Flags and segment type, size with this header, reserved octet and track, channel, reserved. The
last four octets are not looked at, as in the programs of the time."""

HEAD_OCTETS = 12
LARGEST_FRAME = 0xFFFF
COMMAND_TRACK = 1
MOST_TRACKS = 16
"""Four bits. The specification names tracks 0 (controls) and 1 (commands), which all known programs
use. A track orders frames and means nothing else here, so others are read too."""

WHOLE_CONTROL, WHOLE_COMMAND = 0x0F00, 0x0F01
"""Flags and type of an assembly of one frame."""
OPENING_COMMAND, MIDDLE_HEADER, CLOSING_HEADER, CLOSING_BODY = 0x0B01, 0x0302, 0x0702, 0x0703
"""Flags and type of the frames of a command with content, if each segment is one frame."""
