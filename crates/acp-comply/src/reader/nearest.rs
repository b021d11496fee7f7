//! The known name that a misspelt one was probably meant to be.

/// The known name nearest to this one, if one is near at all.
pub fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let name = name.to_lowercase();
    let far = name.chars().count() / 3 + 1;
    known
        .into_iter()
        .map(|candidate| (distance(&name, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= far)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The words `; did you mean NAME?` for the id of a test or a requirement, or nothing. An id may be cut short.
pub fn did_you_mean<'k>(id: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let start = |known: &&'k str| known.get(..id.len()).unwrap_or(known);
    let begins_so = || {
        let starts: Vec<&str> = known.iter().map(start).collect();
        let near = nearest(id, starts.iter().copied())?;
        known.iter().copied().find(|known| start(known) == near)
    };
    let found = nearest(id, known.iter().copied()).or_else(begins_so);
    found.map(|found| format!("; did you mean {found}?")).unwrap_or_default()
}

/// How many letters must be added, dropped or changed to make one word of the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, other) in to.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::{did_you_mean, nearest};

    #[test]
    fn a_slip_finds_its_word_and_nonsense_finds_none() {
        let known = ["newSession", "send", "expect"];
        assert_eq!(nearest("newSesion", known), Some("newSession"));
        assert_eq!(nearest("EXPECT", known), Some("expect"));
        assert_eq!(nearest("dance", known), None);
    }

    #[test]
    fn an_id_is_found_by_its_beginning_too() {
        let known = ["MCP-01", "MCP-11", "init.version-echo", "cancel.idle"];
        assert_eq!(did_you_mean("MCP-1", known), "; did you mean MCP-01?");
        assert_eq!(did_you_mean("init.versoin", known), "; did you mean init.version-echo?");
        assert_eq!(did_you_mean("zzzzzzz", known), "");
    }
}
