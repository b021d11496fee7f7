//! Walks a value along a shape. Two walks share the code: a quick one that only says whether everything is
//! plain, and one that tells what is wrong and where.

use crate::json::{Json, Kind};
use crate::schema::shape::{Extra, Shape, ShapeId, Shapes, Tag, Union, types};

/// What is wrong with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// Another JSON type.
    Type,
    /// A required field is not there.
    Missing,
    /// A value that is not among the allowed ones, or out of range.
    Value,
    /// None of the allowed forms fits.
    Form,
    /// A field that the protocol does not have. Valid for JSON Schema.
    Unknown,
}

/// One thing that is wrong, with the JSON pointer of its place.
#[derive(Debug, Clone)]
pub(crate) struct Flaw {
    pub(crate) what: What,
    pub(crate) pointer: String,
    pub(crate) message: String,
}

/// Whether the value has this shape and no field that the protocol does not know. Allocates nothing.
pub(crate) fn is_clean(shapes: &Shapes, id: ShapeId, value: Json<'_>) -> bool {
    let mut walk = Walk { shapes, sink: Quick { clean: true } };
    walk.visit(id, value, &Path::ROOT) && walk.sink.clean
}

/// Whether the value has this shape, custom fields or not.
#[cfg(test)]
pub(crate) fn is_valid(shapes: &Shapes, id: ShapeId, value: Json<'_>) -> bool {
    Walk { shapes, sink: Quick { clean: true } }.visit(id, value, &Path::ROOT)
}

/// Everything that is wrong, in the order of the text.
pub(crate) fn flaws(shapes: &Shapes, id: ShapeId, value: Json<'_>) -> Vec<Flaw> {
    let mut walk = Walk { shapes, sink: Tell { flaws: Vec::new() } };
    walk.visit(id, value, &Path::ROOT);
    walk.sink.flaws
}

/// Where we are, as a list on the stack.
struct Path<'p> {
    parent: Option<&'p Path<'p>>,
    step: Step<'p>,
}

enum Step<'p> {
    Root,
    Name(Json<'p>),
    Field(&'p str),
    Index(usize),
}

impl<'p> Path<'p> {
    const ROOT: Path<'static> = Path { parent: None, step: Step::Root };

    fn name(&'p self, key: Json<'p>) -> Path<'p> {
        Path { parent: Some(self), step: Step::Name(key) }
    }

    fn pointer(&self) -> String {
        let mut out = self.parent.map(Path::pointer).unwrap_or_default();
        match &self.step {
            Step::Root => {}
            Step::Name(key) => push_name(&mut out, &key.str().unwrap_or_default()),
            Step::Field(name) => push_name(&mut out, name),
            Step::Index(index) => out.push_str(&format!("/{index}")),
        }
        out
    }
}

fn push_name(out: &mut String, name: &str) {
    out.push('/');
    out.push_str(&name.replace('~', "~0").replace('/', "~1"));
}

trait Sink {
    /// Whether flaws are told; a walk that does not tell stops at the first.
    const TELLS: bool;
    fn flaw(&mut self, what: What, path: &Path<'_>, message: impl FnOnce() -> String);
    fn unknown(&mut self, path: &Path<'_>, key: Json<'_>);
}

struct Quick {
    clean: bool,
}

impl Sink for Quick {
    const TELLS: bool = false;
    #[inline]
    fn flaw(&mut self, _: What, _: &Path<'_>, _: impl FnOnce() -> String) {}
    #[inline]
    fn unknown(&mut self, _: &Path<'_>, _: Json<'_>) {
        self.clean = false;
    }
}

struct Tell {
    flaws: Vec<Flaw>,
}

impl Sink for Tell {
    const TELLS: bool = true;
    fn flaw(&mut self, what: What, path: &Path<'_>, message: impl FnOnce() -> String) {
        self.flaws.push(Flaw { what, pointer: path.pointer(), message: message() });
    }
    fn unknown(&mut self, path: &Path<'_>, key: Json<'_>) {
        let name = key.str().unwrap_or_default().into_owned();
        self.flaw(What::Unknown, &path.name(key), || {
            format!("the field \"{name}\" is not part of the protocol; custom data belongs in _meta")
        });
    }
}

/// Which fields of an object some applicable schema knew: one bit per field, by its place.
#[derive(Clone, Copy, Default)]
struct Seen {
    known: u64,
    free: bool,
}

struct Walk<'s, S> {
    shapes: &'s Shapes,
    sink: S,
}

impl<S: Sink> Walk<'_, S> {
    /// A value at its own place: the shape must hold, and every field must be known to some part of it.
    fn visit(&mut self, id: ShapeId, value: Json<'_>, path: &Path<'_>) -> bool {
        let mut seen = Seen::default();
        let ok = self.eval(id, value, path, &mut seen);
        if !seen.free && value.is_object() && (ok || S::TELLS) {
            for (place, (key, _)) in value.fields().take(64).enumerate() {
                if seen.known & (1 << place) == 0 {
                    self.sink.unknown(path, key);
                }
            }
        }
        ok
    }

