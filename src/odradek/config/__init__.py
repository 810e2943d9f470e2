"""Settings: one typed line each, from which parsing, checking, DescribeConfigs and the reference
page come.
"""
