"""Where a batch gets its directive: a small server in the driver, and how tasks ask it.

Every guard, and every task of an operator, asks while its batch is planned or run. The driver then knows the
offsets of that very batch. The function behind the server records what it answers before it answers, and gives the same
answer to whoever asks again: a second guard, a task that is run again, a client whose reply was lost, a driver that was
started anew.

Tasks learn where to ask, and the token with which both sides prove who they are (:mod:`penstock.spark.wire`), from
properties of the query's session. The name of the token's property makes Spark hide its value in the event log and the
web interface.
"""

from __future__ import annotations

import json
import logging
import queue
import secrets
import socket
import socketserver
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

from penstock.model.directive import Directive
from penstock.spark.wire import NONCE_BYTES, PROOF_BYTES, QUESTION, REPLY, Line, is_proof, proof

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from pyspark.sql import SparkSession

logger = logging.getLogger("penstock")

ENDPOINT_PROPERTY = "spark.penstock.directives.endpoint"
TOKEN_PROPERTY = "spark.penstock.directives.token"  # noqa: S105 - the name of a property, not a token
FALLBACK_PROPERTY = "spark.penstock.directives.fallback"
TIMEOUT_PROPERTY = "spark.penstock.directives.timeout"

ASK_AGAIN_AFTER_S = 60.0
"""How long a worker process leaves a server alone that did not answer: its bound is paid once a minute at most."""

LOOPBACK = "127.0.0.1"
# A question has three ids and a name. A reply has the costs of an operator beside the directive: 8 KiB today.
_LARGEST_QUESTION_BYTES = 4096
_LARGEST_REPLY_BYTES = 2**20
# More than the tasks of a large stage that ask at once; those beyond wait in the queue of the listening socket.
_CONNECTIONS = 64
_WAITING_CONNECTIONS = 512
# A client gives up after half a second (directive_task.TIMEOUT_S): nobody waits for what comes later than this.
_READ_WITHIN_S = 1.0
_SEND_WITHIN_S = 1.0
_POLL_S = 0.1
_ENDS_WITHIN_S = 2.0


