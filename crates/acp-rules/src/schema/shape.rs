//! A JSON Schema compiled into small shapes that a reader can walk without allocating.
//!
//! Only the keywords that the protocol's schemas use are known; a test fails when a schema brings another one,
//! so nothing is silently left unchecked.

use std::collections::HashMap;

use serde_json::Value;

/// Keywords that say nothing about validity here.
const SILENT: &[&str] = &[
    "$schema",
    "$defs",
    "format",
    "contentEncoding",
    "x-side",
    "x-method",
    "x-deserialize-default-on-error",
    "x-deserialize-default-on-null",
    "x-deserialize-skip-invalid-items",
];

/// A shape's place in its [`Shapes`].
pub(crate) type ShapeId = u32;

/// The JSON types a value may have, as bits.
pub(crate) mod types {
    pub(crate) const NULL: u8 = 1;
    pub(crate) const BOOL: u8 = 2;
    pub(crate) const NUMBER: u8 = 4;
    pub(crate) const INTEGER: u8 = 8;
    pub(crate) const STRING: u8 = 16;
    pub(crate) const ARRAY: u8 = 32;
    pub(crate) const OBJECT: u8 = 64;
}

/// What is said about fields that `properties` does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extra {
    /// Nothing was said: valid for JSON Schema, a custom field for us.
    Unsaid,
    /// `true`: this object is free.
    Free,
    /// They have this shape.
    Shape(ShapeId),
}

/// One schema. Every part that is present must hold.
#[derive(Debug)]
pub(crate) struct Shape {
    /// Allowed types; 0 = any.
    pub(crate) types: u8,
    /// Allowed strings, for `const` and for unions of constants.
    pub(crate) words: Vec<Box<str>>,
    /// An integer constant.
    pub(crate) integer: Option<i64>,
    pub(crate) props: Vec<(Box<str>, ShapeId)>,
    pub(crate) required: Vec<Box<str>>,
    /// By the place in `props`: the bit of the field in `needed`.
    pub(crate) bits: Vec<u32>,
    /// The bits of all required fields that `props` names; the others are looked for by name.
    pub(crate) needed: u32,
    pub(crate) needed_by_name: Vec<Box<str>>,
    pub(crate) extra: Extra,
    pub(crate) items: Option<ShapeId>,
    pub(crate) minimum: Option<f64>,
    pub(crate) maximum: Option<f64>,
    pub(crate) min_length: usize,
    pub(crate) min_items: usize,
    pub(crate) reference: Option<ShapeId>,
    pub(crate) union: Option<Union>,
    pub(crate) not: Option<ShapeId>,
}

/// `anyOf` or `oneOf`.
#[derive(Debug)]
pub(crate) struct Union {
    /// Exactly one branch may match.
    pub(crate) exactly_one: bool,
    pub(crate) branches: Vec<ShapeId>,
    /// The field whose constant tells the branches apart, when there is one.
    pub(crate) tag: Option<Tag>,
}

/// How a union's branch is found without trying them all.
#[derive(Debug)]
pub(crate) struct Tag {
    pub(crate) field: Box<str>,
    pub(crate) branches: Vec<(Box<str>, ShapeId)>,
    /// Branches that the tag does not decide.
    pub(crate) untagged: Vec<ShapeId>,
}

impl Shape {
    fn new() -> Self {
        Self {
            types: 0,
            words: Vec::new(),
            integer: None,
            props: Vec::new(),
            required: Vec::new(),
            bits: Vec::new(),
            needed: 0,
            needed_by_name: Vec::new(),
            extra: Extra::Unsaid,
            items: None,
            minimum: None,
            maximum: None,
            min_length: 0,
            min_items: 0,
            reference: None,
            union: None,
            not: None,
        }
    }

    /// Gives every required field a bit, as far as there are bits.
    fn number_required(&mut self) {
        self.bits = vec![0; self.props.len()];
        let mut next = 1_u32;
        for name in &self.required {
            match self.props.iter().position(|(prop, _)| prop == name) {
                Some(place) if next != 0 => {
                    self.bits[place] = next;
                    self.needed |= next;
                    next = next.wrapping_shl(1);
                }
                _ => self.needed_by_name.push(name.clone()),
            }
        }
    }

