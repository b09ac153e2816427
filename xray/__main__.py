"""`python -m xray` is `xray`."""

from xray.cli.app import main

main()
