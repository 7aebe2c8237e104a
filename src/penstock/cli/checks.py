"""What a machine must have before Spark and Penstock can work on it.

A check is a function from :class:`Surroundings` to a :class:`CheckResult`. ``penstock doctor`` runs all of
:data:`checks`, in order; another part of Penstock adds its own with ``checks.append``.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.machine import java_major, java_version
from penstock.extras import SPARK_REMEDY, is_supported_spark, spark_version
from penstock.process.java import java_command

if TYPE_CHECKING:
    from collections.abc import Mapping

MINIMUM_JAVA = 17
# A driver's heap is 1 GiB unless told otherwise; the rest is for the JVM itself and the Python workers.
NEEDED_MEMORY_BYTES = 3 * 2**29
NEEDED_DISK_BYTES = 2**29
_MEMORY_LIMIT_FILE = Path("/sys/fs/cgroup/memory.max")
_ANSWER_WITHIN_S = 20.0
_SPARK_WITHIN_S = 90.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the checks look at, apart from the machine itself."""

    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    checkpoint_directory: Path = field(default_factory=lambda: Path(tempfile.gettempdir()))


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check found; ``remedy`` is empty where all is well."""

    name: str
    found: str
    remedy: str = ""

    @property
    def passed(self) -> bool:
        """Whether nothing needs to be done."""
        return not self.remedy


Check = Callable[[Surroundings], CheckResult]


def check_java(surroundings: Surroundings) -> CheckResult:
    """Look for a Java that this Spark runs on."""
    command, version = java_command(surroundings.environment), java_version(surroundings.environment)
    remedy = f"install openjdk-17-jre-headless, or set JAVA_HOME to a Java {MINIMUM_JAVA} or later"
    if command is None or version is None:
        home = surroundings.environment.get("JAVA_HOME")
        return CheckResult("java", f"no Java in JAVA_HOME={home}" if home else "no Java on PATH", remedy)
    found = f"{version} at {command}"
    return CheckResult("java", found, "" if java_major(version) >= MINIMUM_JAVA else remedy)


def check_spark(_: Surroundings) -> CheckResult:
    """Compare the installed PySpark with the versions that Penstock knows."""
    version = spark_version()
    if version is None:
        return CheckResult("spark", "PySpark is not installed", SPARK_REMEDY)
    return CheckResult("spark", f"PySpark {version}", "" if is_supported_spark(version) else SPARK_REMEDY)


def check_executor_python(surroundings: Surroundings) -> CheckResult:
    """Ask the interpreter that executors would start whether it is this one.

    The paths say little: a virtual environment's interpreter is a link to the system's, with other packages.
    """
    command = surroundings.environment.get("PYSPARK_PYTHON") or "python3"
    origin = "PYSPARK_PYTHON" if surroundings.environment.get("PYSPARK_PYTHON") else "PYSPARK_PYTHON is not set"
    path = shutil.which(command, path=surroundings.environment.get("PATH"))
    prefix = _prefix_of(path) if path else None
    found = f"{path or command} ({origin})"
    same = prefix is not None and Path(prefix).resolve() == Path(sys.prefix).resolve()
    return CheckResult("executor python", found, "" if same else f"export PYSPARK_PYTHON={sys.executable}")


def check_memory(_: Surroundings) -> CheckResult:
    """Compare the free memory with what one small driver takes."""
    import psutil  # noqa: PLC0415 - only this check needs it

    free_bytes = int(psutil.virtual_memory().available)
    if _MEMORY_LIMIT_FILE.is_file():
        # Inside a container the machine's free memory is not ours to take.
        limit = _MEMORY_LIMIT_FILE.read_text(encoding="ascii").strip()
        free_bytes = min(free_bytes, int(limit)) if limit.isdigit() else free_bytes
    remedy = f"free memory until {_gib(NEEDED_MEMORY_BYTES)} is free, or set a smaller spark.driver.memory"
    return CheckResult("memory", f"{_gib(free_bytes)} free", "" if free_bytes >= NEEDED_MEMORY_BYTES else remedy)


def check_loopback(_: Surroundings) -> CheckResult:
    """Open a port on the loopback interface and reach it, as driver, executors and Python workers do."""
    remedy = "allow programs to bind and connect to ports of 127.0.0.1 (firewall or sandbox rules)"
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            with socket.create_connection(("127.0.0.1", port), timeout=_ANSWER_WITHIN_S):
                return CheckResult("loopback", f"port {port} of 127.0.0.1 bound and reached")
    except OSError as error:
        return CheckResult("loopback", f"no port of 127.0.0.1 to be had ({error})", remedy)


def check_directives(_: Surroundings) -> CheckResult:
    """Start the server that batches ask for their keep ratio, ask it once, and say which way keep ratios go.

    Executors on other machines must reach it as well, at the driver's address; whether they do, only they can tell.
    """
    from penstock.model.directive import Directive  # noqa: PLC0415 - only this check needs it
    from penstock.spark.directives import LOOPBACK, Answer, DirectiveServer, Question, ask  # noqa: PLC0415 - as above

    remedy = (
        "allow programs to bind and connect to free ports of the driver's address (firewall or sandbox rules); until "
        "then keep ratios go by the property channel, a batch late"
    )
    try:
        with DirectiveServer(lambda question: Answer(Directive(question.batch_id)), host=LOOPBACK) as server:
            began_s = time.perf_counter()
            answer = ask(server.endpoint, server.token, Question("doctor", "doctor", 0), _ANSWER_WITHIN_S)
            took_ms = 1000.0 * (time.perf_counter() - began_s)
    except OSError as error:
        return CheckResult("directives", f"property channel: no port to listen on ({error})", remedy)
    if answer is None:
        return CheckResult("directives", f"property channel: {server.endpoint} does not answer", remedy)
    return CheckResult("directives", f"asks the driver: {server.endpoint} answered in {took_ms:.1f} ms")


def check_state_locality(surroundings: Surroundings) -> CheckResult:
    """Look into spark-defaults.conf for the wait that keeps tasks of stateful queries on old executors."""
    from penstock.spark.state_locality import LOCALITY_KEY, why_state_stays  # noqa: PLC0415 - only this check needs it

    name = "state locality"
    folder = surroundings.environment.get("SPARK_CONF_DIR")
    if not folder and surroundings.environment.get("SPARK_HOME"):
        folder = str(Path(surroundings.environment["SPARK_HOME"], "conf"))
    file = Path(folder, "spark-defaults.conf") if folder else None
    if file is None or not file.is_file():
        return CheckResult(name, f"no spark-defaults.conf; engines of Penstock set {LOCALITY_KEY} themselves")
    told = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        words = line.replace("=", " ", 1).split(None, 1)
        if len(words) > 1 and not line.lstrip().startswith("#"):
            told[words[0]] = words[1].strip()
    stays = why_state_stays(told.get(LOCALITY_KEY))
    found = f"{LOCALITY_KEY} = {told.get(LOCALITY_KEY, '3s (default)')} in {file}"
    return CheckResult(name, found, "" if stays is None else f"put '{LOCALITY_KEY} 0s' into {file}: {stays}")


def check_host_name(surroundings: Surroundings) -> CheckResult:
    """Resolve the host's own name: Spark does so when it starts, and dies when it cannot."""
    told = surroundings.environment.get("SPARK_LOCAL_IP")
    if told:
        return CheckResult("host name", f"SPARK_LOCAL_IP={told}")
    name = socket.gethostname()
    try:
        return CheckResult("host name", f"{name} is {socket.gethostbyname(name)}")
    except OSError as error:
        return CheckResult("host name", f"{name} has no address ({error})", "export SPARK_LOCAL_IP=127.0.0.1")


