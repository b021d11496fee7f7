//! The drivers are embedded; a changed file must rebuild this crate.

fn main() {
    println!("cargo:rerun-if-changed=../../drivers");
}
