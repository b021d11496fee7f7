//! The rows: variant, name, requirements on the agent, on the client, weight, what it looks for, how to fix it.

use super::{RuleInfo, RuleWeight};

macro_rules! rules {
    ($($variant:ident $name:literal [$($agent:literal),*] [$($client:literal),*] $weight:ident $looks_for:literal $hint:literal;)*) => {
        /// A rule of the judge.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Rule {
            $(#[doc = $looks_for] $variant,)*
        }

        pub(super) const TABLE: &[RuleInfo] = &[
            $(RuleInfo {
                name: $name,
                agent: &[$($agent),*],
                client: &[$($client),*],
                weight: RuleWeight::$weight,
                looks_for: $looks_for,
                hint: $hint,
            },)*
        ];
    };
}

rules! {
    // ---- envelope -----------------------------------------------------------------------------------------
    NotUtf8 "not-utf8" ["TRN-01"] ["C-TRN-01"] AsLevel
        "bytes that are not UTF-8, or a character cut in two" "encode every message as UTF-8; never cut inside a character";
    SplitOverLines "message-split-over-lines" ["TRN-05"] ["C-TRN-02"] AsLevel
        "a JSON value that goes on over several lines" "write each message as compact JSON on one line; do not pretty-print";
    Noise "noise" ["TRN-06"] ["C-TRN-03"] AsLevel
        "a line that is not a JSON-RPC message" "write log text and banners to stderr; only messages belong on the wire";
    Batch "batch" ["TRN-07"] ["C-TRN-03"] AsLevel
        "a batch (JSON array)" "send each message on its own line";
    ByteOrderMark "byte-order-mark" ["TRN-06"] ["C-TRN-03"] AsLevel
        "a line that begins with a byte order mark" "write UTF-8 without a byte order mark";
    WrongVersion "jsonrpc-version" ["RPC-01"] ["C-RPC-01"] AsLevel
        "a message without \"jsonrpc\":\"2.0\"" "put \"jsonrpc\":\"2.0\" into every message";
    BadResponse "bad-response" ["RPC-03"] ["C-RPC-01"] AsLevel
        "a response without exactly one of result and error, or with an ill-formed error" "answer with either result or error; an error has an integer code and a string message";
    BadIdType "bad-id-type" ["RPC-09"] ["C-RPC-01"] AsLevel
        "a request id that is neither string, number nor null" "use an integer or a string as id";
    OddId "odd-id" ["RPC-10"] ["C-RPC-04"] AsLevel
        "a request id that is null or has a fraction" "use an integer or a string as id";
    EnvelopeField "envelope-field" ["EXT-01"] ["C-EXT-01"] AsLevel
        "a custom field beside jsonrpc, id, method and params" "move custom data into params._meta or result._meta";

    // ---- ids ----------------------------------------------------------------------------------------------
    IdReused "id-reused-while-open" ["RPC-11"] ["C-RPC-01"] Warns
        "a request id used again before its answer came" "count ids up; do not use one again before it was answered";
    AnswerToNothing "answer-to-nothing" ["RPC-02"] ["C-RPC-01"] AsLevel
        "a response whose id was never asked" "answer with exactly the id of the request";
    IdTypeChanged "id-type-changed" ["RPC-02"] ["C-RPC-01"] AsLevel
        "a response whose id has another JSON type than the request's" "echo the id as it came: 1 and \"1\" are different ids";
    AnsweredTwice "answered-twice" ["RPC-02"] ["C-RPC-01"] AsLevel
        "a second response to one request" "answer each request once";
    NotificationAnswered "notification-answered" ["RPC-04", "CAN-05", "CAN-10", "EXT-08"] ["C-RPC-02"] AsLevel
        "a response although only notifications were sent" "never answer a message without an id, not even with an error";
    Unanswered "request-unanswered" ["RPC-02", "EXT-06", "SES-15", "RPC-13", "RPC-12", "INIT-15", "TRN-03"] ["C-RPC-01", "C-EXT-02"] AsLevel
        "a request without an answer when the conversation ends" "answer every request, with an error if need be";
    PromptUnanswered "prompt-unanswered" ["PT-01", "ELI-12"] [] AsLevel
        "a prompt without an answer when the conversation ends" "end every turn with a response that has a stopReason";

    // ---- error codes --------------------------------------------------------------------------------------
    ParseErrorCode "parse-error-code" ["RPC-05/code", "RPC-05/silence"] [] AsLevel
        "text that is not JSON is not answered with -32700" "answer unreadable text with error -32700 and id null";
    InvalidRequestCode "invalid-request-code" ["RPC-06", "RPC-12"] [] Warns
        "a bad request object is not answered with -32600" "answer objects that are no request with error -32600";
    UnknownMethodCode "unknown-method-code" ["RPC-07"] ["C-RPC-03"] AsLevel
        "an unknown method is not answered with -32601" "answer unknown methods with error -32601";
    InvalidParamsCode "invalid-params-code" ["RPC-08", "PT-10", "MCP-07"] [] Warns
        "bad params are not refused with -32602" "check params and answer bad ones with error -32602";
    AuthCodeMisused "auth-code-misused" ["RPC-14", "AUTH-06"] [] AsLevel
        "-32000 from an agent that offers no authentication method" "use -32000 for \"authentication required\" only, and list authMethods";
    NotFoundCode "not-found-code" ["RPC-15/code"] [] AsLevel
        "an unknown session is not refused with -32002" "answer requests for unknown sessions with error -32002";
    LongErrorMessage "long-error-message" ["RPC-18"] [] AsLevel
        "an error message of several lines or hundreds of characters" "keep error.message to one sentence; details belong in error.data";

    // ---- schema -------------------------------------------------------------------------------------------
    Schema "schema" ["INIT-06", "RPC-17"] ["C-INIT-06"] AsLevel
        "params or a result that the protocol's schema does not allow" "compare the message with the protocol's schema";
    UnknownField "unknown-field" ["EXT-01"] ["C-EXT-01"] AsLevel
        "a custom field at the root of a protocol type" "move custom data into _meta";
    UnknownCapability "unknown-capability" ["EXT-09"] ["C-EXT-04"] AsLevel
        "a custom key among the capabilities" "advertise custom capabilities in the _meta of the capability object";
    Unstable "unstable" ["EXT-01/unstable"] ["C-EXT-01/unstable"] AsLevel
        "a method, field or value of the protocol's unstable part" "do not rely on it: unstable surfaces may change or go away";
    UnknownMethod "unknown-method" ["EXT-05"] ["C-INIT-06"] AsLevel
        "a method that the protocol does not have" "start the names of custom methods with an underscore";
    WrongKind "request-or-notification" ["INIT-06", "PERM-01"] ["C-INIT-06"] AsLevel
        "a notification sent as a request, or a request as a notification" "give requests an id, and notifications none";
    TraceContext "trace-context" ["EXT-04"] [] AsLevel
        "traceparent, tracestate or baggage in _meta with another meaning" "use these keys as W3C Trace Context defines them, or other names";
    CustomRequestCode "custom-request-code" ["EXT-07/code"] [] AsLevel
        "a custom request refused with another code than -32601" "answer custom requests that are not known with error -32601";
    ExtensionUnadvertised "extension-unadvertised" ["EXT-10"] [] AsLevel
        "a custom method that no capability announced" "announce extensions in _meta of the capabilities";

    // ---- handshake ----------------------------------------------------------------------------------------
    BeforeInitialize "before-initialize" ["INIT-06"] ["C-INIT-01"] AsLevel
        "messages before initialize" "let initialize be the first exchange of a connection";
    SecondInitialize "second-initialize" [] ["C-INIT-01"] Warns
        "initialize sent again" "initialize a connection once; open a new one to negotiate again";
    ServedBeforeInitialize "served-before-initialize" ["INIT-15"] [] AsLevel
        "a session request served before initialize" "refuse session methods until initialize was answered";
    VersionEchoed "version-echoed" ["INIT-05"] [] AsLevel
        "a protocol version that does not exist accepted as it was asked" "answer with the latest version that the agent really supports";
    VersionNotEchoed "version-not-echoed" ["INIT-04/higher"] [] AsLevel
        "a supported version that is not echoed" "answer with the requested version when it is supported";
    InitializeRefused "initialize-refused" ["INIT-05", "INIT-09"] [] AsLevel
        "initialize answered with an error instead of the agent's latest version" "answer with the latest supported version; the client decides whether to go on";
    CapabilitiesUnstated "capabilities-unstated" ["INIT-01/capabilities", "INIT-10"] ["C-INIT-03", "C-INIT-09"] AsLevel
        "initialize without the side's capabilities" "send the capabilities object, even if it is empty";
    InfoMissing "info-missing" ["INIT-02"] ["C-INIT-04"] AsLevel
        "initialize without name and version of the implementation" "send agentInfo or clientInfo with name and version";
    BaselineMissing "baseline-missing" ["INIT-12"] ["C-PERM-03"] AsLevel
        "a baseline method answered with -32601" "support the methods every side must have";
    AdvertisedMissing "advertised-missing" ["INIT-13"] ["C-FS-03", "C-TERM-08"] AsLevel
        "an advertised capability whose method is not there" "implement the method or do not advertise the capability";
    UnadvertisedServed "unadvertised-served" ["INIT-14"] [] AsLevel
        "an optional method that was not advertised answers otherwise than -32601" "advertise the capability, or answer -32601";
    VersionUnsupported "version-unsupported" [] ["C-INIT-05", "C-INIT-02"] AsLevel
        "the client goes on with a protocol version it did not offer" "close the connection when the agent's version is not supported";
    HttpUnsupported "mcp-http-unsupported" ["MCP-05"] [] AsLevel
        "an agent without MCP over HTTP" "support HTTP for MCP servers and say so in mcpCapabilities.http";

    // ---- authentication -----------------------------------------------------------------------------------
    AuthMethodTwice "auth-method-twice" ["AUTH-01"] [] AsLevel
        "two authentication methods with one id" "give every authentication method its own id";
    AuthMethodCommand "auth-method-command" ["AUTH-02"] [] AsLevel
        "a terminal authentication method with a command" "give args and env only; the client starts the same program";
    TerminalAuthUnasked "terminal-auth-unasked" ["AUTH-03", "INIT-08"] [] AsLevel
        "a terminal authentication method although the client cannot run it" "offer terminal methods only when clientCapabilities.auth.terminal is true";
    AuthUnknownAccepted "unknown-auth-method-accepted" ["AUTH-05"] [] AsLevel
        "authenticate succeeds with a method that was not offered" "answer unknown method ids with error -32602";
    AuthStillRequired "auth-still-required" ["AUTH-07", "AUTH-04"] [] AsLevel
        "authentication required although authenticate had succeeded" "remember a successful authentication for the connection";
    LogoutIgnored "logout-ignored" ["AUTH-09"] [] AsLevel
        "a session that needed a login is opened without one after logout" "ask for authentication again after logout";
    LogoutUnadvertised "logout-unadvertised" [] ["C-AUTH-01", "C-INIT-07"] AsLevel
        "logout without the capability" "call logout only when agentCapabilities.auth.logout is there";
    TerminalAuthCalled "terminal-method-authenticated" [] ["C-AUTH-02"] AsLevel
        "a terminal method passed to authenticate" "run terminal methods in a terminal, then connect again";
    AuthMethodUnknown "auth-method-unknown" [] ["C-AUTH-06"] AsLevel
        "authenticate with a method that was not offered" "use an id of authMethods";

    // ---- sessions -----------------------------------------------------------------------------------------
    SessionIdTwice "session-id-twice" ["SES-01"] [] AsLevel
        "a session id given twice, or an empty one" "give every session its own id";
    SessionUnknown "session-unknown" ["PT-04"] ["C-PT-01"] AsLevel
        "a message for a session that does not exist on this connection" "use the session id that session/new, load or resume gave";
    SessionUnknownAccepted "unknown-session-accepted" ["RPC-15", "SES-08"] [] Warns
        "a request for a session that does not exist succeeds" "answer requests for unknown sessions with error -32002";
    UpdateAfterClose "update-after-close" ["SES-13"] [] AsLevel
        "work goes on in a session that was closed" "stop the session's work before answering session/close";
    ClosedSessionUsed "closed-session-used" ["SES-13/used"] [] AsLevel
        "a closed session still answers prompts" "refuse requests for closed sessions";
    CloseKeepsTurn "close-keeps-turn" ["SES-12"] [] AsLevel
        "session/close while a turn runs, and the turn does not end as cancelled" "treat session/close like session/cancel for the running turn";
    LoadUnadvertised "load-unadvertised" [] ["C-SES-01", "C-INIT-07"] AsLevel
        "session/load without the capability" "call session/load only when agentCapabilities.loadSession is true";
    ResumeUnadvertised "resume-unadvertised" [] ["C-SES-03", "C-INIT-07"] AsLevel
        "session/resume without the capability" "call session/resume only when sessionCapabilities.resume is there";
    CloseUnadvertised "close-unadvertised" [] ["C-SES-05", "C-INIT-07"] AsLevel
        "session/close without the capability" "call session/close only when sessionCapabilities.close is there";
    ListUnadvertised "list-unadvertised" [] ["C-SES-07", "C-INIT-07"] AsLevel
        "session/list without the capability" "call session/list only when sessionCapabilities.list is there";
    DeleteUnadvertised "delete-unadvertised" [] ["C-SES-11", "C-INIT-07"] AsLevel
        "session/delete without the capability" "call session/delete only when sessionCapabilities.delete is there";
    ResumeWithoutServers "resume-without-servers" [] ["C-SES-04/servers"] AsLevel
        "session/resume without mcpServers" "send mcpServers with session/resume, even if it is empty";

    // ---- load and resume ----------------------------------------------------------------------------------
    LoadWithoutReplay "load-without-replay" ["SES-03"] [] AsLevel
        "session/load answered without replaying a turn that this connection saw" "stream the whole conversation before answering session/load";
    ReplayDiffers "replay-differs" ["SES-03/words", "SES-03/tools", "SES-03/order"] [] AsLevel
        "a replay with other words, fewer tool calls or another order than what was live" "replay what was said and done, word for word and in order";
    ReplayAfterLoad "replay-after-load" ["SES-04"] [] AsLevel
        "history streamed after session/load was answered" "answer session/load only after the last replayed update";
    ReplayMessageId "replay-message-id" ["SES-05"] [] AsLevel
        "one messageId for two messages of a replay" "give each replayed message its own messageId";
    ResumeReplays "resume-replays" ["SES-09"] [] AsLevel
        "session/resume replays history" "restore the context silently; use session/load for a replay";
    LoadedSessionRefuses "loaded-session-refuses" ["SES-07"] [] AsLevel
        "a loaded session does not take prompts" "make a loaded session usable like a new one";
    NoticeReplayed "notice-replayed" ["INFO-04"] [] AsLevel
        "a notice in the replay of session/load" "leave notices out of the replay: they are not history";

    // ---- listing ------------------------------------------------------------------------------------------
    ListRelativeCwd "list-relative-cwd" ["SES-16", "SES-17", "SES-19"] [] AsLevel
        "a listed session without an absolute cwd" "list every session with its absolute cwd";
    ListFilterIgnored "list-filter-ignored" ["SES-18"] [] AsLevel
        "a session of another cwd although the list was filtered" "return only sessions whose cwd is exactly the one asked for";
    ListCursorAccepted "list-cursor-accepted" ["SES-20"] ["C-SES-09", "C-SES-08"] AsLevel
        "a cursor that no page gave" "use cursors as they came, and refuse unknown ones";
    ListRepeats "list-repeats" ["SES-22"] [] AsLevel
        "pages of a list that repeat sessions or never end" "let each page start where the last one ended";
    BadTimestamp "bad-timestamp" ["SES-23", "INFO-01"] [] AsLevel
        "updatedAt that is not ISO 8601" "write times like 2026-11-15T08:30:00Z";
    ListExtraRoots "list-extra-roots" ["SES-24"] [] AsLevel
        "additional directories listed without the capability, or not absolute" "list additionalDirectories only with the capability, as absolute paths";
    LongPage "session-page-long" ["SES-21"] [] AsLevel
        "a page of session/list with more than a thousand sessions" "give long lists in pages, with nextCursor";
    DeletedListed "deleted-session-listed" ["SES-26"] [] AsLevel
        "a deleted session is still listed" "leave deleted sessions out of session/list";
    DeleteAgainFails "delete-again-fails" ["SES-27"] [] AsLevel
        "deleting a deleted session fails" "let session/delete succeed when there is nothing left to delete";

    // ---- cwd and MCP --------------------------------------------------------------------------------------
    RelativeCwd "relative-cwd" ["CWD-01"] ["C-CWD-01"] AsLevel
        "a relative cwd, sent or accepted" "send an absolute cwd, and refuse a relative one with -32602";
    RelativeRoots "relative-roots" ["CWD-06"] ["C-CWD-02"] AsLevel
        "a relative or empty additional directory, sent or accepted" "send absolute paths, and refuse others with -32602";
    RootsUnadvertised "roots-unadvertised" [] ["C-CWD-03", "C-INIT-07"] AsLevel
        "additionalDirectories without the capability" "send additionalDirectories only when the agent advertises them";
    CwdChanged "cwd-changed" [] ["C-CWD-04"] AsLevel
        "a session loaded or resumed with another cwd" "send the cwd that the session was created with";
    McpUnadvertised "mcp-unadvertised" [] ["C-MCP-01", "C-INIT-07"] AsLevel
        "an HTTP or SSE server that the agent does not support" "send only servers whose transport is in mcpCapabilities";
    McpRelative "mcp-relative-command" [] ["C-MCP-02"] AsLevel
        "an MCP server whose command is not an absolute path" "send the absolute path of the command";

    // ---- turns --------------------------------------------------------------------------------------------
    PromptsAtOnce "prompts-at-once" [] ["C-PT-01"] Warns
        "a second prompt while a turn runs" "wait for the response to session/prompt before sending the next";
    NoOutput "turn-without-output" ["PT-03"] [] Warns
        "a turn that ends normally without a single update" "stream the model's answer as agent_message_chunk";
    UpdateAfterTurn "update-after-turn" ["PT-07", "CAN-11"] [] AsLevel
        "output of a turn after its response" "send every update of the turn before the response to session/prompt";
    OutputUnasked "output-unasked" ["PT-07"] [] AsLevel
        "messages or tool calls in a session that had no prompt yet" "send output of the model during a turn only";
    MessageIdMixed "message-id-mixed" ["PT-05"] [] AsLevel
        "one messageId for two kinds of messages, or used again in a later turn" "give each message its own messageId";
    BadCurrency "bad-currency" ["PT-06/currency"] [] AsLevel
        "a cost whose currency is misspelt" "write the currency like USD";
    ContentRefused "content-refused" ["CNT-01", "CNT-02"] [] AsLevel
        "a prompt of text and resource links refused as invalid" "accept text and resource_link blocks in every prompt";
    AdvertisedContentRefused "advertised-content-refused" ["CNT-03", "CNT-04", "CNT-05"] [] AsLevel
        "a prompt with advertised content refused as invalid" "accept the content types listed in promptCapabilities";
    ContentUnadvertised "content-unadvertised" [] ["C-PT-02", "C-INIT-07"] AsLevel
        "a prompt with content that the agent did not advertise" "send only the content types of promptCapabilities";
    BadBase64 "bad-base64" ["CNT-06"] [] AsLevel
        "image, audio or blob data that is not base64, or without a MIME type" "encode binary content as base64 and name its mimeType";
    CommandRefused "command-refused" ["CMD-03", "CMD-01", "CMD-02"] [] Warns
        "an advertised slash command answered with an error" "run the commands that available_commands_update lists";

    // ---- cancellation -------------------------------------------------------------------------------------
    CancelIgnored "cancel-ignored" ["CAN-01"] [] AsLevel
        "a cancelled turn that ends with another stop reason" "answer the prompt with stopReason cancelled after session/cancel";
    CancelAsError "cancel-as-error" ["CAN-02", "RPC-16"] [] AsLevel
        "a cancelled turn that ends with an error" "catch the abort and answer with stopReason cancelled";
    WorkAfterCancel "work-after-cancel" ["CAN-03"] [] AsLevel
        "new work well after session/cancel" "stop model requests and tools as soon as session/cancel comes";
    UpdateAfterCancelled "update-after-cancelled" ["CAN-04"] [] AsLevel
        "updates after a cancelled turn was answered" "send late updates before the response";
    NoPromptAfterCancel "no-prompt-after-cancel" ["CAN-06"] [] AsLevel
        "the prompt after a cancelled turn fails" "keep the session usable after session/cancel";
    CancelSpreads "cancel-spreads" ["CAN-07"] [] AsLevel
        "a cancel that ends the turn of another session" "cancel only the session named in session/cancel";
    CancelPermission "cancel-with-permission" ["CAN-08"] [] AsLevel
        "a turn cancelled while a permission was pending does not end as cancelled" "end the turn as cancelled when the permission's outcome is cancelled";
    CancelForeign "cancel-of-nothing" ["CAN-13"] [] AsLevel
        "$/cancel_request for a request that was never made" "name an outstanding request of your own";
    CancelledRequestCode "cancelled-request-code" ["CAN-09/code"] [] AsLevel
        "a prompt cancelled by $/cancel_request that ends with another error than -32800" "answer cancelled requests with data or error -32800";
    RequestCancelled "cancelled-request-unanswered" ["CAN-09"] ["C-CAN-04"] Warns
        "a request cancelled by $/cancel_request is never answered" "answer cancelled requests too, with data or error -32800";
    PermissionAfterCancel "permission-after-cancel" [] ["C-CAN-02"] AsLevel
        "a permission pending at session/cancel is not answered as cancelled" "answer every pending permission with outcome cancelled";

    // ---- tool calls ---------------------------------------------------------------------------------------
    ToolNotReported "tool-not-reported" ["TC-01"] [] AsLevel
        "a permission for a tool call that was never reported, or work without any tool call" "send tool_call for every use of a tool, before asking for permission";
    ToolTwice "tool-call-created-twice" ["TC-03", "TC-02"] [] AsLevel
        "a second tool_call with the id of an earlier one" "use tool_call_update for changes, and a new id for a new call";
    ToolUpdateFirst "tool-update-before-create" ["TC-05/unknown"] [] AsLevel
        "a tool_call_update for a call that was not created" "send tool_call before the first tool_call_update";
    CrossTalk "cross-talk" ["PT-04"] [] AsLevel
        "an update in one session about a tool call or terminal of another" "send updates with the session id they belong to";
    ToolNoProgress "tool-no-progress" ["TC-06"] [] AsLevel
        "a permitted tool call that never was in progress" "set status in_progress once permission is given";
    ToolUnfinished "tool-unfinished" ["TC-07"] [] AsLevel
        "a tool call without a final status when the turn ends" "report completed or failed for every call before the turn ends, also after a refusal";
    FinalStatusLeft "final-status-left" ["TC-07/final"] [] AsLevel
        "a tool call that leaves its final status" "let completed and failed be final";
    StatusBackwards "status-backwards" ["TC-04/order"] [] AsLevel
        "a tool call whose status goes back to pending" "move from pending to in_progress to completed or failed";
    ToolPath "tool-location-path" ["TC-09"] [] AsLevel
        "a location with a relative path" "report absolute paths";
    ToolLine "tool-location-line" ["TC-09/line"] [] AsLevel
        "a location with line 0" "count lines from 1";
    ToolTerminal "tool-terminal-unknown" ["TC-10", "TC-08"] [] AsLevel
        "tool content with a terminal that was not created or is released" "embed the terminal before releasing it";
    ToolRenamed "tool-renamed" ["TC-11"] [] AsLevel
        "a tool call whose name changes" "give the tool's name in the first report and keep it";
    DiffPath "diff-path" ["DIFF-01", "DIFF-02"] [] AsLevel
        "a diff with a relative path" "report absolute paths";

    // ---- permissions --------------------------------------------------------------------------------------
    OptionTwice "permission-option-twice" ["PERM-02", "PERM-01"] [] AsLevel
        "two permission options with one id" "give each option its own optionId";
    NoOptions "permission-without-options" ["PERM-02/empty"] [] AsLevel
        "a permission request without options" "offer at least one option to allow and one to reject";
    RejectedRuns "rejected-tool-runs" ["PERM-03"] [] AsLevel
        "a rejected tool call that runs, or is reported as running or completed" "do not run what was rejected; report failed";
    PermissionLate "permission-late" ["PERM-04"] [] AsLevel
        "permission asked for a call that is already finished" "ask before the tool runs";
    RunsWhilePending "runs-while-pending" ["PERM-05"] [] AsLevel
        "a tool call that runs, or a tool call or turn that is finished, while its permission is pending" "wait for the outcome before running the tool or ending the turn";
    OptionNotOffered "option-not-offered" [] ["C-PERM-01"] AsLevel
        "a permission answered with an option that was not offered" "answer with an optionId of the request";

    // ---- terminals ----------------------------------------------------------------------------------------
    TerminalUnadvertised "terminal-unadvertised" ["TERM-02", "TERM-01", "INIT-08"] [] AsLevel
        "a terminal request although the client has no terminals" "look at clientCapabilities.terminal first";
    TerminalCwd "terminal-relative-cwd" ["TERM-03", "TERM-07"] [] AsLevel
        "a terminal with a relative cwd" "send an absolute cwd";
    TerminalLeaked "terminal-not-released" ["TERM-04", "TERM-05"] [] AsLevel
        "a terminal that is never released" "release every terminal, also after killing it";
    TerminalAfterRelease "terminal-after-release" ["TERM-06"] [] AsLevel
        "a terminal used after its release, or never created" "do not use a terminal id after terminal/release";
    TerminalSlow "terminal-slow" [] ["C-TERM-01/slow"] AsLevel
        "terminal/create that takes long to answer" "answer terminal/create at once; the command runs on";
    TerminalOverLimit "terminal-over-limit" [] ["C-TERM-02"] AsLevel
        "more output than outputByteLimit" "cut the beginning of the output so that it fits";
    TerminalExitForgotten "terminal-exit-forgotten" [] ["C-TERM-03"] AsLevel
        "an exit status that was there before is gone" "keep the exit status until the terminal is released";
    TerminalOutputAfterExit "terminal-output-after-exit" [] ["C-TERM-03"] Warns
        "output that still changes after the exit was reported" "report the exit after all output was read";
    TerminalNoStatus "terminal-no-status" [] ["C-TERM-04"] Warns
        "an exit without code and signal" "report exitCode or signal";
    TerminalKilledGone "terminal-killed-gone" [] ["C-TERM-05"] AsLevel
        "a killed terminal that does not answer" "keep a killed terminal until it is released";
    TerminalReleasedAnswers "terminal-released-answers" [] ["C-TERM-06"] AsLevel
        "a released terminal that still answers" "forget the terminal at terminal/release";

    // ---- files --------------------------------------------------------------------------------------------
    ReadUnadvertised "read-unadvertised" ["FS-02", "FS-01", "INIT-08"] [] AsLevel
        "fs/read_text_file although the client cannot read" "look at clientCapabilities.fs.readTextFile first";
    WriteUnadvertised "write-unadvertised" ["FS-03", "FS-01", "INIT-08"] [] AsLevel
        "fs/write_text_file although the client cannot write" "look at clientCapabilities.fs.writeTextFile first";
    FilePath "file-relative-path" ["FS-04"] ["C-FS-05"] AsLevel
        "a file request with a relative path, sent or served" "send absolute paths, and refuse others";
    FileLine "file-line-zero" ["FS-05"] [] Warns
        "a file read from line 0" "count lines from 1";
    FileSession "file-session-unknown" ["FS-06"] [] AsLevel
        "a file request for a session that does not exist" "send the id of a live session";
    ReadOverLimit "read-over-limit" [] ["C-FS-02"] AsLevel
        "more lines than were asked for" "return at most limit lines from line on";

    // ---- plans, modes, options ----------------------------------------------------------------------------
    PlanPartial "plan-partial" ["PLAN-03", "PLAN-02"] [] Warns
        "a plan update that drops unfinished entries" "send the complete plan with every update";
    PlanEmpty "plan-empty" ["PLAN-01"] [] AsLevel
        "a plan without entries, and none with entries before" "send the entries of the plan, not an empty list";
    PlanStale "plan-stale" ["PLAN-04", "PLAN-01"] [] AsLevel
        "a plan that is never updated" "report progress by sending the plan again";
    ModesInconsistent "modes-inconsistent" ["MODE-01"] [] AsLevel
        "two modes with one id, or a current mode that is not available" "list each mode once and the current one among them";
    SetModeFails "set-mode-fails" ["MODE-02", "MODE-03"] [] AsLevel
        "session/set_mode with an available mode fails" "accept every mode of availableModes, also during a turn";
    UnknownModeAccepted "unknown-mode-accepted" ["MODE-04"] ["C-CFG-09"] AsLevel
        "a mode that is not available, set or accepted" "use the ids of availableModes, and refuse others with -32602";
    ModeUpdateUnknown "mode-update-unknown" ["MODE-05"] [] AsLevel
        "current_mode_update with a mode that is not available" "announce only modes of availableModes";
    OptionIdTwice "config-option-twice" ["CFG-01"] [] AsLevel
        "two config options with one id" "give each config option its own id";
    BooleanUnasked "boolean-option-unasked" ["CFG-02", "INIT-08"] [] AsLevel
        "a boolean option although the client does not know them" "send boolean options only when the client advertises session.configOptions.boolean";
    OptionValueUnknown "config-value-unknown" ["CFG-03"] [] AsLevel
        "a current value that is not among the options" "let currentValue be one of the options";
    OptionsPartial "config-options-partial" ["CFG-04"] [] AsLevel
        "set_config_option answered without the complete list" "answer with every config option and its value";
    OptionNotApplied "config-value-not-applied" ["CFG-04", "CFG-05"] [] Warns
        "a value that was set is not in the answer" "answer with the state after the change";
    UnknownOptionAccepted "unknown-option-accepted" ["CFG-06"] ["C-CFG-07"] AsLevel
        "a config option or value that does not exist, set or accepted" "use listed ids and values, and refuse others with -32602";
    OptionUpdatePartial "config-update-partial" ["CFG-07"] [] AsLevel
        "config_option_update without the complete list" "send every config option with each update";
    SetOptionFails "set-config-option-fails" ["CFG-08", "CFG-05"] [] AsLevel
        "a listed value is refused" "accept every listed value, also during a turn";
    OptionCategory "config-category" ["CFG-09"] [] AsLevel
        "a category that is neither known nor starts with _" "use mode, model, model_config, thought_level or a name starting with _";
    ModesOnly "modes-without-option" ["CFG-12"] [] AsLevel
        "modes without a config option of category mode, or the other way round" "send mode-like configuration both as modes and as a config option";
    ModeOutOfSync "mode-out-of-sync" ["CFG-13"] [] AsLevel
        "mode and mode option disagree" "change both together";
    ModeOverOption "mode-over-option" [] ["C-CFG-01"] AsLevel
        "set_mode although a config option for the mode is offered" "use session/set_config_option when config options are offered";

    // ---- notices and compaction ---------------------------------------------------------------------------
    NoticeUnasked "notice-unasked" ["INFO-02", "INIT-08"] [] AsLevel
        "a notice although the client did not ask for them" "send notices only when the client advertises session.notices";
    CompactionUnasked "compaction-unasked" ["INFO-06", "INIT-08"] [] AsLevel
        "a compaction update although the client did not ask for them" "send them only when the client advertises session.compaction";
    CompactionReopened "compaction-reopened" ["INFO-07"] [] AsLevel
        "a compaction that goes on after its final status" "end each compaction with one final status";

    // ---- elicitation --------------------------------------------------------------------------------------
    ElicitUnadvertised "elicitation-unadvertised" ["ELI-01", "INIT-08"] [] AsLevel
        "an elicitation mode that the client does not have" "look at clientCapabilities.elicitation first";
    ElicitScope "elicitation-scope" ["ELI-03", "ELI-05"] [] AsLevel
        "an elicitation with two scopes" "give either sessionId or requestId";
    ElicitSecret "elicitation-secret" ["ELI-07", "ELI-09"] [] Warns
        "a form that seems to ask for a secret" "ask for secrets through URL mode";
    ElicitIdTwice "elicitation-id-twice" ["ELI-13"] [] AsLevel
        "an elicitationId used while another one with it is open" "give each URL elicitation its own id";
    ElicitCompleteUnknown "elicitation-complete-unknown" ["ELI-14"] [] AsLevel
        "elicitation/complete for an id that was never asked" "complete with the id of elicitation/create";
    ElicitUrlCredentials "elicitation-url-credentials" ["ELI-15"] [] Warns
        "a URL that seems to carry credentials" "keep credentials and personal data out of the URL";
    ElicitUrlPlain "elicitation-url-plain" ["ELI-16"] [] AsLevel
        "a URL without https" "use https outside of development";
    ElicitFormUrl "elicitation-form-url" ["ELI-17"] [] AsLevel
        "a URL in a form's text" "use URL mode for links";
    ElicitContent "elicitation-content" [] ["C-ELI-07", "C-ELI-05"] AsLevel
        "accepted content that the form's schema does not allow" "validate the values before sending them";
    ElicitAction "elicitation-action" [] ["C-ELI-08"] AsLevel
        "an action other than accept, decline and cancel" "answer with accept, decline or cancel";
    ElicitModeAccepted "elicitation-mode-accepted" [] ["C-ELI-11", "C-ELI-17"] AsLevel
        "an elicitation in a mode the client does not have is accepted" "answer unadvertised or unknown modes with error -32602";
}
