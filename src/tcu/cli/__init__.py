"""The command line: ``tcu sum``, ``tcu compare``, ``tcu units`` and ``tcu explain``."""

from tcu.cli.app import main as main
