"""The same agent with two faults, to see what the tests say about them."""
import sys

from agent import Agent


class Faulty(Agent):
    def initialize(self, params):
        # Fault: protocolVersion is a number.
        return {**super().initialize(params), "protocolVersion": "1"}

    def prompt(self, params):
        # Fault: there is no such stop reason.
        return {**super().prompt(params), "stopReason": "done"}


if __name__ == "__main__":
    agent = Faulty(sys.stdout)
    for line in sys.stdin:
        if line.strip():
            agent.receive(line)