    fn eval(&mut self, id: ShapeId, value: Json<'_>, path: &Path<'_>, seen: &mut Seen) -> bool {
        let shapes = self.shapes;
        let shape = shapes.get(id);
        if !self.scalar(shape, value, path) {
            // what is told about the parts of a value of the wrong type is noise
            seen.free = true;
            return false;
        }
        let mut ok = true;
        match value.kind() {
            Kind::Object => ok &= self.object(shape, value, path, seen),
            Kind::Array => ok &= self.array(shape, value, path),
            _ => {}
        }
        if !ok && !S::TELLS {
            return false;
        }
        if let Some(target) = shape.reference {
            ok &= self.eval(target, value, path, seen);
        }
        if let Some(union) = &shape.union {
            ok &= self.union(union, value, path, seen);
        }
        if let Some(not) = shape.not
            && self.probe(not, value).is_some()
        {
            self.sink.flaw(What::Form, path, || "this form is not allowed here".into());
            ok = false;
        }
        ok
    }

    /// Type, constants and bounds.
    #[inline]
    fn scalar(&mut self, shape: &Shape, value: Json<'_>, path: &Path<'_>) -> bool {
        if shape.types != 0 && !has_type(shape.types, value) {
            self.sink.flaw(What::Type, path, || {
                format!("expected {}, found {}", type_words(shape.types), value.kind().word())
            });
            return false;
        }
        if !shape.words.is_empty() && !shape.words.iter().any(|word| value.is(word)) {
            self.sink.flaw(What::Value, path, || {
                format!("{} is not one of {}", short(value), shape.words.join(", "))
            });
            return false;
        }
        if shape.integer.is_some_and(|n| !equals(value, n)) {
            self.sink.flaw(What::Value, path, || format!("{} is not the constant", short(value)));
            return false;
        }
        match value.kind() {
            Kind::Number if shape.minimum.is_some() || shape.maximum.is_some() => {
                self.range(shape, value, path)
            }
            Kind::String if shape.min_length > 0 => self.length(shape, value, path),
            _ => true,
        }
    }

    fn range(&mut self, shape: &Shape, value: Json<'_>, path: &Path<'_>) -> bool {
        let number = value.f64().unwrap_or(f64::NAN);
        let below = shape.minimum.is_some_and(|min| number < min);
        let above = shape.maximum.is_some_and(|max| number > max);
        if below || above {
            self.sink.flaw(What::Value, path, || {
                let bounds = (shape.minimum, shape.maximum);
                match bounds {
                    (Some(min), Some(max)) => format!("{} is not between {min} and {max}", short(value)),
                    (Some(min), None) => format!("{} is less than {min}", short(value)),
                    (_, max) => format!("{} is more than {}", short(value), max.unwrap_or_default()),
                }
            });
        }
        !below && !above
    }

    fn length(&mut self, shape: &Shape, value: Json<'_>, path: &Path<'_>) -> bool {
        let enough = value.str().is_some_and(|text| text.chars().count() >= shape.min_length);
        if !enough {
            self.sink.flaw(What::Value, path, || format!("shorter than {} characters", shape.min_length));
        }
        enough
    }

