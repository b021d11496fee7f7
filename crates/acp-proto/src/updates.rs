use crate::words::words;

words! {
    /// What a `session/update` reports: its `sessionUpdate`.
    pub enum UpdateKind ("session update"), names in update {
        /// A piece of the person's message.
        UserMessageChunk = USER_MESSAGE_CHUNK: "user_message_chunk" in [V1 V2],
        /// The person's whole message.
        UserMessage = USER_MESSAGE: "user_message" in [V2],
        /// A piece of the agent's message.
        AgentMessageChunk = AGENT_MESSAGE_CHUNK: "agent_message_chunk" in [V1 V2],
        /// The agent's whole message.
        AgentMessage = AGENT_MESSAGE: "agent_message" in [V2],
        /// A piece of the agent's reasoning.
        AgentThoughtChunk = AGENT_THOUGHT_CHUNK: "agent_thought_chunk" in [V1 V2],
        /// The agent's whole reasoning.
        AgentThought = AGENT_THOUGHT: "agent_thought" in [V2],
        /// What the session is doing.
        StateUpdate = STATE_UPDATE: "state_update" in [V2],
        /// A new tool call.
        ToolCall = TOOL_CALL: "tool_call" in [V1],
        /// News of a tool call.
        ToolCallUpdate = TOOL_CALL_UPDATE: "tool_call_update" in [V1 V2],
        /// A piece of a tool call's content.
        ToolCallContentChunk = TOOL_CALL_CONTENT_CHUNK: "tool_call_content_chunk" in [V2],
        /// News of a terminal.
        TerminalUpdate = TERMINAL_UPDATE: "terminal_update" in [V2],
        /// A piece of a terminal's output.
        TerminalOutputChunk = TERMINAL_OUTPUT_CHUNK: "terminal_output_chunk" in [V2],
        /// The whole plan.
        Plan = PLAN: "plan" in [V1],
        /// A plan by its id.
        PlanUpdate = PLAN_UPDATE: "plan_update" in [V1 V2],
        /// A plan is gone.
        PlanRemoved = PLAN_REMOVED: "plan_removed" in [V1 V2],
        /// The slash commands.
        AvailableCommandsUpdate = AVAILABLE_COMMANDS_UPDATE: "available_commands_update" in [V1 V2],
        /// The mode.
        CurrentModeUpdate = CURRENT_MODE_UPDATE: "current_mode_update" in [V1],
        /// The configuration options.
        ConfigOptionUpdate = CONFIG_OPTION_UPDATE: "config_option_update" in [V1 V2],
        /// Title and time of the session.
        SessionInfoUpdate = SESSION_INFO_UPDATE: "session_info_update" in [V1 V2],
        /// Tokens and cost.
        UsageUpdate = USAGE_UPDATE: "usage_update" in [V1 V2],
        /// A message from the agent about itself.
        Notice = NOTICE: "notice" in [V1 V2],
        /// The history is being summarised.
        CompactionUpdate = COMPACTION_UPDATE: "compaction_update" in [V1 V2],
        /// A piece of that summary.
        CompactionSummaryChunk = COMPACTION_SUMMARY_CHUNK: "compaction_summary_chunk" in [V1 V2],
        /// News of an agent that this one started.
        SubagentUpdate = SUBAGENT_UPDATE: "subagent_update" in [V1 V2],
        /// A message from one session to another.
        SessionMessage = SESSION_MESSAGE: "session_message" in [V1 V2],
        /// A piece of such a message.
        SessionMessageChunk = SESSION_MESSAGE_CHUNK: "session_message_chunk" in [V1 V2],
    }
}
