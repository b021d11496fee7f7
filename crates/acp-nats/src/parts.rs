//! Events that came in parts, whole again.

use acp_proxy::event::{Body, Part};

/// Joins the parts of one session's events as they are read, in order.
#[derive(Debug, Default)]
pub struct Parts {
    text: String,
    /// The index of the part that must come next.
    next: u64,
}

impl Parts {
    /// What the last part of an event makes whole, with those that came before it. Any other part, and any other event,
    /// stays as it is.
    pub fn whole(&mut self, body: Body) -> Body {
        let Body::Part(part) = body else { return body };
        self.take(&part).unwrap_or(Body::Part(part))
    }

    fn take(&mut self, part: &Part) -> Option<Body> {
        if part.index == 0 {
            (self.text, self.next) = (String::new(), 0);
        }
        // One that comes again is known, and one that comes too early makes nothing whole.
        if part.index != self.next {
            return None;
        }
        self.next += 1;
        self.text.push_str(&part.text);
        if self.next < part.count {
            return None;
        }
        Body::parse(&part.of, &std::mem::take(&mut self.text)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_make_a_whole_in_their_order_and_only_all_of_them() {
        let text = r#"{"reason":"gone"}"#;
        let part = |index: usize| {
            let text = text[index * 6..text.len().min(index * 6 + 6)].to_owned();
            Body::Part(Part { of: "closed".to_owned(), index: index as u64, count: 3, text })
        };
        let kinds = |order: &[usize]| -> Vec<&'static str> {
            let mut parts = Parts::default();
            order.iter().map(|index| parts.whole(part(*index)).kind()).collect()
        };
        assert_eq!(kinds(&[0, 1, 2]), ["part", "part", "closed"]);
        assert_eq!(kinds(&[0, 1, 0, 1, 1, 2]), ["part", "part", "part", "part", "part", "closed"]);
        assert_eq!(kinds(&[1, 2, 0, 2]), ["part"; 4]);
    }
}