    #[inline]
    fn object(&mut self, shape: &Shape, value: Json<'_>, path: &Path<'_>, seen: &mut Seen) -> bool {
        if shape.is_open() {
            seen.free = true;
        }
        let mut ok = true;
        let mut found = 0_u32;
        if !shape.props.is_empty() || matches!(shape.extra, Extra::Shape(_)) {
            for (place, (key, field)) in value.fields().enumerate() {
                let named = shape.props.iter().position(|(name, _)| key.is(name));
                let id = match (named, shape.extra) {
                    (Some(prop), _) => {
                        found |= shape.bits[prop];
                        shape.props[prop].1
                    }
                    (None, Extra::Shape(id)) => id,
                    (None, _) => continue,
                };
                if place < 64 {
                    seen.known |= 1 << place;
                }
                ok &= self.visit(id, field, &path.name(key));
                if !ok && !S::TELLS {
                    return false;
                }
            }
        }
        if found == shape.needed && shape.needed_by_name.is_empty() {
            return ok;
        }
        ok & self.required(shape, value, path)
    }

    /// The slow look at required fields, which tells the missing ones.
    fn required(&mut self, shape: &Shape, value: Json<'_>, path: &Path<'_>) -> bool {
        let mut ok = true;
        for name in &shape.required {
            if value.get(name).is_none() {
                ok = false;
                self.sink.flaw(What::Missing, &Path { parent: Some(path), step: Step::Field(name) }, || {
                    format!("the required field \"{name}\" is missing")
                });
            }
        }
        ok
    }

    fn array(&mut self, shape: &Shape, value: Json<'_>, path: &Path<'_>) -> bool {
        let mut ok = true;
        if shape.min_items > 0 && value.items().count() < shape.min_items {
            self.sink.flaw(What::Value, path, || format!("fewer than {} items", shape.min_items));
            ok = false;
        }
        let Some(id) = shape.items else { return ok };
        for (index, item) in value.items().enumerate() {
            ok &= self.visit(id, item, &Path { parent: Some(path), step: Step::Index(index) });
            if !ok && !S::TELLS {
                return false;
            }
        }
        ok
    }

    fn union(&mut self, union: &Union, value: Json<'_>, path: &Path<'_>, seen: &mut Seen) -> bool {
        let tagged = union.tag.as_ref().and_then(|tag| tag_branch(tag, value));
        if let (Some(branch), Some(tag)) = (tagged, &union.tag)
            && (tag.untagged.is_empty() || !union.exactly_one)
        {
            // the usual case: the tag decides, and nothing else has to be tried
            if tag.untagged.is_empty() || self.probe(branch, value).is_some() {
                return self.eval(branch, value, path, seen);
            }
        }
        let mut candidates = [0; 24];
        let count = gather(union, tagged, &mut candidates);
        let candidates = &candidates[..count];
        let mut matching = 0;
        let mut clean = false;
        for id in candidates {
            if let Some(probe) = self.probe(*id, value) {
                matching += 1;
                clean |= probe.clean;
                seen.known |= probe.seen.known;
                seen.free |= probe.seen.free;
                if !union.exactly_one && clean && !value.is_object() {
                    return true;
                }
            }
        }
        match matching {
            0 => {
                self.describe(union, tagged, candidates, value, path, seen);
                false
            }
            1 => clean || self.eval_matching(candidates, value, path, seen),
            _ if union.exactly_one => {
                self.sink.flaw(What::Form, path, || "more than one of the allowed forms fits".into());
                false
            }
            _ => self.eval_matching(candidates, value, path, seen),
        }
    }

    /// Some branch matches, but has custom fields further down: walk it so that they are noticed.
    fn eval_matching(
        &mut self,
        candidates: &[ShapeId],
        value: Json<'_>,
        path: &Path<'_>,
        seen: &mut Seen,
    ) -> bool {
        let Some(id) = candidates.iter().find(|id| self.probe(**id, value).is_some()) else { return false };
        self.eval(*id, value, path, seen)
    }

    fn probe(&self, id: ShapeId, value: Json<'_>) -> Option<Probe> {
        let mut walk = Walk { shapes: self.shapes, sink: Quick { clean: true } };
        let mut seen = Seen::default();
        let ok = walk.eval(id, value, &Path::ROOT, &mut seen);
        ok.then_some(Probe { seen, clean: walk.sink.clean })
    }

