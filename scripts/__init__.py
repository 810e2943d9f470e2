"""Commands of a checkout that are not part of the installed package."""
