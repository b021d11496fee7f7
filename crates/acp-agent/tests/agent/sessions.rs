//! Sessions at rest: what survives, and what is said when it does not.

use std::path::PathBuf;
use std::sync::Arc;

use acp_agent::{AgentServer, AgentServerSettings, FILE, SessionStore, SessionStoreError, State};
use acp_script::agent::{Round, SealedThought, SessionRecord};
use redb::{Database, TableDefinition};
use serde_json::{Value, json};

use crate::harness::{Place, Talk, server};

const META: TableDefinition<'_, &str, u32> = TableDefinition::new("meta");
const SESSIONS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("sessions");

fn old(id: &str) -> Value {
    json!({
        "id": id, "cwd": "/work", "created": 1, "updated": 2, "mode": "NORMAL", "title": "Old",
        "history": [{ "sessionUpdate": "user_message_chunk", "content": { "type": "text", "text": "hello" } }],
    })
}

fn record(id: &str) -> SessionRecord {
    serde_json::from_value(old(id)).expect("a record")
}

/// A database as an earlier or later version might have written it.
fn database(place: &Place, format: u32, sessions: &[Value]) {
    std::fs::create_dir_all(place.state()).expect("a folder");
    let database = Database::create(place.state().join(FILE)).expect("a database");
    let write = database.begin_write().expect("a transaction");
    {
        write.open_table(META).expect("a table").insert("format", format).expect("a row");
        let mut table = write.open_table(SESSIONS).expect("a table");
        for record in sessions {
            let (id, bytes) = (record["id"].as_str().expect("an id"), record.to_string());
            table.insert(id, bytes.as_bytes()).expect("a row");
        }
    }
    write.commit().expect("written");
}

#[test]
fn an_old_format_is_brought_up_to_date() {
    let place = Place::new();
    database(&place, 1, &[old("a"), old("b")]);
    for _ in 0..2 {
        let store = SessionStore::open(&place.state()).expect("a store");
        assert_eq!(store.fetch("a").expect("read"), Some(record("a")));
        assert_eq!(store.list().expect("read").len(), 2);
        drop(store);
    }
}

#[test]
fn a_session_of_a_format_that_put_seals_by_places_is_loaded() {
    let place = Place::new();
    let mut kept = old("a");
    kept["rounds"] = json!([1, 4]);
    kept["seals"] = json!([[4, "sealed"]]);
    database(&place, 2, &[kept]);
    let store = SessionStore::open(&place.state()).expect("a store");
    let round = |at| Round { at, ..Round::default() };
    let expected = SessionRecord { rounds: vec![round(1), round(4)], ..record("a") };
    assert_eq!(store.fetch("a").expect("read"), Some(expected));
}

fn rounds(places: impl IntoIterator<Item = usize>) -> Vec<Round> {
    let seal = |at| SealedThought { calls: 0, at, text: format!("seal {at}") };
    places.into_iter().map(|at| Round { at, seals: vec![seal(at)], ..Round::default() }).collect()
}

#[test]
fn a_session_of_a_format_that_kept_answers_in_its_row_is_loaded_and_goes_on() {
    let place = Place::new();
    let mut kept = old("a");
    kept["rounds"] = json!(rounds([1, 4]));
    database(&place, 3, &[kept]);
    for expected in [rounds([1, 4]), rounds([1, 4, 6])] {
        let store = SessionStore::open(&place.state()).expect("a store");
        let found = store.fetch("a").expect("read").expect("a session");
        assert_eq!(found, SessionRecord { rounds: expected, ..record("a") });
        let next = SessionRecord { rounds: rounds([1, 4, 6]), ..found };
        store.put(Box::new(next)).blocking_recv().expect("an answer").expect("kept");
    }
}

#[test]
fn answers_are_kept_as_they_grow_and_as_they_go() {
    let place = Place::new();
    let mut grown = rounds([1, 4]);
    grown[1].refused = true;
    for reopened in [false, true] {
        let open = || SessionStore::open(&place.state()).expect("a store");
        let mut store = open();
        for rounds in [rounds([1]), rounds([1, 4]), grown.clone(), Vec::new(), rounds([9]), rounds([9, 12])] {
            let record = SessionRecord { rounds, ..record("a") };
            store.put(Box::new(record.clone())).blocking_recv().expect("an answer").expect("kept");
            if reopened {
                drop(store);
                store = open();
            }
            assert_eq!(store.fetch("a").expect("read"), Some(record));
        }
        store.remove("a".to_owned()).blocking_recv().expect("an answer").expect("gone");
        store.put(Box::new(record("a"))).blocking_recv().expect("an answer").expect("kept");
        assert_eq!(store.fetch("a").expect("read"), Some(record("a")));
    }
}

#[test]
fn a_format_from_the_future_is_refused_in_words() {
    let place = Place::new();
    database(&place, 99, &[]);
    let error = SessionStore::open(&place.state()).err().expect("refused");
    assert!(matches!(error, SessionStoreError::TooNew { found: 99, .. }), "{error}");
    assert!(error.to_string().contains("newer version"), "{error}");
}

