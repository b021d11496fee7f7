//! A plain BM25 that ranks lines: what ranked search must beat.

use std::collections::HashMap;
use std::path::Path;

const K1: f64 = 1.2;
const B: f64 = 0.75;

/// The lines of a folder, ready to be asked.
#[derive(Debug, Default)]
pub(super) struct Lines {
    places: Vec<(String, usize)>,
    lengths: Vec<f64>,
    /// Of each word, the lines that have it and how often.
    postings: HashMap<String, Vec<(usize, f64)>>,
}

impl Lines {
    /// Reads every text file below the root, in the order of their names.
    pub(super) fn read(root: &Path) -> anyhow::Result<Self> {
        let mut lines = Self::default();
        lines.folder(root, root)?;
        Ok(lines)
    }

    fn folder(&mut self, root: &Path, folder: &Path) -> anyhow::Result<()> {
        let mut entries = std::fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            if path.is_dir() {
                self.folder(root, &path)?;
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                let file = path.strip_prefix(root)?.to_string_lossy().into_owned();
                self.file(&file, &text);
            }
        }
        Ok(())
    }

    fn file(&mut self, file: &str, text: &str) {
        for (index, line) in text.lines().enumerate() {
            let mut counts: HashMap<String, f64> = HashMap::new();
            let mut length = 0.0;
            for word in words(line) {
                *counts.entry(word).or_default() += 1.0;
                length += 1.0;
            }
            let number = self.places.len();
            self.places.push((file.to_owned(), index + 1));
            self.lengths.push(length);
            for (word, count) in counts {
                self.postings.entry(word).or_default().push((number, count));
            }
        }
    }

    /// The best lines for the question, best first.
    pub(super) fn search(&self, question: &str, max: usize) -> Vec<&(String, usize)> {
        let total = self.places.len() as f64;
        let average = self.lengths.iter().sum::<f64>() / total.max(1.0);
        let mut scores: HashMap<usize, f64> = HashMap::new();
        let mut asked: Vec<_> = words(question).collect();
        asked.sort();
        asked.dedup();
        for postings in asked.iter().filter_map(|word| self.postings.get(word)) {
            let holding = postings.len() as f64;
            let weight = (1.0 + (total - holding + 0.5) / (holding + 0.5)).ln();
            for (line, count) in postings {
                let length = self.lengths.get(*line).copied().unwrap_or_default();
                let part = count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length / average));
                *scores.entry(*line).or_default() += weight * part;
            }
        }
        let mut ranked: Vec<_> = scores.into_iter().collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        ranked.iter().take(max).filter_map(|(line, _)| self.places.get(*line)).collect()
    }
}

/// Runs of letters, digits and `_`, in lower case.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|letter: char| !(letter.is_alphanumeric() || letter == '_'))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}
