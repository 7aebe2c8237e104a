"""The service: pages, API and metrics over stores."""
