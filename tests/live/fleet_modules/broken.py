"""A module that does not import."""

import no_such_package_anywhere  # noqa: F401 - the mistake that is tested
