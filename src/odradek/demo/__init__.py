"""The main job, seen working: a year of real flights through a broker and through Spark.

`run` is the order of things; `flights` reads the data, `replay` produces it, `pipeline` is the
Spark job with its `rules`, `proof` and `reference` compare what came out with what went in, and
`page`, `figures` and `terminal` show it. `live` paces the flights for `--follow`.
"""
