//! A model behind an address: asks, asks again when that can help, and reads the answer as it streams.

use std::future::Future;
use std::sync::{OnceLock, PoisonError, RwLock};
use std::time::Duration;

use acp_model::sse::{SseEvent, SseParser};
use acp_model::talk::{self, Delta};
use acp_model::wire::{self, StreamReader, WireFormat};
use reqwest::Response;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::aws::{self, Frames};
use super::pieces::{End, Speaker};
use super::settings::{AUTO, ModelSettings};
use super::trouble::{Again, Failure, causes};
use super::{
    Answering, ChatRequest, Discovering, Model, Piece, Provider, ProviderError, Stop, convert, listing,
};

/// A longer answer is no answer.
const LONGEST_ANSWER: usize = 64 * 1024 * 1024;
/// Nor is one whose single event is longer than this.
const LONGEST_EVENT: usize = 16 * 1024 * 1024;
/// So much of an error's body is read.
const LONGEST_ERROR: usize = 64 * 1024;
/// How long the list of models may take.
const LISTING: Duration = Duration::from_secs(10);

/// A model behind an address.
pub struct Remote {
    settings: ModelSettings,
    client: reqwest::Client,
    listed: RwLock<Option<Vec<Model>>>,
    first: OnceLock<String>,
}

impl Remote {
    /// Makes the client ready; asks nobody.
    pub fn new(settings: ModelSettings) -> Result<Remote, ProviderError> {
        let unusable = |reason| ProviderError::Unusable { provider: settings.vendor.name.clone(), reason };
        // The TLS library has no default of its own. Someone else in the process may have set one: that is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .default_headers(settings.headers().map_err(|error| unusable(error.to_string()))?)
            .user_agent(concat!("acp-workbench/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(settings.connect)
            // A key goes to the address that the person named, nowhere else.
            .redirect(reqwest::redirect::Policy::none());
        if settings.base.scheme() == "http" {
            // Without TLS nobody's certificates need to be read.
            builder = builder.tls_certs_only([]);
        }
        if settings.base.host_str().is_some_and(|host| matches!(host, "127.0.0.1" | "localhost" | "[::1]")) {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| {
            unusable(format!(
                "no client can be made: {}; does this system have certificates (Debian: ca-certificates)?",
                causes(&error)
            ))
        })?;
        Ok(Remote { settings, client, listed: RwLock::new(None), first: OnceLock::new() })
    }

    async fn answer(&self, request: ChatRequest, pieces: mpsc::Sender<Piece>) -> Result<Stop, ProviderError> {
        let mut request = convert::request(request, self.settings.wire);
        if request.model.is_empty() || request.model == AUTO {
            request.model = self.first_model().await?;
        }
        let body = self.body(&request).to_string();
        for attempt in 1.. {
            let mut speaker = Speaker::new(&pieces);
            let failure = match self.ask(&request, &body, &mut speaker).await {
                Ok(stop) => return Ok(stop),
                Err(failure) => failure,
            };
            let pause = failure.pause(attempt, &self.settings).filter(|_| !speaker.spoke);
            let Some(pause) = pause else { return Err(tried(failure, attempt, speaker.spoke)) };
            let seconds = pause.as_secs_f64();
            let _ = pieces
                .send(Piece::Notice(format!("{}; asking again in {seconds:.1} s", failure.error)))
                .await;
            tokio::time::sleep(pause).await;
        }
        unreachable!("the loop above ends by returning")
    }

    /// The request's body, with what a server wants beyond its wire format.
    fn body(&self, request: &talk::ModelRequest) -> Value {
        let mut body = wire::write_request(self.settings.wire, request);
        match self.settings.wire {
            WireFormat::Messages => {
                remember(&mut body);
                if self.settings.vendor.aws {
                    body = aws::body(body);
                }
            }
            // Only the vendor knows the new name of the limit.
            WireFormat::Chat if !self.settings.own || self.settings.vendor.keyless => {
                if let Some(limit) =
                    body.as_object_mut().and_then(|body| body.shift_remove("max_completion_tokens"))
                {
                    body["max_tokens"] = limit;
                }
            }
            _ => {}
        }
        body
    }

    async fn ask(
        &self,
        request: &talk::ModelRequest,
        body: &str,
        speaker: &mut Speaker<'_>,
    ) -> Result<Stop, Failure> {
        let url = self.settings.address(request);
        let mut asking = self.client.post(url.clone()).header("content-type", "application/json");
        if let Some(signer) = &self.settings.signer {
            let signed = signer.sign(&url, body.as_bytes(), jiff::Timestamp::now());
            asking = asking.headers(signed.ok_or_else(|| self.settings.unsigned())?);
        }
        let sending = asking.body(body.to_owned()).send();
        let response = self.in_time(sending).await?.map_err(|error| self.settings.unreachable(&error))?;
        let status = response.status().as_u16();
        if status != 200 {
            let headers = response.headers().clone();
            let body = self.whole(response, LONGEST_ERROR).await.unwrap_or_default();
            return Err(self.settings.refused(status, &headers, &body, &request.model));
        }
        let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().to_ascii_lowercase();
        if kind.contains("html") {
            let head = self.whole(response, LONGEST_ERROR).await.unwrap_or_default();
            return Err(self.settings.not_a_stream(&kind, &head));
        }
        if kind.contains("json") && !kind.contains("stream") && !kind.contains("ndjson") {
            return self.at_once(response, speaker).await;
        }
        if kind.contains("amazon.eventstream") {
            return self.framed(response, speaker).await;
        }
        self.streamed(response, &kind, speaker).await
    }

    /// An answer in Amazon's event stream, whose messages hold the vendor's own events.
    async fn framed(&self, mut response: Response, speaker: &mut Speaker<'_>) -> Result<Stop, Failure> {
        let (mut frames, mut reader) = (Frames::default(), StreamReader::new(self.settings.wire));
        let (mut all, mut any) = (0, false);
        while let Some(chunk) = self.chunk(&mut response).await? {
            all += chunk.len();
            if all > LONGEST_ANSWER {
                let most = LONGEST_ANSWER / 1024 / 1024;
                return Err(self.settings.nonsense(&format!("it is longer than {most} MiB")));
            }
            frames.push(&chunk);
            while let Some(message) = frames.next() {
                let event = match message.map_err(|reason| self.settings.nonsense(&reason))? {
                    aws::Message::Chunk(data) => SseEvent::data(data),
                    aws::Message::Failed { kind, message } => {
                        return Err(self.settings.broke_off(&kind, &message));
                    }
                    aws::Message::Other => continue,
                };
                let deltas =
                    reader.push(&event).map_err(|error| self.settings.nonsense(&error.to_string()))?;
                any |= reader.is_concluded() || deltas.iter().any(says);
                if let Some(end) = hear_all(speaker, deltas).await {
                    return self.finish_stream(end, any);
                }
            }
        }
        Err(self.settings.cut(""))
    }

    /// The next bytes of an answer; none at its end.
    async fn chunk(&self, response: &mut Response) -> Result<Option<bytes::Bytes>, Failure> {
        let chunk = self.in_time(response.chunk()).await?;
        chunk.map_err(|error| self.settings.cut(&format!(" ({})", error.without_url())))
    }

    /// Waits for the other side, but not for ever.
    async fn in_time<T>(&self, work: impl Future<Output = T>) -> Result<T, Failure> {
        tokio::time::timeout(self.settings.stall, work).await.map_err(|_| self.settings.silent())
    }

    /// Some servers answer in one piece although they were asked to stream.
    async fn at_once(&self, response: Response, speaker: &mut Speaker<'_>) -> Result<Stop, Failure> {
        let body = self.whole(response, LONGEST_ANSWER).await?;
        let json: Value = serde_json::from_slice(&body)
            .map_err(|_| self.settings.not_a_stream("application/json that is not JSON", &body))?;
        if let Some((kind, message)) = wire::read_error(&json) {
            return Err(self.settings.broke_off(&kind, &message));
        }
        let reply = wire::read_reply(self.settings.wire, &json)
            .map_err(|_| self.settings.not_a_stream("JSON of another kind", &body))?;
        for delta in reply.into_deltas() {
            if let Some(end) = speaker.hear(delta).await {
                return self.finish(end);
            }
        }
        Err(self.settings.cut(""))
    }

    async fn streamed(
        &self,
        mut response: Response,
        kind: &str,
        speaker: &mut Speaker<'_>,
    ) -> Result<Stop, Failure> {
        let (mut parser, mut reader) = (SseParser::default(), StreamReader::new(self.settings.wire));
        let (mut all, mut since, mut events) = (0, 0, 0_usize);
        // Whether there was more than the mark of its end that could be understood.
        let mut any = false;
        let mut head = Vec::new();
        loop {
            let Some(chunk) = self.chunk(&mut response).await? else { break };
            all += chunk.len();
            since += chunk.len();
            if head.len() < LONGEST_ERROR && events == 0 {
                head.extend_from_slice(&chunk[..chunk.len().min(LONGEST_ERROR)]);
            }
            parser.push(&chunk);
            while let Some(event) = parser.next_event() {
                (since, events) = (0, events + 1);
                let deltas =
                    reader.push(&event).map_err(|error| self.settings.nonsense(&error.to_string()))?;
                any |= reader.is_concluded() || deltas.iter().any(says);
                if let Some(end) = hear_all(speaker, deltas).await {
                    return self.finish_stream(end, any);
                }
            }
            if all > LONGEST_ANSWER || since > LONGEST_EVENT {
                let most = if all > LONGEST_ANSWER { LONGEST_ANSWER } else { LONGEST_EVENT } / 1024 / 1024;
                return Err(self.settings.nonsense(&format!("it is longer than {most} MiB")));
            }
        }
        let mut deltas = Vec::new();
        if let Some(event) = parser.finish() {
            events += 1;
            // The last event of a stream that was cut is cut too.
            deltas.extend(reader.push(&event).unwrap_or_default());
        }
        deltas.extend(reader.finish());
        any |= reader.is_concluded() || deltas.iter().any(says);
        if let Some(end) = hear_all(speaker, deltas).await {
            return self.finish_stream(end, any);
        }
        if events == 0 && !head.is_empty() && !speaker.spoke {
            return Err(self.settings.not_a_stream(kind, &head));
        }
        Err(self.settings.cut(""))
    }

    fn finish_stream(&self, end: End, any: bool) -> Result<Stop, Failure> {
        match any {
            true => self.finish(end),
            false => Err(self.settings.nonsense("it ends before it has begun; ask again")),
        }
    }

    fn finish(&self, end: End) -> Result<Stop, Failure> {
        match end {
            End::Stopped(stop) => Ok(stop),
            End::Failed { kind, message } => Err(self.settings.broke_off(&kind, &message)),
            End::Nameless => Err(self.settings.nonsense("it calls a tool without saying which")),
        }
    }

    /// A body of at most so many bytes; what is longer is cut for errors and refused for answers.
    async fn whole(&self, mut response: Response, most: usize) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        loop {
            match self.chunk(&mut response).await? {
                Some(chunk) => body.extend_from_slice(&chunk),
                None => return Ok(body),
            }
            if body.len() > most {
                if most == LONGEST_ANSWER {
                    return Err(self
                        .settings
                        .nonsense(&format!("it is longer than {} MiB", most / 1024 / 1024)));
                }
                body.truncate(most);
                return Ok(body);
            }
        }
    }

    /// The model to use when the person named none.
    async fn first_model(&self) -> Result<String, ProviderError> {
        if let Some(first) = self.first.get() {
            return Ok(first.clone());
        }
        let models = self.list().await?;
        match models.into_iter().next() {
            Some(model) => Ok(self.first.get_or_init(|| model.id).clone()),
            None => Err(ProviderError::Unusable {
                provider: self.settings.vendor.name.clone(),
                reason: format!("{} lists no models; name one with --model", self.settings.shown()),
            }),
        }
    }

    /// Asks for the list of models.
    async fn list(&self) -> Result<Vec<Model>, ProviderError> {
        let settings = &self.settings;
        let asking = async {
            let response = self
                .client
                .get(settings.models_address())
                .send()
                .await
                .map_err(|error| settings.unreachable(&error))?;
            let status = response.status().as_u16();
            let headers = response.headers().clone();
            let body = self.whole(response, LONGEST_ANSWER).await?;
            if status != 200 {
                return Err(settings.refused(status, &headers, &body, "list of models"));
            }
            let json: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
            listing::read(&json, settings.vendor, &settings.limits)
                .ok_or_else(|| settings.not_a_stream("no list of models", &body))
        };
        match tokio::time::timeout(LISTING, asking).await {
            Ok(listed) => listed.map_err(|failure| failure.error),
            Err(_) => Err(ProviderError::Unreachable {
                provider: settings.vendor.name.clone(),
                reason: format!("{} did not list its models in {} s", settings.shown(), LISTING.as_secs()),
            }),
        }
    }
}

impl Provider for Remote {
    fn name(&self) -> &str {
        &self.settings.vendor.name
    }

