//! Links `sty` at a fixed address on Linux: the hundred thousands of addresses in a binary of this
//! size would otherwise be relocated at each start, half of the time that `SELECT 1` takes.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    if target("OS") == "linux" && target("ENV") == "gnu" {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
