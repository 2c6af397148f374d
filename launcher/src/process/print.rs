//! Words on the standard streams. A stream that was closed, as by the end of a terminal or of `head`, is no reason
//! to die: the standard library's own macros panic there.

use std::fmt::Display;
use std::io::Write;

/// A line on standard output.
pub fn out(text: impl Display) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// A line on standard error.
pub fn err(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
