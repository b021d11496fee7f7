//! The only way to the terminal for lines of a program that shows what an agent, a peer or a file said: nothing in them
//! steers the terminal, and nothing of them begins a line of its own. Our own colours go through `anstream`.

use acp_text::CommandGuard;

/// `std::eprintln!`, cleaned.
macro_rules! eprintln {
    ($($words:tt)*) => { $crate::say::error_line(&::std::format!($($words)*)) };
}

/// Writes a line to standard error. What follows a newline in it is indented: a reader sees where it belongs.
pub fn error_line(words: &str) {
    let words = CommandGuard::default().pass(&acp_text::block(words));
    ::std::eprintln!("{}", words.trim_end().replace('\n', "\n  "));
}

/// Writes a line to standard output.
pub fn output_line(words: &str) {
    ::std::println!("{}", acp_text::block(words));
}
