//! Builds again when a defect or a variant is added.

fn main() {
    println!("cargo:rerun-if-changed=../../defects");
    println!("cargo:rerun-if-changed=../../variants");
}
