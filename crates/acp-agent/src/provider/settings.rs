//! What a provider needs to know, from the person's choice and the environment.

use std::time::Duration;

use acp_host::retry::Retry;
use acp_model::wire::{self, WireFormat};
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::aws::{self, Signer};
use super::key::Key;
use super::limits::Limits;
use super::vendors::Vendor;
use super::{Choice, Model, ProviderError};

/// The model that stands for "the first one that the server lists".
pub const AUTO: &str = "auto";

/// Why a provider cannot be reached with these settings.
#[derive(Debug, thiserror::Error)]
pub(super) enum SettingError {
    /// The key cannot be sent.
    #[error("the key in {0} has characters that no key has; copy it again")]
    Key(String),
    /// Requests cannot be signed.
    #[error(
        "there is no {0}; put {AWS_ACCESS} and {AWS_SECRET} (and AWS_SESSION_TOKEN where there is one) into the \
         environment, or a key of Bedrock into AWS_BEARER_TOKEN_BEDROCK"
    )]
    NoAccess(&'static str),
    /// A header cannot be called so.
    #[error("--header: {0:?} is no name of a header")]
    HeaderName(String),
    /// A header needs a variable that is not there.
    #[error("--header {header}: the environment variable {variable} is not set")]
    HeaderVariable {
        /// The header.
        header: String,
        /// The variable.
        variable: String,
    },
    /// A header cannot have this value.
    #[error("--header {0}: this is not a valid header value")]
    HeaderValue(String),
    /// The address has no scheme.
    #[error("{0:?} does not begin with http:// or https://")]
    Scheme(String),
    /// The address has another scheme, or no host.
    #[error("{0:?} does not begin with http:// or https:// and a host")]
    Host(String),
    /// It is no address.
    #[error("{text:?}: {error}")]
    Url {
        /// What was given.
        text: String,
        /// What is wrong with it.
        error: String,
    },
    /// It is no time.
    #[error("ACP_MODEL_STALL must be a number of seconds, not {0:?}")]
    Stall(String),
}

/// How one provider is reached.
#[derive(Clone, Debug)]
pub struct ModelSettings {
    pub(super) vendor: &'static Vendor,
    pub(super) wire: WireFormat,
    pub(super) base: Url,
    /// Whether it is the vendor's own address.
    pub(super) own: bool,
    pub(super) key: Option<Key>,
    /// The variable that the key is in, or should be in.
    pub(super) key_source: String,
    /// Who signs requests, where the vendor wants that.
    pub(super) signer: Option<Signer>,
    /// Headers of the person's own.
    extra: HeaderMap,
    /// What else must not be shown.
    secrets: Vec<Key>,
    pub(super) models: Vec<Model>,
    pub(super) limits: Limits,
    /// How the provider is asked again when it is busy.
    pub busy: Retry,
    /// How the provider is asked again when it was not reached.
    pub lost: Retry,
    /// The longest pause that a provider may ask for; beyond it, the person decides.
    pub longest_pause: Duration,
    /// How long connecting may take.
    pub connect: Duration,
    /// How long a connection may be silent.
    pub stall: Duration,
}

