//! The suites are embedded; a changed test file must rebuild this crate.

fn main() {
    println!("cargo:rerun-if-changed=../../suites");
}
