//! PTX text to tokens (PTX ISA, "Syntax").

use crate::error::{Error, Result};

/// One token and the line that it starts on, counted from 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spanned<'a> {
    /// The token.
    pub token: Token<'a>,
    /// Its line.
    pub line: u32,
}

/// A token. Text is borrowed from the source.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Token<'a> {
    /// An identifier, with its leading `%` or `$` if it has one: `bra`, `%r1`, `$L__BB0_2`, `_`.
    Word(&'a str),
    /// A word after a dot, without the dot; `::` is part of it: `b32`, `2d`, `shared::cta`.
    Dotted(&'a str),
    /// An integer literal.
    Integer(u64),
    /// A literal `0fXXXXXXXX`: the bits of an f32.
    F32(u32),
    /// A literal `0dXXXXXXXXXXXXXXXX`: the bits of an f64.
    F64(u64),
    /// A decimal literal with a point or an exponent: `8.0`.
    Decimal(&'a str),
    /// A string, without its quotes.
    String(&'a str),
    /// Any other single character that PTX uses.
    Punctuation(char),
}

impl std::fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Token::Word(text) | Token::Decimal(text) => write!(f, "`{text}`"),
            Token::Dotted(text) => write!(f, "`.{text}`"),
            Token::Integer(value) => write!(f, "`{value}`"),
            Token::F32(bits) => write!(f, "`0f{bits:08X}`"),
            Token::F64(bits) => write!(f, "`0d{bits:016X}`"),
            Token::String(text) => write!(f, "\"{text}\""),
            Token::Punctuation(c) => write!(f, "`{c}`"),
        }
    }
}

/// Splits `text` into tokens. Comments and white space vanish.
///
/// # Errors
/// The line of the first character, literal or string that is not PTX.
pub fn tokens(text: &str) -> Result<Vec<Spanned<'_>>> {
    let mut lexer = Lexer { text, bytes: text.as_bytes(), at: 0, line: 1 };
    let mut out = Vec::new();
    while let Some(token) = lexer.next()? {
        out.push(token);
    }
    Ok(out)
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    line: u32,
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}