impl ModelSettings {
    /// Reads the choice and the environment; asks nobody.
    pub fn read(
        vendor_name: &str,
        choice: &Choice,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<ModelSettings, ProviderError> {
        let Some(vendor) = Vendor::find(vendor_name) else {
            let known = [super::SCRIPTED].into_iter().chain(Vendor::names()).collect::<Vec<_>>().join(", ");
            return Err(ProviderError::Unknown { name: vendor_name.to_owned(), known });
        };
        let unusable = |reason| ProviderError::Unusable { provider: vendor.name.clone(), reason };
        let wrong = |error: SettingError| unusable(error.to_string());
        let first = |names: &[String]| names.iter().find_map(|name| Some((name.clone(), filled(env(name))?)));
        let (base_source, base_text) = match filled(choice.base_url.clone()) {
            Some(text) => ("--base-url".to_owned(), text),
            None => first(&vendor.base_env)
                .unwrap_or_else(|| (String::new(), vendor.base.replace("{region}", &region(env)))),
        };
        let base = read_base(vendor, &base_text)
            .map_err(|reason| unusable(format!("{base_source} is no address: {reason}")))?;
        let usual = Url::parse(&vendor.base);
        let own = vendor.aws || usual.is_ok_and(|usual| usual.host_str() == base.host_str());
        let (mut key_source, key) = match first(&vendor.key_env) {
            Some((name, text)) => (name, Key::new(&text)),
            None => (vendor.key_env.first().cloned().unwrap_or_default(), None),
        };
        let (extra, mut secrets) = extra_headers(&choice.headers, env).map_err(wrong)?;
        let signer = if vendor.aws && key.is_none() { Some(signer(env).map_err(wrong)?) } else { None };
        if let Some(signer) = &signer {
            AWS_SECRET.clone_into(&mut key_source);
            secrets.push(signer.secret.clone());
            secrets.extend(signer.session.clone());
        }
        if key.is_none() && signer.is_none() && own && !vendor.keyless && !extra.contains_key("authorization")
        {
            return Err(unusable(format!(
                "there is no key; put one into the environment variable {key_source} (keys are made at {}), or name \
                 another address with --base-url",
                vendor.keys
            )));
        }
        let model = filled(choice.model.clone()).or_else(|| Some(first(&vendor.model_env)?.1));
        let limits = Limits { context: choice.context, given: choice.limits.clone() };
        let settings = ModelSettings {
            vendor,
            wire: if own { vendor.wire } else { vendor.elsewhere.unwrap_or(vendor.wire) },
            own,
            models: models(vendor, model.as_deref(), own, &limits),
            limits,
            base,
            key,
            key_source,
            signer,
            extra,
            secrets,
            busy: Retry { attempts: 5, first: Duration::from_secs(1), jitter: 0.25 },
            lost: Retry { attempts: 3, first: Duration::from_millis(500), jitter: 0.25 },
            longest_pause: Duration::from_secs(60),
            connect: Duration::from_secs(10),
            stall: stall(env).map_err(wrong)?,
        };
        settings.headers().map_err(wrong)?;
        Ok(settings)
    }

    /// The headers of every request.
    pub(super) fn headers(&self) -> Result<HeaderMap, SettingError> {
        let mut headers = HeaderMap::new();
        if self.wire == WireFormat::Messages && !self.vendor.aws {
            headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        }
        if let Some(key) = &self.key {
            self.add_key(key, &mut headers)?;
        }
        headers.extend(self.extra.clone());
        Ok(headers)
    }

    fn add_key(&self, key: &Key, headers: &mut HeaderMap) -> Result<(), SettingError> {
        let bearer = self.vendor.aws || self.key_source.ends_with("_TOKEN");
        let (name, prefix) = match self.wire {
            WireFormat::Messages if !bearer => ("x-api-key", ""),
            WireFormat::Gemini => ("x-goog-api-key", ""),
            WireFormat::Messages | WireFormat::Chat | WireFormat::Responses => ("authorization", "Bearer "),
        };
        let value = key.header(prefix).ok_or_else(|| SettingError::Key(self.key_source.clone()))?;
        headers.insert(HeaderName::from_static(name), value);
        Ok(())
    }

    /// Where a request goes.
    pub(super) fn address(&self, request: &acp_model::talk::ModelRequest) -> Url {
        match self.vendor.aws {
            true => self.below(&aws::path(&request.model)),
            false => self.below(&wire::path(self.wire, request)),
        }
    }

    /// Where the models are listed.
    pub(super) fn models_address(&self) -> Url {
        self.below(if self.wire == WireFormat::Gemini { "/v1beta/models" } else { "/v1/models" })
    }

    /// A path below the base. People write the base with and without its version.
    fn below(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        let base = url.path().trim_end_matches('/').to_owned();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let joined = match self.wire {
            WireFormat::Chat | WireFormat::Responses if base.is_empty() => path.to_owned(),
            WireFormat::Chat | WireFormat::Responses => {
                format!("{base}{}", path.strip_prefix("/v1").unwrap_or(path))
            }
            WireFormat::Messages => format!("{}{path}", base.strip_suffix("/v1").unwrap_or(&base)),
            WireFormat::Gemini => format!("{}{path}", base.strip_suffix("/v1beta").unwrap_or(&base)),
        };
        url.set_path(&joined);
        url.set_query(Some(query).filter(|query| !query.is_empty()));
        url
    }

    /// The base as people may see it.
    pub(super) fn shown(&self) -> String {
        let mut url = self.base.clone();
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_query(None);
        url.as_str().trim_end_matches('/').to_owned()
    }

    /// A text of the other side, without the key and other secrets.
    pub(super) fn scrub(&self, text: &str) -> String {
        self.key.iter().chain(&self.secrets).fold(text.to_owned(), |text, key| key.scrub(&text))
    }
}

const AWS_ACCESS: &str = "AWS_ACCESS_KEY_ID";
const AWS_SECRET: &str = "AWS_SECRET_ACCESS_KEY";

fn region(env: &dyn Fn(&str) -> Option<String>) -> String {
    let region = ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().find_map(|name| filled(env(name)));
    region.unwrap_or_else(|| "us-east-1".to_owned())
}

fn signer(env: &dyn Fn(&str) -> Option<String>) -> Result<Signer, SettingError> {
    let wanted = |name: &'static str| filled(env(name)).ok_or(SettingError::NoAccess(name));
    let (access, secret) = (wanted(AWS_ACCESS)?, wanted(AWS_SECRET)?);
    let secret = Key::new(&secret).ok_or(SettingError::NoAccess(AWS_SECRET))?;
    let session = filled(env("AWS_SESSION_TOKEN")).and_then(|text| Key::new(&text));
    Ok(Signer { access, secret, session, region: region(env) })
}

/// The person's own headers, with environment variables filled in, and what of them must not be shown.
fn extra_headers(
    given: &[(String, String)],
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<(HeaderMap, Vec<Key>), SettingError> {
    let (mut headers, mut secrets) = (HeaderMap::new(), Vec::new());
    for (name, text) in given {
        let named = HeaderName::from_bytes(name.trim().as_bytes())
            .map_err(|_| SettingError::HeaderName(name.clone()))?;
        let mut whole = String::new();
        let mut rest = text.trim();
        while let Some((before, variable, after)) = variable(rest) {
            let filled = filled(env(variable)).ok_or_else(|| SettingError::HeaderVariable {
                header: name.clone(),
                variable: variable.to_owned(),
            })?;
            secrets.extend(Key::new(&filled));
            whole.push_str(before);
            whole.push_str(&filled);
            rest = after;
        }
        whole.push_str(rest);
        let mut value = HeaderValue::from_str(&whole).map_err(|_| SettingError::HeaderValue(name.clone()))?;
        value.set_sensitive(true);
        secrets.extend(Key::new(&whole));
        headers.insert(named, value);
    }
    // The longest first, so that none leaves a part of another.
    secrets.sort_by_key(|key| std::cmp::Reverse(key.reveal().len()));
    Ok((headers, secrets))
}

/// The first `${NAME}` of a text, with what stands around it.
fn variable(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("${")?;
    let (name, after) = rest.split_once('}')?;
    Some((before, name, after))
}

fn filled(text: Option<String>) -> Option<String> {
    text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn read_base(vendor: &Vendor, text: &str) -> Result<Url, SettingError> {
    let written = text.contains("://");
    let whole = match (written, vendor.keyless) {
        (true, _) => text.to_owned(),
        // The variable of a local server holds what it listens on.
        (false, true) => format!("http://{}", text.replace("0.0.0.0", "127.0.0.1")),
        (false, false) => return Err(SettingError::Scheme(text.to_owned())),
    };
    let mut url = Url::parse(&whole)
        .map_err(|error| SettingError::Url { text: text.to_owned(), error: error.to_string() })?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(SettingError::Host(text.to_owned()));
    }
    if !written && url.port().is_none() {
        let usual = Url::parse(&vendor.base).ok().and_then(|usual| usual.port());
        let _ = url.set_port(usual);
    }
    url.set_fragment(None);
    let path = url.path().trim_end_matches('/').to_owned();
    let ends = ["/chat/completions", "/responses", "/messages"];
    if let Some(base) = ends.iter().find_map(|end| path.strip_suffix(end)) {
        url.set_path(base);
    }
    Ok(url)
}

/// The chosen model first. At another address than the vendor's, the vendor's models mean nothing.
fn models(vendor: &Vendor, chosen: Option<&str>, own: bool, limits: &Limits) -> Vec<Model> {
    let known = vendor.known().filter(|id| own && Some(*id) != chosen);
    let models: Vec<Model> = chosen.into_iter().chain(known).map(|id| limits.model(vendor, id)).collect();
    if !models.is_empty() {
        return models;
    }
    let name = "the first model of the server".to_owned();
    vec![Model { name, ..limits.model(vendor, AUTO) }]
}

/// A slow machine may need minutes for its first word.
fn stall(env: &dyn Fn(&str) -> Option<String>) -> Result<Duration, SettingError> {
    let Some(text) = filled(env("ACP_MODEL_STALL")) else { return Ok(Duration::from_secs(300)) };
    match text.parse::<u64>() {
        Ok(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds)),
        _ => Err(SettingError::Stall(text)),
    }
}
