"""Short messages between two processes that share a token, each with a proof that its sender knows the token.

The token itself is never sent. The server begins with a number drawn for this connection, the client adds one of its
own, and the proof of each message is an HMAC-SHA256 over its direction, both numbers and its content. So no message can
be forged, or be used a second time. Contents are not hidden: keep ratios are no secret. Nothing is unpickled.

A message is its length in four bytes, and so many bytes. Whatever is longer than agreed, or not complete at the
deadline of its connection, ends that connection.
"""

from __future__ import annotations

import hmac
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

NONCE_BYTES = 16
PROOF_BYTES = 32
QUESTION, REPLY = b"question", b"reply"
_LENGTH = struct.Struct(">I")


@dataclass(slots=True)
class Line:
    """One connection, with a deadline for all that is sent and received on it (seconds of the monotonic clock).

    A timeout for each call of the socket would not do: a peer that sends a byte now and then would hold a thread for
    ever. All methods raise OSError when the peer is gone, too late, or says too much.
    """

    connection: socket.socket
    deadline_s: float

    def receive(self, size_bytes: int) -> bytes:
        """Exactly so many bytes."""
        found = bytearray()
        while len(found) < size_bytes:
            self._hold_deadline()
            part = self.connection.recv(size_bytes - len(found))
            if not part:
                raise ConnectionError(f"the connection ended after {len(found)} of {size_bytes} bytes")
            found += part
        return bytes(found)

    def send(self, content: bytes) -> None:
        """All of these bytes."""
        self._hold_deadline()
        self.connection.sendall(content)

    def receive_message(self, largest_bytes: int) -> bytes:
        """One message, of no more than so many bytes."""
        (size_bytes,) = _LENGTH.unpack(self.receive(_LENGTH.size))
        if size_bytes > largest_bytes:
            raise ConnectionError(f"a message of {size_bytes} bytes is longer than {largest_bytes}")
        return self.receive(size_bytes)

    def send_message(self, content: bytes) -> None:
        """One message."""
        self.send(_LENGTH.pack(len(content)) + content)

    def _hold_deadline(self) -> None:
        left_s = self.deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the deadline of the connection is over")
        self.connection.settimeout(left_s)


def proof(token: str, direction: bytes, nonces: bytes, content: bytes) -> bytes:
    """What only a holder of the token can write under a message.

    Examples
    --------
    >>> first, second = bytes(32), bytes([1] * 32)
    >>> proof("a", QUESTION, first, b"?") == proof("a", QUESTION, first, b"?")
    True
    >>> others = [("b", QUESTION, first, b"?"), ("a", REPLY, first, b"?"), ("a", QUESTION, second, b"?")]
    >>> any(proof(*other) == proof("a", QUESTION, first, b"?") for other in others)
    False
    """
    return hmac.digest(token.encode(), direction + b"\0" + nonces + content, "sha256")


def is_proof(found: bytes, token: str, direction: bytes, nonces: bytes, content: bytes) -> bool:
    """Whether a proof is right; takes the same time for every wrong one, so that none can be guessed bit by bit."""
    return hmac.compare_digest(found, proof(token, direction, nonces, content))