    /// Whether an object of this shape may have any field without being remarked upon.
    pub(crate) fn is_open(&self) -> bool {
        self.extra == Extra::Free
            || (self.props.is_empty()
                && self.reference.is_none()
                && self.union.is_none()
                && self.extra == Extra::Unsaid)
    }
}

/// All shapes of one schema file.
#[derive(Debug)]
pub(crate) struct Shapes {
    shapes: Vec<Shape>,
    names: HashMap<String, ShapeId>,
}

impl Shapes {
    /// Compiles the `$defs` of a schema. A keyword that is not known is an error in the data.
    pub(crate) fn compile(schema: &Value) -> Result<Self, String> {
        let defs = schema.get("$defs").and_then(Value::as_object).ok_or("the schema has no $defs")?;
        let mut compiler = Compiler { shapes: Vec::new(), names: HashMap::new() };
        for name in defs.keys() {
            let id = compiler.push(Shape::new());
            compiler.names.insert(name.clone(), id);
        }
        for (name, def) in defs {
            let id = compiler.names[name];
            let shape = compiler.shape(def).map_err(|e| format!("{name}: {e}"))?;
            compiler.shapes[id as usize] = shape;
        }
        let mut shapes = Self { shapes: compiler.shapes, names: compiler.names };
        shapes.find_tags();
        Ok(shapes)
    }

    #[inline]
    pub(crate) fn get(&self, id: ShapeId) -> &Shape {
        &self.shapes[id as usize]
    }

    pub(crate) fn named(&self, name: &str) -> Option<ShapeId> {
        self.names.get(name).copied()
    }

    /// The constant that `field` must be in this shape, when it is required and constant.
    fn constant(&self, id: ShapeId, field: &str) -> Option<&str> {
        let shape = self.get(id);
        let required = shape.required.iter().any(|name| &**name == field);
        let (_, prop) = shape.props.iter().find(|(name, _)| &**name == field)?;
        match (required, &self.get(*prop).words[..]) {
            (true, [word]) => Some(word),
            _ => None,
        }
    }

    fn tag_of(&self, union: &Union) -> Option<Tag> {
        let first = union.branches.iter().find_map(|id| {
            let shape = self.get(*id);
            shape
                .props
                .iter()
                .find(|(name, _)| self.constant(*id, name).is_some())
                .map(|(name, _)| name.clone())
        })?;
        let mut tag = Tag { field: first, branches: Vec::new(), untagged: Vec::new() };
        for id in &union.branches {
            match self.constant(*id, &tag.field) {
                Some(word) => tag.branches.push((word.into(), *id)),
                None => tag.untagged.push(*id),
            }
        }
        (!tag.branches.is_empty()).then_some(tag)
    }

    fn find_tags(&mut self) {
        for index in 0..self.shapes.len() {
            let tag = self.shapes[index].union.as_ref().and_then(|union| self.tag_of(union));
            if let Some(union) = &mut self.shapes[index].union {
                union.tag = tag;
            }
        }
    }
}

struct Compiler {
    shapes: Vec<Shape>,
    names: HashMap<String, ShapeId>,
}

impl Compiler {
    #[expect(clippy::cast_possible_truncation, reason = "a schema has some hundred shapes")]
    fn push(&mut self, shape: Shape) -> ShapeId {
        self.shapes.push(shape);
        (self.shapes.len() - 1) as ShapeId
    }

    /// The shape of a sub-schema; a bare reference is the definition itself.
    fn child(&mut self, schema: &Value) -> Result<ShapeId, String> {
        if let Some(object) = schema.as_object() {
            let telling = object.keys().filter(|key| !SILENT.contains(&key.as_str())).count();
            if let (Some(target), 1) = (object.get("$ref"), telling) {
                return self.target(target);
            }
        }
        let shape = self.shape(schema)?;
        Ok(self.push(shape))
    }

    fn target(&self, reference: &Value) -> Result<ShapeId, String> {
        let name =
            reference.as_str().and_then(|r| r.strip_prefix("#/$defs/")).ok_or("a $ref outside $defs")?;
        self.names.get(name).copied().ok_or_else(|| format!("a $ref to {name}, which is not defined"))
    }

