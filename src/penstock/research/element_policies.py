"""What elements and engines of a simulated graph go by: ACES as it runs here, as it was published, and its rivals."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Sending(IntEnum):
    """When an element sends the rows that it has made.

    ``AT_ONCE``
        Whatever the readers' buffers hold; rows for a full buffer are lost.
    ``ROOM_WITH_ALL``
        Min-flow: while no reader's buffer is full.
    ``ROOM_WITH_SOME``
        Max-flow as published: as soon as one reader has room, and the others lose the row.
    ``WORTH_IT``
        Max-flow by prices: to each reader as soon as it has room. The element goes on without those that are full when
        what they lose is worth no more than what the others gain
        (:func:`~penstock.research.element_rules.may_go_on`).
    """

    AT_ONCE = 0
    ROOM_WITH_ALL = 1
    ROOM_WITH_SOME = 2
    WORTH_IT = 3


class Ranking(IntEnum):
    """Whose row a free core takes next, always among those that may run.

    ``TOKENS``
        The element with most tokens.
    ``SHARES``
        As published: cores of a step go out in proportion to buffers, within tokens and Eq. 8.
    ``PRESSURE``
        The element whose rows are furthest ahead of its readers', by their worth and the rate at which they would go
        (:func:`~penstock.research.element_rules.preference`).
    """

    TOKENS = 0
    SHARES = 1
    PRESSURE = 2


class Policy(StrEnum):
    """Policies by name.

    ``ACES``
        The project's own: Eq. 7 and 8 with buffers nearly full, max-flow by prices, cores by pressure.
    ``ACES_AS_PUBLISHED``
        The paper's: Eq. 7 and 8, max-flow that sends when its fastest reader has room, cores of each step in proportion
        to buffers, within tokens.
    ``UDP``
        Send whatever the readers' buffers hold; rows for a full buffer are lost.
    ``LOCK_STEP``, ``LOCK_STEP_SLEEPS_10MS``, ``LOCK_STEP_SLEEPS_20MS``
        Min-flow: send when no reader's buffer is full, else sleep, and the core goes to the others. It wakes at the
        very moment at which there is room, or looks again every 10 or 20 ms.
    ``LOCK_STEP_BY_PRESSURE``
        Min-flow that wakes at once, with the cores by pressure as under ACES.
    ``BACKPRESSURE``
        As in Flink: min-flow as above, cores shared equally, since nobody plans targets.
    ``STATIC_LIMIT``
        As in Spark with ``maxOffsetsPerTrigger``: the ingress reads at most a fixed rate, topics in between hold
        everything, cores are shared equally.

    Those with targets (all but the last two) take them from the same allocation, and all of them give a core that one
    element cannot use to another one of its engine.
    """

    ACES = "aces"
    ACES_AS_PUBLISHED = "aces_as_published"
    UDP = "udp"
    LOCK_STEP = "lock_step"
    LOCK_STEP_SLEEPS_10MS = "lock_step_sleeps_10ms"
    LOCK_STEP_SLEEPS_20MS = "lock_step_sleeps_20ms"
    LOCK_STEP_BY_PRESSURE = "lock_step_by_pressure"
    BACKPRESSURE = "backpressure"
    STATIC_LIMIT = "static_limit"

    @property
    def rules(self) -> PolicyRules:
        """What the policy is made of."""
        return _RULES[self]


@dataclass(frozen=True, slots=True)
class PolicyRules:
    """One policy.

    Parameters
    ----------
    sending, ranking
        When rows go out, and whose row is next.
    target_share
        ``b_0`` as a share of the buffer.
    sleep_s
        How long an element that may not send sleeps before it looks again; zero to be woken.
    has_flow_control
        Whether intake follows Eq. 7 and output Eq. 8.
    has_static_limit
        Whether the ingress reads at most a fixed rate into topics without end.
    has_targets
        Whether cores follow tier one; equal parts otherwise.
    """

    sending: Sending
    ranking: Ranking = Ranking.TOKENS
    target_share: float = 0.5
    sleep_s: float = 0.0
    has_flow_control: bool = False
    has_static_limit: bool = False
    has_targets: bool = True


_RULES = {
    Policy.ACES: PolicyRules(Sending.WORTH_IT, Ranking.PRESSURE, target_share=0.9, has_flow_control=True),
    Policy.ACES_AS_PUBLISHED: PolicyRules(Sending.ROOM_WITH_SOME, Ranking.SHARES, has_flow_control=True),
    Policy.UDP: PolicyRules(Sending.AT_ONCE),
    Policy.LOCK_STEP: PolicyRules(Sending.ROOM_WITH_ALL),
    Policy.LOCK_STEP_SLEEPS_10MS: PolicyRules(Sending.ROOM_WITH_ALL, sleep_s=0.010),
    Policy.LOCK_STEP_SLEEPS_20MS: PolicyRules(Sending.ROOM_WITH_ALL, sleep_s=0.020),
    Policy.LOCK_STEP_BY_PRESSURE: PolicyRules(Sending.ROOM_WITH_ALL, Ranking.PRESSURE),
    Policy.BACKPRESSURE: PolicyRules(Sending.ROOM_WITH_ALL, has_targets=False),
    Policy.STATIC_LIMIT: PolicyRules(Sending.AT_ONCE, has_static_limit=True, has_targets=False),
}
