// The same agent with two faults, to see what the tests say about them.
import { Agent, serve } from './agent.mjs';

class Faulty extends Agent {
  initialize(params) {
    // Fault: protocolVersion is a number.
    return { ...super.initialize(params), protocolVersion: '1' };
  }

  prompt(params) {
    // Fault: there is no such stop reason.
    return { ...super.prompt(params), stopReason: 'done' };
  }
}

serve(new Faulty());
