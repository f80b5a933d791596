"""`python -m evenkeel.cli.kubectl`: the same as `kubectl evenkeel`, where the script is not installed."""

from __future__ import annotations

import sys

from evenkeel.cli.kubectl.main import main

if __name__ == "__main__":
    sys.exit(main())
