//! Gives the shared library its name for programs that are linked with it: it changes when they would have to.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,librampmeter_cm.so.0");
}
