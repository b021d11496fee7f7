"""Builds the packages. Each module makes one kind from the same binary; `project` and `elf` say what they need to know."""
