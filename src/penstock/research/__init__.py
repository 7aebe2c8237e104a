"""The experiments of the papers that Penstock is built on: their models, runs, charts and commands.

Nothing outside this package imports it but the command line. It needs ``pip install 'penstock[research]'``.
"""
