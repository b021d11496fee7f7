//! The tables, and how an older database becomes a current one.
//!
//! | format | sessions | history |
//! |---|---|---|
//! | 1 | a whole record each, its history inside | – |
//! | 2 | a record without its history; where a model was asked, and what providers want back, by places in the history | one row per entry |
//! | 3 | the same, but both by the model's answers, with their calls | one row per entry |

use acp_script::agent::Record;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use serde_json::{Value, json};

use super::error::Trouble;

/// The format that this version writes.
pub(super) const FORMAT: u32 = 3;

/// About the database itself: `format`.
const META: TableDefinition<'_, &str, u32> = TableDefinition::new("meta");
/// Session id to record.
pub(super) const SESSIONS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("sessions");
/// Session id and place to an entry of the history.
pub(super) const HISTORY: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("history");
/// A session id that a client chose, to ours.
pub(super) const ALIASES: TableDefinition<'_, &str, &str> = TableDefinition::new("aliases");

/// Makes the tables of a new database, brings an old one up to date, and refuses one from the future.
pub(super) fn prepare(database: &Database) -> Result<(), Trouble> {
    let found = {
        let read = database.begin_read()?;
        match read.open_table(META) {
            Ok(meta) => meta.get("format")?.map(|format| format.value()),
            Err(redb::TableError::TableDoesNotExist(_)) => None,
            Err(error) => return Err(error.into()),
        }
    };
    match found {
        Some(FORMAT) => return Ok(()),
        Some(found) if found > FORMAT => return Err(Trouble::TooNew { found, known: FORMAT }),
        Some(0) => return Err(Trouble::Damaged("there is no format 0".to_owned())),
        _ => {}
    }
    let write = database.begin_write()?;
    {
        write.open_table(META)?.insert("format", FORMAT)?;
        let mut sessions = write.open_table(SESSIONS)?;
        let mut history = write.open_table(HISTORY)?;
        write.open_table(ALIASES)?;
        if found.is_some() {
            let old = sessions
                .iter()?
                .map(|entry| old_record(entry?.1.value()))
                .collect::<Result<Vec<Record>, Trouble>>()?;
            for record in old {
                for (at, entry) in record.history.iter().enumerate() {
                    history.insert((record.id.as_str(), at as u64), serde_json::to_vec(entry)?.as_slice())?;
                }
                sessions.insert(record.id.as_str(), summary(&record)?.as_slice())?;
            }
        }
    }
    write.commit()?;
    Ok(())
}

/// A record of format 1 or 2. What its providers want back goes: its place is not sure, and only a turn that is still
/// running needs it.
fn old_record(bytes: &[u8]) -> Result<Record, Trouble> {
    let mut kept: Value = serde_json::from_slice(bytes)?;
    if let Some(fields) = kept.as_object_mut() {
        fields.remove("seals");
    }
    for round in kept.get_mut("rounds").and_then(Value::as_array_mut).into_iter().flatten() {
        *round = json!({ "at": round });
    }
    Ok(serde_json::from_value(kept)?)
}

/// A record as it is kept, without its history.
pub(super) fn summary(record: &Record) -> Result<Vec<u8>, Trouble> {
    let mut kept = record.summary();
    kept.digest.clone_from(&record.digest);
    kept.rounds.clone_from(&record.rounds);
    kept.draft.clone_from(&record.draft);
    Ok(serde_json::to_vec(&kept)?)
}

pub(super) fn record(bytes: &[u8]) -> Result<Record, Trouble> {
    Ok(serde_json::from_slice(bytes)?)
}

pub(super) fn entry(bytes: &[u8]) -> Result<Value, Trouble> {
    Ok(serde_json::from_slice(bytes)?)
}

/// How many entries of a history are kept.
pub(super) fn length(
    history: &impl ReadableTable<(&'static str, u64), &'static [u8]>,
    id: &str,
) -> Result<usize, Trouble> {
    match history.range((id, 0)..=(id, u64::MAX))?.next_back() {
        None => Ok(0),
        Some(last) => Ok(usize::try_from(last?.0.value().1).unwrap_or(usize::MAX).saturating_add(1)),
    }
}
