"""The users of a broker as an adapter's authority, without a thread: every answer comes at once."""

from gateway.adapters.contract import Answer
from gateway.broker.access import Access, Verifier, fits


class AtOnce:
    """``anonymous_user``: the user of ANONYMOUS."""

    def __init__(self, access: Access, anonymous_user: str | None = None) -> None:
        self.access = access
        self.anonymous_user = anonymous_user
        self._right: set[tuple[Verifier, str]] = set()

    def password(self, user: str, password: str, answer: Answer) -> None:
        found = self.access.user(user)
        if found is None:
            return answer(False)
        proof = (found.verifier, password)
        if proof not in self._right and fits(*proof):
            self._right.add(proof)
        answer(proof in self._right)

    def scram(self, user: str) -> tuple[bytes, bytes, bytes, int]:
        return self.access.scram(user)

    def proved(self, user: str, right: bool, answer: Answer) -> None:
        answer(right)

    def anonymous(self) -> str | None:
        return self.anonymous_user

    def external(self, subject: str) -> str | None:
        return self.access.external(subject)
