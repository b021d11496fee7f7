//! A provider behind TLS whose certificate was signed by an authority of one's own.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

use super::driver::{Agent, KEY, Model};
use super::{PROVIDERS, folder};

/// A certificate and its key, signed by another, or by itself.
fn certificate(folder: &Path, name: &str, by: Option<&str>) -> (PathBuf, PathBuf) {
    let path = |name: &str, end: &str| folder.join(format!("{name}.{end}"));
    let (cert, key) = (path(name, "pem"), path(name, "key"));
    let mut command = Command::new("openssl");
    command.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]);
    command.args(["-subj", &format!("/CN={name}"), "-addext", "subjectAltName=DNS:localhost"]);
    command.args([Path::new("-keyout"), &key, Path::new("-out"), &cert]);
    if let Some(by) = by {
        command.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
        command.args([Path::new("-CA"), &path(by, "pem"), Path::new("-CAkey"), &path(by, "key")]);
    }
    let made = command.output().expect("openssl runs; scripts/setup installs it");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    (cert, key)
}

/// Passes what comes over TLS on to the model; its address.
fn before(model: &Model, cert: &Path, key: &Path) -> String {
    let certs = vec![CertificateDer::from_pem_file(cert).expect("a certificate")];
    let key = PrivateKeyDer::from_pem_file(key).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certs, key))
        .expect("a server");
    let (config, target) = (Arc::new(config), model.url.replace("http://", ""));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (config, target) = (config.clone(), target.clone());
            std::thread::spawn(move || pass(stream, config, &target));
        }
    });
    format!("https://localhost:{port}")
}

fn pass(stream: TcpStream, config: Arc<ServerConfig>, target: &str) -> Option<()> {
    let mut outside = StreamOwned::new(ServerConnection::new(config).ok()?, stream);
    let (mut request, mut chunk) = (Vec::new(), [0; 16 * 1024]);
    loop {
        let read = outside.read(&mut chunk).ok().filter(|read| *read > 0)?;
        request.extend_from_slice(&chunk[..read]);
        let text = String::from_utf8_lossy(&request).to_ascii_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            break;
        }
    }
    let mut inside = TcpStream::connect(target).ok()?;
    let end_of_first_line = request.windows(2).position(|two| two == b"\r\n")? + 2;
    inside.write_all(&request[..end_of_first_line]).ok()?;
    inside.write_all(b"connection: close\r\n").ok()?;
    inside.write_all(&request[end_of_first_line..]).ok()?;
    std::io::copy(&mut inside, &mut outside).ok()?;
    outside.conn.send_close_notify();
    outside.flush().ok()
}

#[test]
fn every_provider_is_reached_over_tls_where_its_authority_is_trusted() {
    let place = folder();
    let (ca, _) = certificate(place.path(), "ca", None);
    let (cert, key) = certificate(place.path(), "server", Some("ca"));
    let model = Model::start(place.path(), &json!([{"when": "hello", "do": {"text": "over TLS"}}]));
    let url = before(&model, &cert, &key);
    let ca = ca.display().to_string();
    let args = |provider| ["--provider", provider, "--model", "m", "--no-state"];
    for (provider, key, address) in PROVIDERS {
        let env = [(key, KEY), (address, url.as_str()), ("SSL_CERT_FILE", ca.as_str())];
        let mut agent = Agent::start(&args(provider), &env);
        let session = agent.session(place.path());
        let answer = agent.prompt(&session, "hello");
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{provider}: {answer}");
        assert_eq!(agent.text_of("agent_message_chunk"), "over TLS", "{provider}");
    }
    let mut agent = Agent::start(&args("openai"), &[("OPENAI_API_KEY", KEY), ("OPENAI_BASE_URL", &url)]);
    let session = agent.session(place.path());
    let refused = agent.prompt(&session, "hello")["error"]["message"].to_string();
    assert!(refused.contains("certificate") && refused.contains("SSL_CERT_FILE"), "{refused}");
}
