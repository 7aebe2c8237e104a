"""Errors as JSON: the kind, and a sentence that names the thing and the remedy."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

from penstock.errors import (
    InvalidGoalError,
    InvalidMomentError,
    InvalidSettingError,
    PenstockError,
    StoreError,
    UnknownQueryError,
)

if TYPE_CHECKING:
    from fastapi import FastAPI, Request
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException
    from starlette.responses import Response

logger = logging.getLogger("penstock")

BAD_REQUEST, FORBIDDEN, NOT_FOUND, CONFLICT, UNPROCESSABLE, UNAVAILABLE = 400, 403, 404, 409, 422, 503
_INTERNAL = 500

_STATUS: tuple[tuple[type[PenstockError], int], ...] = (
    (UnknownQueryError, NOT_FOUND),
    (InvalidGoalError, UNPROCESSABLE),
    (InvalidMomentError, UNPROCESSABLE),
    (InvalidSettingError, UNPROCESSABLE),
    (StoreError, UNAVAILABLE),
)


class Problem(BaseModel):
    """What every answer says that is no success."""

    kind: str = Field(description="Name of the error, for programs.", examples=["UnknownQueryError"])
    error: str = Field(description="The thing, its value and the remedy, for people.")


class StatusError(PenstockError):
    """An error of a request with the status that it is answered with."""

    def __init__(self, status: int, text: str, *, kind: str = "RequestError") -> None:
        self.status = status
        self.kind = kind
        super().__init__(text)


def status_of(error: PenstockError) -> int:
    """The status of an error that a person can mend.

    Examples
    --------
    >>> status_of(UnknownQueryError("clicks", [])), status_of(InvalidGoalError("latency -1"))
    (404, 422)
    """
    if isinstance(error, StatusError):
        return error.status
    # Whatever else cannot be found is a LookupError of its own.
    known = next((status for kind, status in _STATUS if isinstance(error, kind)), CONFLICT)
    return NOT_FOUND if isinstance(error, LookupError) else known


def answer_with_sentences(app: FastAPI) -> None:
    """Have an application answer every error with a :class:`Problem`."""
    from fastapi.exceptions import RequestValidationError  # noqa: PLC0415 - the extra may be absent
    from starlette.exceptions import HTTPException  # noqa: PLC0415 - as above

    app.add_exception_handler(PenstockError, _known)  # type: ignore[arg-type]
    app.add_exception_handler(RequestValidationError, _invalid)  # type: ignore[arg-type]
    app.add_exception_handler(HTTPException, _of_routing)  # type: ignore[arg-type]
    app.add_exception_handler(Exception, _unknown)


def problem(status: int, kind: str, error: str, headers: dict[str, str] | None = None) -> Response:
    """An answer that says what is wrong."""
    from starlette.responses import JSONResponse  # noqa: PLC0415 - the extra may be absent

    return JSONResponse({"kind": kind, "error": error}, status_code=status, headers=headers)


async def _known(_: Request, error: PenstockError) -> Response:
    kind = error.kind if isinstance(error, StatusError) else type(error).__name__
    return problem(status_of(error), kind, str(error))


async def _invalid(_: Request, error: RequestValidationError) -> Response:
    sentences = [
        f"{'.'.join(map(str, found['loc'][1:])) or found['loc'][0]}: {found['msg']}" for found in error.errors()
    ]
    return problem(UNPROCESSABLE, "InvalidRequest", "; ".join(sentences) or "the request cannot be understood")


async def _of_routing(request: Request, error: HTTPException) -> Response:
    said = {
        BAD_REQUEST: "the body cannot be read: send JSON",
        NOT_FOUND: f"there is nothing at {request.url.path}: /docs lists what there is",
        405: f"{request.method} is not for {request.url.path}: /docs lists what is",
    }
    headers = dict(error.headers) if error.headers else None
    return problem(error.status_code, "RequestError", said.get(error.status_code, str(error.detail)), headers)


async def _unknown(request: Request, error: Exception) -> Response:
    logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem(_INTERNAL, "InternalError", "Penstock failed at this request; its log has the error")
