//! The house's own rules: a crate uses only lower floors, and a pure crate cannot touch the world.

#[path = "floors/security.rs"]
mod security;
#[path = "floors/supply.rs"]
mod supply;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const PURE: &[&str] = &[
    "acp-proto",
    "acp-rpc",
    "acp-match",
    "acp-policy",
    "acp-text",
    "acp-rules",
    "acp-dialect",
    "acp-script",
    "acp-profile",
    "acp-comply",
    "acp-report",
    "acp-play",
];

const FLOORS: &[&[&str]] = &[
    &["acp-proto"],
    &["acp-rpc", "acp-match", "acp-policy", "acp-text"],
    &["acp-link", "acp-dialect", "acp-rules", "acp-script", "acp-profile"],
    &["acp-driver", "acp-relay"],
    &["acp-host", "acp-comply", "acp-model", "acp-mcp", "acp-code"],
    &["acp-play", "acp-proxy", "acp-agent", "acp-mock", "acp-client-mock", "acp-report"],
    &["acp-campaign", "acp-nats"],
    &["acp-chat", "acp-exam"],
    &["acp-workbench", "acp-bench"],
];

fn crates_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn manifests() -> BTreeMap<String, toml::Table> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(crates_dir()).expect("crates/") {
        let file = entry.expect("an entry of crates/").path().join("Cargo.toml");
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let table: toml::Table = text.parse().expect("a manifest");
        let name = table["package"]["name"].as_str().expect("a package name").to_owned();
        found.insert(name, table);
    }
    found
}

fn dependencies(manifest: &toml::Table, section: &str) -> Vec<String> {
    manifest
        .get(section)
        .and_then(toml::Value::as_table)
        .map(|table| table.keys().cloned().collect())
        .unwrap_or_default()
}

fn floor(name: &str) -> usize {
    FLOORS
        .iter()
        .position(|floor| floor.contains(&name))
        .unwrap_or_else(|| panic!("{name} stands on no floor: add it to FLOORS and to ARCHITECTURE.md"))
}

#[test]
fn a_crate_uses_only_lower_floors() {
    for (name, manifest) in manifests() {
        if name == "acp-testkit" {
            continue;
        }
        for used in dependencies(&manifest, "dependencies") {
            if !used.starts_with("acp-") {
                continue;
            }
            assert_ne!(used, "acp-testkit", "{name}: acp-testkit is for dev-dependencies only");
            assert!(floor(&used) < floor(&name), "{name} must not use {used}, which is not on a lower floor");
        }
    }
}

#[test]
fn a_pure_crate_has_no_runtime_and_denies_the_world() {
    for (name, manifest) in manifests() {
        if !PURE.contains(&name.as_str()) {
            continue;
        }
        let dependencies = dependencies(&manifest, "dependencies");
        for edge in ["tokio", "axum", "reqwest", "rustix", "cap-std", "async-nats"] {
            assert!(!dependencies.iter().any(|used| used == edge), "{name} is pure and must not use {edge}");
        }
        let lib = std::fs::read_to_string(crates_dir().join(&name).join("src/lib.rs")).expect("lib.rs");
        assert!(
            lib.contains("#![deny(clippy::disallowed_methods)]"),
            "{name}/src/lib.rs must begin with #![deny(clippy::disallowed_methods)]"
        );
    }
}

#[test]
fn every_workspace_dependency_is_used_by_a_crate() {
    let root = std::fs::read_to_string(crates_dir().join("../Cargo.toml")).expect("Cargo.toml");
    let root: toml::Table = root.parse().expect("a manifest");
    let declared = root["workspace"]["dependencies"].as_table().expect("a table").keys();
    let manifests = manifests();
    let used: Vec<String> = manifests
        .values()
        .flat_map(|manifest| {
            let sections = ["dependencies", "dev-dependencies", "build-dependencies"];
            let targets = manifest.get("target").and_then(toml::Value::as_table).into_iter().flatten();
            let manifests = targets.filter_map(|(_, target)| target.as_table()).chain([manifest]);
            manifests
                .flat_map(|manifest| sections.into_iter().flat_map(|section| dependencies(manifest, section)))
                .collect::<Vec<_>>()
        })
        .collect();
    let unused: Vec<_> = declared.filter(|name| !used.contains(name)).collect();
    assert!(unused.is_empty(), "nothing uses {unused:?}: remove them from [workspace.dependencies]");
}

#[test]
fn every_crate_forbids_unsafe_code_by_the_workspace_lints() {
    for (name, manifest) in manifests() {
        let inherits = manifest.get("lints").and_then(|lints| lints.get("workspace"))
            == Some(&toml::Value::Boolean(true));
        assert!(inherits, "{name}: add [lints] workspace = true");
    }
}

#[test]
fn the_reference_agent_cannot_be_given_a_defect() {
    for name in ["MockAgent", "Switch", "set_quirks", "acp_script::faults", "acp_script::defects"] {
        assert_eq!(mentions("acp-agent/src", name), Vec::<PathBuf>::new(), "{name}");
    }
}

#[test]
fn the_products_client_cannot_be_given_a_defect() {
    for name in ["acp_script", "ClientSwitch", "ClientHabits", "WireQuirk", "ClientManners"] {
        assert_eq!(mentions("acp-host/src", name), Vec::<PathBuf>::new(), "{name}");
    }
}

/// The source files of a folder with this name in them.
fn mentions(folder: &str, name: &str) -> Vec<PathBuf> {
    let (mut folders, mut found) = (vec![crates_dir().join(folder)], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a source folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if std::fs::read_to_string(&path).expect("a source file").contains(name) {
                found.push(path);
            }
        }
    }
    found
}
