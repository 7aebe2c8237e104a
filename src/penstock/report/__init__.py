"""What a store tells about an application, for people and for machines: status, explanation, log."""

from penstock.report.explain import Explanation, explain
from penstock.report.log import LogFilter, LogView
from penstock.report.status import ApplicationStatus, LiveFigures, QueryStatus, State, application_status

__all__ = [
    "ApplicationStatus",
    "Explanation",
    "LiveFigures",
    "LogFilter",
    "LogView",
    "QueryStatus",
    "State",
    "application_status",
    "explain",
]
