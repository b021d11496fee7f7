//! Files that nobody may see, whatever is asked.

use std::fmt;
use std::sync::Arc;

/// Says of a file, by its path below the root with `/`, that it is hidden; the default hides nothing.
#[derive(Clone, Default)]
pub(crate) struct Hidden(Option<Arc<Hides>>);

type Hides = dyn Fn(&str) -> bool + Send + Sync;

impl Hidden {
    pub(crate) fn new(hides: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hides)))
    }

    /// Whether the file is hidden; its path is made only where it matters.
    pub(crate) fn holds<P: AsRef<str>>(&self, path: impl FnOnce() -> P) -> bool {
        self.0.as_ref().is_some_and(|hides| hides(path().as_ref()))
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Hidden(some)" } else { "Hidden(none)" })
    }
}
