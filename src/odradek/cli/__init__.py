"""The `odradek` command: one module per noun, imported only when that command is called.

stdout is data, stderr is talk. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 unreachable, 6 a
check failed, 130 interrupted. Importing this package imports nothing heavy, so that `odradek
--help` answers at once.
"""
