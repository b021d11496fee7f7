//! The table itself.
//!
//! A phrase is a regular expression in which a space stands for any white space and `{name:kind}` for something
//! free: `path` (quoted, or bare with a dot or slash in it), `name` (quoted or one bare word), `word`, `symbol`, `rest`
//! (quoted, or bare to where the phrase goes on), `quoted`, `number`, `duration`, `json`. Case does not matter.

use super::{Found, Intent};

/// One kind of wish.
pub struct Wish {
    /// Its name in the documentation.
    pub name: &'static str,
    /// What the agent does.
    pub does: &'static str,
    /// Sentences that mean it; each is checked by a test.
    pub examples: &'static [&'static str],
    /// The phrases that are looked for.
    pub phrases: &'static [&'static str],
    /// Makes the intent out of what a phrase captured.
    pub build: fn(&Found<'_>) -> Option<Intent>,
}

/// Every wish. Where two begin at the same word, the earlier one wins.
pub static TABLE: &[Wish] = &[
    Wish {
        name: "plan",
        does: "sends a plan of the wished number of steps (3 by default), then its progress, each time as a whole",
        examples: &[
            "Draft a plan for the release",
            "Make a plan with 5 steps to tidy the attic.",
            "Please outline a three-step plan",
        ],
        phrases: &[
            r"(?:draft|make|create|write|outline|propose|prepare|give me|show me|devise|come up with)(?: me)? (?:a|the|an)(?: \w+){0,2}? {steps:number}[- ]steps? plan(?: (?:for|to|of) {topic:rest}(?:[.!?]?\s*$|[.!?\n]))?",
            r"(?:draft|make|create|write|outline|propose|prepare|give me|show me|devise|come up with)(?: me)? (?:a|the|an|your)?\s*(?:\w+ ){0,2}?plan\b(?: (?:with|of|in) {steps:number} (?:steps?|entries|items|points))?(?: (?:for|to|of|about) {topic:rest}(?:[.!?]?\s*$|[.!?\n]))?",
            r"plan (?:how to|the steps (?:to|for)|your work (?:on|for)) {topic:rest}(?:[.!?]?\s*$|[.!?\n])",
        ],
        build: |found| Some(Intent::Plan { steps: found.number("steps"), topic: found.text("topic") }),
    },
    Wish {
        name: "edit",
        does: "reads the file, asks permission with a diff, then writes it with the text replaced",
        examples: &[
            "Replace 'red' with 'blue' in colours.txt",
            "In notes/todo.md, change \"one\" to \"two\"",
            "Edit config.toml: replace `a = 1` by `a = 2`",
        ],
        phrases: &[
            r"(?:replace|change|swap) (?:the (?:text|word|string|line) )?{old:quoted} (?:with|by|to|for|into) {new:quoted} in (?:the )?(?:file )?(?:named |called )?{path:name}",
            r"(?:in|edit|update|modify)(?: the)?(?: file)? {path:path}[,:]?(?: by)?(?: and)? (?:replac(?:e|ing)|chang(?:e|ing)|swap(?:ping)?) (?:the (?:text|word|string|line) )?{old:quoted} (?:with|by|to|for|into) {new:quoted}",
        ],
        build: |found| {
            Some(Intent::Edit { path: found.text("path")?, old: found.text("old")?, new: found.text("new")? })
        },
    },
    Wish {
        name: "append",
        does: "like edit, with the text added at the end",
        examples: &["Append 'last line' to log.txt"],
        phrases: &[
            r"(?:append|add) (?:the (?:text|line|words?) )?{text:quoted} (?:to|at the end of) (?:the )?(?:end of )?(?:the )?(?:file )?(?:named |called )?{path:name}",
        ],
        build: |found| Some(Intent::Append { path: found.text("path")?, text: found.text("text")? }),
    },
    Wish {
        name: "write",
        does: "asks permission with a diff, then writes the whole file through the client",
        examples: &[
            "Create a file named output.txt with text 'done'",
            "Write 'hello there' to greeting.txt",
            "Create notes/a.md containing \"# Title\"",
            "Make a new file called x.cfg that says `on`",
            "Save the text “été” into the file data.txt",
            "Write the file out.txt with the content: all good",
            "Create an empty file named void.txt",
        ],
        phrases: &[
            r"(?:create|make|write|add|save|generate)(?: me)?(?: (?:a|an|the))?(?: (?:new|text|small|plain))*(?: file)?(?: (?:named|called|at|at path|with (?:the )?name))? {path:path}(?: in [\w ]+?)?,?(?: and)? (?:with|containing|that (?:says|contains|reads)|holding|write|put|whose)(?: (?:exactly|just|only))?(?: (?:the|this|its|a))?(?: (?:single|one))?(?: (?:text|contents?|words?|line|string|body))?(?: (?:is|are|of|being))?:? {text:rest}(?: (?:to|in|into) it)?(?:[.!?]?\s*$|[.!?]\s|\n|,? (?:and|then) )",
            r"(?:write|save|put|store)(?: (?:exactly|just|only))?(?: the)?(?: (?:text|contents?|words?|line|string))?:? {text:quoted} (?:to|into|in|as) (?:(?:a|the) )?(?:new )?(?:file )?(?:named |called |at )?{path:name}",
            r"(?:create|make|write|add)(?: (?:a|an|the))?(?: (?:new|text|small|plain))* file (?:named|called|at) {path:name},?(?: and)? (?:with|containing|that (?:says|contains|reads)|holding)(?: (?:exactly|just|only))?(?: the)?(?: (?:text|contents?|words?|line|string))?:? {text:quoted}",
            r"(?:write|save|put|store)(?: the)?(?: (?:text|contents?|words?|line|string))?:? {text:rest} (?:to|into) (?:(?:a|the) )?(?:new )?(?:file )?(?:named |called |at )?{path:path}",
            r"(?:create|make|add) (?:a|an)(?: (?:new|empty|text|blank))* file (?:named|called|at) {path:name}",
        ],
        build: |found| {
            Some(Intent::Write { path: found.text("path")?, text: found.text("text").unwrap_or_default() })
        },
    },
    Wish {
        name: "run",
        does: "asks permission, runs the command in a terminal of the client, reads its output and releases it",
        examples: &[
            "Run the command 'echo hello' and show me the output",
            "Execute `ls -la`",
            "Use the terminal to run \"cargo --version\".",
            "Run the shell command: printf abc",
            "Run the command 'sleep 30' and kill it after 1 second",
        ],
        phrases: &[
            r"(?:run|execute|start|launch)(?: (?:the|this|a))?(?: (?:following|shell|terminal|bash|long))*(?: command)?:? {command:quoted}(?: in (?:a|the) terminal)?,?(?: (?:and|then|but))? (?:kill|stop|terminate|abort) it after {after:duration}",
            r"(?:run|execute|start|launch)(?: (?:the|this|a))?(?: (?:following|shell|terminal|bash|long))*(?: command)?:? {command:quoted}",
            r"(?:run|execute)(?: (?:the|this|a))?(?: (?:following|shell|terminal|bash))* command:? {command:rest}(?:[.!?]?\s*$|[.!?]\s|\n|,? (?:and|then) )",
            r"(?:run|execute) (?P<command9>pwd|ls(?: -\w+)?|whoami|date|true|false)\b",
        ],
        build: |found| {
            Some(Intent::Run {
                command: found.text("command").or_else(|| found.plain("command9"))?,
                kill_after: found.duration("after"),
            })
        },
    },
    Wish {
        name: "query",
        does: "looks for code of that shape with the code engine, if the agent has one",
        examples: &["Query the pattern 'fn $NAME() { $$$BODY }' in rust", "Find the code pattern `foo($A)`"],
        phrases: &[
            r"(?:query|find|search for|look for)(?: the| this| a)?(?: (?:code|structural|syntax|ast))? pattern:? {pattern:quoted}(?: in {language:word})?",
        ],
        build: |found| {
            Some(Intent::Query { pattern: found.text("pattern")?, language: found.text("language") })
        },
    },
    Wish {
        name: "extract",
        does: "takes the piece out of the file with the code engine, if the agent has one",
        examples: &["Extract src/lib.rs#main", "Extract the code at 'src/lib.rs:10-20'"],
        phrases: &[
            r"extract(?: the)?(?: (?:code|block|symbol|function|lines?))?(?: (?:at|of|from|in))? (?:{target:quoted}|(?P<target9>[^\s'\x22`,;?!]*[./:#][^\s'\x22`,;?!]*[^\s'\x22`,;?!.]))",
        ],
        build: |found| Some(Intent::Extract(found.text("target").or_else(|| found.plain("target9"))?)),
    },
    Wish {
        name: "delegate",
        does: "hands the task to a session of its own and tells what came of it, if the agent may",
        examples: &["Delegate the task 'Read notes.txt'", "Delegate: say 'done'"],
        phrases: &[
            r"delegate(?: (?:the|this|a))?(?: (?:following )?tasks?)?:? {task:quoted}",
            r"delegate(?: (?:the|this|a))?(?: (?:following )?task)?(?: to [\w -]+?)?: {task:rest}\s*$",
        ],
        build: |found| Some(Intent::Delegate(found.text("task")?)),
    },
    Wish {
        name: "search",
        does: "with a file: reads it through the client and shows the lines that hold the text; without: runs grep",
        examples: &[
            "Search for 'needle' in hay.txt",
            "Find \"TODO\" in the workspace",
            "Look for the word needle in hay.txt",
        ],
        phrases: &[
            r"(?:search(?: for)?|grep(?: for)?|find|look for)(?: the (?:text|word|string))? {text:quoted} (?:in|inside|within)(?: the)?(?: file)? {path:path}",
            r"(?:search for|grep(?: for)?|look for)(?: the (?:text|word|string))? {text:word} (?:in|inside|within)(?: the)?(?: file)? {path:path}",
            r"(?:search(?: for)?|grep(?: for)?|find|look for)(?: the (?:text|word|string))? {text:quoted}(?: in (?:the|this) (?:workspace|folder|project|directory|code|repo(?:sitory)?))?",
        ],
        build: |found| Some(Intent::Search { text: found.text("text")?, path: found.text("path") }),
    },
    Wish {
        name: "show",
        does: "shows the declaration of that name with the code engine, if the agent has one; without: runs grep",
        examples: &[
            "Show me the function authenticate",
            "Show me the parse_header function",
            "Show the definition of Client::send in src/net.rs",
            "Where is `authenticate` defined?",
            "What does the function authenticate do?",
        ],
        phrases: &[
            r"(?:show|display|print|open|give|find|get|explain|describe)(?: me)?(?: the)?(?: (?:code|source|source code|body|definition|declaration|implementation) (?:of|for))?(?: the)? (?:function|method|class|struct|type|enum|trait|interface|constant|macro|symbol)(?: (?:named|called))? {symbol:symbol}(?:\(\))?(?: (?:in|of|from)(?: the)?(?: file)? {path:path})?",
            r"(?:show|display|print|open|give|find|get|explain|describe)(?: me)?(?: the)? (?:code|source|source code|body|definition|declaration|implementation) (?:of|for)(?: the)? {symbol:symbol}(?:\(\))?(?: (?:in|from)(?: the)?(?: file)? {path:path})?",
            r"(?:show|display|print|open|give|get|explain|describe)(?: me)? the {symbol:symbol}(?:\(\))? (?:function|method|class|struct|type|enum|trait|interface|constant|macro)\b(?: (?:in|of|from)(?: the)?(?: file)? {path:path})?",
            r"where (?:is|are)(?: the)?(?: (?:function|method|class|struct|type|enum|trait|interface|constant|macro))? {symbol:symbol}(?:\(\))? (?:defined|declared|implemented)",
            r"what does(?: the)? (?:function|method|class|struct|type|enum|trait|interface|macro) {symbol:symbol}(?:\(\))? (?:do|mean)",
        ],
        build: |found| {
            let symbol = found.text("symbol")?;
            // "Show me the function that reads files" is a question.
            const NO_NAMES: [&str; 16] = [
                "that", "which", "for", "to", "in", "of", "where", "with", "and", "it", "this", "all",
                "from", "is", "the", "by",
            ];
            let is_name = !NO_NAMES.contains(&symbol.to_lowercase().as_str());
            is_name.then(|| Intent::Show { symbol, path: found.text("path") })
        },
    },
    Wish {
        name: "files",
        does: "lists the files with the code engine, if the agent has one; without: runs ls",
        examples: &[
            "What files are in this project?",
            "List the files in src/net",
            "Show me the project structure",
            "Which files are there?",
            "Find all *.rs files",
            "What is in this folder?",
        ],
        phrases: &[
            r"(?:find|list|show(?: me)?|which are|what are|give me)(?: me)?(?: all| every)?(?: of)?(?: the)?(?: files (?:named|called|like|matching))? (?:'(?P<pattern1>[^'\s]*[*?][^'\s]*)'|`(?P<pattern2>[^`\s]*[*?][^`\s]*)`|(?P<pattern0>[\w./{},-]*\*[\w./{},*-]*))(?: files?)?(?: (?:in|inside|under|below|within)(?: the)?(?: folder| directory)? {path:path})?",
            r"(?:what|which)(?: \w+)? (?:files|folders|directories)(?: and (?:files|folders|directories))? (?:are|exist|can you see|do you see|do we have|do i have)(?: there)?(?: (?:in|inside|under|below|within)(?: (?:(?:the|this|my|our)(?: current| working)? (?:project|folder|directory|workspace|repo(?:sitory)?|codebase)|here|{path:path}))?)?\s*(?:[.,!?]|$)",
            r"(?:list|show|enumerate|print|give)(?: me)?(?: all)?(?: of)?(?: the| my| our)?(?: (?:project|source|code|workspace))?(?: (?:files|folders|directories))(?: and (?:files|folders|directories))?(?: (?:in|inside|under|below|within|of)(?: (?:(?:the|this|my|our)(?: current| working)? (?:project|folder|directory|workspace|repo(?:sitory)?|codebase)|(?:the )?(?:folder |directory )?{path:name})))?\s*(?:[.,!?]|$)",
            r"(?:list|show|print|give|describe|explain)(?: me)?(?: the| my| our)?(?: (?:project|folder|directory|file|repo(?:sitory)?|code)(?:'s)?) (?:structure|tree|layout|listing|contents?)",
            r"(?:what is|what's) in(?:side)?(?: of)? (?:this|the|my|our) (?:folder|project|directory|repo(?:sitory)?|workspace|codebase)",
            r"list (?:this|the) (?:folder|directory|project)",
        ],
        build: |found| {
            let pattern =
                ["pattern0", "pattern1", "pattern2"].into_iter().find_map(|group| found.plain(group));
            Some(Intent::Files { path: found.text("path"), pattern })
        },
    },
    Wish {
        name: "find",
        does: "searches the code for the words with the code engine, if the agent has one; without: runs grep",
        examples: &[
            "Search for authenticate",
            "Search the code for retry logic",
            "Please look for parse errors in this project.",
        ],
        phrases: &[
            r"(?:search|grep|look)(?: (?:in |through )?(?:the|this|my|our) (?:code|codebase|project|repo(?:sitory)?|files|workspace|folder))? for(?: the (?:text|words?|string|term))? {text:rest}(?: in (?:the|this|my|our) (?:workspace|folder|project|directory|code|codebase|repo(?:sitory)?))?(?:[.!?]?\s*$|[.!?]\s|\n|,? (?:and|then) )",
        ],
        build: |found| Some(Intent::Find(found.text("text")?)),
    },
    Wish {
        name: "read link",
        does: "reads the file that a resource link in the same prompt points to",
        examples: &["Read the linked file", "Summarize the attached document."],
        phrases: &[
            r"(?:read|open|show(?: me)?|print|summari[sz]e|describe|what is in|what's in)(?: the contents? of)? (?:the|this|that) (?:linked|attached|referenced|mentioned) (?:file|resource|document|text)",
        ],
        build: |_| Some(Intent::ReadLink),
    },
    Wish {
        name: "read",
        does: "reads the file through the client and says its text; never without the capability",
        examples: &[
            "Read greeting.txt and tell me its contents.",
            "Read lines 2 to 4 of notes/long.txt",
            "Show me the contents of 'my file.txt'",
            "What is in the file data.json?",
            "Please read the first 3 lines of a.txt",
            "Open /tmp/x/readme.md",
            "Read Makefile",
            "Explain src/main.rs",
        ],
        phrases: &[
            r"(?:read|open|show(?: me)?|print|cat|display|summari[sz]e) lines {from:number} ?(?:to|-|–|through|until) ?{to:number} (?:of|in|from)(?: the)?(?: file)? {path:name}",
            r"(?:read|open|show(?: me)?|print|cat|display)(?: only)? line {from:number} (?:of|in|from)(?: the)?(?: file)? {path:name}",
            r"(?:read|open|show(?: me)?|print|cat|display)(?: only)? the first {limit:number} lines? (?:of|in|from)(?: the)?(?: file)? {path:name}",
            r"(?:read|open|show(?: me)?|print|cat|display|summari[sz]e|explain|describe|load|view|inspect|tell me|give me|what (?:is|are)|what's)(?: me)?(?: (?:in|inside))?(?: the)?(?: (?:whole|entire|full|text))?(?: (?:contents?|text) (?:of|in))?(?: the)?(?: (?:text|local|whole))?(?: file)?(?: (?:named|called|at))? {path:path}",
            r"(?:read|open|show(?: me)?|print|cat|display|summari[sz]e|view|inspect)(?: (?:in|inside))?(?: the)?(?: (?:contents?|text) (?:of|in))?(?: the)? file(?: (?:named|called|at))? {path:name}",
            r"(?:what is|what's|what are)(?: (?:in|inside))?(?: the)?(?: (?:contents?|text) (?:of|in))?(?: the)? file(?: (?:named|called|at))? {path:name}",
            // Names that everybody knows for files' without a dot.
            r"(?:read|open|show(?: me)?|print|cat|display|summari[sz]e|explain|describe|view|inspect)(?: the)? (?P<path6>README|LICEN[CS]E|CHANGELOG|Makefile|GNUmakefile|Dockerfile|Containerfile|Gemfile|Rakefile|Procfile|Jenkinsfile|justfile)\b",
        ],
        build: |found| {
            let line = found.number("from");
            let limit = match (line, found.number("to")) {
                (Some(from), Some(to)) => Some(to.saturating_sub(from) + 1),
                (Some(_), None) => Some(1),
                _ => found.number("limit"),
            };
            Some(Intent::Read { path: found.text("path")?, line: line.map(|line| line.max(1)), limit })
        },
    },
    Wish {
        name: "mcp list",
        does: "says which tools the session's MCP servers offer",
        examples: &["Which MCP tools do you have?", "List the MCP tools"],
        phrases: &[r"(?:which|what|list)(?: (?:the|all|your))?(?: available)? mcp tools"],
        build: |_| Some(Intent::McpList),
    },
    Wish {
        name: "mcp",
        does: "calls the tool on the session's MCP server and says what it answered",
        examples: &[
            "Call the local MCP tool ping",
            "Use the MCP tool 'echo' with {\"text\": \"hi\"}",
            "Call the tool list-files of the server stub",
            "Use the echo tool from the stub MCP server with {\"text\":\"x\"}",
        ],
        phrases: &[
            r"(?:call|use|invoke|run)(?: the| your| a)?(?: local)?(?: mcp)? tool(?: (?:named|called))? {tool:word}(?: (?:of|on|from|at)(?: the)?(?: mcp)? server(?: (?:named|called))? {server:word})?(?:,?(?: and)? (?:with|using|passing)(?: the)?(?: (?:arguments?|input|params?|parameters))?:? {args:json})?",
            r"(?:call|use|invoke|run) (?:the |your )?{tool:word} (?:mcp )?tool (?:of|on|from|at) (?:the )?{server:word} (?:mcp )?server(?:,?(?: and)? (?:with|using|passing)(?: the)?(?: (?:arguments?|input|params?|parameters))?:? {args:json})?",
            r"(?:call|use|invoke|run) (?:the |your )?{tool:word} (?:local )?mcp tool(?:,?(?: and)? (?:with|using|passing)(?: the)?(?: (?:arguments?|input|params?|parameters))?:? {args:json})?",
        ],
        build: |found| {
            let tool = found.text("tool")?;
            if tool == "that" {
                return None;
            }
            Some(Intent::Mcp { server: found.text("server"), tool, arguments: found.text("args") })
        },
    },
    Wish {
        name: "remember",
        does: "keeps the word in this session alone",
        examples: &[
            "Remember the word kumquat.",
            "The secret code is 'X-17'",
            "Please remember this number: 4711",
        ],
        phrases: &[
            r"remember (?:this |the |my )?(?:secret |magic |pass)?(?:word|code|number|name|phrase|password)?:? ?(?:is )?{word:word}",
            r"(?:the|my) (?:secret|magic|pass)\s?(?:word|code|number|name|phrase)? (?:is|shall be):? {word:word}",
        ],
        build: |found| Some(Intent::Remember(found.text("word")?)),
    },
    Wish {
        name: "recall",
        does: "says the word of this session, or that it knows none",
        examples: &["What was the word?", "Which word did I ask you to remember?", "Tell me the secret code"],
        phrases: &[
            r"(?:what|which) (?:was|is|were)(?: the| my)? (?:secret |magic |pass)?(?:word|code|number|phrase)\b",
            r"(?:what|which) (?:word|code|number|phrase|name) (?:did|have|was|should)",
            r"(?:tell me|repeat|say|recall)(?: again)? the (?:secret |magic |pass)?(?:word|code|number|phrase)\b",
        ],
        build: |_| Some(Intent::Recall),
    },
    Wish {
        name: "parts",
        does: "answers in several messages (3 by default), each with its own message id",
        examples: &["Respond in multiple steps", "Answer in 4 parts", "Reply in several messages, please"],
        phrases: &[
            r"(?:respond|answer|reply|speak|write|explain(?: \w+)?) (?:to me )?in {parts:number} (?:steps|parts|messages|pieces|chunks)",
            r"(?:respond|answer|reply|speak|write|explain(?: \w+)?) (?:to me )?in (?:multiple|several|many|a few|some|separate) (?:steps|parts|messages|pieces|chunks)",
        ],
        build: |found| Some(Intent::Parts(found.number("parts").unwrap_or(3).clamp(1, 100))),
    },
    Wish {
        name: "think",
        does: "sends thoughts, then streams an answer for about two and a half seconds, or as long as was wished",
        examples: &[
            "Think a bit then respond.",
            "Think for 4 seconds",
            "Take your time and answer slowly",
            "Write a very long story about the sea",
            "Stream for 3 seconds",
        ],
        phrases: &[
            r"(?:think|stream|keep (?:talking|writing|streaming)|talk|work)(?: \w+)? for(?: about)? {time:duration}",
            r"think (?:a bit|a while|a little|hard|deeply|long|carefully|about|for a (?:while|bit|moment)|it over|first|step by step)",
            r"take your time(?: and (?:answer|respond) slowly)?|answer slowly|respond slowly",
            r"(?:write|tell|compose|generate)(?: me)? an? (?:very |really |extremely )?(?:long|detailed|lengthy|endless)[\w ,-]*? (?:story|essay|poem|text|report|tale|answer|explanation|article)",
        ],
        build: |found| Some(Intent::Think(found.duration("time"))),
    },
    Wish {
        name: "count",
        does: "streams the numbers, one chunk each, a tenth of a second apart; beyond 1000 without pauses",
        examples: &["Count slowly to 30", "Count from 1 to 50"],
        phrases: &[r"count(?: slowly)?(?: from (?:1|one))?(?: up)? to {to:number}"],
        build: |found| Some(Intent::Count(found.number("to")?.clamp(1, 100_000))),
    },
    Wish {
        name: "wait",
        does: "says nothing for that long, then answers",
        examples: &["Wait 2 seconds", "Sleep for 300 ms"],
        phrases: &[r"(?:wait|sleep|pause|be silent)(?: for)? {time:duration}"],
        build: |found| Some(Intent::Wait(found.duration("time")?)),
    },
    Wish {
        name: "elicit url",
        does: "asks the person to open a page (URL elicitation), then reports its completion",
        examples: &["Ask me to sign in", "Send me to a web page", "Ask me to open a link"],
        phrases: &[
            r"ask me to (?:sign|log) ?in",
            r"(?:ask me to (?:open|visit|follow)|send me to) (?:a|the|your) (?:web ?)?(?:page|link|url|site|website)",
            r"elicit (?:a |with a |by )?(?:url|link)",
        ],
        build: |_| Some(Intent::ElicitUrl),
    },
    Wish {
        name: "elicit form",
        does: "asks the person with a form (form elicitation) and says what came back",
        examples: &["Ask me for my name", "Ask me for the project name with a form", "Show me a form"],
        phrases: &[
            r"ask me (?:for|about) (?:my |the |a |an )?{what:rest}(?: (?:with|using|in) a form)?(?:[.!?]?\s*$|[.!?\n])",
            r"(?:show|send|give) me a form",
            r"ask me (?:a question|something)(?: (?:with|using|in) a form)?",
            r"elicit (?:a |with a |by )?form",
        ],
        build: |found| Some(Intent::ElicitForm(found.text("what"))),
    },
    Wish {
        name: "permission",
        does: "asks permission for a harmless tool call",
        examples: &["Ask for permission", "Do something that needs my permission"],
        phrases: &[
            r"(?:ask|request)(?: me)?(?: for)? (?:my )?permission",
            r"do something that (?:needs|requires)(?: my)? permission",
        ],
        build: |_| Some(Intent::Permission),
    },
    Wish {
        name: "tool failure",
        does: "runs a tool call that ends as failed",
        examples: &["Use a tool that fails", "Make a tool call fail"],
        phrases: &[
            r"(?:use|call|run) (?:a|the) tool that (?:fails|will fail|breaks)",
            r"make (?:a|the|one) tool (?:call )?fail",
        ],
        build: |_| Some(Intent::ToolFailure),
    },
    Wish {
        name: "refuse",
        does: "ends the turn with the stop reason refusal",
        examples: &["Refuse this request", "Please refuse to answer"],
        phrases: &[
            r"refuse(?: (?:this|the|my|to))?(?: (?:request|prompt|answer|respond|help))?\b",
            r"answer with a refusal",
        ],
        build: |_| Some(Intent::Refuse),
    },
    Wish {
        name: "max tokens",
        does: "ends the turn with the stop reason max_tokens",
        examples: &["Run out of tokens", "Hit the token limit"],
        phrases: &[
            r"run out of tokens",
            r"(?:hit|reach|exceed|stop at) (?:the|your) (?:max(?:imum)? )?tokens?(?: limit| maximum)?",
        ],
        build: |_| Some(Intent::MaxTokens),
    },
    Wish {
        name: "max turn requests",
        does: "ends the turn with the stop reason max_turn_requests",
        examples: &["Hit the turn limit", "Exceed the limit of model requests"],
        phrases: &[
            r"(?:hit|reach|exceed|stop at) (?:the|your) (?:limit of (?:model )?requests|turn (?:request )?limit|request limit|max(?:imum)? turn requests)",
        ],
        build: |_| Some(Intent::MaxTurnRequests),
    },
    Wish {
        name: "fail",
        does: "answers the prompt with an error (-32603, or the wished code)",
        examples: &["Fail with an internal error", "Fail with code -32050"],
        phrases: &[
            r"(?:fail|answer|crash) with (?:error )?code (?P<code>-?\d+)",
            r"fail with an? (?:internal )?error|answer with an error",
        ],
        build: |found| Some(Intent::Fail(found.plain("code").and_then(|code| code.parse().ok()))),
    },
    Wish {
        name: "mode",
        does: "changes the session's mode and tells the client",
        examples: &["Switch to plan mode", "Change your mode to 'auto'"],
        phrases: &[
            r"(?:switch|change|go)(?: over)? (?:in)?to (?:the )?{mode:word} mode",
            r"(?:switch|change|set) (?:your|the|this session's) mode to {mode:word}",
        ],
        build: |found| Some(Intent::Mode(found.text("mode")?)),
    },
    Wish {
        name: "config",
        does: "changes a config option and tells the client the whole new list",
        examples: &["Change your model to mock-large", "Set your thought level to high"],
        phrases: &[
            r"(?:switch|change|set) (?:your|the) (?P<option0>model|thought[ _]level|thinking|verbose|verbosity) to {value:word}",
        ],
        build: |found| Some(Intent::Config { option: found.text("option")?, value: found.text("value")? }),
    },
    Wish {
        name: "notice",
        does: "sends a notice, to a client that can show one",
        examples: &["Send me a notice", "Send a notice saying 'disk is full'"],
        phrases: &[
            r"(?:send|show|give)(?: me)? a notice(?: (?:saying|titled|that says) {text:rest}(?:[.!?]?\s*$|[.!?\n]))?",
        ],
        build: |found| Some(Intent::Notice(found.text("text"))),
    },
    Wish {
        name: "compact",
        does: "compacts the conversation and reports it, to a client that can show it",
        examples: &["Compact the conversation", "Compact your context"],
        phrases: &[r"compact (?:the|your|this) (?:conversation|context|history|session)"],
        build: |_| Some(Intent::Compact),
    },
    Wish {
        name: "title",
        does: "gives the session a title and tells the client",
        examples: &["Rename this session to 'Spring cleaning'", "Title the session \"X\""],
        phrases: &[
            r"(?:rename|title|call) (?:this|the|our) (?:session|conversation)(?: to| as)? {title:rest}(?:[.!?]?\s*$|[.!?\n])",
        ],
        build: |found| Some(Intent::Title(found.text("title")?)),
    },
    Wish {
        name: "usage",
        does: "reports tokens used and their cost",
        examples: &["Report your usage", "How many tokens have you used?"],
        phrases: &[r"(?:report|show|tell me)(?: me)? (?:your|the) (?:token )?usage|how many tokens"],
        build: |_| Some(Intent::Usage),
    },
    Wish {
        name: "commands",
        does: "announces the slash commands again",
        examples: &["Announce your commands", "Which slash commands do you have?"],
        phrases: &[
            r"(?:announce|update|list|show)(?: me)? (?:your|the) (?:slash )?commands|(?:which|what) (?:slash )?commands",
        ],
        build: |_| Some(Intent::Commands),
    },
    Wish {
        name: "where",
        does: "says the session's working folder and further roots",
        examples: &["What is your working directory?", "Where do you work?"],
        phrases: &[
            r"(?:what|which)(?: is|'s)?(?: your| the)?(?: current)? (?:working )?(?:directory|folder)|where (?:do you work|are you working|are you)\b",
        ],
        build: |_| Some(Intent::WhereAmI),
    },
    Wish {
        name: "image",
        does: "answers with an image",
        examples: &["Show me an image", "Draw a picture"],
        phrases: &[r"(?:show|send|draw|paint|give)(?: me)? (?:an?|the) (?:small |tiny )?(?:image|picture)"],
        build: |_| Some(Intent::Image),
    },
    Wish {
        name: "audio",
        does: "answers with a sound",
        examples: &["Play a sound", "Send me an audio clip"],
        phrases: &[r"(?:play|send|make|give)(?: me)? an? (?:sound|audio clip|audio|noise)"],
        build: |_| Some(Intent::Audio),
    },
    Wish {
        name: "resource",
        does: "answers with a resource link and an embedded resource",
        examples: &["Send me a resource", "Give me a resource link"],
        phrases: &[r"(?:show|send|give)(?: me)? an? (?:resource(?: link)?|embedded resource)"],
        build: |_| Some(Intent::Resource),
    },
    Wish {
        name: "say",
        does: "answers with exactly that text",
        examples: &["Say 'good morning'", "Reply with exactly: pong", "Echo “naïve 🦀”"],
        phrases: &[
            r"(?:say|echo|print)(?: (?:exactly|only|just))?:? {text:quoted}",
            r"(?:reply|respond|answer)(?: to me)? with(?: (?:exactly|only|just))?(?: the)?(?: (?:words?|text|string))?:? {text:quoted}",
            r"(?:reply|respond|answer)(?: to me)? with (?:exactly|only|just)(?: the)?(?: (?:words?|text|string))?:? {text:rest}(?:[.!?]?\s*$|[.!?\n])",
            r"repeat after me:? {text:rest}(?:[.!?]?\s*$|[.!?\n])",
        ],
        build: |found| Some(Intent::Say(found.text("text")?)),
    },
];
