"""`python -m evenkeel`: the command line, as images start it."""

from __future__ import annotations

import sys

from evenkeel.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