    fn models(&self) -> Vec<Model> {
        let listed = self.listed.read().unwrap_or_else(PoisonError::into_inner);
        listed.clone().unwrap_or_else(|| self.settings.models.clone())
    }

    fn discover(&self) -> Discovering<'_> {
        Box::pin(async {
            let listed = self.list().await?;
            let merged = listing::merge(&self.settings.models, listed);
            *self.listed.write().unwrap_or_else(PoisonError::into_inner) = Some(merged.clone());
            Ok(merged)
        })
    }

    fn turn(&self, request: ChatRequest, pieces: mpsc::Sender<Piece>) -> Answering<'_> {
        Box::pin(self.answer(request, pieces))
    }
}

/// Whether it is part of an answer, and not only its end.
fn says(delta: &Delta) -> bool {
    !matches!(delta, Delta::End { .. })
}

async fn hear_all(speaker: &mut Speaker<'_>, deltas: Vec<Delta>) -> Option<End> {
    for delta in deltas {
        if let Some(end) = speaker.hear(delta).await {
            return Some(end);
        }
    }
    None
}

/// The last error, with the number of tries when there were several.
fn tried(failure: Failure, attempt: u32, spoke: bool) -> ProviderError {
    let again = failure.again != Again::Never && !spoke && attempt > 1;
    let mut error = failure.error;
    if let (
        true,
        ProviderError::Unreachable { reason: words, .. }
        | ProviderError::Refused { message: words, .. }
        | ProviderError::BrokeOff { reason: words, .. },
    ) = (again, &mut error)
    {
        words.push_str(&format!(" (tried {attempt} times)"));
    }
    error
}

/// Lets the vendor keep what does not change between two questions: the tools and instructions, the conversation so far,
/// and what of it the question before had, which is found again however much was said since.
fn remember(body: &mut Value) {
    let mark = json!({"type": "ephemeral"});
    if let Some(system) = body["system"].as_str() {
        body["system"] = json!([{"type": "text", "text": system, "cache_control": mark}]);
    }
    let messages = body["messages"].as_array_mut().into_iter().flatten();
    for message in messages.rev().filter(|message| message["role"] == "user").take(2) {
        let block = message["content"].as_array_mut().and_then(|blocks| blocks.last_mut());
        if let Some(block) = block.filter(|block| block["type"] != "thinking") {
            block["cache_control"] = mark.clone();
        }
    }
}
