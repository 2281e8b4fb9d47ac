//! Sets the soname of the shared library, which changes with incompatible versions.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,librampmeter_cm.so.0");
}