@dataclass(frozen=True, slots=True)
class Question:
    """Which batch asks; ``operator`` is the name of the costs that are wanted too, None for a guard."""

    query_id: str
    run_id: str
    batch_id: int
    operator: str | None = None

    def to_bytes(self) -> bytes:
        """The question as it is sent."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Question:
        """Read what :meth:`to_bytes` wrote; ValueError, TypeError or KeyError for anything else."""
        values: dict[str, Any] = json.loads(content)
        operator = values["operator"]
        return cls(
            query_id=str(values["query_id"]),
            run_id=str(values["run_id"]),
            batch_id=int(values["batch_id"]),
            operator=None if operator is None else str(operator),
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """What the batch is told, and what an operator's rows are known to cost.

    Examples
    --------
    >>> answer = Answer(Directive(7, keep_ratio=0.5), costs=b"cells")
    >>> Answer.from_bytes(answer.to_bytes()) == answer
    True
    """

    directive: Directive
    costs: bytes | None = None

    def to_bytes(self) -> bytes:
        """The answer as it is sent: a line of JSON, and the costs as they are."""
        head = {"directive": self.directive.to_plain(), "has_costs": self.costs is not None}
        return json.dumps(head).encode() + b"\n" + (self.costs or b"")

    @classmethod
    def from_bytes(cls, content: bytes) -> Answer:
        """Read what :meth:`to_bytes` wrote; ValueError, TypeError or KeyError for anything else."""
        line, _, costs = content.partition(b"\n")
        head: dict[str, Any] = json.loads(line)
        return cls(Directive.from_plain(head["directive"]), costs if head["has_costs"] else None)


# The driver's side


class DirectiveServer:
    """Answers the questions of batches on a port of its own, until it is closed.

    Parameters
    ----------
    answer
        Gives the answer for a question, having recorded it; None where there is none, such as for a query that is not
        governed. It is called on several threads at once. Its errors are logged, and the client gets no answer.
    host
        Address to listen on (:func:`directive_host`).
    token
        What clients must know; drawn at random by default.
    advertised_host
        Name under which clients reach ``host``, should it be another.

    Raises
    ------
    OSError
        The address cannot be listened on. Tasks then have their directives by the property channel, a batch late.
    """

    def __init__(
        self,
        answer: Callable[[Question], Answer | None],
        *,
        host: str,
        token: str | None = None,
        advertised_host: str | None = None,
    ) -> None:
        self.token = token or secrets.token_hex(32)
        self._listener = _Listener(host, answer, self.token)
        name = advertised_host or host
        self.endpoint = f"{f'[{name}]' if ':' in name else name}:{self._listener.server_address[1]}"
        self._thread = threading.Thread(
            target=self._listener.serve_forever, args=(_POLL_S,), name="penstock-directives", daemon=True
        )
        self._thread.start()

    @classmethod
    def for_session(cls, spark: SparkSession, answer: Callable[[Question], Answer | None]) -> DirectiveServer:
        """A server that the executors of a session can reach, if they can reach its driver at all."""
        host = directive_host(spark)
        driver = spark.sparkContext.getConf().get("spark.driver.host") or host
        return cls(answer, host=host, advertised_host=host if is_loopback(host) else driver)

    @property
    def questions(self) -> int:
        """Questions with a right proof so far."""
        return self._listener.questions

    @property
    def rejected(self) -> int:
        """Connections without a right proof so far: a wrong token, or no client of ours at all."""
        return self._listener.rejected

    def close(self) -> None:
        """Listen no longer, and end all connections; whoever asks now gets no answer.

        Hold no lock meanwhile that the answering function takes: a question that is being answered is waited for.
        """
        self._listener.end()
        self._thread.join(_ENDS_WITHIN_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Listener(socketserver.TCPServer):
    """A server with a thread for each connection, of which there are so many and no more at a time.

    A thread that is done waits for the next connection: Py4J gives every thread that calls the JVM a connection of its
    own, and a batch would wait until a new one is there.
    """

    request_queue_size = _WAITING_CONNECTIONS
    allow_reuse_address = True

    def __init__(self, host: str, answer: Callable[[Question], Answer | None], token: str) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.answer, self.token = answer, token
        self.questions = self.rejected = 0
        self._slots = threading.BoundedSemaphore(_CONNECTIONS)
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._work: queue.SimpleQueue[tuple[socket.socket, object] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._free_threads = 0
        self._is_ending = False
        super().__init__((host, 0), _Conversation)

    def count(self, *, is_proven: bool) -> None:
        """Count a question, or a connection that did not prove itself."""
        with self._lock:
            self.questions += is_proven
            self.rejected += not is_proven

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as in the base class
        """Have a connection served on a thread of its own, as soon as there is one to be had.

        To turn a connection away would change the answer of an honest task in a burst; the others wait in the queue.
        """
        while not self._slots.acquire(timeout=_POLL_S):
            if self._is_ending:
                self.shutdown_request(request)
                return
        with self._lock:
            self._open.add(request)
            has_thread = self._free_threads > 0
            self._free_threads -= has_thread
        if not has_thread:
            thread = threading.Thread(target=self._serve_on, name="penstock-directive", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._work.put((request, client_address))

    def _serve_on(self) -> None:
        while (work := self._work.get()) is not None:
            self._serve(*work)

    def _serve(self, request: socket.socket, client_address: object) -> None:
        try:
            self.finish_request(request, client_address)
        except OSError as error:
            logger.debug("a question from %s came to nothing: %s", client_address, error)
        except Exception:
            logger.exception("a question from %s could not be answered", client_address)
        finally:
            with self._lock:
                self._open.discard(request)
                self._free_threads += 1
            self.shutdown_request(request)
            self._slots.release()

    def end(self) -> None:
        """Listen no longer, and end what is open."""
        if self._is_ending:
            return
        self._is_ending = True
        self.shutdown()
        self.server_close()
        with self._lock:
            still_open = list(self._open)
        deadline_s = time.monotonic() + _ENDS_WITHIN_S
        for connection in still_open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline_s - time.monotonic()))


class _Conversation(socketserver.BaseRequestHandler):
    """One question and its reply."""

    server: _Listener

    def handle(self) -> None:
        """Answer, if the question is from somebody who knows the token."""
        line = Line(self.request, time.monotonic() + _READ_WITHIN_S)
        own_nonce = secrets.token_bytes(NONCE_BYTES)
        line.send(own_nonce)
        question, nonces = self._question(line, own_nonce)
        if question is None:
            # Not a word to strangers.
            return
        # Nothing to say is said, with a proof: a client that heard nothing would leave the server alone for a minute.
        reply = self._reply(question)
        line.deadline_s = time.monotonic() + _SEND_WITHIN_S
        line.send_message(proof(self.server.token, REPLY, nonces, reply) + reply)

    def _question(self, line: Line, own_nonce: bytes) -> tuple[Question | None, bytes]:
        """The question with both numbers of the connection; None from somebody who does not know the token."""
        is_proven, content, nonces = False, b"", b""
        try:
            message = line.receive_message(_LARGEST_QUESTION_BYTES)
            nonces, found = own_nonce + message[:NONCE_BYTES], message[NONCE_BYTES : NONCE_BYTES + PROOF_BYTES]
            content = message[NONCE_BYTES + PROOF_BYTES :]
            is_proven = is_proof(found, self.server.token, QUESTION, nonces, content)
        finally:
            self.server.count(is_proven=is_proven)
        return Question.from_bytes(content) if is_proven else None, nonces

    def _reply(self, question: Question) -> bytes:
        try:
            answer = self.server.answer(question)
            reply = b"" if answer is None else answer.to_bytes()
        except Exception:
            logger.exception("%s has no answer", question)
            return b""
        if answer is not None and answer.directive.batch_id != question.batch_id:
            logger.error("%s was given the answer of batch %d", question, answer.directive.batch_id)
            return b""
        return reply


def is_loopback(host: str) -> bool:
    """Whether only programs on the same machine reach an address.

    Examples
    --------
    >>> [is_loopback(host) for host in ("localhost", "127.0.1.1", "::1", "10.0.0.7", "driver-svc")]
    [True, True, True, False, False]
    """
    return host == "localhost" or host.startswith("127.") or host == "::1"


def directive_host(spark: SparkSession) -> str:
    """Address of the driver to listen on: loopback where all tasks run on this machine, else as Spark's own server."""
    conf = spark.sparkContext.getConf()
    driver = conf.get("spark.driver.host") or LOOPBACK
    if str(spark.sparkContext.master).startswith("local"):
        return LOOPBACK
    return driver if is_loopback(driver) else conf.get("spark.driver.bindAddress") or driver


