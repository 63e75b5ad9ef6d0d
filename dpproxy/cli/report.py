"""`dpproxy report`: the deployment as the public registry of such deployments describes it."""

from __future__ import annotations

import sys

from dpproxy.deployment.service import BoundConfig
from dpproxy.owner.deployment_report import markdown, plain, report_of
from dpproxy.reporting.tables import print_json


def report(checked: BoundConfig, *, as_json: bool) -> None:
    """Prints the report; what is missing, and what is in force otherwise than the file says, is warned of."""
    made = report_of(checked)
    if as_json:
        print_json(plain(made))
    else:
        print(markdown(made), end="")
    for difference in made.differences:
        print(f"dpproxy: warning: the report is not true as it stands: {difference}", file=sys.stderr)
