//! Links the library so that its own functions are its own inside it: without this another preloaded library that
//! exports `cuMemAlloc_v2` too would be handed out in the place of ours, by ours.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
}