def directive_properties(endpoint: str, token: str, fallback: Directive | None) -> list[tuple[str, str]]:
    """Properties that tell the tasks of a query where to ask, and what holds for batches that get no answer.

    Without an endpoint the fallback is all that tasks have: the property channel. Without a fallback such batches keep
    everything. Empty values take back what was sent before.

    Examples
    --------
    >>> for name, value in directive_properties("10.0.0.7:4000", "f00d", Directive(7, keep_ratio=0.5)):
    ...     print(name, value)  # doctest: +ELLIPSIS
    spark.penstock.directives.token f00d
    spark.penstock.directives.endpoint 10.0.0.7:4000
    spark.penstock.directives.fallback {"batch_id": 7, "keep_ratio": 0.5, "keep_floor": 0.0, ...}
    """
    # The token first: a task must not find an endpoint that it cannot prove itself to.
    return [
        (TOKEN_PROPERTY, token),
        (ENDPOINT_PROPERTY, endpoint),
        (FALLBACK_PROPERTY, "" if fallback is None else fallback.to_json()),
    ]


# The tasks' side

_silent_until_s: dict[tuple[str, str], float] = {}
"""Servers that did not answer, by endpoint and token, and when they may be asked again (monotonic clock)."""


def ask(endpoint: str, token: str, question: Question, timeout_s: float) -> Answer | None:
    """The answer for a batch; None where there is none, or none within the time. Never raises.

    A reply that is lost is asked for again on a fresh connection: half of the time is for the first attempt. What was
    answered is recorded, so the second attempt gets the same. After a server did not answer at all, this process leaves
    it alone for :data:`ASK_AGAIN_AFTER_S`.
    """
    server = endpoint, token
    began_s = time.monotonic()
    if began_s < _silent_until_s.get(server, began_s):
        return None
    for part in (0.5, 1.0):
        try:
            return _ask_once(endpoint, token, question, began_s + part * timeout_s)
        except Exception as error:  # noqa: BLE001 - a task must go on, whatever is wrong with the driver
            logger.debug("no answer from %s: %s", endpoint, error)
    _silent_until_s[server] = time.monotonic() + ASK_AGAIN_AFTER_S
    return None


def _ask_once(endpoint: str, token: str, question: Question, deadline_s: float) -> Answer | None:
    host, _, port = endpoint.rpartition(":")
    left_s = max(0.001, deadline_s - time.monotonic())
    with socket.create_connection((host.strip("[]"), int(port)), left_s) as connection:
        line = Line(connection, deadline_s)
        nonces = line.receive(NONCE_BYTES)
        own_nonce, content = secrets.token_bytes(NONCE_BYTES), question.to_bytes()
        nonces += own_nonce
        line.send_message(own_nonce + proof(token, QUESTION, nonces, content) + content)
        message = line.receive_message(_LARGEST_REPLY_BYTES)
    found, reply = message[:PROOF_BYTES], message[PROOF_BYTES:]
    if not is_proof(found, token, REPLY, nonces, reply):
        raise ConnectionError(f"{endpoint} does not know the token")
    return Answer.from_bytes(reply) if reply else None