    /// No branch matches: tell the flaws of the branch that was most likely meant.
    fn describe(
        &mut self,
        union: &Union,
        tagged: Option<ShapeId>,
        candidates: &[ShapeId],
        value: Json<'_>,
        path: &Path<'_>,
        seen: &mut Seen,
    ) {
        if !S::TELLS {
            return;
        }
        seen.free = true;
        if let Some(branch) = tagged {
            self.eval(branch, value, path, &mut Seen::default());
            return;
        }
        if let Some(tag) = &union.tag
            && tag.untagged.is_empty()
            && value.is_object()
        {
            self.describe_tag(tag, value, path);
            return;
        }
        let meant = candidates.iter().min_by_key(|id| {
            let mut walk = Walk { shapes: self.shapes, sink: Tell { flaws: Vec::new() } };
            walk.eval(**id, value, &Path::ROOT, &mut Seen::default());
            let other_type =
                walk.sink.flaws.iter().any(|flaw| flaw.what == What::Type && flaw.pointer.is_empty());
            (other_type, walk.sink.flaws.len())
        });
        if let Some(id) = meant {
            self.eval(*id, value, path, &mut Seen::default());
        } else {
            self.sink.flaw(What::Form, path, || "none of the allowed forms fits".into());
        }
    }

    fn describe_tag(&mut self, tag: &Tag, value: Json<'_>, path: &Path<'_>) {
        let at = Path { parent: Some(path), step: Step::Field(&tag.field) };
        let known = || tag.branches.iter().map(|(word, _)| &**word).collect::<Vec<_>>().join(", ");
        match value.get(&tag.field) {
            None => {
                self.sink
                    .flaw(What::Missing, &at, || format!("the required field \"{}\" is missing", tag.field));
            }
            Some(found) => {
                self.sink.flaw(What::Value, &at, || format!("{} is not one of {}", short(found), known()));
            }
        }
    }
}

struct Probe {
    seen: Seen,
    clean: bool,
}

#[inline]
fn tag_branch(tag: &Tag, value: Json<'_>) -> Option<ShapeId> {
    let word = value.get(&tag.field)?;
    tag.branches.iter().find(|(name, _)| word.is(name)).map(|(_, id)| *id)
}

/// The branches that can match at all.
fn gather(union: &Union, tagged: Option<ShapeId>, out: &mut [ShapeId; 24]) -> usize {
    let mut count = 0;
    let mut push = |id: ShapeId| {
        if count < out.len() {
            out[count] = id;
            count += 1;
        }
    };
    match &union.tag {
        Some(tag) => tagged.into_iter().chain(tag.untagged.iter().copied()).for_each(&mut push),
        None => union.branches.iter().copied().for_each(&mut push),
    }
    count
}

#[inline]
fn has_type(allowed: u8, value: Json<'_>) -> bool {
    match value.kind() {
        Kind::Null => allowed & types::NULL != 0,
        Kind::Bool => allowed & types::BOOL != 0,
        Kind::String => allowed & types::STRING != 0,
        Kind::Array => allowed & types::ARRAY != 0,
        Kind::Object => allowed & types::OBJECT != 0,
        Kind::Number => allowed & types::NUMBER != 0 || (allowed & types::INTEGER != 0 && value.is_integer()),
    }
}

#[expect(clippy::cast_precision_loss, reason = "the constants are error codes")]
fn equals(value: Json<'_>, constant: i64) -> bool {
    value.i64() == Some(constant) || value.f64() == Some(constant as f64)
}

fn type_words(allowed: u8) -> String {
    let words = [
        (types::OBJECT, "an object"),
        (types::ARRAY, "an array"),
        (types::STRING, "a string"),
        (types::NUMBER, "a number"),
        (types::INTEGER, "an integer"),
        (types::BOOL, "a boolean"),
        (types::NULL, "null"),
    ];
    let list: Vec<_> = words.iter().filter(|(bit, _)| allowed & bit != 0).map(|(_, word)| *word).collect();
    list.join(" or ")
}

/// The value's text, cut so that it fits a message.
fn short(value: Json<'_>) -> String {
    crate::finding::cut(value.raw(), 60).into_owned()
}
