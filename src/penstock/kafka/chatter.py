"""What librdkafka says by itself: every connection that fails, every retry.

What matters of it becomes an error. The rest goes to a logger of its own and from there nowhere, unless somebody asks.
"""

from __future__ import annotations

import logging

chatter = logging.getLogger("penstock.kafka.librdkafka")
chatter.addHandler(logging.NullHandler())
# Else Python's logger of last resort would write to standard error, among the one line that a command may write.
chatter.propagate = False
