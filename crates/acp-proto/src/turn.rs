use crate::words::words;

words! {
    /// Why a turn ended.
    pub enum StopReason ("stop reason"), names in stop_reason {
        /// The agent is done.
        EndTurn = END_TURN: "end_turn" in [V1 V2],
        /// The model may not write more.
        MaxTokens = MAX_TOKENS: "max_tokens" in [V1 V2],
        /// The turn may not ask the model more often.
        MaxTurnRequests = MAX_TURN_REQUESTS: "max_turn_requests" in [V1 V2],
        /// The agent refuses to go on.
        Refusal = REFUSAL: "refusal" in [V1 V2],
        /// The client stopped it.
        Cancelled = CANCELLED: "cancelled" in [V1 V2],
        /// It failed.
        Error = ERROR: "error" in [V2],
    }
}
