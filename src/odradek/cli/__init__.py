"""The `odradek` command: one module per subcommand, imported only when it is called.

stdout has data, stderr has messages. `exits` has the exit codes. Importing this package imports
nothing heavy, so that `odradek --help` answers at once.

In reading order: `main` (the command tree), `up`, `produce`, `consume`, `consume_group`, `topic`,
`group`, `txn`, `top`, `spark`, `demo`, `dump_log` (the subcommands); `top_samples`, `top_figures`,
`top_screen`, `top_terminal` (the parts of `top`); `cluster`, `failures`, `exits` (clients, errors,
exit codes); `options`, `positions`, `output`, `raw_text` (shared options, times and offsets,
tables); `record_format`, `record_json`, `record_input`, `record_output` (records as text).

Tests: cli, unit/cli
"""
