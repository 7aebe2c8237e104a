"""The service: dashboard, HTTP API, events and metrics over the stores of one or several engines.

It reads stores and reports, and changes goals through whoever governs: the application in this process, or one that
serves beside its store. Modules that need the extra ``serve`` are imported where they are used.
"""

from penstock.serve.engine import Controls, ServedEngine
from penstock.serve.fleet import Fleet

__all__ = ["Controls", "Fleet", "ServedEngine"]
