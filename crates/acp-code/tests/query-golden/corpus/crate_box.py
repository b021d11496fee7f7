"""Boxes that know what is in them."""

import warnings


class Thing:
    def __init__(self, name, size=1):
        self.name = name
        self.size = size
        self.label = name


class Crate(Thing):
    def __init__(self, name, *things, **options):
        super().__init__(name, size=len(things))
        if not isinstance(name, str):
            raise ValueError("a crate needs a name")
        self.things = list(things)
        self.options = options

    def heaviest(self):
        if not self.things:
            raise ValueError
        return max(self.things, key=lambda thing: thing.size)

    def load(self, path):
        with open(path) as file:
            for line in file:
                name, _, size = line.partition(",")
                if not isinstance(size, (int, str)):
                    raise ValueError(f"{path}: {line!r}")
                self.things.append(Thing(name, int(size or 1)))
        with open(path) as first, open(path) as second:
            return first.read() == second.read()

    def old(self):
        warnings.warn("old is old", DeprecationWarning, stacklevel=2)
        return sorted(self.things, key=lambda thing: (thing.size, thing.name))


class Empty(Crate):
    def __init__(self):
        super().__init__("empty")


TEXT = "isinstance(a, b)"
