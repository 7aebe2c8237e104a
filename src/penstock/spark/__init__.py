"""The side that touches Spark; refuses at once a version of it that it was not tried on."""

from penstock.extras import require_spark

require_spark()
