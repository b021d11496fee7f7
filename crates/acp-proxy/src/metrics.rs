//! Counts for operators, in the text form of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A number that others read. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Value(Arc<AtomicU64>);

impl Value {
    /// One more.
    pub fn up(&self) {
        self.add(1);
    }

    /// So many more.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// One less.
    pub fn down(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// This many, whatever it was.
    pub fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }

    /// How many now.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
}

#[derive(Debug)]
struct Family {
    kind: Kind,
    help: &'static str,
    /// By their labels, as text.
    values: BTreeMap<String, Value>,
}

/// All numbers of a proxy. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    families: Arc<Mutex<BTreeMap<&'static str, Family>>>,
    followed: Arc<Mutex<Vec<Followed>>>,
}

/// A number that somebody else keeps.
struct Followed(Value, Box<dyn Fn() -> u64 + Send + Sync>);

impl std::fmt::Debug for Followed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Metrics {
    /// A number that only grows, by convention with a name that ends in `_total`. The same name and labels are the same
    /// number.
    #[must_use]
    pub fn counter(&self, name: &'static str, help: &'static str, labels: &[(&str, &str)]) -> Value {
        self.value(Kind::Counter, name, help, labels)
    }

    /// A number that goes up and down.
    #[must_use]
    pub fn gauge(&self, name: &'static str, help: &'static str, labels: &[(&str, &str)]) -> Value {
        self.value(Kind::Gauge, name, help, labels)
    }

    /// From now on a number is what `read` says whenever somebody wants to know.
    pub fn follow(&self, value: Value, read: impl Fn() -> u64 + Send + Sync + 'static) {
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        followed.push(Followed(value, Box::new(read)));
    }

    fn value(&self, kind: Kind, name: &'static str, help: &'static str, labels: &[(&str, &str)]) -> Value {
        let mut families = self.families.lock().unwrap_or_else(PoisonError::into_inner);
        let family = families.entry(name).or_insert_with(|| Family { kind, help, values: BTreeMap::new() });
        family.values.entry(labels_text(labels)).or_default().clone()
    }

    /// The text form, version 0.0.4.
    #[must_use]
    pub fn to_text(&self) -> String {
        for Followed(value, read) in &*self.followed.lock().unwrap_or_else(PoisonError::into_inner) {
            value.set(read());
        }
        let families = self.families.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = String::new();
        for (name, family) in &*families {
            let kind = match family.kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
            };
            // Writing to a string cannot fail.
            let _ = writeln!(out, "# HELP {name} {}", family.help);
            let _ = writeln!(out, "# TYPE {name} {kind}");
            for (labels, value) in &family.values {
                let _ = writeln!(out, "{name}{labels} {}", value.get());
            }
        }
        out
    }
}

fn labels_text(labels: &[(&str, &str)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let pairs = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", quoted(value)));
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_prometheus_reads_them() {
        let metrics = Metrics::default();
        metrics.counter("b_total", "What b is.", &[("dir", "c2a")]).add(3);
        metrics.counter("b_total", "What b is.", &[("dir", "c2a")]).up();
        metrics.counter("b_total", "What b is.", &[("dir", "a \"quoted\"\n\\ one")]).up();
        let gauge = metrics.gauge("a", "What a is.", &[]);
        gauge.set(7);
        gauge.down();
        metrics.follow(metrics.gauge("c", "What c is.", &[]), || 9);
        assert_eq!(
            metrics.to_text(),
            "# HELP a What a is.\n# TYPE a gauge\na 6\n# HELP b_total What b is.\n# TYPE b_total counter\n\
             b_total{dir=\"a \\\"quoted\\\"\\n\\\\ one\"} 1\nb_total{dir=\"c2a\"} 4\n\
             # HELP c What c is.\n# TYPE c gauge\nc 9\n"
        );
    }
}
