"""`python -m pytest_schedprof`: the command `schedprof`, where scripts are not on the path."""

import sys

from pytest_schedprof.cli.main import main

sys.exit(main())
