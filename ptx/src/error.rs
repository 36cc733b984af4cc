//! What is wrong with a PTX text, and where.

/// A fault in a PTX text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// Line of the text, counted from 1.
    pub line: u32,
    /// What is wrong.
    pub message: String,
}

/// Result of reading PTX.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(line: u32, message: impl Into<String>) -> Error {
        Error { line, message: message.into() }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PTX line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for Error {}
