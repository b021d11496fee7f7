//! Several providers, one after the other: when one cannot answer for now, the next one is asked.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::{Answering, ChatRequest, Discovering, Model, Piece, Provider, ProviderError, Stop};

/// How long a provider that could not answer is left alone.
const REST: Duration = Duration::from_secs(60);
/// How many pieces may wait between a provider and the turn.
const QUEUE: usize = 16;

/// Providers in the order in which they are asked.
pub(super) struct Chain {
    first: Link,
    others: Vec<Link>,
}

struct Link {
    provider: Arc<dyn Provider>,
    /// Until when it is left alone.
    rests: Mutex<Option<Instant>>,
}

impl Link {
    fn new(provider: Arc<dyn Provider>) -> Self {
        Self { provider, rests: Mutex::default() }
    }

    fn is_resting(&self) -> bool {
        let rests = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
        rests.is_some_and(|until| Instant::now() < until)
    }

    fn rest(&self, until: Option<Instant>) {
        *self.rests.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }
}

impl Chain {
    pub(super) fn new(first: Arc<dyn Provider>, others: Vec<Arc<dyn Provider>>) -> Self {
        Self { first: Link::new(first), others: others.into_iter().map(Link::new).collect() }
    }

    /// Those that are not left alone for now; all of them where that is nobody.
    fn awake(&self) -> Vec<&Link> {
        let all: Vec<&Link> = std::iter::once(&self.first).chain(&self.others).collect();
        let awake: Vec<&Link> = all.iter().copied().filter(|link| !link.is_resting()).collect();
        if awake.is_empty() { all } else { awake }
    }

    async fn ask(&self, request: ChatRequest, pieces: mpsc::Sender<Piece>) -> Result<Stop, ProviderError> {
        let queue = self.awake();
        let mut last = None;
        for (at, link) in queue.iter().enumerate() {
            let is_first = std::ptr::eq(*link, &self.first);
            let asked = if is_first { request.clone() } else { for_another(&request, &*link.provider) };
            let (outcome, spoke) = relay(&*link.provider, asked, &pieces).await;
            let error = match outcome {
                Ok(stop) => {
                    link.rest(None);
                    return Ok(stop);
                }
                Err(error) => error,
            };
            let Some(next) = queue.get(at + 1).filter(|_| !spoke && error.may_pass_elsewhere()) else {
                return Err(error);
            };
            link.rest(Some(Instant::now() + REST));
            let words = format!("{error}; asking {} instead", next.provider.name());
            let _ = pieces.send(Piece::Notice(words)).await;
            last = Some(error);
        }
        Err(last.unwrap_or_else(|| ProviderError::Unusable {
            provider: self.first.provider.name().to_owned(),
            reason: "there is nobody to ask".to_owned(),
        }))
    }
}

/// The same question for another provider: its own model, and no longer answer than that can give.
fn for_another(request: &ChatRequest, provider: &dyn Provider) -> ChatRequest {
    let mut request = request.clone();
    if let Some(model) = provider.models().into_iter().next() {
        request.max_tokens = request.max_tokens.min(model.output);
        request.model = model.id;
    }
    request
}

/// Asks one provider and passes its pieces on. Also tells whether it has said anything: then nobody else can answer.
async fn relay(
    provider: &dyn Provider,
    request: ChatRequest,
    to: &mpsc::Sender<Piece>,
) -> (Result<Stop, ProviderError>, bool) {
    let (pieces, mut arriving) = mpsc::channel(QUEUE);
    let forward = async {
        let mut spoke = false;
        while let Some(piece) = arriving.recv().await {
            spoke |= !matches!(piece, Piece::Notice(_) | Piece::Usage { .. });
            if to.send(piece).await.is_err() {
                break;
            }
        }
        spoke
    };
    tokio::join!(provider.turn(request, pieces), forward)
}

impl Provider for Chain {
    fn name(&self) -> &str {
        self.first.provider.name()
    }

    fn models(&self) -> Vec<Model> {
        self.first.provider.models()
    }

    fn discover(&self) -> Discovering<'_> {
        self.first.provider.discover()
    }

    fn turn(&self, request: ChatRequest, pieces: mpsc::Sender<Piece>) -> Answering<'_> {
        Box::pin(self.ask(request, pieces))
    }
}