    fn shape(&mut self, schema: &Value) -> Result<Shape, String> {
        let mut shape = Shape::new();
        let object = match schema {
            Value::Bool(true) => return Ok(shape),
            Value::Object(object) => object,
            other => return Err(format!("{other} is not a schema this reader knows")),
        };
        for (keyword, value) in object {
            self.keyword(&mut shape, keyword, value)?;
        }
        shape.number_required();
        Ok(shape)
    }

    fn keyword(&mut self, shape: &mut Shape, keyword: &str, value: &Value) -> Result<(), String> {
        match keyword {
            "type" => shape.types = type_bits(value)?,
            "const" => constant(shape, value)?,
            "enum" => {
                for word in value.as_array().ok_or("enum is not a list")? {
                    shape.words.push(word.as_str().ok_or("enum of something else than strings")?.into());
                }
            }
            "properties" => {
                for (name, schema) in value.as_object().ok_or("properties is not an object")? {
                    let id = self.child(schema)?;
                    shape.props.push((name.as_str().into(), id));
                }
            }
            "required" => {
                for name in value.as_array().ok_or("required is not a list")? {
                    shape
                        .required
                        .push(name.as_str().ok_or("required has something else than names")?.into());
                }
            }
            "additionalProperties" | "unevaluatedProperties" => {
                shape.extra =
                    if value == &Value::Bool(true) { Extra::Free } else { Extra::Shape(self.child(value)?) };
            }
            "items" => shape.items = Some(self.child(value)?),
            "minimum" => shape.minimum = value.as_f64(),
            "maximum" => shape.maximum = value.as_f64(),
            "minLength" => shape.min_length = length(value)?,
            "minItems" => shape.min_items = length(value)?,
            "$ref" => shape.reference = Some(self.target(value)?),
            "not" => shape.not = Some(self.child(value)?),
            "anyOf" | "oneOf" => self.union(shape, keyword == "oneOf", value)?,
            silent if SILENT.contains(&silent) => {}
            other => return Err(format!("the keyword {other:?} is not known")),
        }
        Ok(())
    }

    fn union(&mut self, shape: &mut Shape, exactly_one: bool, value: &Value) -> Result<(), String> {
        let list = value.as_array().ok_or("a union is not a list")?;
        if shape.union.is_some() {
            return Err("two unions in one schema".into());
        }
        let words: Option<Vec<&str>> = list.iter().map(string_constant).collect();
        if let Some(words) = words {
            shape.types = types::STRING;
            shape.words = words.into_iter().map(Into::into).collect();
            return Ok(());
        }
        let branches = list.iter().map(|branch| self.child(branch)).collect::<Result<_, _>>()?;
        shape.union = Some(Union { exactly_one, branches, tag: None });
        Ok(())
    }
}

/// The word of `{"type":"string","const":"word"}` and nothing else.
fn string_constant(schema: &Value) -> Option<&str> {
    let object = schema.as_object()?;
    let word = object.get("const")?.as_str()?;
    (object.len() == 2 && object.get("type")?.as_str() == Some("string")).then_some(word)
}

fn constant(shape: &mut Shape, value: &Value) -> Result<(), String> {
    if let Some(word) = value.as_str() {
        shape.words.push(word.into());
        return Ok(());
    }
    shape.integer = Some(value.as_i64().ok_or("a const that is neither a string nor an integer")?);
    Ok(())
}

fn length(value: &Value) -> Result<usize, String> {
    value.as_u64().and_then(|n| usize::try_from(n).ok()).ok_or_else(|| "a length that is no number".into())
}

fn type_bits(value: &Value) -> Result<u8, String> {
    let one = |value: &Value| match value.as_str() {
        Some("null") => Ok(types::NULL),
        Some("boolean") => Ok(types::BOOL),
        Some("number") => Ok(types::NUMBER),
        Some("integer") => Ok(types::INTEGER),
        Some("string") => Ok(types::STRING),
        Some("array") => Ok(types::ARRAY),
        Some("object") => Ok(types::OBJECT),
        _ => Err(format!("the type {value} is not known")),
    };
    match value {
        Value::Array(list) => list.iter().map(one).try_fold(0, |bits, bit| Ok(bits | bit?)),
        value => one(value),
    }
}
