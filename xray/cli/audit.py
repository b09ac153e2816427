"""`xray audit`: each mask followed from the argument to the kernel, and what is wrong with it."""

import typer

from xray.cli.findings import Options, show_findings
from xray.cli.options.groups import open_groups


@open_groups
def audit(context: typer.Context, asked: Options) -> None:
    """Follow each mask from the argument to the kernel, and raise an alarm where one goes astray.

    Masks that reach no attention or not every layer, that are turned round, too weak or along the wrong axis; attention
    that sees the future; packed sequences that see each other; windows, padding sides, rows that see nothing, NaN. An
    alarm is proven by recorded steps or values. Exit code 0 without an alarm, 1 with one, 2 for an error.
    """
    from xray.renderers.table.audit import WIDEST, print_audit
    from xray.story.alarms.whole import audit as read

    if show_findings(context, asked, "an audit", read, lambda found, _, screen: print_audit(found, screen), WIDEST):
        raise typer.Exit(1)
