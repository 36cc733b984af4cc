//! The finishing pass: from the one module that rustc emits to one module per entry, with what rustc
//! cannot say about a kernel.
//!
//! rustc 1.96 has no launch bounds, cannot align a kernel parameter to more than 16 bytes, and puts all
//! kernels of a crate into one module. The pass
//!
//! - splits the module, so that the driver compiles only what is launched;
//! - writes `.maxntid`, `.minnctapersm` and `.reqnctapercluster` before the body of each entry (PTX ISA,
//!   "Performance-Tuning Directives" and "Cluster Dimension Directives"), from which ptxas takes its
//!   register budget and without which it ignores `setmaxnreg`;
//! - raises the alignment of tensor-map parameters, the by-value ones of 128 bytes, to the 64 that the
//!   tensor copies require (PTX ISA, "Tensor-map");
//! - refuses local memory and calls, which mean that accumulators left their registers or that a panic
//!   path survived, and entries that are not described or not there.

use std::fmt::Write as _;

/// Bytes of a tensor map, and the alignment that a tensor copy requires of it.
pub const TENSOR_MAP_BYTES: usize = 128;
/// See [`TENSOR_MAP_BYTES`].
pub const TENSOR_MAP_ALIGN: usize = 64;

/// What the finishing pass must be told about an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntrySpec {
    /// Name of the entry.
    pub name: String,
    /// Threads of a block: `.maxntid`.
    pub threads: usize,
    /// Blocks that must fit on a multiprocessor together: `.minnctapersm`.
    pub min_blocks: usize,
    /// Blocks of a cluster along x: `.reqnctapercluster` where above 1.
    pub cluster: usize,
    /// Dynamic shared memory of a launch, in bytes.
    pub shared_bytes: usize,
}

/// A parameter of an entry, in declaration order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name in the PTX.
    pub name: String,
    /// Size in bytes.
    pub bytes: usize,
}

/// One finished entry: its own module and what a launch of it must provide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// What was asked for, and what the text now says.
    pub spec: EntrySpec,
    /// Parameters in order.
    pub parameters: Vec<Parameter>,
    /// The PTX of a module that has this entry alone.
    pub text: String,
}

/// Why a module is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishError {
    /// The text does not have the form of a PTX module.
    Malformed {
        /// Line, counted from 1.
        line: usize,
        /// What was expected.
        what: String,
    },
    /// A kernel uses local memory.
    LocalMemory {
        /// Line, counted from 1.
        line: usize,
        /// The line itself.
        text: String,
    },
    /// A function or a call is left in the module.
    Call {
        /// Line, counted from 1.
        line: usize,
        /// The line itself.
        text: String,
    },
    /// The module has an entry that nothing describes.
    Unlisted(String),
    /// A described entry is not in the module.
    Missing(String),
}

impl std::fmt::Display for FinishError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed { line, what } => write!(f, "PTX line {line}: {what}"),
            Self::LocalMemory { line, text } => write!(
                f,
                "PTX line {line}: local memory in a kernel, where registers were meant (an array indexed by a \
                 variable, or a parameter copied): {text}"
            ),
            Self::Call { line, text } => write!(
                f,
                "PTX line {line}: a function or call in a kernel, where everything should be inlined (usually a \
                 panic path: a division, a slice index, an unwrap): {text}"
            ),
            Self::Unlisted(name) => write!(f, "entry {name} is in the module but not in the catalogue"),
            Self::Missing(name) => write!(f, "entry {name} is in the catalogue but not in the module"),
        }
    }
}

impl std::error::Error for FinishError {}

/// Finishes the module `text`: one result for each of `specs`, in their order.
///
/// # Errors
/// See [`FinishError`]; the first fault found is reported.
pub fn finish(text: &str, specs: &[EntrySpec]) -> Result<Vec<Finished>, FinishError> {
    let module = split(text)?;
    if let Some(entry) = module.entries.iter().find(|entry| !specs.iter().any(|spec| spec.name == entry.name)) {
        return Err(FinishError::Unlisted(entry.name.clone()));
    }
    specs
        .iter()
        .map(|spec| {
            let entry = module
                .entries
                .iter()
                .find(|entry| entry.name == spec.name)
                .ok_or_else(|| FinishError::Missing(spec.name.clone()))?;
            Ok(Finished {
                spec: spec.clone(),
                parameters: entry.parameters.iter().map(|(parameter, _)| parameter.clone()).collect(),
                text: write_module(&module.shared_lines, entry, spec),
            })
        })
        .collect()
}

/// A module taken apart.
struct Module<'a> {
    /// Lines outside any entry: version, target, files, declarations. Every module gets them.
    shared_lines: Vec<&'a str>,
    entries: Vec<Entry<'a>>,
}

struct Entry<'a> {
    name: String,
    /// Each parameter with its declaration.
    parameters: Vec<(Parameter, &'a str)>,
    /// From the opening brace to the closing one.
    body: Vec<&'a str>,
}

/// The part of a line before any comment, without white space at its end.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or("").trim_end()
}

