//! The vendors as data: addresses, names of environment variables, known models.

use std::sync::LazyLock;

use acp_model::wire::WireFormat;
use serde::Deserialize;

/// One vendor, or one way to speak to it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Vendor {
    /// As `--provider` takes it.
    pub(super) name: String,
    /// Other names for it.
    #[serde(default)]
    pub(super) aliases: Vec<String>,
    /// Takes everything that it does not say itself from this one.
    #[serde(default)]
    like: Option<String>,
    /// What is spoken at the vendor's own address.
    pub(super) wire: WireFormat,
    /// What is spoken at other addresses, where it differs.
    #[serde(default)]
    pub(super) elsewhere: Option<WireFormat>,
    /// The vendor's own address.
    #[serde(default)]
    pub(super) base: String,
    /// Variables that hold another address.
    #[serde(default)]
    pub(super) base_env: Vec<String>,
    /// Variables that hold the key; the first is the one that errors name.
    #[serde(default)]
    pub(super) key_env: Vec<String>,
    /// Variables that hold the model.
    #[serde(default)]
    pub(super) model_env: Vec<String>,
    /// Where keys are made.
    #[serde(default)]
    pub(super) keys: String,
    /// Whether it is Amazon: requests are signed, and `{region}` in the address is filled in.
    #[serde(default)]
    pub(super) aws: bool,
    /// Whether the vendor's own address works without a key.
    #[serde(default)]
    pub(super) keyless: bool,
    /// What a model that is not listed takes in.
    #[serde(default)]
    pub(super) context: u64,
    /// How many tokens the longest answer of such a model has.
    #[serde(default)]
    pub(super) output: u64,
    /// The models known without asking; the first is the default.
    #[serde(default)]
    models: Vec<Known>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    id: String,
    name: String,
}

static VENDORS: LazyLock<Vec<Vendor>> = LazyLock::new(|| {
    let listed: Vec<Vendor> =
        serde_json::from_str(include_str!("vendors.json")).expect("vendors.json is tested");
    let like = |name: &str| listed.iter().find(|vendor| vendor.name == name).cloned();
    let whole = |vendor: &Vendor| match vendor.like.as_deref().and_then(like) {
        None => vendor.clone(),
        Some(model) => Vendor {
            name: vendor.name.clone(),
            aliases: vendor.aliases.clone(),
            wire: vendor.wire,
            elsewhere: vendor.elsewhere,
            ..model
        },
    };
    listed.iter().map(whole).collect()
});

impl Vendor {
    /// The one of this name.
    pub(super) fn find(name: &str) -> Option<&'static Vendor> {
        VENDORS.iter().find(|vendor| vendor.name == name || vendor.aliases.iter().any(|alias| alias == name))
    }

    /// All names that `--provider` takes.
    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        VENDORS.iter().map(|vendor| vendor.name.as_str())
    }

    /// The models known without asking.
    pub(super) fn known(&self) -> impl Iterator<Item = &str> {
        self.models.iter().map(|known| known.id.as_str())
    }

    /// What people call a model.
    pub(super) fn name_of(&self, id: &str) -> Option<&str> {
        self.models.iter().find(|known| known.id == id).map(|known| known.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_vendor_says_what_is_needed() {
        for vendor in VENDORS.iter() {
            assert!(vendor.base.starts_with("http"), "{}", vendor.name);
            assert!(!vendor.base_env.is_empty() && !vendor.key_env.is_empty(), "{}", vendor.name);
            assert!(vendor.keyless || !vendor.keys.is_empty(), "{}", vendor.name);
            assert!(
                vendor.context > 0 && vendor.output > 0 && (vendor.keyless || !vendor.models.is_empty()),
                "{}",
                vendor.name
            );
        }
        let names: Vec<_> = Vendor::names().collect();
        assert_eq!(
            names,
            ["anthropic", "openai", "openai-chat", "openai-responses", "google", "ollama", "bedrock"]
        );
        assert_eq!(Vendor::find("gemini").map(|vendor| vendor.name.as_str()), Some("google"));
        assert_eq!(Vendor::find("openai-chat").map(|vendor| vendor.wire), Some(WireFormat::Chat));
    }

    #[test]
    fn no_command_inherits_the_key_of_a_vendor() {
        for vendor in VENDORS.iter() {
            for name in &vendor.key_env {
                assert!(acp_link::credentials::OF_MODELS.contains(&name.as_str()), "{name}");
            }
        }
    }
}