#[test]
fn several_stores_write_to_one_folder_and_see_what_the_others_wrote() {
    let place = Place::new();
    let open = || SessionStore::open(&place.state()).expect("a store");
    let stores = [open(), open(), open()];
    std::thread::scope(|scope| {
        for (n, store) in stores.iter().enumerate() {
            scope.spawn(move || {
                for session in 0..20 {
                    let kept = store.put(Box::new(record(&format!("{n}-{session}"))));
                    kept.blocking_recv().expect("an answer").expect("kept");
                }
            });
        }
    });
    for store in &stores {
        assert_eq!(store.list().expect("read").len(), 60);
        assert_eq!(store.fetch("2-19").expect("read"), Some(record("2-19")));
    }
    drop(stores);
    assert_eq!(open().list().expect("read").len(), 60);
}

/// As an earlier version of the program holds it, which never lets go.
fn held(place: &Place) -> std::fs::File {
    drop(SessionStore::open(&place.state()).expect("a store"));
    let file = std::fs::File::open(place.state().join(FILE)).expect("the file");
    file.lock().expect("locked");
    file
}

#[test]
fn a_damaged_database_is_an_error_that_names_it_and_nothing_is_deleted() {
    let place = Place::new();
    std::fs::create_dir_all(place.state()).expect("a folder");
    let file = place.state().join(FILE);
    let store = SessionStore::open(&place.state()).expect("a store");
    store.put(Box::new(record("a"))).blocking_recv().expect("an answer").expect("kept");
    drop(store);
    let whole = std::fs::read(&file).expect("the file");
    let garbled: Vec<u8> = whole.iter().enumerate().map(|(at, byte)| byte ^ (at * 31 % 251) as u8).collect();
    for damaged in [b"this is no database".to_vec(), garbled, whole[..whole.len() / 3].to_vec()] {
        std::fs::write(&file, &damaged).expect("written");
        let error = SessionStore::open(&place.state()).err().expect("damaged");
        assert!(matches!(error, SessionStoreError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains(FILE), "{error}");
        assert_eq!(std::fs::read(&file).expect("the file").len(), damaged.len());
    }
}

/// A database panics over a key that is no text. Whether it comes upon one depends on where that is.
#[test]
fn damage_that_is_found_later_is_an_error_that_names_it_and_the_store_goes_on() {
    let place = Place::new();
    let file = place.state().join(FILE);
    let store = SessionStore::open(&place.state()).expect("a store");
    for id in ["sess_one", "sess_two"] {
        store.put(Box::new(record(id))).blocking_recv().expect("an answer").expect("kept");
    }
    drop(store);
    let whole = std::fs::read(&file).expect("the file");
    let id = b"sess_one";
    let places = whole.windows(id.len()).enumerate().filter(|(_, window)| window == id).map(|(at, _)| at);
    let (mut faults, mut unwritten) = (0, 0);
    for at in places {
        let mut damaged = whole.clone();
        damaged[at] = 0xFF;
        std::fs::write(&file, damaged).expect("written");
        let Ok(store) = SessionStore::open(&place.state()) else { continue };
        for _ in 0..2 {
            let fetched = store.fetch("sess_one");
            let kept = store.put(Box::new(record("sess_one"))).blocking_recv().expect("an answer");
            for error in [fetched.err().map(Arc::new), kept.as_ref().err().cloned()].into_iter().flatten() {
                assert!(matches!(*error, SessionStoreError::Damaged { .. }), "{error}");
                assert!(error.to_string().contains(FILE), "{error}");
                faults += 1;
            }
            unwritten += usize::from(kept.is_err());
        }
    }
    assert!(faults > unwritten && unwritten > 0, "{faults} faults, {unwritten} of them in writing");
}

#[tokio::test]
async fn an_agent_whose_folder_is_not_shared_keeps_its_sessions_in_memory_where_nobody_chose_it() {
    let place = Place::new();
    let _held = held(&place);
    let settings = AgentServerSettings { state: State::Usually(place.state()), ..place.settings() };
    let second = Arc::new(AgentServer::new(settings, &|_| None).expect("it starts"));
    let warning = second.warning().expect("a warning");
    assert!(warning.contains("memory") && warning.contains("does not share"), "{warning}");
    assert!(warning.contains(&format!("process {}", std::process::id())), "{warning}");
    let mut talk = Talk::v1(&second, &json!({})).await;
    let session = talk.session(&place.work()).await;
    talk.prompt(&session, "Say 'hello'").await;
    assert!(talk.words().contains("Sessions are not kept"), "{}", talk.words());
    let chosen = AgentServerSettings { state: State::Folder(place.state()), ..place.settings() };
    assert!(AgentServer::new(chosen, &|_| None).is_err());
    let nowhere = || PathBuf::from("/proc/nothing");
    let unasked = AgentServerSettings { state: State::Usually(nowhere()), ..place.settings() };
    let third = AgentServer::new(unasked, &|_| None).expect("it starts");
    assert!(third.warning().is_some_and(|words| words.contains("/proc/nothing")), "{:?}", third.warning());
    assert!(
        AgentServer::new(
            AgentServerSettings { state: State::Folder(nowhere()), ..place.settings() },
            &|_| None
        )
        .is_err()
    );
}

#[tokio::test]
async fn a_session_is_loaded_as_it_was_seen() {
    let place = Place::new();
    let server = server(place.settings());
    let mut talk = Talk::v1(&server, &json!({})).await;
    let session = talk.session(&place.work()).await;
    talk.prompt(&session, "Search for 'thyme', then read notes.txt, then read missing.txt").await;
    let calls = |updates: Vec<&Value>| -> Vec<(Value, Value, Value, Value)> {
        let mut seen: Vec<(Value, Value, Value, Value)> = Vec::new();
        for update in updates {
            let id = update["toolCallId"].clone();
            match seen.iter_mut().find(|call| call.0 == id) {
                Some(call) if update["status"].is_string() => call.3 = update["status"].clone(),
                Some(_) => {}
                None if id.is_string() => {
                    seen.push((id, update["kind"].clone(), update["name"].clone(), update["status"].clone()));
                }
                None => {}
            }
        }
        seen
    };
    let live = (calls(talk.updates()), talk.words());
    assert_eq!(live.0.len(), 3);
    talk.ask("session/close", &json!({ "sessionId": session })).await;
    let mut other = Talk::v1(&server, &json!({})).await;
    let params = json!({ "sessionId": session, "cwd": place.work(), "mcpServers": [] });
    let loaded = other.ask("session/load", &params).await;
    assert!(loaded.get("result").is_some(), "{loaded}");
    assert_eq!((calls(other.updates()), other.words()), live);
    let said = other.updates().into_iter().find(|update| update["sessionUpdate"] == "user_message_chunk");
    assert!(
        said.expect("the person's words")["content"]["text"]
            .as_str()
            .is_some_and(|text| text.contains("thyme"))
    );
}

#[tokio::test]
async fn a_deleted_session_is_gone_from_the_database() {
    let place = Place::new();
    let server = server(place.settings());
    let mut talk = Talk::v1(&server, &json!({})).await;
    let session = talk.session(&place.work()).await;
    talk.prompt(&session, "Say 'hello'").await;
    talk.ask("session/delete", &json!({ "sessionId": session })).await;
    let listed = talk.ask("session/list", &json!({})).await;
    assert_eq!(listed["result"]["sessions"], json!([]), "{listed}");
}

#[tokio::test]
async fn a_session_is_open_in_one_connection_at_a_time() {
    let place = Place::new();
    let server = server(place.settings());
    let mut first = Talk::v1(&server, &json!({})).await;
    let session = first.session(&place.work()).await;
    first.prompt(&session, "Say 'one'").await;
    let mut second = Talk::v1(&server, &json!({})).await;
    let load = json!({ "sessionId": session, "cwd": place.work(), "mcpServers": [] });
    let mut asked = Vec::new();
    for method in ["session/load", "session/resume", "session/delete"] {
        asked.push(second.send(method, &load).await);
    }
    for _ in &asked {
        let refused = second.until(|frame| asked.iter().any(|id| frame["id"] == *id)).await;
        assert_eq!(refused["error"]["code"], -32600, "{refused}");
        let words = refused["error"]["message"].as_str().unwrap_or_default();
        assert!(words.contains("open in another connection"), "{refused}");
    }
    assert_eq!(first.prompt(&session, "Say 'two'").await["result"]["stopReason"], "end_turn");

    first.ask("session/close", &json!({ "sessionId": session })).await;
    let loaded = second.ask("session/load", &load).await;
    assert!(loaded.get("result").is_some(), "{loaded}");
    assert_eq!(second.words(), "onetwo", "nothing that was acknowledged is lost");
    assert!(second.ask("session/load", &load).await.get("result").is_some(), "again in the same connection");
    let refused = first.prompt(&session, "Say 'three'").await;
    assert_eq!(refused["error"]["code"], -32002, "{refused}");

    // The end of a connection sets its sessions free; whoever comes at once need not know when that is.
    let waiting = first.send("session/resume", &load).await;
    drop(second);
    let resumed = first.answer(waiting).await;
    assert!(resumed.get("result").is_some(), "{resumed}");
}

#[test]
fn what_is_made_for_sessions_is_for_this_user_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    let _store = SessionStore::open(&place.state()).expect("a store");
    let inside = |name: &str| place.state().join(name);
    for (path, mode) in [
        (place.state(), 0o700),
        (inside("sessions.redb"), 0o600),
        (inside("waiting"), 0o600),
        (inside("open"), 0o700),
    ] {
        let found = std::fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(found & 0o777, mode, "{}", path.display());
    }
}
