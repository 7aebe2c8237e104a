"""An application of the fleet tests."""
