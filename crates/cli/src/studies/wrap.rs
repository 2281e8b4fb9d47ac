//! Breaks long lines at the width of the terminal.

use std::io::IsTerminal;

use terminal_size::{Width, terminal_size_of};

/// The width of lines that no terminal shows.
const WIDTH: usize = 100;

/// Formats `text` behind `label` in lines that fit the terminal. Lines after the first begin below the text.
pub(crate) fn wrap(label: &str, text: &str) -> String {
    let stdout = std::io::stdout();
    let width = if stdout.is_terminal() { terminal_size_of(stdout) } else { None };
    wrap_at(width.map_or(WIDTH, |(Width(width), _)| usize::from(width)), label, text)
}

/// The same with lines of `width` characters. A longer word has a line of its own.
fn wrap_at(width: usize, label: &str, text: &str) -> String {
    let indent = label.chars().count();
    let (mut lines, mut used) = (label.to_owned(), indent);
    for word in text.split_whitespace() {
        let chars = word.chars().count();
        if used > indent && used + 1 + chars > width {
            lines.push('\n');
            lines.extend(std::iter::repeat_n(' ', indent));
            used = indent;
        } else if used > indent {
            lines.push(' ');
            used += 1;
        }
        lines.push_str(word);
        used += chars;
    }
    lines.push('\n');
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_no_longer_than_the_width() {
        let text = "fails  4.queue: the queue is µ short of it";
        assert_eq!(wrap_at(20, "open  ", text), "open  fails 4.queue:\n      the queue is µ\n      short of it\n");
    }

    #[test]
    fn a_word_longer_than_the_width_has_its_own_line() {
        assert_eq!(wrap_at(8, "  ", "a longer-than-this b"), "  a\n  longer-than-this\n  b\n");
    }
}
