//! The tables, and how an older database becomes a current one.
//!
//! | format | sessions | history | rounds |
//! |---|---|---|---|
//! | 1 | a whole record each, its history inside | – | – |
//! | 2 | a record without its history; where a model was asked, and what providers want back, by places in the history | one row per entry | – |
//! | 3 | the same, but both by the model's answers, with their calls | one row per entry | – |
//! | 4 | a record without its history and the model's answers | one row per entry | one row per answer of the model |

use acp_script::agent::SessionRecord;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use serde_json::{Value, json};

use super::error::Trouble;

/// A table with many rows for a session.
pub(super) type Rows<'t> = redb::Table<'t, (&'static str, u64), &'static [u8]>;

/// The format that this version writes.
pub(super) const FORMAT: u32 = 4;

/// About the database itself: `format`.
const META: TableDefinition<'_, &str, u32> = TableDefinition::new("meta");
/// Session id to record.
pub(super) const SESSIONS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("sessions");
/// Session id and place to an entry of the history.
pub(super) const HISTORY: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("history");
/// Session id and number to an answer of the model.
pub(super) const ROUNDS: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("rounds");
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
        let mut rounds = write.open_table(ROUNDS)?;
        write.open_table(ALIASES)?;
        if let Some(format) = found {
            let old = sessions
                .iter()?
                .map(|entry| old_record(format, entry?.1.value()))
                .collect::<Result<Vec<SessionRecord>, Trouble>>()?;
            for record in old {
                keep(&mut history, &record.id, &record.history, 0)?;
                keep(&mut rounds, &record.id, &record.rounds, 0)?;
                sessions.insert(record.id.as_str(), summary(&record)?.as_slice())?;
            }
        }
    }
    write.commit()?;
    Ok(())
}

/// A record of an older format. What providers want back goes from those before 3: its place is not sure, and only a turn
/// that is still running needs it.
fn old_record(format: u32, bytes: &[u8]) -> Result<SessionRecord, Trouble> {
    let mut kept: Value = serde_json::from_slice(bytes)?;
    if format >= 3 {
        return Ok(serde_json::from_value(kept)?);
    }
    if let Some(fields) = kept.as_object_mut() {
        fields.remove("seals");
    }
    for round in kept.get_mut("rounds").and_then(Value::as_array_mut).into_iter().flatten() {
        *round = json!({ "at": round });
    }
    Ok(serde_json::from_value(kept)?)
}

/// A record as it is kept in its own row.
pub(super) fn summary(record: &SessionRecord) -> Result<Vec<u8>, Trouble> {
    let mut kept = record.summary();
    kept.digest.clone_from(&record.digest);
    kept.draft.clone_from(&record.draft);
    Ok(serde_json::to_vec(&kept)?)
}

pub(super) fn record(bytes: &[u8]) -> Result<SessionRecord, Trouble> {
    Ok(serde_json::from_slice(bytes)?)
}

/// Keeps a session's items from this one on, one row each.
pub(super) fn keep<T: serde::Serialize>(
    table: &mut Rows<'_>,
    id: &str,
    items: &[T],
    from: usize,
) -> Result<(), Trouble> {
    for (at, item) in items.iter().enumerate().skip(from) {
        table.insert((id, at as u64), serde_json::to_vec(item)?.as_slice())?;
    }
    Ok(())
}

/// All items of a session.
pub(super) fn kept<T: serde::de::DeserializeOwned>(
    table: &impl ReadableTable<(&'static str, u64), &'static [u8]>,
    id: &str,
) -> Result<Vec<T>, Trouble> {
    let rows = table.range((id, 0)..=(id, u64::MAX))?;
    rows.map(|row| Ok(serde_json::from_slice(row?.1.value())?)).collect()
}

/// Forgets all items of a session.
pub(super) fn clear(table: &mut Rows<'_>, id: &str) -> Result<(), Trouble> {
    Ok(table.retain_in((id, 0)..=(id, u64::MAX), |_, _| false)?)
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
