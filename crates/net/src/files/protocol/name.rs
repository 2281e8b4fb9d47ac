//! Names of files and of controllers.

/// The maximum length of a file's name in bytes.
pub(crate) const MAX_NAME: usize = 1024;

/// The maximum length of a controller's name in bytes.
pub(super) const MAX_CONTROLLER: usize = 64;

/// `name`, if it consists of letters, digits, `-` and `_`, which are safe to print.
pub(super) fn safe_name(name: &[u8]) -> Option<String> {
    let is_safe = name.iter().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(b));
    is_safe.then(|| name.iter().map(|&b| char::from(b)).collect())
}

/// Refuses an invalid name of a controller, with the reason.
pub(crate) fn check_controller(name: &str) -> Result<(), &'static str> {
    if name.is_empty() || name.len() > MAX_CONTROLLER {
        return Err("it is empty or longer than 64 letters");
    }
    safe_name(name.as_bytes()).map(|_| ()).ok_or("it has characters other than letters, digits, `-` and `_`")
}

/// Refuses a name that is not a path below a directory, with the reason.
pub(crate) fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("it is empty");
    }
    if name.len() > MAX_NAME {
        return Err("it is longer than 1024 bytes");
    }
    // Some terminals obey those of 8 bits, too.
    if name.chars().any(char::is_control) {
        return Err("it has control characters");
    }
    if name.starts_with('/') {
        return Err("it starts with `/`: write a path below the served directory");
    }
    if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err("it has an empty part, `.` or `..`: write a path below the served directory");
    }
    Ok(())
}

/// The same for a directory; an empty name is the served directory itself.
pub(crate) fn check_directory_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() { Ok(()) } else { check_name(name) }
}
