//! `eprintln!` and `println!` mean these here: what they print may hold what an agent, a peer or a file said.

/// `std::eprintln!`, cleaned.
macro_rules! eprintln {
    ($($words:tt)*) => { ::acp_chat::say::error_line(&::std::format!($($words)*)) };
}

/// `std::println!`, cleaned.
macro_rules! println {
    ($($words:tt)*) => { ::acp_chat::say::output_line(&::std::format!($($words)*)) };
}
