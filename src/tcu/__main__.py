"""``python -m tcu``: the same as the command ``tcu``."""

import sys

from tcu.cli import main

if __name__ == "__main__":
    sys.exit(main())
