"""The command line: ``penstock``, one file for each command.

A new command is a function ``command`` in a file of its own and one line in ``_COMMANDS``. It imports Spark, numpy and
the like inside the function, so that ``penstock --help`` stays fast. For whatever the user can mend it raises a
:class:`~penstock.errors.PenstockError`, and :func:`main` turns that into one line. Its docstring is its help; lines
after ``For example:`` are shown as they stand.
"""

from __future__ import annotations

import inspect
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import typer

from penstock.cli import (
    bench,
    calibrate,
    cluster,
    demo,
    doctor,
    down,
    engine,
    explain,
    goal,
    kafka,
    load,
    log,
    repay,
    replay,
    run,
    serve,
    settings,
    size,
    status,
    up,
    version,
)
from penstock.errors import PenstockError
from penstock.log_lines import log_plain_lines
from penstock.report.text import clean
from penstock.research.commands import experiment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["app", "main"]

EXIT_FAILED_CHECK, EXIT_ERROR, EXIT_INTERRUPTED, EXIT_TERMINATED = 1, 2, 130, 143

_COMMANDS: dict[str, Callable[..., None]] = {
    "calibrate": calibrate.command,
    "demo": demo.command,
    "doctor": doctor.command,
    "down": down.command,
    "explain": explain.command,
    "goal": goal.command,
    "load": load.command,
    "log": log.command,
    "repay": repay.command,
    "replay": replay.command,
    "run": run.command,
    "serve": serve.command,
    "settings": settings.command,
    "size": size.command,
    "status": status.command,
    "up": up.command,
    "version": version.command,
}

app = typer.Typer(
    name="penstock",
    add_completion=False,
    pretty_exceptions_enable=False,
    # Plain help reads the same on a terminal, in a pipe and in a log, and needs no time to draw.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def penstock() -> None:
    """Keep PySpark streaming queries inside their goals, and say why each decision was made.

    For example:
      penstock demo               see it work, side by side with plain Spark
      penstock doctor             is this machine ready for Spark?
      penstock status             how is every query doing?
      penstock serve              see all of it in a browser
      penstock log --last 20      what was decided lately, and why?
      penstock explain clicks     why is the query 'clicks' where it is now?
    """


def _help_of(function: Callable[..., Any] | None) -> str:
    # Typer joins lines to paragraphs, unless the paragraph begins with this sign.
    return inspect.cleandoc(getattr(function, "__doc__", None) or "").replace("For example:\n", "\b\nFor example:\n")


app.callback(help=_help_of(penstock))(penstock)
for _name, _command in _COMMANDS.items():
    app.command(_name, help=_help_of(_command))(_command)
for _name, _group, _callback in (
    ("bench", bench.app, bench.usual),
    ("cluster", cluster.app, cluster.cluster),
    ("engine", engine.app, engine.engine),
    ("experiment", experiment.app, experiment.experiment),
    ("kafka", kafka.app, kafka.kafka),
):
    for _member in _group.registered_commands:
        _member.help = _help_of(_member.callback)
    app.add_typer(_group, name=_name, help=_help_of(_callback))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code.

    0 is success, 1 a check that failed, 2 an error that the user can mend, 130 an interruption, 143 a polite kill.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    log_plain_lines()
    if arguments is None:
        signal.signal(signal.SIGTERM, _end)
    try:
        outcome = app(words or ["--help"], prog_name="penstock", standalone_mode=False)
        sys.stdout.flush()
    except PenstockError as error:
        return _complain(str(error))
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "penstock"
        return _complain(f"{error.format_message().rstrip('.')}; see '{command} --help'")
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return _leave_quietly()
    return outcome if isinstance(outcome, int) else 0


def _end(*_: object) -> None:
    # Without this a command that is told to end, by 'timeout' for one, leaves its brokers and clusters running. Being
    # told twice must not cut that short.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(EXIT_TERMINATED)


def _complain(text: str) -> int:
    # A message with line breaks would look like several errors to whoever counts lines; one may name a query, too.
    typer.echo(f"error: {clean(text)}", err=True)
    return EXIT_ERROR


def _leave_quietly() -> int:
    # Without this the interpreter flushes at its end, fails again and says so.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1
