"""The `odradek` command: one module per subcommand, imported only when it is called.

stdout has data, stderr has messages. `exits` has the exit codes. Importing this package imports
nothing heavy, so that `odradek --help` answers at once.

In reading order: `main` (the command tree), `up`, `produce`, `consume`, `consume_group`, `topic`,
`group`, `cluster`, `txn`, `top`, `spark`, `demo`, `doctor`, `dump_log` (the subcommands). Parts of
`up`: `nodes_plan`, `node_processes`, `cluster_place`, `joining` (several nodes, and a node's place
in a cluster); of `cluster`: `replica_plan`, `replica_moves`, `cordon` (where replicas should be,
how they get there, and who gets none); of `top`: `top_samples`, `top_figures`, `top_screen`,
`top_terminal`; of `doctor`: `finding`, `machine_checks`, `package_checks`. Shared: `clients`,
`failures`, `exits` (clients, errors, exit codes); `options`, `positions`, `output`, `raw_text`
(options, times and offsets, tables, bytes); `record_format`, `record_json`, `record_input`,
`record_output` (records as text).

Tests: cli, unit/cli
"""