impl<'a> Lexer<'a> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Skips white space and comments.
    fn skip_blank(&mut self) -> Result<()> {
        while let Some(&byte) = self.bytes.get(self.at) {
            match (byte, self.peek(1)) {
                (b'\n', _) => {
                    self.line = self.line.saturating_add(1);
                    self.at += 1;
                }
                (b'/', b'/') => {
                    while self.at < self.bytes.len() && self.bytes[self.at] != b'\n' {
                        self.at += 1;
                    }
                }
                (b'/', b'*') => {
                    let start = self.line;
                    let Some(length) = self.text.get(self.at + 2..).and_then(|rest| rest.find("*/")) else {
                        return Err(Error::new(start, "comment `/*` is not closed"));
                    };
                    let end = self.at + 2 + length + 2;
                    let newlines = self.bytes[self.at..end].iter().filter(|&&b| b == b'\n').count();
                    self.line = self.line.saturating_add(newlines as u32);
                    self.at = end;
                }
                _ if byte.is_ascii_whitespace() => self.at += 1,
                _ => break,
            }
        }
        Ok(())
    }

    fn word_end(&self, mut end: usize) -> usize {
        while self.bytes.get(end).copied().is_some_and(is_word) {
            end += 1;
        }
        end
    }

    fn next(&mut self) -> Result<Option<Spanned<'a>>> {
        self.skip_blank()?;
        let Some(&byte) = self.bytes.get(self.at) else { return Ok(None) };
        let (start, line) = (self.at, self.line);
        let token = match byte {
            b'0'..=b'9' => self.number()?,
            b'"' => {
                let Some(length) = self.text.get(start + 1..).and_then(|rest| rest.find(['"', '\n'])) else {
                    return Err(Error::new(line, "string is not closed"));
                };
                let end = start + 1 + length;
                if self.bytes[end] != b'"' {
                    return Err(Error::new(line, "string is not closed on its line"));
                }
                self.at = end + 1;
                Token::String(&self.text[start + 1..end])
            }
            b'.' if is_word(self.peek(1)) => {
                let mut end = self.word_end(start + 1);
                while self.bytes.get(end..end + 2) == Some(b"::")
                    && self.bytes.get(end + 2).copied().is_some_and(is_word)
                {
                    end = self.word_end(end + 2);
                }
                self.at = end;
                Token::Dotted(&self.text[start + 1..end])
            }
            b'%' if is_word(self.peek(1)) => {
                self.at = self.word_end(start + 1);
                Token::Word(&self.text[start..self.at])
            }
            _ if is_word(byte) => {
                self.at = self.word_end(start);
                Token::Word(&self.text[start..self.at])
            }
            b'{' | b'}' | b'[' | b']' | b'(' | b')' | b'<' | b'>' | b',' | b';' | b':' | b'+' | b'-' | b'|' | b'!'
            | b'@' | b'=' | b'.' | b'*' => {
                self.at += 1;
                Token::Punctuation(byte as char)
            }
            _ => {
                let c = self.text.get(start..).and_then(|rest| rest.chars().next()).unwrap_or('\u{fffd}');
                return Err(Error::new(line, format!("character {c:?} is not PTX")));
            }
        };
        Ok(Some(Spanned { token, line }))
    }

    fn number(&mut self) -> Result<Token<'a>> {
        let start = self.at;
        let end = self.word_end(start);
        let word = &self.text[start..end];
        self.at = end;
        let bad = |why: &str| Error::new(self.line, format!("number `{word}` {why}"));
        let bits = |digits: &str, length: usize| -> Result<u64> {
            if digits.len() != length {
                return Err(bad(&format!("must have {length} hexadecimal digits")));
            }
            u64::from_str_radix(digits, 16).map_err(|_| bad("is not hexadecimal"))
        };
        if let Some(digits) = word.strip_prefix("0f").or_else(|| word.strip_prefix("0F")) {
            return Ok(Token::F32(bits(digits, 8)? as u32));
        }
        if let Some(digits) = word.strip_prefix("0d").or_else(|| word.strip_prefix("0D")) {
            return Ok(Token::F64(bits(digits, 16)?));
        }
        // A decimal point or exponent makes a floating literal; `8.0` of `.version 8.0` is one too.
        let fraction = self.bytes.get(end) == Some(&b'.') && self.bytes.get(end + 1).is_some_and(u8::is_ascii_digit);
        if fraction && word.bytes().all(|b| b.is_ascii_digit()) {
            self.at = self.word_end(end + 1);
            if matches!(self.bytes.get(self.at - 1), Some(b'e' | b'E'))
                && matches!(self.bytes.get(self.at), Some(b'+' | b'-'))
            {
                self.at = self.word_end(self.at + 1);
            }
            return Ok(Token::Decimal(&self.text[start..self.at]));
        }
        let digits = word.strip_suffix('U').unwrap_or(word);
        let parsed = if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            u64::from_str_radix(hex, 16)
        } else if let Some(binary) = digits.strip_prefix("0b").or_else(|| digits.strip_prefix("0B")) {
            u64::from_str_radix(binary, 2)
        } else if digits.len() > 1 && digits.starts_with('0') {
            u64::from_str_radix(digits, 8)
        } else {
            digits.parse()
        };
        parsed.map(Token::Integer).map_err(|_| bad("is not a 64-bit integer"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<Token<'_>> {
        tokens(text).unwrap().into_iter().map(|t| t.token).collect()
    }

    #[test]
    fn words_dots_and_numbers() {
        assert_eq!(
            all("@!%p1 ld.shared::cta.v2.b32 {%r1, _}, [%rd2+-16]; // x"),
            [
                Token::Punctuation('@'),
                Token::Punctuation('!'),
                Token::Word("%p1"),
                Token::Word("ld"),
                Token::Dotted("shared::cta"),
                Token::Dotted("v2"),
                Token::Dotted("b32"),
                Token::Punctuation('{'),
                Token::Word("%r1"),
                Token::Punctuation(','),
                Token::Word("_"),
                Token::Punctuation('}'),
                Token::Punctuation(','),
                Token::Punctuation('['),
                Token::Word("%rd2"),
                Token::Punctuation('+'),
                Token::Punctuation('-'),
                Token::Integer(16),
                Token::Punctuation(']'),
                Token::Punctuation(';'),
            ]
        );
        assert_eq!(
            all("0x1F 0b101 017 42U 0f3F800000 0d3FF0000000000000 8.0 1.5e+3"),
            [
                Token::Integer(31),
                Token::Integer(5),
                Token::Integer(15),
                Token::Integer(42),
                Token::F32(0x3f80_0000),
                Token::F64(0x3ff0_0000_0000_0000),
                Token::Decimal("8.0"),
                Token::Decimal("1.5e+3"),
            ]
        );
    }

    #[test]
    fn lines_are_counted_through_comments() {
        let tokens = tokens("a /* 1\n2\n */ b\n// c\nd").unwrap();
        assert_eq!(tokens.iter().map(|t| t.line).collect::<Vec<_>>(), [1, 3, 5]);
    }

    #[test]
    fn what_is_not_ptx_is_refused_with_its_line() {
        for (text, line, part) in [
            ("\n\n é", 3, "'é'"),
            ("0f12", 1, "8 hexadecimal digits"),
            ("99999999999999999999", 1, "64-bit"),
            ("\"abc", 1, "string"),
            ("\n/* x", 2, "comment"),
            ("0fé", 1, "8 hexadecimal"),
        ] {
            let error = tokens(text).unwrap_err();
            assert_eq!(error.line, line, "{text:?}: {error}");
            assert!(error.message.contains(part), "{text:?}: {error}");
        }
    }
}
