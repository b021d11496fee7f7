//! Every way to show who we are, against a server that asks for it: a whole task is done, and strangers are refused.

use std::path::PathBuf;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use serde_json::{Value, json};

use super::*;

/// A task is done by a proxy with this access, for a client with the same.
async fn works(access: &Access) {
    let (world, spool) = (Arc::new(World::default()), tempfile::tempdir().expect("a folder"));
    let site = Site::with(&access.url, &world, spool.path(), |plan| plan.nats.access = access.clone()).await;
    within(site.nats.ready()).await;
    let client = connect(access).await.expect("let in");
    let id = acp_nats::trace::random_id();
    submit(&client, &task(&id, "count 3")).await;
    assert_eq!(result(&client, &id).await.stop_reason, "end_turn", "{}", site.said());
    site.stop().await;
}

async fn connect(access: &Access) -> Result<TaskClient, String> {
    TaskClient::connect(access, Subjects::default(), &ProxyLog::current())
        .await
        .map_err(|error| error.to_string())
}

/// Why this access is refused.
async fn refused(access: &Access) -> String {
    connect(access).await.err().expect("not let in")
}

/// Why a proxy says that it reaches nothing with this access.
async fn unreached(access: &Access) -> String {
    let (world, spool) = (Arc::new(World::default()), tempfile::tempdir().expect("a folder"));
    let site = Site::with(&access.url, &world, spool.path(), |plan| plan.nats.access = access.clone()).await;
    site.wait_for_words("cannot reach NATS").await;
    let why = site.nats.not_ready().expect("not ready");
    let cause =
        why.strip_prefix("NATS cannot be reached: ").and_then(|why| why.strip_suffix("; events are spooled"));
    let cause = cause.unwrap_or_else(|| panic!("{why}")).to_owned();
    assert!(site.said().contains(&cause), "{}", site.said());
    cause
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn why_a_proxy_reaches_nothing_is_told_until_it_does() {
    if server::left_out() {
        return;
    }
    let mut server = Server::start();
    let plain = unreached(&Access { tls: true, ..at(&server) }).await;
    assert!(plain.contains("does this server speak TLS?"), "{plain}");
    // No name has such a part, whoever is asked for it.
    let nowhere = format!("nats://{}.example:4222", "a".repeat(70));
    let nowhere = unreached(&Access { url: nowhere, ..Access::default() }).await;
    assert!(nowhere.contains("DNS"), "{nowhere}");
    server.kill();
    let (world, spool) = (Arc::new(World::default()), tempfile::tempdir().expect("a folder"));
    let site = Site::start(&server, &world, spool.path()).await;
    site.wait_for_words("Connection refused").await;
    assert!(site.nats.not_ready().expect("not ready").contains("Connection refused"));
    server.restart();
    within(site.nats.ready()).await;
    assert_eq!(site.nats.not_ready(), None);
    site.stop().await;
}

fn at(server: &Server) -> Access {
    Access { url: server.url(), ..Access::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_name_and_its_password() {
    if server::left_out() {
        return;
    }
    let server = Server::with(&["--user", "me", "--pass", "secret"]);
    let user = |password: &str| Some(("me".to_owned(), password.to_owned()));
    works(&Access { user: user("secret"), ..at(&server) }).await;
    works(&Access { url: format!("nats://me:secret@{}", server.address()), ..Access::default() }).await;
    for stranger in [at(&server), Access { user: user("wrong"), ..at(&server) }] {
        let why = refused(&stranger).await;
        assert!(why.contains("credentials") && !why.contains("secret"), "{why}");
    }
    let guess = Access { url: format!("nats://me:guess@{}", server.address()), ..Access::default() };
    let told = refused(&guess).await;
    assert!(told.contains(&format!("nats://{}", server.address())) && !told.contains("guess"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_token() {
    if server::left_out() {
        return;
    }
    let server = Server::with(&["--auth", "s3cret"]);
    works(&Access { token: Some("s3cret".to_owned()), ..at(&server) }).await;
    let why = refused(&Access { token: Some("guess".to_owned()), ..at(&server) }).await;
    assert!(why.contains("credentials") && !why.contains("guess"), "{why}");
}

fn file(folder: &tempfile::TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("written");
    path
}

fn configured(folder: &tempfile::TempDir, config: &str) -> Server {
    let config = file(folder, "nats.conf", config).display().to_string();
    Server::with(&["-c", &config])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_an_nkey() {
    if server::left_out() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (user, stranger) = (KeyPair::new_user(), KeyPair::new_user());
    let config = format!("authorization {{ users: [ {{ nkey: {} }} ] }}\n", user.public_key());
    let server = configured(&folder, &config);
    let key = |name: &str, pair: &KeyPair| {
        let seed = pair.seed().expect("a seed");
        Access { nkey: Some(file(&folder, name, &format!("{seed}\n"))), ..at(&server) }
    };
    works(&key("mine.nk", &user)).await;
    let why = refused(&key("other.nk", &stranger)).await;
    assert!(why.contains("credentials"), "{why}");
    let why = refused(&Access { nkey: Some("/no/such.nk".into()), ..at(&server) }).await;
    assert!(why.contains("the nkey seed /no/such.nk"), "{why}");
}

/// A token of NATS: what the issuer says about the subject, signed.
fn signed(issuer: &KeyPair, subject: &KeyPair, name: &str, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let head = part(&json!({ "typ": "JWT", "alg": "ed25519-nkey" }));
    let body = part(&json!({
        "jti": name, "iat": 1_700_000_000, "iss": issuer.public_key(), "sub": subject.public_key(),
        "name": name, "nats": claims,
    }));
    let text = format!("{head}.{body}");
    let signature = URL_SAFE_NO_PAD.encode(issuer.sign(text.as_bytes()).expect("signed"));
    format!("{text}.{signature}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_file_of_credentials() {
    if server::left_out() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (operator, account, system) =
        (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_account());
    let limits = json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1,
        "leaf": -1, "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1,
    });
    let of_account = |limits: &Value| json!({ "limits": limits, "type": "account", "version": 2 });
    let mut plain = limits.clone();
    plain.as_object_mut().expect("an object").retain(|name, _| !name.ends_with("storage"));
    let server = configured(
        &folder,
        &format!(
            "operator: {}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{ {}: {}, {}: {} }}\n",
            signed(&operator, &operator, "operator", &json!({ "type": "operator", "version": 2 })),
            system.public_key(),
            account.public_key(),
            signed(&operator, &account, "agents", &of_account(&limits)),
            system.public_key(),
            signed(&operator, &system, "system", &of_account(&plain)),
        ),
    );
    let creds = |name: &str, issuer: &KeyPair| {
        let user = KeyPair::new_user();
        let claims = json!({ "subs": -1, "data": -1, "payload": -1, "type": "user", "version": 2 });
        let jwt = signed(issuer, &user, name, &claims);
        let seed = user.seed().expect("a seed");
        let text = format!(
            "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        );
        Access { creds: Some(file(&folder, name, &text)), ..at(&server) }
    };
    works(&creds("mine.creds", &account)).await;
    let why = refused(&creds("other.creds", &KeyPair::new_account())).await;
    assert!(why.contains("credentials"), "{why}");
    let why = refused(&Access { creds: Some("/no/such/file".into()), ..at(&server) }).await;
    assert!(why.contains("the credentials /no/such/file"), "{why}");
    let why = refused(&Access { creds: Some(file(&folder, "empty", "")), ..at(&server) }).await;
    assert!(why.contains("empty"), "{why}");
}

/// A certificate and its key, signed by another, or by itself.
fn certificate(folder: &tempfile::TempDir, name: &str, by: Option<&str>) -> (PathBuf, PathBuf) {
    let path = |name: &str, end: &str| folder.path().join(format!("{name}.{end}"));
    let (cert, key) = (path(name, "pem"), path(name, "key"));
    let mut command = Command::new("openssl");
    command
        .args([
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            &format!("/CN={name}"),
        ])
        .args(["-addext", "subjectAltName=IP:127.0.0.1"])
        .args([Path::new("-keyout"), &key, Path::new("-out"), &cert]);
    if let Some(by) = by {
        command.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
        command.args([Path::new("-CA"), &path(by, "pem"), Path::new("-CAkey"), &path(by, "key")]);
    }
    let made = command
        .output()
        .expect("openssl runs; scripts/setup installs it, ACP_SKIP=nats leaves these tests out");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    (cert, key)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_tls_with_who_is_trusted_and_with_a_certificate_of_our_own() {
    if server::left_out() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (ca, _) = certificate(&folder, "ca", None);
    let (cert, key) = certificate(&folder, "server", Some("ca"));
    let identity = certificate(&folder, "client", Some("ca"));
    certificate(&folder, "stranger-ca", None);
    let stranger = certificate(&folder, "stranger", Some("stranger-ca"));
    let [cert, key, ca_file] = [&cert, &key, &ca].map(|path| path.display().to_string());
    let tls = ["--tls", "--tlscert", &cert, "--tlskey", &key];
    // Only the server shows who it is.
    let server = Server::with(&tls);
    let trusting = Access { ca: Some(ca.clone()), tls: true, ..at(&server) };
    works(&trusting).await;
    let why = refused(&Access { ca: None, ..trusting.clone() }).await;
    assert!(why.contains("certificate"), "{why}");
    assert!(unreached(&Access { ca: None, ..trusting.clone() }).await.contains("invalid peer certificate"));
    let why = refused(&Access { ca: Some("/no/ca.pem".into()), ..trusting }).await;
    assert!(why.contains("/no/ca.pem"), "{why}");
    // Both do.
    let server = Server::with(&[&tls[..], &["--tlsverify", "--tlscacert", &ca_file]].concat());
    let trusting = Access { ca: Some(ca), tls: true, ..at(&server) };
    works(&Access { identity: Some(identity.clone()), ..trusting.clone() }).await;
    refused(&trusting).await;
    refused(&Access { identity: Some(stranger), ..trusting.clone() }).await;
    let without = (identity.0, PathBuf::from("/no/key.pem"));
    let why = refused(&Access { identity: Some(without), ..trusting }).await;
    assert!(why.contains("the certificate's key /no/key.pem"), "{why}");
}
