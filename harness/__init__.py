"""The sandbox, the demo and the tests of Rigwright: `python -m harness --help`."""
