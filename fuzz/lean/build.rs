//! Compiles what the targets do with an input: C, as the header is.

fn main() {
    let own = "../../bind/lean";
    let mut c = cc::Build::new();
    c.file("src/foreign.c").include(format!("{own}/include")).include(format!("{own}/tests"));
    c.define("_GNU_SOURCE", None).flag("-Wno-unused-function").compile("lean_foreign");
    for path in ["include", "tests"] {
        println!("cargo::rerun-if-changed={own}/{path}");
    }
    println!("cargo::rerun-if-changed=src/foreign.c");
}
