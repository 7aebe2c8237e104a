"""Whatever happens between a task and the driver, a batch gets one answer, and strangers get none."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from patience import PATIENCE_S, wait_for
from penstock.errors import InvalidGoalError
from penstock.model import QueryName
from penstock.model.decision import KeepRatio
from penstock.model.directive import LARGEST_WEIGHT_AT, Directive
from penstock.spark import directives
from penstock.spark.directives import Answer, DirectiveServer, Question, ask, directive_host

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = "127.0.0.1"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - what users may write into spark.driver.bindAddress
SHARED = (HealthCheck.function_scoped_fixture, HealthCheck.too_slow)
"""What Hypothesis is not to look for: fixtures that examples share, and a machine that has much else to do."""

events = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ask twice at once", "lost reply", "restart", "wrong token", "operator"]),
        st.sampled_from(["clicks", "taxi"]),
        st.integers(0, 3),
    ),
    max_size=25,
)


@pytest.fixture(autouse=True)
def forget_silent_servers() -> Iterator[None]:
    """Ports come back, and a test must not find its server in disgrace."""
    directives._silent_until_s.clear()
    yield
    directives._silent_until_s.clear()


@pytest.fixture(autouse=True, scope="module")
def patient_servers() -> Iterator[None]:
    """Far longer than any question takes: only what is lost may be missing, on a machine that stands still as well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(directives, "_READ_WITHIN_S", PATIENCE_S)
        patch.setattr(directives, "_SEND_WITHIN_S", PATIENCE_S)
        yield


@dataclass
class Log:
    """A driver that records what it decides before it answers, and never decides twice; outlives its servers."""

    records: dict[tuple[str, int], Directive] = field(default_factory=dict)
    calls: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, question: Question) -> Answer:
        """What is recorded; another ratio each time that something is to be recorded."""
        with self._lock:
            self.calls += 1
            key = question.query_id, question.batch_id
            if key not in self.records:
                self.records[key] = Directive(question.batch_id, 1.0 / (2.0 + self.calls), 0.01, float(self.calls))
            return Answer(self.records[key], b"costs" if question.operator else None)


class LossyProxy:
    """Passes one connection on, and drops the reply after the server has sent it; later ones it passes whole."""

    def __init__(self, endpoint: str) -> None:
        host, _, port = endpoint.rpartition(":")
        self._target = host, int(port)
        self._listener = socket.create_server((HOST, 0))
        self.endpoint = f"{HOST}:{self._listener.getsockname()[1]}"
        self.replies_dropped = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for is_lost in (True, False):
            with suppress(OSError), ExitStack() as stack:
                client = stack.enter_context(self._listener.accept()[0])
                server = stack.enter_context(socket.create_connection(self._target, PATIENCE_S))
                client.sendall(server.recv(100))
                server.sendall(client.recv(5000))
                reply = server.recv(2**20)
                if is_lost:
                    self.replies_dropped += len(reply) > 0
                else:
                    client.sendall(reply)

    def close(self) -> None:
        """Pass nothing on."""
        self._listener.close()
        self._thread.join(PATIENCE_S)


