//! The representations of an object. [`choose`](rampmeter_workload::representations::choose) selects the one for a
//! client, as in the simulator (section 3.2.1 of the paper).
//!
//! ```text
//! photo.jpg requested     photo.low.jpg, photo.medium.jpg, photo.high.jpg in the same directory
//! ```

/// The levels in the names of representations, from the lowest.
pub const LEVELS: [&str; 3] = ["low", "medium", "high"];

/// The name of a representation of `object`: the level is inserted before the last dot of the file's name.
pub fn name(object: &str, level: &str) -> String {
    let file = object.rfind('/').map_or(0, |slash| slash + 1);
    match object[file..].rfind('.').filter(|dot| *dot > 0) {
        Some(dot) => format!("{}.{level}{}", &object[..file + dot], &object[file + dot..]),
        None => format!("{object}.{level}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_is_inserted_before_the_last_dot() {
        assert_eq!(name("a.b/photo.old.jpg", "low"), "a.b/photo.old.low.jpg");
        assert_eq!(name("a.b/README", "high"), "a.b/README.high");
        assert_eq!(name(".profile", "low"), ".profile.low");
    }
}
