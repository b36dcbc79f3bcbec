//! Compiles the shim over the lean interface's header.

fn main() {
    let headers = "../../bind/lean/include";
    cc::Build::new().file("src/lean/shim.c").include(headers).opt_level(2).compile("lean_shim");
    println!("cargo::rerun-if-changed={headers}");
    println!("cargo::rerun-if-changed=src/lean/shim.c");
}
