//! A panic in a point: a bug of its controller, or of Rampmeter. It ends this point only.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `work`. A panic becomes an error of one line: its message, and where it was.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    keep_places();
    IS_CAUGHT.set(true);
    // Nothing of `work` is used after a panic.
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    IS_CAUGHT.set(false);
    result.map_err(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("without a message");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let at = PLACE.take().map_or_else(String::new, |place| format!(" at {place}"));
        format!("a panic{at}: {text}")
    })
}

/// Where a panic was is known in the hook only. Others are reported as before, and those here too if a backtrace is
/// wanted.
fn keep_places() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !IS_CAUGHT.get() {
                return before(panic);
            }
            PLACE.set(panic.location().map(ToString::to_string));
            if std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0") {
                before(panic);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_one_line_with_its_place() {
        assert_eq!(caught(|| 3), Ok(3));
        let error = caught(|| panic!("left: {}\nright: 2", 1)).unwrap_err();
        assert!(error.contains("caught.rs:") && error.ends_with(": left: 1 right: 2"), "{error}");
        assert!(caught(|| std::panic::panic_any(3)).unwrap_err().ends_with("without a message"));
        assert_eq!(caught(|| 3), Ok(3));
    }
}
