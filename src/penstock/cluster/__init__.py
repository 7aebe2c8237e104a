"""Engines on clusters: a Standalone cluster for development, settings for YARN and Kubernetes, live scaling."""