class Plant:
    """A log, the server before it, and the tasks that ask."""

    def __init__(self) -> None:
        self.log = Log()
        self.server = DirectiveServer(self.log.answer, host=HOST)
        self.heard: dict[tuple[str, int], set[Directive]] = {}

    def restart(self) -> None:
        """Another server, with another port and token, over the same log."""
        self.server.close()
        self.server = DirectiveServer(self.log.answer, host=HOST)

    def ask(self, question: Question, endpoint: str = "") -> None:
        """Ask, and hold the answer against the log at once."""
        answer = ask(endpoint or self.server.endpoint, self.server.token, question, PATIENCE_S)
        assert answer is not None, "a server that is there answers"
        key = question.query_id, question.batch_id
        assert self.log.records[key] == answer.directive, "what is answered is recorded before"
        assert answer.costs == (b"costs" if question.operator else None)
        self.heard.setdefault(key, set()).add(answer.directive)

    def ask_twice_at_once(self, question: Question) -> None:
        """As two guards of one plan do."""
        threads = [threading.Thread(target=self.ask, args=(question,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def lose_reply(self, question: Question) -> None:
        """Ask through a network that loses the first reply."""
        proxy = LossyProxy(self.server.endpoint)
        try:
            self.ask(question, proxy.endpoint)
        finally:
            proxy.close()
        assert proxy.replies_dropped == 1

    def ask_with_wrong_token(self, question: Question) -> None:
        """Nobody is to be asked, and nothing to be heard."""
        calls, rejected = self.log.calls, self.server.rejected
        assert ask(self.server.endpoint, "not the token", question, PATIENCE_S) is None
        assert self.log.calls == calls
        directives._silent_until_s.clear()
        assert wait_for(lambda: self.server.rejected > rejected)


@settings(max_examples=25, deadline=None, suppress_health_check=SHARED)
@given(events)
def test_a_batch_gets_the_same_answer_whatever_happens(found: list[tuple[str, str, int]]) -> None:
    """Retries, restarts, lost replies and two guards at once: one directive for each batch, recorded before."""
    plant = Plant()
    try:
        for event, query_id, batch_id in found:
            question = Question(query_id, f"run of {query_id}", batch_id, "costs" if event == "operator" else None)
            if event == "restart":
                plant.restart()
            elif event == "lost reply":
                plant.lose_reply(question)
            elif event == "ask twice at once":
                plant.ask_twice_at_once(question)
            elif event == "wrong token":
                plant.ask_with_wrong_token(question)
            else:
                plant.ask(question)
    finally:
        plant.server.close()
    assert all(len(answers) == 1 for answers in plant.heard.values())


@settings(max_examples=30, deadline=None, suppress_health_check=SHARED)
@given(st.lists(st.binary(max_size=6000), min_size=1, max_size=4))
def test_garbage_gets_nothing_and_disturbs_nobody(messages: list[bytes]) -> None:
    """Bytes of any kind and length get no reply; others are answered meanwhile and afterwards."""
    log = Log()
    with DirectiveServer(log.answer, host=HOST) as server, ExitStack() as stack:
        host, _, port = server.endpoint.rpartition(":")
        lines = [stack.enter_context(socket.create_connection((host, int(port)), PATIENCE_S)) for _ in messages]
        for line, message in zip(lines, messages, strict=True):
            with suppress(OSError):
                line.sendall(message)
        assert ask(server.endpoint, server.token, Question("q", "r", 1), PATIENCE_S) is not None
        for line in lines:
            with suppress(OSError):
                line.shutdown(socket.SHUT_WR)
            assert len(everything(line)) <= 16, "the number that is drawn for the connection, and not a word more"
        assert ask(server.endpoint, server.token, Question("q", "r", 1), PATIENCE_S) is not None
        assert log.calls == 2
        assert server.rejected == len(messages)


def everything(line: socket.socket) -> bytes:
    """All that comes until the connection ends."""
    found = b""
    with suppress(ConnectionError):
        while part := line.recv(4096):
            found += part
    return found


def drip(line: socket.socket) -> None:
    """Send a byte now and then, for as long as anybody's patience lasts."""
    for _ in range(round(PATIENCE_S / 0.05)):
        line.sendall(b"\0")
        time.sleep(0.05)


def test_slow_and_silent_clients_hold_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that say nothing, or a byte now and then, get no answer and no time, and others wait for none of them."""
    monkeypatch.setattr(directives, "_READ_WITHIN_S", 0.3)
    log = Log()
    with DirectiveServer(log.answer, host=HOST) as server, ExitStack() as stack:
        host, _, port = server.endpoint.rpartition(":")
        lines = [stack.enter_context(socket.create_connection((host, int(port)), PATIENCE_S)) for _ in range(20)]
        # A line that was greeted has its bound: the honest client, which has as long as it likes, comes after them.
        for line in lines:
            line.recv(16)
        monkeypatch.setattr(directives, "_READ_WITHIN_S", PATIENCE_S)
        assert ask(server.endpoint, server.token, Question("q", "r", 1), PATIENCE_S) is not None
        dripping = lines[0]
        # A byte now and then buys no time: the line is cut, however long one goes on.
        with pytest.raises(ConnectionError):
            drip(dripping)
        assert all(everything(line) == b"" for line in lines[1:])
    assert log.calls == 1


def test_more_clients_than_threads_are_all_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A burst of tasks waits its turn; nobody is turned away."""
    monkeypatch.setattr(directives, "_CONNECTIONS", 2)
    log = Log()
    answers: list[Answer | None] = []
    with DirectiveServer(log.answer, host=HOST) as server:
        place, secret = server.endpoint, server.token
        threads = [
            threading.Thread(target=lambda: answers.append(ask(place, secret, Question("q", "r", 1), PATIENCE_S)))
            for _ in range(40)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(answers) == 40
    assert {answer and answer.directive for answer in answers} == {log.records["q", 1]}


def test_one_question_after_another_is_answered_on_the_threads_that_are_there() -> None:
    """A thread that has answered answers again: each would need a connection to the JVM of its own."""
    log, threads = Log(), set()

    def answer(question: Question) -> Answer:
        threads.add(threading.current_thread())
        return log.answer(question)

    with DirectiveServer(answer, host=HOST) as server:
        for batch_id in range(30):
            assert ask(server.endpoint, server.token, Question("q", "r", batch_id), PATIENCE_S) is not None
    assert len(threads) < 10
    assert not any(thread.is_alive() for thread in threads)


def test_a_question_cannot_be_used_again() -> None:
    """What was heard on one connection gets nothing on another."""
    log = Log()
    with DirectiveServer(log.answer, host=HOST) as server:
        host, _, port = server.endpoint.rpartition(":")
        heard: list[bytes] = []
        with socket.create_server((HOST, 0)) as listener:
            endpoint = f"{HOST}:{listener.getsockname()[1]}"
            asking = threading.Thread(target=ask, args=(endpoint, server.token, Question("q", "r", 1), PATIENCE_S))
            asking.start()
            client, _ = listener.accept()
            with client, socket.create_connection((host, int(port)), PATIENCE_S) as real:
                client.sendall(real.recv(16))
                heard.append(client.recv(5000))
        # With the listener its second attempt is gone as well.
        asking.join()
        with socket.create_connection((host, int(port)), PATIENCE_S) as again:
            again.sendall(heard[0])
            again.shutdown(socket.SHUT_WR)
            assert len(everything(again)) <= 16
        assert server.rejected >= 1
    assert log.calls == 0


def test_a_server_that_does_not_know_the_token_is_not_believed() -> None:
    """A program that listens on the port of a stopped driver tells no task what to drop."""
    reply = bytes(32) + Answer(Directive(1, 0.001)).to_bytes()
    sent = 0
    with socket.create_server((HOST, 0)) as listener:
        endpoint, found = f"{HOST}:{listener.getsockname()[1]}", []
        question = Question("q", "r", 1)
        asking = threading.Thread(target=lambda: found.append(ask(endpoint, "token", question, PATIENCE_S)))
        asking.start()
        for _ in range(2):
            client, _ = listener.accept()
            with client:
                client.sendall(bytes(16))
                client.recv(5000)
                client.sendall(len(reply).to_bytes(4, "big") + reply)
                sent += 1
        asking.join()
    assert (sent, found) == (2, [None])


def test_nobody_answers_and_is_asked_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is kept and paid once; after a minute, or for another endpoint, the question is asked again."""
    monkeypatch.setattr(directives, "ASK_AGAIN_AFTER_S", 3600.0)
    with socket.create_server((HOST, 0)) as listener:
        endpoint = f"{HOST}:{listener.getsockname()[1]}"
        assert ask(endpoint, "token", Question("q", "r", 1), 0.4) is None
        assert connections(listener) > 0
        for _ in range(2):
            assert ask(endpoint, "token", Question("q", "r", 1), 0.4) is None
        assert connections(listener) == 0
        monkeypatch.setattr(directives, "ASK_AGAIN_AFTER_S", 0.0)
        directives._silent_until_s[endpoint, "token"] = time.monotonic() - 1.0
        assert ask(endpoint, "token", Question("q", "r", 1), 0.4) is None
        assert connections(listener) > 0


def connections(listener: socket.socket) -> int:
    """How many have connected since the last look."""
    listener.setblocking(False)
    found = 0
    with suppress(BlockingIOError):
        while True:
            listener.accept()[0].close()
            found += 1
    return found


@pytest.mark.parametrize("endpoint", ["", "nowhere", "127.0.0.1:port", "127.0.0.1:99999999", "[::1]:1", "no.such:1"])
def test_asking_never_raises(endpoint: str) -> None:
    """Whatever the endpoint is, a task goes on."""
    assert ask(endpoint, "token", Question("q", "r", 1), 0.2) is None


def test_errors_are_logged_and_the_client_gets_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    """A driver that fails, or answers for another batch, is heard as no answer, and is asked again for the next."""

    def failing(question: Question) -> Answer | None:
        if question.batch_id == 1:
            raise RuntimeError("the disk is full")
        return Answer(Directive(question.batch_id if question.batch_id == 3 else 77)) if question.batch_id > 1 else None

    with DirectiveServer(failing, host=HOST) as server:
        found = [ask(server.endpoint, server.token, Question("q", "r", batch_id), PATIENCE_S) for batch_id in range(4)]
        assert server.questions == 4, "no answer is a reply too: nothing is asked twice"
    assert found == [None, None, None, Answer(Directive(3))]
    assert "the disk is full" in caplog.text
    assert "was given the answer of batch 77" in caplog.text


def test_close_waits_for_nobody_and_leaves_no_thread() -> None:
    """With clients that hold on, and twice."""
    before = threading.active_count()
    server = DirectiveServer(Log().answer, host=HOST)
    host, _, port = server.endpoint.rpartition(":")
    with socket.create_connection((host, int(port)), PATIENCE_S) as line:
        line.recv(16)
        server.close()
        server.close()
    assert wait_for(lambda: threading.active_count() == before)
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((host, int(port)), PATIENCE_S)


class FakeSession:
    """A session of which only the settings matter."""

    def __init__(self, master: str, **conf: str) -> None:
        self.sparkContext = self
        self.master = master
        self._conf = conf

    def getConf(self) -> FakeSession:  # noqa: N802 - Spark's name
        """The settings."""
        return self

    def get(self, name: str) -> str | None:
        """One of them."""
        return self._conf.get(name.rpartition(".")[2])


@pytest.mark.parametrize(
    ("session", "host"),
    [
        (FakeSession("local[2]", host="10.0.0.7"), HOST),
        (FakeSession("local-cluster[2,1,1024]", host="10.0.0.7"), HOST),
        (FakeSession("spark://here:7077", host="127.0.0.1", bindAddress=EVERYWHERE), HOST),
        (FakeSession("spark://here:7077", host="10.0.0.7"), "10.0.0.7"),
        (FakeSession("k8s://there", host="driver-svc", bindAddress="10.0.0.9"), "10.0.0.9"),
    ],
)
def test_the_server_listens_where_tasks_are(session: FakeSession, host: str) -> None:
    """On loopback only, unless tasks run elsewhere; then as Spark's own server does."""
    assert directive_host(session) == host  # type: ignore[arg-type]


def test_a_server_for_a_session_is_reached_by_the_driver_s_name() -> None:
    """The address to listen on is not always the one under which others know it."""
    session = FakeSession("spark://here:7077", host="driver.example", bindAddress=EVERYWHERE)
    with DirectiveServer.for_session(session, Log().answer) as server:  # type: ignore[arg-type]
        name, _, port = server.endpoint.rpartition(":")
        assert name == "driver.example"
        assert ask(f"{HOST}:{port}", server.token, Question("q", "r", 1), PATIENCE_S) is not None


numbers = st.floats(allow_nan=False, allow_infinity=False)
directives_of = st.builds(
    Directive, st.integers(0, 2**62), st.floats(1e-300, 1e300), st.floats(0, 1), st.none() | numbers
)


@given(directives_of, st.none() | st.binary(max_size=100))
@example(Directive(0, 0.5, 1.0, 0.0), None)  # a floor above the ratio: late rows stay, others are dropped
def test_what_is_sent_is_what_is_read(directive: Directive, costs: bytes | None) -> None:
    """Directives, answers and questions come back as they went, to the last bit."""
    assert Directive.from_json(directive.to_json()) == directive
    assert Answer.from_bytes(Answer(directive, costs).to_bytes()) == Answer(directive, costs)
    decision = KeepRatio(
        query=QueryName("q"), cause="c", reason="r", batch_id=directive.batch_id, keep_ratio=directive.keep_ratio,
        keep_floor=directive.keep_floor, late_before_s=directive.late_before_s,
    )  # fmt: skip
    assert Directive.from_decision(decision) == directive
    array = directive.to_array(answered=True)
    assert array[:2] == [directive.keep_ratio, directive.keep_floor]
    assert array[3] == 1.0
    # A batch that drops rows is in its own history, for every window that is open.
    assert (array[LARGEST_WEIGHT_AT] > 1.0) == (directive.least_ratio < 1.0)


@given(st.text(), st.text(), st.integers(0, 2**62), st.none() | st.text())
def test_questions_come_back_as_they_went(query_id: str, run_id: str, batch_id: int, operator: str | None) -> None:
    """Names of any letters survive."""
    question = Question(query_id, run_id, batch_id, operator)
    assert Question.from_bytes(question.to_bytes()) == question


@pytest.mark.parametrize(
    "values", [{"keep_ratio": 0.0}, {"keep_ratio": float("nan")}, {"keep_floor": 1.5}, {"late_before_s": float("inf")}]
)
def test_a_directive_that_means_nothing_is_refused(values: dict[str, float]) -> None:
    """A row kept with probability zero has no weight, and a moment must be one."""
    with pytest.raises(InvalidGoalError):
        Directive(1, **values)
