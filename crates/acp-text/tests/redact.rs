//! Every secret in every place, as tables: none survives where its name or place says what it is, and almost none of those
//! with a shape survives in prose.

use acp_text::redact;
use serde_json::Value;

/// One secret per line: `shape` or `plain`, then the secret, whose parts are apart here so that no scanner of repositories
/// takes it for a real one.
const SECRETS: &str = include_str!("redact/secrets.txt");
/// One place per line: `named` or `prose`, then a JSON value with `@@` in it.
const PLACES: &str = include_str!("redact/places.txt");

/// The rows of a table: the first word, and the rest.
fn rows(table: &'static str) -> Vec<(&'static str, &'static str)> {
    let rows = table.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    rows.map(|line| line.split_once(' ').expect("two columns")).collect()
}

fn secrets() -> Vec<(&'static str, String)> {
    rows(SECRETS)
        .into_iter()
        .map(|(kind, secret)| (kind, secret.replace(' ', "").replace('+', " ")))
        .collect()
}

/// The pieces of a secret that must not survive, as it stands in JSON: each half of it.
fn survives(shown: &str, secret: &str) -> bool {
    let body: String = secret.chars().filter(|c| !c.is_whitespace()).collect();
    let body = body.rsplit_once("-----END").map_or(body.as_str(), |(body, _)| body);
    let half = body.len() / 2;
    shown.contains(&body[half..]) || shown.contains(body.get(half / 2..half + half / 2).unwrap_or(body))
}

fn redacted(place: &str, secret: &str) -> String {
    let quoted = Value::from(secret.replace("\\n", "\n")).to_string();
    let mut frame: Value = serde_json::from_str(&place.replace("@@", quoted.trim_matches('"'))).expect(place);
    redact::value(&mut frame);
    frame.to_string()
}

#[test]
fn no_secret_survives_in_a_place_that_says_what_it_is_and_almost_none_with_a_shape_in_prose() {
    let (secrets, places) = (secrets(), rows(PLACES));
    assert_eq!((secrets.len(), places.len(), secrets.len() * places.len()), (20, 22, 440));
    let (mut named, mut prose, mut shapes) = (Vec::new(), Vec::new(), 0);
    for (kind, place) in &places {
        for (shape, secret) in &secrets {
            let shown = redacted(place, secret);
            let pair = format!("{secret} in {place}: {shown}");
            match (*kind, *shape) {
                ("named", _) if survives(&shown, secret) => named.push(pair),
                ("prose", "shape") => {
                    shapes += 1;
                    prose.extend(survives(&shown, secret).then_some(pair));
                }
                _ => {}
            }
        }
    }
    assert!(named.is_empty(), "{} survive in named places:\n{}", named.len(), named.join("\n"));
    assert!(
        prose.len() * 20 <= shapes,
        "{} of {shapes} survive in prose:\n{}",
        prose.len(),
        prose.join("\n")
    );
}

#[test]
fn no_secret_with_a_shape_survives_when_it_is_cut_anywhere() {
    let (mut cuts, mut survived) = (0, Vec::new());
    for (_, secret) in secrets().into_iter().filter(|(kind, _)| *kind == "shape") {
        let secret = secret.replace("\\n", "\n");
        let whole = format!("here it is: {secret} and so on");
        for cut in (13..12 + secret.len()).step_by(3) {
            let mut parts = [whole[..cut].to_owned(), whole[cut..].to_owned()];
            redact::joined(&mut parts);
            cuts += 1;
            survived.extend(survives(&parts.concat(), &secret).then(|| parts.join("|")));
        }
    }
    assert!(cuts > 200 && survived.is_empty(), "{} of {cuts}:\n{}", survived.len(), survived.join("\n"));
}