fn split(text: &str) -> Result<Module<'_>, FinishError> {
    let mut module = Module { shared_lines: Vec::new(), entries: Vec::new() };
    let mut lines = text.lines().enumerate().map(|(i, line)| (i + 1, code(line))).filter(|(_, line)| !line.is_empty());
    while let Some((number, line)) = lines.next() {
        if let Some((_, after)) = line.split_once(".entry ") {
            module.entries.push(read_entry(number, after, &mut lines)?);
            continue;
        }
        refuse(number, line)?;
        module.shared_lines.push(line);
    }
    Ok(module)
}

/// Reads an entry whose first line goes on with `after` behind `.entry`.
fn read_entry<'a>(
    number: usize,
    after: &'a str,
    lines: &mut impl Iterator<Item = (usize, &'a str)>,
) -> Result<Entry<'a>, FinishError> {
    let malformed = |line, what: &str| FinishError::Malformed { line, what: what.to_owned() };
    let end = || malformed(number, "the module ends inside this entry");
    let (name, rest) = after.split_once('(').ok_or_else(|| malformed(number, "expected `(` after the entry's name"))?;
    let mut entry = Entry { name: name.trim().to_owned(), parameters: Vec::new(), body: Vec::new() };

    let mut closed = rest.trim() == ")";
    while !closed {
        let (number, line) = lines.next().ok_or_else(end)?;
        let declaration = line.trim().trim_end_matches(',');
        if declaration == ")" {
            closed = true;
        } else {
            let parameter =
                read_parameter(declaration).ok_or_else(|| malformed(number, "expected a `.param` declaration"))?;
            entry.parameters.push((parameter, declaration));
        }
    }

    // Inline assembly opens blocks of its own, so the body ends where the braces balance.
    let mut depth = 0usize;
    loop {
        let (number, line) = lines.next().ok_or_else(end)?;
        if depth == 0 && line != "{" {
            return Err(malformed(number, "expected the `{` of the entry's body"));
        }
        refuse(number, line)?;
        depth += line.matches('{').count();
        depth = depth.checked_sub(line.matches('}').count()).ok_or_else(|| malformed(number, "unbalanced `}`"))?;
        entry.body.push(line);
        if depth == 0 {
            return Ok(entry);
        }
    }
}

/// Reads `.param .u32 name`, `.param .u64 .ptr .align 1 name` or `.param .align 16 .b8 name[128]`.
fn read_parameter(declaration: &str) -> Option<Parameter> {
    let words: Vec<&str> = declaration.split_whitespace().collect();
    let (&".param", &name) = (words.first()?, words.last()?) else { return None };
    let element = words.iter().find_map(|word| match *word {
        ".b8" | ".u8" | ".s8" => Some(1),
        ".b16" | ".u16" | ".s16" | ".f16" => Some(2),
        ".b32" | ".u32" | ".s32" | ".f32" => Some(4),
        ".b64" | ".u64" | ".s64" | ".f64" => Some(8),
        _ => None,
    })?;
    let (name, count) = match name.split_once('[') {
        Some((name, count)) => (name, count.strip_suffix(']')?.parse::<usize>().ok()?),
        None => (name, 1),
    };
    Some(Parameter { name: name.to_owned(), bytes: element * count })
}

/// Refuses local memory, functions and calls.
fn refuse(number: usize, line: &str) -> Result<(), FinishError> {
    for word in line.split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '(' | ')')) {
        let mut parts = word.split('.');
        if parts.next() == Some("call") || word == ".func" {
            return Err(FinishError::Call { line: number, text: line.trim().to_owned() });
        }
        if parts.any(|part| part == "local") {
            return Err(FinishError::LocalMemory { line: number, text: line.trim().to_owned() });
        }
    }
    Ok(())
}

// ANCHOR: write_module
fn write_module(shared_lines: &[&str], entry: &Entry<'_>, spec: &EntrySpec) -> String {
    let mut text = String::new();
    for line in shared_lines {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{line}");
    }
    let _ = writeln!(text, "\n.visible .entry {}(", entry.name);
    for (i, (parameter, declaration)) in entry.parameters.iter().enumerate() {
        let comma = if i + 1 < entry.parameters.len() { "," } else { "" };
        let _ = writeln!(text, "\t{}{comma}", raise_alignment(parameter, declaration));
    }
    let _ = writeln!(text, ")\n.maxntid {}\n.minnctapersm {}", spec.threads, spec.min_blocks);
    if spec.cluster > 1 {
        let _ = writeln!(text, ".reqnctapercluster {}", spec.cluster);
    }
    for line in &entry.body {
        let _ = writeln!(text, "{line}");
    }
    text
}
// ANCHOR_END: write_module

