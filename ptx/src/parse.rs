//! Tokens to [`Module`]: directives, scopes and names. Instructions are in the `instruction` module.

mod instruction;
mod operand;

use std::collections::HashMap;

use crate::ast::*;
use crate::error::{Error, Result};
use crate::lex::{Spanned, Token, tokens};

/// Most registers of one entry. Names of a range such as `%r<1000>` count only where they are used.
const MAX_REGISTERS: usize = 1 << 20;
/// Deepest nesting of braces in a body.
const MAX_SCOPES: usize = 256;

/// Reads a PTX module.
///
/// Every instruction and modifier must be one that this crate knows: what is unknown is an error, never
/// skipped. Debug sections are skipped; `.loc` and `.file` are kept.
///
/// # Errors
/// The first line that is not understood, and why.
///
/// # Examples
/// ```
/// let module = ptx::parse(".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() { ret; }")?;
/// assert_eq!(module.entries[0].name, "k");
/// assert_eq!(ptx::parse(".version 8.0 .entry k() {\n frobnicate.b32 %r1; }").unwrap_err().line, 2);
/// # Ok::<(), ptx::Error>(())
/// ```
pub fn parse(text: &str) -> Result<Module> {
    let mut parser = Parser {
        tokens: tokens(text)?,
        at: 0,
        module: Module::default(),
        names: HashMap::new(),
        entry: Entry::default(),
        param_names: HashMap::new(),
        scopes: Vec::new(),
        location: None,
    };
    parser.module()?;
    Ok(parser.module)
}

struct Parser<'a> {
    tokens: Vec<Spanned<'a>>,
    at: usize,
    module: Module,
    /// Variables at module scope.
    names: HashMap<&'a str, u32>,
    /// The entry being read.
    entry: Entry,
    param_names: HashMap<&'a str, u32>,
    /// Scopes that are open in the body, outermost first.
    scopes: Vec<Scopes<'a>>,
    /// The last `.loc`.
    location: Option<SourceLine>,
}

