//! Parsing that ends when the call has to.
//!
//! All parsing goes through one function, which keeps the deadline and refuses what a grammar's scanner cannot hold:
//! the scanners of four grammars abort the process when their state outgrows a kilobyte. Where the text alone cannot
//! tell what a scanner will hold (Ruby, Kotlin: after an error every quote may open one more string), the parser's log
//! gives a bound for every place, and the text ends for the parser before its scanner is full.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::ControlFlow;

use ast_grep_language::{LanguageExt as _, SupportLang};
use tree_sitter::{Node, ParseOptions, Parser, Range, Tree};

use crate::scanner::Burden;
use crate::watch::{self, Logger, Watch};
use crate::{StopSignal, scanner};

/// The parser asks every hundred steps whether to go on; the clock is looked at every so many times.
const SELDOM: usize = 64;

thread_local! {
    static PARSERS: RefCell<HashMap<SupportLang, Parser>> = RefCell::new(HashMap::new());
}

/// Why there is no tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoTree {
    /// The call has to end.
    Late,
    /// The text nests too deep for the language's parser.
    TooDeep,
}

/// The tree of a text, or of some ranges of it (of none means of all).
pub(crate) fn tree(
    text: &str,
    language: SupportLang,
    ranges: &[Range],
    stop: &StopSignal,
) -> Result<Tree, NoTree> {
    if stop.reason().is_some() {
        return Err(NoTree::Late);
    }
    let (watch, logger) = match scanner::burden(text, language) {
        Burden::Light => (None, None),
        Burden::Unknown => {
            let (watch, logger) = Watch::new(text, language);
            (Some(watch), Some(logger))
        }
        Burden::Heavy => return Err(NoTree::TooDeep),
    };
    let tree = parse(text, language, ranges, stop, watch.as_ref(), logger);
    if watch.is_some_and(|watch| watch.is_over()) {
        return Err(NoTree::TooDeep);
    }
    tree.ok_or(NoTree::Late)
}

fn parse(
    text: &str,
    language: SupportLang,
    ranges: &[Range],
    stop: &StopSignal,
    watch: Option<&Watch>,
    logger: Option<Logger>,
) -> Option<Tree> {
    let is_over = || watch.is_some_and(Watch::is_over);
    let piece = if watch.is_some() { watch::PIECE } else { text.len() };
    PARSERS.with_borrow_mut(|all| {
        let parser = match all.entry(language) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let mut parser = Parser::new();
                parser.set_language(&language.get_ts_language()).ok()?;
                entry.insert(parser)
            }
        };
        parser.set_included_ranges(ranges).ok()?;
        let mut asked = 0_usize;
        let mut is_wanted = |_: &_| {
            asked += 1;
            let is_late = asked.is_multiple_of(SELDOM) && stop.reason().is_some();
            if is_late || is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let options = ParseOptions::new().progress_callback(&mut is_wanted);
        let bytes = text.as_bytes();
        let mut read = |at: usize, _| {
            // A character that the text ends in would be looked for where there is nothing.
            let end = if is_over() { at } else { text.floor_char_boundary(at.saturating_add(piece)) };
            bytes.get(at..end).unwrap_or_default()
        };
        parser.set_logger(logger);
        let tree = parser.parse_with_options(&mut read, None, Some(options));
        parser.set_logger(None);
        if tree.is_none() {
            // What was begun would be gone on with.
            parser.reset();
        }
        tree
    })
}

