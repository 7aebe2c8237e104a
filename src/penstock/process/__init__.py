"""Programs that run beside Penstock: Java, daemons that are started, remembered and ended, free ports."""