/// What one pair of braces declares.
#[derive(Default)]
struct Scopes<'a> {
    general: HashMap<&'a str, Reg>,
    predicates: HashMap<&'a str, Pred>,
    /// Declarations such as `%r<302>`: prefix, count, type.
    ranges: Vec<(&'a str, u64, Type)>,
    variables: HashMap<&'a str, u32>,
    labels: HashMap<&'a str, Label>,
    /// Branches to labels not yet seen: instruction, name.
    pending: Vec<(usize, &'a str)>,
}

/// A register by name.
enum Name {
    General(Reg),
    Predicate(Pred),
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).map(|t| t.token)
    }

    fn peek_after(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at + 1).map(|t| t.token)
    }

    /// Line of the next token, or of the last one at the end.
    fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |t| t.line)
    }

    fn next(&mut self) -> Result<Token<'a>> {
        let token = self.peek().ok_or_else(|| self.error("the text ends in the middle of a statement"))?;
        self.at += 1;
        Ok(token)
    }

    fn error(&self, message: impl Into<String>) -> Error {
        Error::new(self.line(), message)
    }

    /// An error at the token just taken.
    fn error_before(&self, message: impl Into<String>) -> Error {
        let line = self.tokens.get(self.at.saturating_sub(1)).map_or(1, |t| t.line);
        Error::new(line, message)
    }

    fn unexpected(&self, wanted: &str) -> Error {
        match self.peek() {
            Some(token) => self.error(format!("expected {wanted}, found {token}")),
            None => self.error(format!("expected {wanted}, but the text ends")),
        }
    }

    fn eat(&mut self, c: char) -> bool {
        let found = self.peek() == Some(Token::Punctuation(c));
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, c: char) -> Result<()> {
        if self.eat(c) { Ok(()) } else { Err(self.unexpected(&format!("`{c}`"))) }
    }

    fn eat_dotted(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(Token::Dotted(word));
        self.at += usize::from(found);
        found
    }

    fn dotted(&mut self, wanted: &str) -> Result<&'a str> {
        match self.peek() {
            Some(Token::Dotted(word)) => {
                self.at += 1;
                Ok(word)
            }
            _ => Err(self.unexpected(wanted)),
        }
    }

    fn word(&mut self, wanted: &str) -> Result<&'a str> {
        match self.peek() {
            Some(Token::Word(word)) => {
                self.at += 1;
                Ok(word)
            }
            _ => Err(self.unexpected(wanted)),
        }
    }

    fn integer(&mut self, wanted: &str) -> Result<u64> {
        match self.peek() {
            Some(Token::Integer(value)) => {
                self.at += 1;
                Ok(value)
            }
            _ => Err(self.unexpected(wanted)),
        }
    }

    fn small(&mut self, wanted: &str) -> Result<u32> {
        let value = self.integer(wanted)?;
        u32::try_from(value).map_err(|_| self.error_before(format!("{wanted} {value} is above 2^32 - 1")))
    }

    fn module(&mut self) -> Result<()> {
        while self.peek().is_some() {
            match self.dotted("a directive")? {
                "version" => self.version()?,
                "target" => {
                    self.module.target = self.word("a target")?.to_string();
                    while self.eat(',') {
                        self.word("a target option")?;
                    }
                }
                "address_size" => {
                    let size = self.integer("an address size")?;
                    if size != 64 {
                        return Err(self.error_before(format!("address size {size}: only 64 is supported")));
                    }
                }
                "file" => self.file()?,
                "section" => self.section()?,
                "pragma" => self.pragma()?,
                "visible" | "extern" | "weak" | "common" => {}
                "entry" => self.entry()?,
                "func" => return Err(self.error_before("functions are not supported: only entries that call nothing")),
                other => {
                    self.at -= 1;
                    if space(other).is_none() {
                        return Err(self.error(format!("unknown directive `.{other}`")));
                    }
                    let unsized_allowed =
                        self.at > 0 && self.tokens.get(self.at - 1).map(|t| t.token) == Some(Token::Dotted("extern"));
                    for (name, variable) in self.variable(unsized_allowed)? {
                        let index = self.module.variables.len() as u32;
                        self.module.variables.push(variable);
                        if self.names.insert(name, index).is_some() {
                            return Err(self.error_before(format!("`{name}` is declared twice")));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn version(&mut self) -> Result<()> {
        let bad = |parser: &Self| parser.unexpected("a version such as 8.0");
        let Some(Token::Decimal(text)) = self.peek() else { return Err(bad(self)) };
        let parts = text.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        self.module.version = parts.ok_or_else(|| bad(self))?;
        self.at += 1;
        Ok(())
    }

    fn file(&mut self) -> Result<()> {
        let number = self.small("a file number")?;
        let Token::String(path) = self.next()? else { return Err(self.error_before("expected a path in quotes")) };
        self.module.files.push((number, path.to_string()));
        while self.eat(',') {
            self.integer("a time stamp or size")?;
        }
        Ok(())
    }

    /// Skips a debug section: a name and everything in its braces.
    fn section(&mut self) -> Result<()> {
        self.dotted("a section name")?;
        self.expect('{')?;
        let mut depth = 1;
        while depth > 0 {
            match self.next()? {
                Token::Punctuation('{') => depth += 1,
                Token::Punctuation('}') => depth -= 1,
                _ => {}
            }
        }
        Ok(())
    }

    fn pragma(&mut self) -> Result<()> {
        loop {
            let Token::String(_) = self.next()? else { return Err(self.error_before("expected a pragma in quotes")) };
            if !self.eat(',') {
                return self.expect(';');
            }
        }
    }

    /// `.shared .align 1024 .b8 name[4096] = {…}, other;` from the space on.
    fn variable(&mut self, unsized_allowed: bool) -> Result<Vec<(&'a str, Variable)>> {
        let line = self.line();
        let word = self.dotted("a state space")?;
        let space = space(word).ok_or_else(|| self.error_before(format!("unknown state space `.{word}`")))?;
        if space == Space::Param || space == Space::Cluster {
            return Err(self.error_before(format!("a variable cannot be declared in `.{word}` here")));
        }
        let mut align = None;
        if self.eat_dotted("align") {
            align = Some(self.alignment()?);
        }
        let ty = self.fundamental_type()?;
        let mut out = Vec::new();
        loop {
            let name = self.word("a variable name")?;
            let mut bytes = Some(ty.bytes());
            while self.eat('[') {
                if self.eat(']') {
                    bytes = None;
                } else {
                    let count = self.integer("a number of elements")?;
                    bytes = bytes.and_then(|b| b.checked_mul(count)).filter(|&b| b < 1 << 40);
                    if bytes.is_none() {
                        return Err(self.error_before(format!("`{name}` is larger than 2^40 bytes")));
                    }
                    self.expect(']')?;
                }
            }
            let initial = if self.eat('=') { self.initializer(ty)? } else { Vec::new() };
            if bytes.is_none() && !initial.is_empty() {
                bytes = Some(initial.len() as u64);
            }
            if bytes.is_none() && !(unsized_allowed && space == Space::Shared) {
                return Err(self.error_before(format!("`{name}` has no size: only `.extern .shared` arrays may")));
            }
            if bytes.is_some_and(|b| b < initial.len() as u64) {
                return Err(self.error_before(format!("`{name}` has more initial values than elements")));
            }
            let align = align.unwrap_or(ty.bytes().max(1));
            out.push((name, Variable { name: name.to_string(), space, align, bytes, initial, line }));
            if !self.eat(',') {
                break;
            }
        }
        self.expect(';')?;
        Ok(out)
    }

    fn alignment(&mut self) -> Result<u64> {
        let align = self.integer("an alignment")?;
        if !align.is_power_of_two() || align > 1 << 20 {
            return Err(self.error_before(format!("alignment {align} is not a power of two up to 2^20")));
        }
        Ok(align)
    }

    fn initializer(&mut self, ty: Type) -> Result<Vec<u8>> {
        let braces = self.eat('{');
        let mut bytes = Vec::new();
        loop {
            let negative = self.eat('-');
            let bits = match self.next()? {
                Token::Integer(value) => {
                    if negative {
                        value.wrapping_neg()
                    } else {
                        value
                    }
                }
                Token::F32(bits) if ty.bytes() == 4 => u64::from(bits),
                Token::F64(bits) if ty.bytes() == 8 => bits,
                other => return Err(self.error_before(format!("{other} cannot initialise a variable of this type"))),
            };
            bytes.extend_from_slice(&bits.to_le_bytes()[..(ty.bytes() as usize).min(8)]);
            if !(braces && self.eat(',')) {
                break;
            }
        }
        if braces {
            self.expect('}')?;
        }
        Ok(bytes)
    }

    fn fundamental_type(&mut self) -> Result<Type> {
        let word = self.dotted("a type")?;
        operand::scalar_type(word).ok_or_else(|| self.error_before(format!("unknown type `.{word}`")))
    }

    fn entry(&mut self) -> Result<()> {
        let line = self.line();
        let name = self.word("a kernel name")?;
        if self.module.entry(name).is_some() {
            return Err(self.error_before(format!("entry `{name}` is defined twice")));
        }
        self.entry = Entry { name: name.to_string(), line, ..Entry::default() };
        self.param_names.clear();
        self.location = None;
        if self.eat('(') && !self.eat(')') {
            loop {
                self.param()?;
                if !self.eat(',') {
                    break;
                }
            }
            self.expect(')')?;
        }
        self.bounds()?;
        self.expect('{')?;
        self.scopes.clear();
        self.scopes.push(Scopes::default());
        while !self.scopes.is_empty() {
            self.statement()?;
        }
        let entry = std::mem::take(&mut self.entry);
        self.module.entries.push(entry);
        Ok(())
    }

    fn param(&mut self) -> Result<()> {
        if !self.eat_dotted("param") {
            return Err(self.unexpected("`.param`"));
        }
        let mut align = None;
        if self.eat_dotted("align") {
            align = Some(self.alignment()?);
        }
        let ty = self.fundamental_type()?;
        if self.eat_dotted("ptr") {
            // What the pointer points to: no effect on the parameter itself.
            if let Some(Token::Dotted("global" | "shared" | "const" | "local")) = self.peek() {
                self.at += 1;
            }
            if self.eat_dotted("align") {
                self.alignment()?;
            }
        }
        let name = self.word("a parameter name")?;
        let mut bytes = ty.bytes();
        while self.eat('[') {
            bytes = bytes.saturating_mul(self.integer("a number of bytes")?);
            self.expect(']')?;
        }
        // PTX ISA, "Kernel Function Parameter Attributes": at most 32764 bytes in all.
        let align = align.unwrap_or(ty.bytes().max(1));
        let end = self.entry.params.last().map_or(0, |p| p.offset + p.bytes);
        let offset = end.next_multiple_of(align);
        if bytes == 0 || bytes > 32764 || offset + bytes > 32764 {
            return Err(self.error_before(format!("parameter `{name}`: the parameters may take 1 to 32764 bytes")));
        }
        let index = self.entry.params.len() as u32;
        self.entry.params.push(Param { name: name.to_string(), offset, bytes, align });
        if self.param_names.insert(name, index).is_some() {
            return Err(self.error_before(format!("parameter `{name}` is declared twice")));
        }
        Ok(())
    }

    fn bounds(&mut self) -> Result<()> {
        while let Some(Token::Dotted(word)) = self.peek() {
            self.at += 1;
            match word {
                "maxntid" => self.entry.bounds.max_threads = Some(self.triple()?),
                "reqntid" => self.entry.bounds.required_threads = Some(self.triple()?),
                "reqnctapercluster" => self.entry.bounds.required_cluster = Some(self.triple()?),
                "minnctapersm" => self.entry.bounds.min_blocks = Some(self.small("a number of blocks")?),
                "maxnctapersm" => {
                    self.small("a number of blocks")?;
                }
                "maxnreg" => self.entry.bounds.max_registers = Some(self.small("a number of registers")?),
                "maxclusterrank" => self.entry.bounds.max_cluster_rank = Some(self.small("a number of blocks")?),
                "explicitcluster" => self.entry.bounds.explicit_cluster = true,
                "noreturn" => {}
                "pragma" => self.pragma()?,
                other => return Err(self.error_before(format!("unknown directive `.{other}` of an entry"))),
            }
        }
        Ok(())
    }

    fn triple(&mut self) -> Result<[u32; 3]> {
        let mut out = [1; 3];
        out[0] = self.small("a number")?;
        for extent in &mut out[1..] {
            if !self.eat(',') {
                break;
            }
            *extent = self.small("a number")?;
        }
        Ok(out)
    }

    fn scope(&mut self) -> &mut Scopes<'a> {
        self.scopes.last_mut().expect("statements are read only while a scope is open")
    }

    fn statement(&mut self) -> Result<()> {
        match self.peek() {
            Some(Token::Punctuation('{')) => {
                if self.scopes.len() >= MAX_SCOPES {
                    return Err(self.error(format!("braces nest deeper than {MAX_SCOPES}")));
                }
                self.at += 1;
                self.scopes.push(Scopes::default());
                Ok(())
            }
            Some(Token::Punctuation('}')) => self.close_scope(),
            Some(Token::Punctuation(';')) => {
                self.at += 1;
                Ok(())
            }
            Some(Token::Dotted(word)) => self.body_directive(word),
            Some(Token::Word(name)) if self.peek_after() == Some(Token::Punctuation(':')) => {
                self.at += 2;
                let here = Label(self.entry.body.len() as u32);
                if self.scope().labels.insert(name, here).is_some() {
                    return Err(self.error_before(format!("label `{name}` is defined twice")));
                }
                Ok(())
            }
            Some(Token::Word(_) | Token::Punctuation('@')) => self.instruction(),
            _ => Err(self.unexpected("a statement")),
        }
    }

    /// Ends a scope: branches to its labels are settled, others are handed to the scope around it.
    fn close_scope(&mut self) -> Result<()> {
        self.at += 1;
        let Some(scope) = self.scopes.pop() else { return Ok(()) };
        for (index, name) in scope.pending {
            if let Some(&label) = scope.labels.get(name) {
                if let Op::Branch { target, .. } = &mut self.entry.body[index].op {
                    *target = label;
                }
            } else if let Some(outer) = self.scopes.last_mut() {
                outer.pending.push((index, name));
            } else {
                return Err(Error::new(self.entry.body[index].line, format!("label `{name}` is not defined")));
            }
        }
        Ok(())
    }

    fn body_directive(&mut self, word: &'a str) -> Result<()> {
        match word {
            "reg" => self.registers(),
            "loc" => {
                self.at += 1;
                let file = self.small("a file number")?;
                let line = self.small("a line number")?;
                let column = self.small("a column")?;
                self.location = Some(SourceLine { file, line, column });
                // Where inlined code came from: `, function_name label{+n}, inlined_at file line column`.
                while self.eat(',') {
                    match self.word("`function_name` or `inlined_at`")? {
                        "function_name" => {
                            self.word("a label")?;
                            if self.eat('+') {
                                self.integer("an offset")?;
                            }
                        }
                        "inlined_at" => {
                            for _ in 0..3 {
                                self.integer("a position")?;
                            }
                        }
                        other => return Err(self.error_before(format!("unknown attribute `{other}` of `.loc`"))),
                    }
                }
                Ok(())
            }
            "pragma" => {
                self.at += 1;
                self.pragma()
            }
            _ if space(word).is_some() => {
                for (name, variable) in self.variable(false)? {
                    let index = self.module.variables.len() as u32;
                    self.module.variables.push(variable);
                    if self.scope().variables.insert(name, index).is_some() {
                        return Err(self.error_before(format!("`{name}` is declared twice")));
                    }
                }
                Ok(())
            }
            _ => Err(self.error(format!("unknown directive `.{word}` in a body"))),
        }
    }

    /// `.reg .b32 %r<302>, a, b;`
    fn registers(&mut self) -> Result<()> {
        self.at += 1;
        let ty = self.fundamental_type()?;
        loop {
            let name = self.word("a register name")?;
            if self.eat('<') {
                let count = self.integer("a number of registers")?;
                self.expect('>')?;
                if self.scope().ranges.iter().any(|range| range.0 == name) {
                    return Err(self.error_before(format!("registers `{name}` are declared twice")));
                }
                if self.scope().ranges.len() >= 1024 {
                    return Err(self.error_before("more than 1024 ranges of registers in one scope"));
                }
                self.scope().ranges.push((name, count, ty));
            } else {
                let scope = self.scopes.len() - 1;
                if self.scopes[scope].general.contains_key(name) || self.scopes[scope].predicates.contains_key(name) {
                    return Err(self.error_before(format!("register `{name}` is declared twice")));
                }
                self.new_register(scope, name, ty)?;
            }
            if !self.eat(',') {
                return self.expect(';');
            }
        }
    }

    fn new_register(&mut self, scope: usize, name: &'a str, ty: Type) -> Result<Name> {
        if self.entry.registers.len() + self.entry.predicates.len() >= MAX_REGISTERS {
            return Err(self.error_before(format!("more than {MAX_REGISTERS} registers")));
        }
        if ty == Type::Pred {
            let pred = Pred(self.entry.predicates.len() as u32);
            self.entry.predicates.push(name.to_string());
            self.scopes[scope].predicates.insert(name, pred);
            Ok(Name::Predicate(pred))
        } else {
            let reg = Reg(self.entry.registers.len() as u32);
            self.entry.registers.push(Register { name: name.to_string(), ty });
            self.scopes[scope].general.insert(name, reg);
            Ok(Name::General(reg))
        }
    }

    /// The register called `name`, in the innermost scope that declares it.
    fn register(&mut self, name: &'a str) -> Result<Option<Name>> {
        for scope in (0..self.scopes.len()).rev() {
            if let Some(&reg) = self.scopes[scope].general.get(name) {
                return Ok(Some(Name::General(reg)));
            }
            if let Some(&pred) = self.scopes[scope].predicates.get(name) {
                return Ok(Some(Name::Predicate(pred)));
            }
            // A prefix may itself end in a digit, so every split of the trailing digits is a candidate.
            let stem = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
            let range = self.scopes[scope].ranges.iter().find(|(prefix, count, _)| {
                prefix.len() >= stem
                    && name.strip_prefix(prefix).is_some_and(|suffix| {
                        let plain = suffix == "0" || !suffix.starts_with('0');
                        plain && suffix.parse::<u64>().is_ok_and(|number| number < *count)
                    })
            });
            if let Some(&(_, _, ty)) = range {
                return self.new_register(scope, name, ty).map(Some);
            }
        }
        Ok(None)
    }

    /// The variable or parameter called `name`.
    fn symbol(&self, name: &str) -> Option<Symbol> {
        let variable = self.scopes.iter().rev().find_map(|scope| scope.variables.get(name));
        if let Some(&index) = variable {
            return Some(Symbol::Variable(index));
        }
        if let Some(&index) = self.param_names.get(name) {
            return Some(Symbol::Param(index));
        }
        self.names.get(name).map(|&index| Symbol::Variable(index))
    }
}

/// The state space that `.word` names.
fn space(word: &str) -> Option<Space> {
    Some(match word {
        "global" => Space::Global,
        "shared" | "shared::cta" => Space::Shared,
        "shared::cluster" => Space::Cluster,
        "const" => Space::Const,
        "param" | "param::entry" => Space::Param,
        "local" => Space::Local,
        _ => return None,
    })
}
