//! JSON with comments and trailing commas, as editors write their settings.

/// Replaces comments and trailing commas by blanks, so that line and column of errors stay right.
pub fn strip_comments(text: &str) -> String {
    let mut out: Vec<char> = Vec::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut in_string = false;
    let mut comma: Option<usize> = None;
    while let Some(c) = chars.next() {
        if in_string {
            out.push(c);
            match c {
                '\\' => out.extend(chars.next()),
                '"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match (c, chars.peek()) {
            ('/', Some('/')) => {
                out.push(' ');
                while let Some(skipped) = chars.next_if(|c| *c != '\n') {
                    out.push(blank(skipped));
                }
                continue;
            }
            ('/', Some('*')) => {
                out.push(' ');
                let mut before = ' ';
                for skipped in chars.by_ref() {
                    out.push(blank(skipped));
                    if before == '*' && skipped == '/' {
                        break;
                    }
                    before = skipped;
                }
                continue;
            }
            ('}' | ']', _) => {
                if let Some(at) = comma {
                    out[at] = ' ';
                }
            }
            _ => {}
        }
        match c {
            ',' => comma = Some(out.len()),
            c if c.is_whitespace() => {}
            _ => comma = None,
        }
        in_string = c == '"';
        out.push(c);
    }
    out.into_iter().collect()
}

fn blank(c: char) -> char {
    if c == '\n' { '\n' } else { ' ' }
}

#[cfg(test)]
mod tests {
    use super::strip_comments;

    #[test]
    fn comments_and_trailing_commas_go_and_strings_stay() {
        let text = "{ // one\n \"a\": \"// no, /* no */ \\\" , ]\", /* two\n */ \"b\": [1, 2, ], }";
        let value: serde_json::Value = serde_json::from_str(&strip_comments(text)).unwrap();
        assert_eq!(value, serde_json::json!({"a": "// no, /* no */ \" , ]", "b": [1, 2]}));
        assert_eq!(strip_comments(text).lines().count(), text.lines().count());
    }
}
