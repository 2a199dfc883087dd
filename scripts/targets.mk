# Targets beside the build itself; included by the Makefile.