def check_checkpoint_directory(surroundings: Surroundings) -> CheckResult:
    """Write, sync and rename a file, as a checkpoint does, and look at the free space."""
    directory = surroundings.checkpoint_directory
    remedy = f"make {directory} writable with {_gib(NEEDED_DISK_BYTES)} free, or name another with --checkpoint"
    try:
        with tempfile.TemporaryDirectory(dir=directory) as place:
            written = Path(place, "offsets.tmp")
            with written.open("wb") as file:
                file.write(b"0")
                os.fsync(file.fileno())
            written.rename(Path(place, "offsets"))
        free_bytes = shutil.disk_usage(directory).free
    except OSError as error:
        return CheckResult("checkpoints", f"{directory}: {error.strerror or error}", remedy)
    found = f"{directory} is writable, {_gib(free_bytes)} free"
    return CheckResult("checkpoints", found, "" if free_bytes >= NEEDED_DISK_BYTES else remedy)


def check_private_members(_: Surroundings) -> CheckResult:
    """Start Spark and look for the members that are not public API but that Penstock acts through."""
    answer = subprocess.run(
        [sys.executable, "-m", "penstock.apps.probe"],
        capture_output=True, text=True, timeout=_SPARK_WITHIN_S, check=False,
    )  # fmt: skip
    if answer.returncode != 0:
        words = answer.stderr.strip().splitlines() or ["no word why"]
        return CheckResult("spark members", f"Spark does not start: {words[-1]}", "mend what the other checks name")
    return members_result(json.loads(answer.stdout.splitlines()[-1]))


def members_result(missing: Mapping[str, str]) -> CheckResult:
    """What is off when some private members of Spark are missing.

    Examples
    --------
    >>> members_result({"read limits of running queries": "Spark 9.9 has no uniqueSources"}).found
    'read limits of running queries: off, Spark 9.9 has no uniqueSources'
    """
    if not missing:
        return CheckResult("spark members", "all that Penstock acts through are there")
    found = "; ".join(f"{ability}: off, {reason}" for ability, reason in missing.items())
    return CheckResult("spark members", found, f"{SPARK_REMEDY}, or go on without these")


checks: list[Check] = [
    check_java,
    check_spark,
    check_executor_python,
    check_memory,
    check_loopback,
    check_directives,
    check_host_name,
    check_state_locality,
    check_checkpoint_directory,
    check_private_members,
]
"""What ``penstock doctor`` runs, in order; append to it to add a check."""


def run_check(check: Check, surroundings: Surroundings) -> CheckResult:
    """Run one check; one that breaks is a failure of its own and does not hide the others."""
    try:
        return check(surroundings)
    except Exception as error:  # noqa: BLE001 - a check added from elsewhere may raise anything
        name = getattr(check, "__name__", repr(check)).removeprefix("check_").replace("_", " ")
        found = f"the check itself failed: {type(error).__name__}: {error}"
        return CheckResult(name, found, "report this with the output of 'penstock version'")


def _prefix_of(interpreter: str) -> str | None:
    try:
        answer = subprocess.run(
            [interpreter, "-c", "import sys; print(sys.prefix)"],
            capture_output=True, text=True, timeout=_ANSWER_WITHIN_S, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()


def _gib(count_bytes: int) -> str:
    return f"{count_bytes / 2**30:.1f} GiB"
