"""Operations, which adapters and the broker exchange: ``core`` for every version, ``topology``,
``links`` for versions with links, ``branches`` for distributed transactions, ``destinations`` for
versions with handles, ``sessions`` that have a name, and ``rules`` in which the versions differ."""

from gateway.operations.branches import *  # noqa: F403
from gateway.operations.core import *  # noqa: F403
from gateway.operations.destinations import *  # noqa: F403
from gateway.operations.links import *  # noqa: F403
from gateway.operations.sessions import *  # noqa: F403
from gateway.operations.topology import *  # noqa: F403
