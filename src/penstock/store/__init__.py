"""The action log and the time series: the protocol, a file, and a store in memory."""

from penstock.store.base import Store
from penstock.store.memory import MemoryStore
from penstock.store.retention import forget_old
from penstock.store.sqlite import SqliteStore, open_reader

__all__ = ["MemoryStore", "SqliteStore", "Store", "forget_old", "open_reader"]
