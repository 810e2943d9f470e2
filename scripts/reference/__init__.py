"""Write the pages of `docs/reference` that follow from the code.

    make reference          python -m scripts.reference

`pages.PAGES` names each page and the function that renders it. A test compares the files in the
repository with what these functions render. `settings` and `client_settings` render the tables of
`odradek.config`, `protocol` the table of APIs, `spark_options` the options of the Spark source and
sink, `client_metrics` the tables of the clients' metrics, and `python_api` the classes and
docstrings of the clients, which it reads with `python_source`. `keywords` writes a module of the
package: the types of a client's keyword arguments. `docs/reference/command-line.md` is written by
hand, and a test runs its examples.

Tests: unit/reference
"""
