"""`xray anatomy`: what a network is made of, as a table or as JSON."""

import typer

from xray.cli.findings import Options, show_findings
from xray.cli.options.groups import open_groups


@open_groups
def anatomy(context: typer.Context, asked: Options) -> None:
    """Show what a network is made of: towers, layers, attention, feed-forwards, experts, norms, head.

    It is read off what the recorded steps compute, never off the names of modules; what they do not prove is left out.
    """
    from xray.renderers.table.anatomy import WIDEST, print_anatomy
    from xray.story.body.whole import anatomy as read
    from xray.text import show_controls

    show_findings(
        context,
        asked,
        "an anatomy",
        read,
        lambda found, trace, screen: print_anatomy(found, show_controls(trace.title), screen),
        WIDEST,
    )
