"""Checks of users' arguments: arrays, options, numbers a type would change, units of time."""