/// The first node below this one that lies deeper than so many levels.
pub(crate) fn deeper(root: Node<'_>, limit: usize) -> Option<Node<'_>> {
    levels(root).find(|(depth, _)| *depth > limit).map(|(_, node)| node)
}

/// How many levels there are below a node.
pub(crate) fn depth(root: Node<'_>) -> usize {
    levels(root).map(|(depth, _)| depth).max().unwrap_or_default()
}

/// All nodes, outer before inner, and how deep they lie.
fn levels(root: Node<'_>) -> impl Iterator<Item = (usize, Node<'_>)> {
    let mut cursor = root.walk();
    let mut next = Some(0_usize);
    std::iter::from_fn(move || {
        let depth = next?;
        let node = cursor.node();
        next = cursor.goto_first_child().then_some(depth + 1);
        let mut up = depth;
        while next.is_none() {
            if cursor.goto_next_sibling() {
                next = Some(up);
            } else if cursor.goto_parent() {
                up = up.saturating_sub(1);
            } else {
                break;
            }
        }
        Some((depth, node))
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn read(text: &str, language: SupportLang) -> Result<Tree, NoTree> {
        tree(text, language, &[], &StopSignal::never())
    }

    #[test]
    fn flat_texts_are_parsed_however_long_they_are() {
        use SupportLang as L;
        let here = "x = <<~'A B', <<-RUBY\n  a\n  A B\nb \"c\"\n  RUBY\n%w(a b).map { /c/ =~ :\"d\" }\n";
        let shifts = "arr<<value_number_1\n1<<FLAG_BITS_1\n".repeat(60);
        for (language, text) in [
            (L::Kotlin, "fun f() { println(\"${b} $c ${d[\"x\"]}\") }\n".repeat(600)),
            (L::Ruby, "a << \"#{b}\" << <<~EOS\n#{c['d']}\nEOS\nclass << self; end\n".repeat(300)),
            (L::Ruby, here.repeat(300)),
            (L::Ruby, format!("{shifts}{}", "x = 'y'\n".repeat(300))),
            (L::Ruby, format!("a = \"<<\"\n{}b = \"c\"\n", "# no quotes at all\n".repeat(50))),
        ] {
            let found = read(&text, language).map(|tree| tree.root_node().to_sexp());
            let plain = parse(&text, language, &[], &StopSignal::never(), None, None);
            let plain = plain.map(|tree| tree.root_node().to_sexp());
            assert_eq!(found.ok(), plain, "{language}: {}", &text[..40]);
        }
    }

    #[test]
    fn what_scanners_cannot_hold_is_not_parsed() {
        use SupportLang as L;
        let word = |quote: &str| format!("x = <<~{quote}{}\n{}{quote}\n", "A".repeat(100), "A".repeat(200));
        for (language, text) in [
            (L::Kotlin, "\"${".repeat(600)),
            (L::Ruby, word("'")),
            (L::Ruby, format!("x = <<~{}\n", "A".repeat(300))),
            (L::Ruby, format!("{}x = <<{}\n", "\"#{ {};\n".repeat(200), "A".repeat(19))),
            (L::Ruby, format!("x = [{}", "<<RUBY, \"\n\", ".repeat(130))),
        ] {
            assert_eq!(read(&text, language).err(), Some(NoTree::TooDeep), "{language}: {}", &text[..20]);
        }
    }

    /// What opens, closes or confuses the scanners.
    const DANGEROUS: [(SupportLang, &str); 4] = [
        (
            SupportLang::Ruby,
            "\"¦'¦`¦/¦%w(¦%q{¦%i[¦:\"¦#{¦{¦}¦(¦)¦]¦end¦<<A¦<<~RUBY¦<<-'A B'¦<<\"¦<<~'¦x<<y¦\n¦\nRUBY\n¦A\n¦\\¦?¦ ¦x¦= ¦é¦\0¦\"#{¦}\"",
        ),
        (
            SupportLang::Kotlin,
            "\"${¦\"${¦\"¦\"\"\"¦${¦\"${¦$\"¦$$\"¦}¦{¦(¦)¦\\¦\\$¦'¦/*¦*/¦x¦ ¦\n¦}\"¦$x¦fun f() ",
        ),
        (SupportLang::Python, "if a:¦if a:¦\n¦ ¦        ¦\t¦#¦\0¦#\0¦\x0c¦\r¦\\\n¦\"¦'''¦f'{¦}¦(¦)¦x¦\\"),
        (
            SupportLang::Yaml,
            "- ¦? ¦: ¦a: ¦a:¦|¦>¦\n¦\r¦ ¦  ¦\t¦[¦]¦{¦}¦, ¦\"¦'¦&a ¦!t ¦*a ¦--- ¦...¦#¦%YAML 1.2¦é¦\0¦\u{FEFF}",
        ),
    ];

    /// Some short rows of pieces, each many times; where columns count, in some each time stands one further to the right.
    fn dangerous(seed: u64, pieces: &[&str], language: SupportLang) -> String {
        let has_columns = matches!(language, SupportLang::Python | SupportLang::Yaml);
        let mut state = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut any = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state >> 33).unwrap_or_default() % below
        };
        let mut text = String::new();
        for _ in 0..1 + any(4) {
            let row: String = (0..1 + any(5)).map(|_| pieces[any(pieces.len())]).collect();
            let (times, is_indented) = ([1, 2, 40, 203, 600][any(5)], has_columns && any(2) == 0);
            for time in 0..times {
                if is_indented {
                    text.push('\n');
                    text.extend(std::iter::repeat_n(' ', time));
                }
                text.push_str(&row);
            }
        }
        text
    }

    const SEEDS: &str = "ACP_CODE_SEEDS";

    /// A scanner that is too full ends its process, which is seen from outside.
    #[test]
    fn no_text_ends_the_process() {
        for (nth, (language, _)) in DANGEROUS.iter().enumerate() {
            let child = Command::new(std::env::current_exe().expect("a path"))
                .args(["--exact", "syntax::tests::texts_of_some_seeds", "--ignored", "--nocapture"])
                .env(SEEDS, format!("{nth} 0 90"))
                .output()
                .expect("a process");
            let said = String::from_utf8_lossy(&child.stdout);
            let last = said.lines().rfind(|line| line.starts_with("seed")).unwrap_or("no seed");
            assert!(child.status.success() && last == "seed done", "{language}, {last}: {}", child.status);
        }
    }

    #[test]
    #[ignore = "run by no_text_ends_the_process in a process of its own"]
    fn texts_of_some_seeds() {
        let Ok(seeds) = std::env::var(SEEDS) else { return };
        let numbers: Vec<u64> = seeds.split(' ').filter_map(|number| number.parse().ok()).collect();
        let [nth, first, last] = numbers[..] else { return };
        let (language, pieces) = DANGEROUS[usize::try_from(nth).expect("a number")];
        let pieces: Vec<&str> = pieces.split('¦').collect();
        for seed in first..last {
            println!("\nseed {seed}");
            let _ = read(&dangerous(seed, &pieces, language), language);
        }
        println!("seed done");
    }
}
