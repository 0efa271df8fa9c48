"""`python -m sigmadmm`."""

from .cli import main

main()