/// The declaration of a tensor map with its alignment raised; any other as it is.
fn raise_alignment(parameter: &Parameter, declaration: &str) -> String {
    if parameter.bytes != TENSOR_MAP_BYTES {
        return declaration.to_owned();
    }
    format!(".param .align {TENSOR_MAP_ALIGN} .b8 {}[{TENSOR_MAP_BYTES}]", parameter.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "\
//
// Generated by LLVM NVPTX Back-End
//

.version 8.0
.target sm_90a
.address_size 64

.extern .shared .align 1024 .b8 dynamic_shared[];

\t// .globl\tone
.visible .entry one(
\t.param .align 16 .b8 one_param_0[128],
\t.param .u64 .ptr .align 1 one_param_1,
\t.param .u32 one_param_2
)
{
\t.reg .b32 \t%r<2>;
\t// begin inline asm
\t{
.reg .pred done;
selp.u32 %r1, 1, 0, done;
}
\t// end inline asm
\tret;
\t// -- End function
}
.visible .entry two()
{
\tret;
}
";

    fn spec(name: &str) -> EntrySpec {
        EntrySpec { name: name.to_owned(), threads: 160, min_blocks: 2, cluster: 1, shared_bytes: 1024 }
    }

    #[test]
    fn splits_one_module_per_entry() {
        let finished = finish(MODULE, &[spec("two"), spec("one")]).unwrap();
        assert_eq!(finished.len(), 2);
        for (module, own, other) in [(&finished[0], "two", "one"), (&finished[1], "one", "two")] {
            assert_eq!(module.spec.name, own);
            assert!(module.text.contains(&format!(".visible .entry {own}(")));
            assert!(!module.text.contains(&format!(".entry {other}")));
            assert!(module.text.starts_with(".version 8.0\n.target sm_90a\n.address_size 64\n"));
            assert!(module.text.contains(".extern .shared .align 1024 .b8 dynamic_shared[];"));
            assert!(module.text.ends_with("\tret;\n}\n"));
        }
    }

    #[test]
    fn writes_launch_bounds_before_the_body() {
        let mut clustered = spec("two");
        clustered.cluster = 2;
        let finished = finish(MODULE, &[spec("one"), clustered]).unwrap();
        assert!(finished[0].text.contains(")\n.maxntid 160\n.minnctapersm 2\n{\n"));
        assert!(finished[1].text.contains(")\n.maxntid 160\n.minnctapersm 2\n.reqnctapercluster 2\n{\n"));
    }

    #[test]
    fn raises_the_alignment_of_tensor_maps_only() {
        let finished = finish(MODULE, &[spec("one"), spec("two")]).unwrap();
        assert!(finished[0].text.contains("\t.param .align 64 .b8 one_param_0[128],\n"));
        assert!(finished[0].text.contains("\t.param .u64 .ptr .align 1 one_param_1,\n\t.param .u32 one_param_2\n)"));
    }

    #[test]
    fn lists_parameters_with_their_sizes() {
        let finished = finish(MODULE, &[spec("one"), spec("two")]).unwrap();
        let sizes: Vec<usize> = finished[0].parameters.iter().map(|parameter| parameter.bytes).collect();
        assert_eq!(sizes, [128, 8, 4]);
        assert_eq!(finished[0].parameters[2].name, "one_param_2");
        assert!(finished[1].parameters.is_empty());
    }

    #[test]
    fn refuses_entries_that_are_not_listed_or_not_there() {
        assert_eq!(finish(MODULE, &[spec("one")]), Err(FinishError::Unlisted("two".to_owned())));
        let missing = finish(MODULE, &[spec("one"), spec("two"), spec("three")]);
        assert_eq!(missing, Err(FinishError::Missing("three".to_owned())));
    }

    #[test]
    fn refuses_local_memory_and_calls() {
        let with = |line: &str| MODULE.replace("\t.reg .b32 \t%r<2>;", line);
        let specs = [spec("one"), spec("two")];
        for line in [
            "\t.local .align 16 .b8 __local_depot0[512];",
            "\tst.local.b32 [%rd1], %r1;",
            "\tcvta.local.u64 %rd1, %rd2;",
        ] {
            let error = finish(&with(line), &specs).unwrap_err();
            assert!(matches!(error, FinishError::LocalMemory { line: 18, .. }), "{line}: {error}");
        }
        for line in ["\tcall.uni panic, ();", "\tcall (%r1), f, ();"] {
            let error = finish(&with(line), &specs).unwrap_err();
            assert!(matches!(error, FinishError::Call { line: 18, .. }), "{line}: {error}");
        }
        let function = MODULE.replace(".visible .entry two()", ".visible .func two()");
        assert!(matches!(finish(&function, &specs), Err(FinishError::Call { .. })));
    }

    #[test]
    fn names_that_merely_contain_the_words_pass() {
        let text = MODULE.replace("%r<2>;", "%r<2>; mov.b32 localised, recall;");
        assert!(finish(&text, &[spec("one"), spec("two")]).is_ok());
    }

    #[test]
    fn a_truncated_module_is_an_error_at_every_length() {
        let specs = [spec("one"), spec("two")];
        let whole = MODULE.trim_end().len();
        for end in 0..whole {
            assert!(finish(&MODULE[..end], &specs).is_err(), "accepted the first {end} bytes");
        }
    }
}
