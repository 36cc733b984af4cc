//! Suites: files of shapes in groups.
//!
//! ```toml
//! [[group]]
//! name = "squares"
//! about = "powers of two"          # may be left out
//! shapes = ["4096", "4096x4096x14336"]
//! ```

use std::path::Path;

use serde::Deserialize;
use wildmatch::WildMatch;

use crate::error::{Error, Result};
use crate::select::parse_sizes;

/// The suite of this project, `benches/suite.toml`.
const OURS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/benches/suite.toml"));

/// Groups of shapes, in the order in which they are measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suite {
    /// The groups.
    pub groups: Vec<Group>,
}

/// Shapes that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name, without spaces or commas.
    pub name: String,
    /// What it is about.
    pub about: String,
    /// M, N and K of each.
    pub shapes: Vec<(usize, usize, usize)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SuiteFile {
    group: Vec<GroupTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupTable {
    name: String,
    #[serde(default)]
    about: String,
    shapes: Vec<String>,
}

impl Suite {
    /// The suite of this project.
    ///
    /// # Errors
    /// None: it is part of the program, and tested.
    pub fn ours() -> Result<Suite> {
        Suite::parse(OURS).map_err(|reason| Error::ResultsFile { path: "benches/suite.toml".into(), reason })
    }

    /// The suite of the file at `path`.
    ///
    /// # Errors
    /// When the file cannot be read or is no suite.
    pub fn read(path: &Path) -> Result<Suite> {
        let failed = |reason: String| Error::ResultsFile { path: path.to_path_buf(), reason };
        let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        Suite::parse(&text).map_err(failed)
    }

    fn parse(text: &str) -> Result<Suite, String> {
        let file: SuiteFile = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_string())?;
        let mut groups: Vec<Group> = Vec::new();
        for GroupTable { name, about, shapes } in file.group {
            if name.is_empty() || name.contains(|letter: char| letter.is_whitespace() || letter == ',') {
                return Err(format!("the name of a group is a word, and not `{name}`"));
            }
            if groups.iter().any(|group| group.name == name) {
                return Err(format!("there are two groups `{name}`"));
            }
            let mut sizes = Vec::with_capacity(shapes.len());
            for shape in shapes {
                let (m, n, k) = parse_sizes(&shape).map_err(|error| format!("group `{name}`: {error}"))?;
                if m == 0 || n == 0 || k == 0 {
                    return Err(format!("group `{name}`: {}", Error::EmptyProduct { m, n, k }));
                }
                if sizes.contains(&(m, n, k)) {
                    return Err(format!("group `{name}` has the shape {shape} twice"));
                }
                sizes.push((m, n, k));
            }
            if sizes.is_empty() {
                return Err(format!("group `{name}` has no shapes"));
            }
            groups.push(Group { name, about, shapes: sizes });
        }
        if groups.is_empty() {
            return Err(String::from("it has no groups"));
        }
        Ok(Suite { groups })
    }

    /// The groups whose name one of `patterns` matches, which may have the wildcards `*` and `?`; all where there
    /// is no pattern.
    ///
    /// # Errors
    /// When a pattern matches no group.
    pub fn filtered(self, patterns: &[String]) -> Result<Suite> {
        let matches = |pattern: &String, group: &Group| WildMatch::new(pattern).matches(&group.name);
        for pattern in patterns {
            if !self.groups.iter().any(|group| matches(pattern, group)) {
                let known = self.groups.iter().map(|group| group.name.clone()).collect();
                return Err(Error::UnknownGroup { pattern: pattern.clone(), known });
            }
        }
        let wanted = |group: &Group| patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, group));
        Ok(Suite { groups: self.groups.into_iter().filter(wanted).collect() })
    }

    /// Every shape with the name of its group.
    pub fn shapes(&self) -> impl Iterator<Item = (&str, (usize, usize, usize))> {
        self.groups.iter().flat_map(|group| group.shapes.iter().map(|&shape| (group.name.as_str(), shape)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_suite_is_one() {
        let suite = Suite::ours().unwrap();
        let shapes: Vec<_> = suite.shapes().collect();
        assert!((55..=70).contains(&shapes.len()), "{}", shapes.len());
        // No shape counts twice in the mean over all.
        let mut sizes: Vec<_> = shapes.iter().map(|(_, sizes)| sizes).collect();
        sizes.sort();
        sizes.dedup();
        assert_eq!(sizes.len(), shapes.len());
        let is_prime = |n: usize| n > 1 && (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d));
        for (_, (m, n, k)) in shapes.iter().filter(|(group, _)| *group == "primes") {
            assert!([*m, *n, *k].into_iter().all(is_prime), "{m}x{n}x{k}");
        }
        assert!(suite.groups.iter().all(|group| !group.about.is_empty()));
    }

    #[test]
    fn groups_are_chosen_by_patterns() {
        let names = |patterns: &[&str]| -> Result<Vec<String>> {
            let patterns: Vec<String> = patterns.iter().map(|pattern| pattern.to_string()).collect();
            Ok(Suite::ours()?.filtered(&patterns)?.groups.into_iter().map(|group| group.name).collect())
        };
        assert_eq!(names(&["wide", "tall"]).unwrap(), ["tall", "wide"]);
        assert_eq!(names(&["*-k"]).unwrap(), ["long-k", "short-k"]);
        assert_eq!(names(&[]).unwrap().len(), Suite::ours().unwrap().groups.len());
        let error = names(&["tall", "square"]).unwrap_err().to_string();
        assert!(error.contains("`square`") && error.contains("squares"), "{error}");
    }

    #[test]
    fn what_is_no_suite_is_refused_with_the_reason() {
        let group = |name: &str, shapes: &str| format!("[[group]]\nname = \"{name}\"\nshapes = {shapes}\n");
        for (text, said) in [
            (String::new(), "group"),
            (String::from("group = []"), "no groups"),
            (String::from("["), "TOML"),
            (group("a b", "[\"1\"]"), "a b"),
            (group("a", "[]"), "no shapes"),
            (group("a", "[\"1x2\"]"), "three numbers"),
            (group("a", "[\"1x2x0\"]"), "at least 1"),
            (group("a", "[\"1\", \"1x1x1\"]"), "twice"),
            (group("a", "[\"1\"]") + &group("a", "[\"2\"]"), "two groups `a`"),
            (group("a", "[\"1\"]") + "sizes = []\n", "sizes"),
        ] {
            let error = Suite::parse(&text).unwrap_err();
            assert!(error.contains(said), "`{said}` is missing in: {error}");
        }
        let absent = Suite::read(Path::new("absent.toml")).unwrap_err().to_string();
        assert!(absent.contains("absent.toml"), "{absent}");
    }
}
